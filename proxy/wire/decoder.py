"""Turns a message definition into a Python function that decodes it.

Each message becomes one straight-line function: nested structs and arrays are inlined as nested loops, and
neighbouring fields of fixed size share one `struct` call. What a sender can make it allocate is bounded: an array
may not count more than its frame has room for, and every element is charged to `MAX_OBJECT_BYTES` beforehand.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any, Final

from notleader.proxy.wire.errors import BodyTooLarge, WireError
from notleader.proxy.wire.primitives import UNKNOWN_TAG_BYTES
from notleader.proxy.wire.schemas import Field, Message
from notleader.proxy.wire.source import FORMATS, SHORT, Source, default_source

Decode = Callable[[Any, int, int], tuple[dict[str, Any], int]]


MAX_OBJECT_BYTES: Final = 128 << 20
"""What the objects of one decoded body may take, strings' and records' own bytes aside.

Two bytes on the wire can become a dict of hundreds. A Metadata answer of 100,000 partitions takes some 90 MiB.
"""


def null_where_none_may_be() -> None:
    """Raised from generated code, where `raise` cannot stand in an expression."""
    raise WireError("a field is null that may not be")


def count_too_large() -> None:
    """An array that claims more elements than the bytes left have room for: refused before anything is allocated."""
    raise WireError("an array counts more elements than its frame has room for")


def too_many_objects() -> None:
    """The elements read so far would take more memory than one body may."""
    raise BodyTooLarge(f"decoded it would take more than {MAX_OBJECT_BYTES >> 20} MiB")


def tag_size_lies() -> None:
    """A known tagged field whose content does not end where its size says."""
    raise WireError("a tagged field's size does not match its content")


def compile_decoder(message: Message) -> Decode:
    """A function (buffer, position, end) -> (body, position after it)."""
    out = _DecoderSource(message.flexible)
    out.line("m = memoryview(b)")
    out.line(f"left = {MAX_OBJECT_BYTES}")
    out.body(message.fields, "body", has_tags=message.flexible and message.is_whole)
    out.line("return body, p")
    function: Decode = out.function("def decode(b, p, end):")
    return function


class _DecoderSource(Source):
    def __init__(self, flexible: bool) -> None:
        super().__init__()
        checks = (null_where_none_may_be, count_too_large, too_many_objects, tag_size_lies)
        self.names |= {check.__name__: check for check in checks}
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []

    def fixed(self, fmt: str) -> str:
        """Adds a fixed-size value to the open run and returns the variable it will be in."""
        name = self.fresh("v")
        self.run.append((fmt, name))
        return name

    def flush(self) -> None:
        """Reads the open run with one struct call."""
        if self.run:
            formats = "".join(fmt for fmt, _ in self.run)
            targets = ", ".join(variable for _, variable in self.run)
            self.line(f"{targets}, = {self.reader(formats)}(b, p)")
            self.line(f"p += {struct.calcsize('>' + formats)}")
            self.run = []

    def body(self, fields: tuple[Field, ...], target: str, has_tags: bool) -> None:
        """Reads a struct's fields and its tag section, and puts the dict into `target`."""
        values = {field.name: self.value(field) for field in fields if field.tag is None}
        self.flush()
        tagged = [field for field in fields if field.tag is not None]
        for field in tagged:
            values[field.name] = self.fresh("v")
            self.line(f"{values[field.name]} = {default_source(field)}")
        tags = self.fresh("t")
        if tagged:
            self.line(f"{tags} = None")
            self.line("if b[p]:")
            self.depth += 1
            self.known_tags(tagged, values, tags)
            self.depth -= 1
            self.line("else:")
            self.line("    p += 1")
        items = ", ".join(f"{name!r}: {value}" for name, value in values.items())
        self.line(f"{target} = {{{items}}}")
        if tagged:
            self.line(f"if {tags}:")
            self.line(f"    {target}['_tags'] = {tags}")
        elif has_tags:
            self.line("if b[p]:")
            self.depth += 1
            self.line(f"{target}['_tags'], p = read_unknown_tags(b, p)")
            self.charge(f"len({target}['_tags'])", UNKNOWN_TAG_BYTES)
            self.depth -= 1
            self.line("else:")
            self.line("    p += 1")

    def known_tags(self, tagged: list[Field], values: dict[str, str], tags: str) -> None:
        count, tag, size, stop = (self.fresh(stem) for stem in ("n", "g", "s", "e"))
        self.line(f"{count}, p = read_uvarint(b, p)")
        self.line(f"for _ in range({count}):")
        self.depth += 1
        self.line(f"{tag}, p = read_uvarint(b, p)")
        self.line(f"{size}, p = read_uvarint(b, p)")
        self.line(f"{stop} = p + {size}")
        for field in tagged:
            self.line(f"if {tag} == {field.tag}:")
            self.depth += 1
            value = self.value(field)
            self.flush()
            self.line(f"{values[field.name]} = {value}")
            self.line(f"if p != {stop}: tag_size_lies()")
            self.line("continue")
            self.depth -= 1
        self.line(f"if {tags} is None: {tags} = {{}}")
        self.line(f"{tags}[{tag}] = bytes(b[p:{stop}])")
        self.charge("1", UNKNOWN_TAG_BYTES)
        self.line(f"p = {stop}")
        self.depth -= 1

    def value(self, field: Field) -> str:
        """Emits the reading of one field and returns the expression that holds its value."""
        if field.is_array:
            return self.array(field)
        if field.kind == "struct":
            return self.nested(field, field.nullable)
        if field.kind in FORMATS:
            variable = self.fixed(FORMATS[field.kind])
            return f"uuid_of({variable})" if field.kind == "uuid" else variable
        return self.sized(field.kind, field.nullable)

    def nested(self, field: Field, nullable: bool) -> str:
        target = self.fresh("d")
        if not nullable:
            self.body(field.fields, target, self.flexible)
            return target
        marker = self.fixed("b")
        self.flush()
        self.line(f"if {marker} < 0: {target} = None")
        self.line("else:")
        self.depth += 1
        self.body(field.fields, target, self.flexible)
        self.depth -= 1
        return target

    def length(self, old_format: str) -> str:
        """Emits the reading of a length; the variable holds -1 for null."""
        if not self.flexible:
            name = self.fixed(old_format)
            self.flush()
            return name
        self.flush()
        name = self.fresh("n")
        self.line(f"{name} = b[p] - 1")
        self.line("p += 1")
        self.line(f"if {name} > 126:")
        self.line(f"    {name}, p = read_uvarint(b, p - 1)")
        self.line(f"    {name} -= 1")
        return name

    def sized(self, kind: str, nullable: bool) -> str:
        """Emits a string, bytes or records value. The final length check catches a slice past the end."""
        length = self.length("h" if kind == "string" else "i")
        target = self.fresh("x")
        slice_ = f"p:p + {length}"
        read = f"str(b[{slice_}], 'utf-8', 'surrogateescape')" if kind == "string" else f"m[{slice_}]"
        self.line(f"if {length} < 0:")
        self.line(f"    {target} = None" if nullable else f"    {target} = null_where_none_may_be()")
        self.line("else:")
        self.line(f"    {target} = {read}")
        self.line(f"    p += {length}")
        return target

    def charge(self, count: str, each: int) -> None:
        """Emits the accounting for `count` objects before, or as soon as, they are made."""
        self.line(f"left -= {count} * {each}")
        self.line("if left < 0: too_many_objects()")

    def array(self, field: Field) -> str:
        length = self.length("i")
        target = self.fresh("a")
        self.line(f"if {length} < 0: {target} = " + ("None" if field.nullable else "null_where_none_may_be()"))
        self.line("else:")
        self.depth += 1
        element_field = field._replace(is_array=False, nullable=False)
        least = max(_least_bytes(element_field, self.flexible), 1)
        self.line(f"if {length} * {least} > end - p: count_too_large()")
        self.charge(length, 9 + _object_bytes(element_field))  # and its place in the list
        fmt = FORMATS.get(field.kind)
        if fmt is not None and field.kind != "uuid":
            size = struct.calcsize(">" + fmt)
            short, _ = self.array_functions(fmt)
            long = f"unpack_from(f'>{{{length}}}{fmt}', b, p)"
            self.line(f"{target} = list({short}[{length}](b, p) if {length} < {SHORT} else {long})")
            self.line(f"p += {length} * {size}" if size > 1 else f"p += {length}")
        else:
            self.line(f"{target} = []")
            self.line(f"for _ in range({length}):")
            self.depth += 1
            if field.kind == "struct":
                element = self.nested(field, False)
            elif field.kind == "uuid":
                element = f"uuid_of({self.fixed('16s')})"
            else:
                element = self.sized(field.kind, False)
            self.flush()
            self.line(f"{target}.append({element})")
            self.depth -= 1
        self.depth -= 1
        return target


def _least_bytes(field: Field, flexible: bool) -> int:
    """The shortest that a field can be on the wire."""
    if field.tag is not None:
        return 0
    if field.is_array or field.kind in ("bytes", "records"):
        return 1 if flexible else 4
    if field.kind == "string":
        return 1 if flexible else 2
    if field.kind != "struct":
        return struct.calcsize(">" + FORMATS[field.kind])
    return 1 if field.nullable else flexible + sum(_least_bytes(inner, flexible) for inner in field.fields)


def _object_bytes(field: Field) -> int:
    """What a decoded field takes in memory, without the elements of arrays and the content of strings."""
    if field.is_array:
        return 72
    if field.kind == "struct":
        size = 16 + sys.getsizeof(dict.fromkeys(inner.name for inner in field.fields))
        return size + sum(map(_object_bytes, field.fields))
    return {"bool": 0, "string": 64, "bytes": 200, "records": 200, "uuid": 104}.get(field.kind, 32)
