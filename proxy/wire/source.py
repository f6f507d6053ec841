"""What decoder and encoder sources share: lines of Python under construction, and the constants they use.

The generated text names are short on purpose: b buffer, m memoryview of it, p position, end its length; w the list
of encoded pieces.
"""

from __future__ import annotations

import struct
from typing import Any

from notleader.proxy.wire import primitives
from notleader.proxy.wire.schemas import NO_UUID, Field

# Arrays of numbers up to this length have their struct ready: replicas, in-sync replicas and the like.
SHORT = 17

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


class Source:
    """Source lines under construction, with the constants they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[str, Any] = {
            "uvarint": primitives.uvarint,
            "read_uvarint": primitives.read_uvarint,
            "read_unknown_tags": primitives.read_unknown_tags,
            "tag_section": primitives.tag_section,
            "uuid_of": primitives.uuid_of,
            "ONE": primitives.ONE_BYTE,
            "NO_UUID": NO_UUID,
        }
        self._fresh = 0

    def line(self, text: str) -> None:
        """Adds one line at the present depth."""
        self.lines.append("    " * self.depth + text)

    def fresh(self, stem: str) -> str:
        """A variable name not used before."""
        self._fresh += 1
        return f"{stem}{self._fresh}"

    def reader(self, formats: str) -> str:
        """The name of a precompiled `unpack_from` for these formats."""
        name = "read_" + formats.replace("?", "B_")
        self.names[name] = struct.Struct(">" + formats).unpack_from
        return name

    def packer(self, formats: str) -> str:
        """The name of a precompiled `pack` for these formats."""
        name = "pack_" + formats.replace("?", "B_")
        self.names[name] = struct.Struct(">" + formats).pack
        return name

    def array_functions(self, fmt: str) -> tuple[str, str]:
        """The names of (unpack_from, pack), by element count, for the short arrays that are nearly all."""
        readers, packers = f"reads_{fmt}", f"packs_{fmt}"
        structs = [struct.Struct(f">{count}{fmt}") for count in range(SHORT)]
        self.names[readers] = tuple(short.unpack_from for short in structs)
        self.names[packers] = tuple(short.pack for short in structs)
        self.names |= {"unpack_from": struct.unpack_from, "pack": struct.pack}
        return readers, packers

    def function(self, head: str) -> Any:
        """Compiles the lines under `head`, and returns the function that it defines."""
        source = "\n".join([head, *self.lines])
        exec(compile(source, "<wire codec>", "exec"), self.names)
        return self.names[head.split()[1].split("(")[0]]


def default_source(field: Field) -> str:
    """A Python expression for a new copy of a field's default."""
    if field.is_array:
        return "None" if field.default is None else "[]"
    if field.kind == "struct" and field.default is not None:
        return "{" + ", ".join(f"{inner.name!r}: {default_source(inner)}" for inner in field.fields) + "}"
    if field.kind == "uuid":
        return "NO_UUID"
    return repr(field.default)
