"""Turns a message definition into a Python function that encodes it, the mirror of `decoder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from notleader.proxy.wire.schemas import Field, Message
from notleader.proxy.wire.source import FORMATS, SHORT, Source, default_source

Encode = Callable[[dict[str, Any], list[Any]], None]


def compile_encoder(message: Message) -> Encode:
    """A function (body, pieces) that appends the encoded pieces of a body with every field present."""
    out = _EncoderSource(message.flexible)
    out.body(message.fields, "body", "w", has_tags=message.flexible and message.is_whole)
    out.line("return")
    function: Encode = out.function("def encode(body, w):")
    return function


class _EncoderSource(Source):
    def __init__(self, flexible: bool) -> None:
        super().__init__()
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []

    def flush(self, w: str) -> None:
        """Packs the open run with one struct call."""
        if self.run:
            name = self.packer("".join(fmt for fmt, _ in self.run))
            self.line(f"{w}.append({name}({', '.join(value for _, value in self.run)}))")
            self.run = []

    def body(self, fields: tuple[Field, ...], source: str, w: str, has_tags: bool) -> None:
        """Writes a struct and its tag section."""
        for field in fields:
            if field.tag is None:
                self.value(field, f"{source}[{field.name!r}]", w)
        self.flush(w)
        if not has_tags:
            return
        tagged = sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        if not tagged:
            self.line(f"{w}.append(tag_section([], {source}['_tags']) if '_tags' in {source} else ONE[0])")
            return
        known = self.fresh("k")
        self.line(f"{known} = []")
        for field in tagged:
            inner = self.fresh("w")
            value = self.fresh("x")
            self.line(f"{value} = {source}[{field.name!r}]")
            self.line(f"if {value} != {default_source(field)}:")
            self.depth += 1
            self.line(f"{inner} = []")
            self.value(field, value, inner)
            self.flush(inner)
            self.line(f"{known}.append(({field.tag}, b''.join({inner})))")
            self.depth -= 1
        self.line(f"{w}.append(tag_section({known}, {source}.get('_tags')))")

    def value(self, field: Field, source: str, w: str) -> None:
        if field.is_array:
            self.array(field, source, w)
        elif field.kind == "struct":
            self.nested(field, source, w, field.nullable)
        elif field.kind in FORMATS:
            self.run.append((FORMATS[field.kind], f"{source}.bytes" if field.kind == "uuid" else source))
        else:
            self.sized(field.kind, source, w, field.nullable)

    def nested(self, field: Field, source: str, w: str, nullable: bool) -> None:
        inner = self.fresh("d")
        self.line(f"{inner} = {source}")
        if not nullable:
            self.body(field.fields, inner, w, self.flexible)
            return
        self.flush(w)
        self.line(f"if {inner} is None: {w}.append(b'\\xff')")
        self.line("else:")
        self.depth += 1
        self.run.append(("b", "1"))
        self.body(field.fields, inner, w, self.flexible)
        self.depth -= 1

    def length(self, length: str, old_format: str, w: str) -> None:
        if self.flexible:
            self.flush(w)
            size = self.fresh("n")
            self.line(f"{size} = {length} + 1")
            self.line(f"{w}.append(ONE[{size}] if {size} < 128 else uvarint({size}))")
        else:
            self.run.append((old_format, length))
            self.flush(w)

    def null(self, old_format: str, w: str) -> None:
        self.length("-1", old_format, w)

    def sized(self, kind: str, source: str, w: str, nullable: bool) -> None:
        value = self.fresh("x")
        fmt = "h" if kind == "string" else "i"
        self.line(f"{value} = {source}")
        if nullable:
            self.flush(w)
            self.line(f"if {value} is None:")
            self.depth += 1
            self.null(fmt, w)
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        if kind == "string":
            self.line(f"{value} = {value}.encode('utf-8', 'surrogateescape')")
        self.length(f"len({value})", fmt, w)
        self.line(f"{w}.append({value})")
        if nullable:
            self.depth -= 1

    def array(self, field: Field, source: str, w: str) -> None:
        value = self.fresh("a")
        self.line(f"{value} = {source}")
        if field.nullable:
            self.flush(w)
            self.line(f"if {value} is None:")
            self.depth += 1
            self.null("i", w)
            self.depth -= 1
            self.line("else:")
            self.depth += 1
        self.length(f"len({value})", "i", w)
        fmt = FORMATS.get(field.kind)
        if fmt is not None and field.kind != "uuid":
            _, short = self.array_functions(fmt)
            size = self.fresh("n")
            self.line(f"{size} = len({value})")
            long = f"pack(f'>{{{size}}}{fmt}', *{value})"
            self.line(f"{w}.append({short}[{size}](*{value}) if {size} < {SHORT} else {long})")
        else:
            element = self.fresh("i")
            self.line(f"for {element} in {value}:")
            self.depth += 1
            if field.kind == "struct":
                self.body(field.fields, element, w, self.flexible)
            elif field.kind == "uuid":
                self.line(f"{w}.append({element}.bytes)")
            else:
                self.sized(field.kind, element, w, False)
            self.flush(w)
            self.depth -= 1
        if field.nullable:
            self.depth -= 1


def with_defaults(fields: tuple[Field, ...], body: dict[str, Any]) -> dict[str, Any]:
    """A copy of `body` in which every field of the definition is present, at every depth."""
    filled = {}
    for field in fields:
        value = body[field.name] if field.name in body else _default_value(field)
        if field.kind == "struct" and value is not None:
            if field.is_array:
                value = [with_defaults(field.fields, element) for element in value]
            else:
                value = with_defaults(field.fields, value)
        filled[field.name] = value
    if body.get("_tags"):
        filled["_tags"] = body["_tags"]
    return filled


def _default_value(field: Field) -> Any:
    if field.is_array and field.default is not None:
        return []
    return field.default
