"""Exchanges that are still numbers as the columns of a row group, without a table of Arrow's in between.

The rows are those that `schema.table_of_packed` makes, which does for a Python without the compiled part.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from notleader.proxy.record.block import NONE, WHAT
from notleader.proxy.record.frames import WHO_FIELDS
from notleader.proxy.recorder import thrift
from notleader.proxy.recorder.columns import IS_COMPILED
from notleader.proxy.recorder.schema import ASKED_FOR, EXCHANGE, OWN, TEMPLATE, VARYING, Identity, Packed
from notleader.proxy.recorder.segment import Chunk

if IS_COMPILED:
    from notleader.proxy.recorder.pages import Numbers, repeated

# Types, encodings and codecs of parquet.thrift.
_TYPES: Final = {"INT32": 1, "INT64": 2, "BYTE_ARRAY": 6}
_PLAIN, _RLE, _DELTA, _DICTIONARY = 0, 3, 5, 8
_UNCOMPRESSED, _ZSTD = 0, 6
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_LEVELS_ARE_RLE: Final = b"\x15\x06\x15\x06"
_WORTH_IT_BYTES: Final = 64
_SIZE: Final = Struct("<I")
_PACKED: Final = {1: Struct("<i"), 2: Struct("<q")}
_PARTITIONS: Final = "partitions.list.element."
_EMPTY_LISTS: Final = ("fault_names.list.element", "fault_kinds.list.element")
_WHO, _WHAT, _TEMPLATE = range(3)
_FIRST_OWN: Final = 1 << 31
"""From here on templates are none of the journal's."""
_NEVER: Final = ("message_ids", "key_hashes")


class Leaf(NamedTuple):
    """A column of a Parquet file."""

    path: str
    kind: int
    narrow: bool
    deepest: int
    """Its highest definition level."""
    repeats: int
    is_asked_for: bool
    kind_said: bytes
    """Its type as the field of a footer, which it begins with."""
    names: bytes
    """And its path, behind the encodings."""

    @property
    def bits(self) -> int:
        """Of a definition level."""
        return self.deepest.bit_length()


class Entries:
    """What numbers point to, as Python's values by their places; only grows."""

    def __init__(self) -> None:
        self.rows: tuple[dict[int, Any], dict[int, Any], dict[int, Any]] = ({}, {}, {})
        """Of whom, of what and of templates: column → value."""
        self.told: dict[int, bytes] = {}
        """The partitions that a *what* tells, packed."""
        self._templates: dict[tuple[Any, ...], int] = {}

    def add(self, which: int, entries: pa.Table) -> None:
        """Take these of one of `schema.ENTRIES`."""
        for entry in entries.to_pylist():
            place = entry["place"]
            self.rows[which][place] = entry
            if which == _WHAT and (partitions := entry["partitions"]):
                if any(part[name] is not None for part in partitions for name in _NEVER):
                    del self.rows[which][place]  # `chunks_of` knows no such column
                    continue
                self.told[place] = b"".join(map(self._packed, partitions))

    def _packed(self, part: dict[str, Any]) -> bytes:
        """A partition as numbers, which point to a template beyond those that a journal may know."""
        key = tuple(part[name] for name in TEMPLATE)
        place = self._templates.setdefault(key, _FIRST_OWN + len(self._templates))
        self.rows[_TEMPLATE][place] = {name: part[name] for name in TEMPLATE}
        sequence, count, size, offset = (NONE if part[name] is None else part[name] for name in VARYING)
        return array("q", (place, sequence, count, size, offset)).tobytes()


def chunks_of(packed: Sequence[Packed], identity: Identity) -> tuple[int, list[Chunk]]:
    """The rows, and their columns in order; all point into the same tables, of which a later one knows more.

    Raises ValueError, LookupError or UnicodeError where they can't be made so.
    """
    group = _Group(packed, identity)
    return group.numbers.rows, [group.chunk(leaf) for leaf in _leaves()]


class _Group:
    def __init__(self, packed: Sequence[Packed], identity: Identity) -> None:
        entries: Entries = packed[-1].known
        self.numbers = numbers = Numbers([(one.numbers, one.rows, one.parts) for one in packed], entries.told)
        self._used = [[known[place] for place in numbers.used(which)] for which, known in enumerate(entries.rows)]
        run_id, proxy_id, seed = identity
        self._constants = {"run_id": run_id, "proxy_id": proxy_id, "event": "exchange", "seed": seed}
        self._levels: dict[Any, bytes] = {}
        self._compressed_before: tuple[bytes, bytes] = b"", b""
        self._codec = pa.Codec("zstd", 1)

    def chunk(self, leaf: Leaf) -> Chunk:
        name = leaf.path.removeprefix(_PARTITIONS)
        if name is not leaf.path and name in TEMPLATE:
            return self._pointed_to(leaf, _TEMPLATE, name)
        if name is not leaf.path and name in VARYING:
            return self._varying(leaf, name)
        if name is not leaf.path:
            levels = self._same(2 + 1, leaf.bits)
            return self._page(leaf, self.numbers.entries, levels, _PLAIN, b"", nulls=self.numbers.entries)
        rows = self.numbers.rows
        if name in self._constants:
            value = self._constants[name]
            return self._coded(leaf, rows, repeated(1, rows, 1), [value], repeated(0, rows, 1), 0)
        if name in WHO_FIELDS:
            return self._pointed_to(leaf, _WHO, name)
        if name in WHAT:
            return self._pointed_to(leaf, _WHAT, name)
        if name in OWN:
            return self._varying(leaf, name)
        level = 1 if name in _EMPTY_LISTS else 0
        return self._page(leaf, rows, repeated(level, rows, leaf.bits), _PLAIN, b"", nulls=rows)

    def _pointed_to(self, leaf: Leaf, which: int, name: str) -> Chunk:
        found: dict[Any, int] = {}
        places = [
            -1 if (value := entry[name]) is None else found.setdefault(value, len(found)) for entry in self._used[which]
        ]
        numbers = self.numbers
        of_parts = which == _TEMPLATE
        entries = numbers.entries if of_parts else numbers.rows
        has_nulls = -1 in places
        if not found or not has_nulls:
            level = leaf.deepest if found else leaf.deepest - 1
            levels = self._same(level, leaf.bits) if of_parts else repeated(level, entries, leaf.bits)
        else:
            levels = numbers.levels(which, places, leaf.deepest, leaf.bits)
        if not found:
            return self._page(leaf, entries, levels, _PLAIN, b"", nulls=entries)
        width = max((len(found) - 1).bit_length(), 1)
        if len(found) == 1 and not has_nulls:
            count = numbers.parts if of_parts else entries
            chosen = repeated(0, count, width)
        else:
            count, chosen = numbers.chosen(which, places, width)
        return self._coded(leaf, entries, levels, list(found), chosen, entries - count)

    def _varying(self, leaf: Leaf, name: str) -> Chunk:
        of_parts = leaf.repeats > 0
        levels, count, least, most, packed = self.numbers.numbers(name, leaf.deepest, leaf.bits, leaf.narrow)
        entries = self.numbers.entries if of_parts else self.numbers.rows
        if count and least == most:
            return self._coded(leaf, entries, levels, [least], repeated(0, count, 1), entries - count)
        bounds = (_packed(leaf, least), _packed(leaf, most)) if count else None
        return self._page(leaf, entries, levels, _DELTA if count else _PLAIN, packed, entries - count, bounds)

    def _same(self, level: int, bits: int) -> bytes:
        """The levels of all columns of partitions that say something of each of them, or nothing of any."""
        key = level, bits
        if key not in self._levels:
            self._levels[key] = self.numbers.same(level, bits)
        return self._levels[key]

    def _repetitions(self, leaf: Leaf) -> bytes:
        bits = leaf.repeats.bit_length()
        if not leaf.path.startswith(_PARTITIONS):
            return bytes(repeated(0, self.numbers.rows, bits))
        key = "lists", bits
        if key not in self._levels:
            self._levels[key] = self.numbers.lists(bits)
        return self._levels[key]

    def _coded(self, leaf: Leaf, entries: int, levels: bytes, values: list[Any], chosen: bytes, nulls: int) -> Chunk:
        plain = [_packed(leaf, value) for value in values]
        bounds = None
        if leaf.is_asked_for:
            bounds = (min(plain), max(plain)) if leaf.kind == _TYPES["BYTE_ARRAY"] else _bounds(leaf, values)
        width = max((len(values) - 1).bit_length(), 1)
        if leaf.kind == _TYPES["BYTE_ARRAY"]:
            dictionary = b"".join(_SIZE.pack(len(one)) + one for one in plain)
        else:
            dictionary = b"".join(plain)
        return self._page(
            leaf, entries, levels, _DICTIONARY, bytes((width,)) + chosen, nulls, bounds, (len(values), dictionary)
        )

    def _page(
        self,
        leaf: Leaf,
        entries: int,
        levels: bytes,
        encoding: int,
        values: bytes,
        nulls: int,
        bounds: tuple[bytes, bytes] | None = None,
        dictionary: tuple[int, bytes] | None = None,
    ) -> Chunk:
        """The column of one page, and one of its dictionary where it has one."""
        pieces = []
        if leaf.repeats:
            repetitions = self._repetitions(leaf)
            pieces += [_SIZE.pack(len(repetitions)), repetitions]
        pieces += [_SIZE.pack(len(levels)), levels, values]
        body = b"".join(pieces)
        is_long = len(body) + (len(dictionary[1]) if dictionary else 0) > _WORTH_IT_BYTES
        store = self._compressed if is_long else _as_it_is
        pages, unpacked, of_dictionary = b"", 0, 0
        if dictionary is not None:
            count, content = dictionary
            head = _page_head(_DICTIONARY_PAGE, content, stored := store(content), count, _PLAIN)
            pages = head + stored
            of_dictionary = len(pages)
            unpacked = len(head) + len(content)
        head = _page_head(_DATA_PAGE, body, stored := store(body), entries, encoding)
        pages += head + stored
        unpacked += len(head) + len(body)
        # By hand, for a footer has fifty of these for each row group.
        said = (
            leaf.kind_said,
            _ENCODINGS[encoding],
            leaf.names,
            b"\x15",
            thrift.number(_ZSTD if is_long else _UNCOMPRESSED),
            b"\x16",
            thrift.number(entries),
            b"\x16",
            thrift.number(unpacked),
            b"\x16",
            thrift.number(len(pages)),
        )
        statistics = b""
        if leaf.is_asked_for:
            found = {3: thrift.i64(nulls)}
            if bounds is not None:
                found |= {5: thrift.binary(bounds[1]), 6: thrift.binary(bounds[0])}
            statistics = thrift.written(found)
        return Chunk(pages, of_dictionary, unpacked, b"".join(said), statistics)

    def _compressed(self, data: bytes) -> bytes:
        if data != self._compressed_before[0]:
            self._compressed_before = data, bytes(self._codec.compress(data, asbytes=True))
        return self._compressed_before[1]


def _as_it_is(data: bytes) -> bytes:
    return data


def _fields(said: thrift.Struct) -> bytes:
    """These fields, whose numbers follow each other, without the end of the struct that they are in."""
    return thrift.written(said)[:-1]


def _encodings(*numbers: int) -> bytes:
    return _fields({1: thrift.many(thrift.I32, numbers)})


_ENCODINGS: Final = {
    _PLAIN: _encodings(_PLAIN, _RLE),
    _DELTA: _encodings(_RLE, _DELTA),
    _DICTIONARY: _encodings(_PLAIN, _RLE, _DICTIONARY),
}


def _page_head(kind: int, content: bytes, stored: bytes, count: int, encoding: int) -> bytes:
    """A PageHeader, with no more than these in it: written by hand, for there are a hundred in a row group."""
    head = (b"\x15", thrift.number(kind), b"\x15", thrift.number(len(content)), b"\x15", thrift.number(len(stored)))
    inner = (b"\x15", thrift.number(count), b"\x15", thrift.number(encoding))
    if kind == _DICTIONARY_PAGE:
        return b"".join((*head, b"\x4c", *inner, b"\0\0"))
    return b"".join((*head, b"\x2c", *inner, _LEVELS_ARE_RLE, b"\0\0"))


def _packed(leaf: Leaf, value: Any) -> bytes:
    if leaf.kind == _TYPES["BYTE_ARRAY"]:
        return str(value).encode()
    return _PACKED[leaf.kind].pack(value)


def _bounds(leaf: Leaf, values: list[Any]) -> tuple[bytes, bytes]:
    return _packed(leaf, min(values)), _packed(leaf, max(values))


@cache
def _leaves() -> list[Leaf]:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, EXCHANGE):
        pass
    schema = pq.ParquetFile(sink).schema
    found = []
    for column in map(schema.column, range(len(schema))):
        kind = _TYPES[column.physical_type]
        found.append(
            Leaf(
                column.path,
                kind,
                kind == _TYPES["INT32"],
                column.max_definition_level,
                column.max_repetition_level,
                column.path in ASKED_FOR,
                _fields({1: thrift.i32(kind)}),
                _fields({1: thrift.many(thrift.BINARY, column.path.encode().split(b"."))}),
            )
        )
    return found
