"""Kafka's definitions compiled into probe programs: what to take out of a frame, and how to get past the rest. Pure.

A codec reads all fields of a body; a probe reads the few that are wanted, in one pass over the frame and without making
objects of it. A program is some 20 to 50 bytes, made from the same definitions as the codecs, so that a new version of
a message takes new definitions and nothing else. ``notleader.proxy.pump`` has the interpreter, in Python and compiled.

A program works on a frame without its length: header, then body. Each step is an `Op`, followed by its operands, one
byte each. What is taken goes to numbered places: those of the whole frame, and those of the partition row at hand.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import cache
from typing import Final

from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.header import request_header_version, response_header_version
from notleader.proxy.wire.partitions import TopicsPlace, topics_place
from notleader.proxy.wire.schemas import Direction, Field, Message, message, version_ranges
from notleader.proxy.wire.source import FORMATS


class Op(IntEnum):
    """One step. ``C`` in front: lengths are compact (one more than they are, as an unsigned varint)."""

    END = 0
    SKIP = 1  # bytes
    FIXED = 2  # bytes; how many numbers are taken of them; of each: where it is, its kind and place
    UUID = 3  # place: its 16 bytes are among the texts from there on
    TEXT = 4  # place: where it is among the texts; the next place has its length
    CTEXT = 5
    PAST2 = 6  # bytes whose length are two bytes
    PAST4 = 7
    CPAST = 8
    EACH = 9  # bytes of the program up to behind the matching NEXT: for each element of an array
    CEACH = 10
    NEXT = 11  # bytes of the program back to the first step of the loop
    MAYBE = 12  # bytes of the program to jump over where a struct is null
    TAGS = 13  # past tagged fields
    FIND = 14  # tag, place: past tagged fields; where that tag's number is in the frame, or a row its leader's epoch
    RECORDS = 15  # record batches: what they say goes into the row
    CRECORDS = 16
    ROW = 17  # whether it is its topic's: a partition begins
    ARRAY = 18  # bytes of an element: past an array of these
    CARRAY = 19


NO_NULL: Final = 0x40
"""Beside an op with a length: null is an error."""


class Row(IntEnum):
    """Places of a partition's row. The first four are its topic's, as `Frame.TOPIC` has them when it begins."""

    NAME = 0  # of the topic, among the texts
    NAME_BYTES = 1
    TOPIC_ID = 2  # among the texts
    ERROR_CODE = 3
    INDEX = 4
    BASE_OFFSET = 5  # of a Produce answer, or what ListOffsets and OffsetFetch answer
    LEADER_EPOCH = 6
    RECORDS_BYTES = 7
    RECORD_COUNT = 8
    # Of the first batch:
    PRODUCER_ID = 9
    PRODUCER_EPOCH = 10
    BASE_SEQUENCE = 11
    ATTRIBUTES = 12
    FIRST_OFFSET = 13


class Frame(IntEnum):
    """Places of the whole frame; in programs they follow those of the row."""

    TOPIC = 0  # name, its length, id, error code
    ACKS = 4
    ERROR_CODE = 5
    THROTTLE_TIME_MS = 6
    TRANSACTIONAL_ID = 7
    TRANSACTIONAL_ID_BYTES = 8
    GROUP_ID = 9
    GROUP_ID_BYTES = 10
    ENDPOINTS = 11  # where in the frame the number of the tagged field node_endpoints is


ROW_PLACES: Final = 14
FRAME_PLACES: Final = 12
FRAME_FROM: Final = 16
"""The number that the frame's first place has in programs."""
KIND: Final = 32
"""A number of ``2**kind`` bytes has so many times its kind beside its place."""
NOTHING: Final = -(1 << 63)
"""In a place that nothing was put into."""
MOST_ROWS: Final = 100_000
MOST_TEXT_BYTES: Final = 4 << 20
"""Beyond these a frame counts as odd: whoever wants to know has to decode it."""
MOST_DEPTH: Final = 6

_ENDPOINTS_FIELD: Final = "node_endpoints"
_LEADER_FIELD: Final = "current_leader"  # its id, and then its epoch (KIP-951)
_OF_FRAME: Final = {
    "acks": Frame.ACKS,
    "error_code": Frame.ERROR_CODE,
    "throttle_time_ms": Frame.THROTTLE_TIME_MS,
    "transactional_id": Frame.TRANSACTIONAL_ID,
    "group_id": Frame.GROUP_ID,
}
_OF_ROW: Final = {
    "error_code": Row.ERROR_CODE,
    "base_offset": Row.BASE_OFFSET,
    "offset": Row.BASE_OFFSET,
    "committed_offset": Row.BASE_OFFSET,
    "current_leader_epoch": Row.LEADER_EPOCH,
    "leader_epoch": Row.LEADER_EPOCH,
}
ROWS: Final = "rows"
WANTED: Final = frozenset((*_OF_FRAME, ROWS, _ENDPOINTS_FIELD))
"""All that a program can take: the frame's own fields, `node_endpoints`, and `rows`, one for each partition."""
NODE_ENDPOINTS: Final = frozenset((_ENDPOINTS_FIELD,))
FACTS: Final = frozenset((ROWS, "acks", "error_code", "throttle_time_ms", "transactional_id"))
"""What a row of a capture says of a Produce or a Fetch."""
FACTS_APIS: Final = frozenset((int(ApiKey.Produce), int(ApiKey.Fetch)))
"""Of these anybody ever asks for the facts while they pass: they are nearly all of the traffic."""
_KINDS: Final = {"bool": 0, "int8": 0, "int16": 1, "int32": 2, "int64": 3}


@cache
def program(api_key: int, api_version: int, direction: Direction, wanted: frozenset[str] = WANTED) -> bytes:
    """The program that takes what is wanted out of frames of this message; UnknownVersion where nothing defines it.

    It reads the frame to its end, so that one that ends too early is told from one that doesn't.
    """
    made = _Program(message(api_key, api_version, direction), wanted)
    return bytes(made.code)


@cache
def facts_program(api_key: int, api_version: int, direction: Direction) -> bytes | None:
    """The program that takes the `FACTS` out of a Produce or a Fetch; None for what nothing defines, and other APIs."""
    if api_key not in FACTS_APIS or api_version not in version_ranges()[api_key]:
        return None
    return program(api_key, api_version, direction, FACTS)


@cache
def acks_program(api_version: int) -> bytes:
    """The program that reads a Produce request as far as its acks; of a version that nothing defines, as the newest."""
    known = version_ranges()[ApiKey.Produce]
    newest = min(max(api_version, known[0]), known[-1])
    return bytes(_Program(message(ApiKey.Produce, newest, "request"), frozenset(("acks",)), until="acks").code)


@cache
def has_endpoints(api_key: int, api_version: int) -> bool:
    """Whether answers of this version may carry the tagged field `node_endpoints`."""
    fields = message(api_key, api_version, "response").fields
    return any(field.name == _ENDPOINTS_FIELD and field.tag is not None for field in fields)


class _Program:
    """A program under construction."""

    def __init__(self, definition: Message, wanted: frozenset[str], *, until: str | None = None) -> None:
        """``until``: the field of the body behind which it ends."""
        self.code = bytearray()
        self._flexible = definition.flexible
        self._wanted = wanted
        # Of fixed size, since the last step: how many bytes, and what is taken of them.
        self._fixed_bytes = 0
        self._taken = bytearray()
        self._header(definition)
        taken = {name: FRAME_FROM + to for name, to in _OF_FRAME.items() if name in wanted}
        if until is None:
            self._fields(definition.fields, taken)
        else:
            names = [field.name for field in definition.fields]
            for field in definition.fields[: names.index(until) + 1]:
                self._field(field, taken.get(field.name), None)
        self._op(Op.END)

    def _header(self, definition: Message) -> None:
        if definition.direction == "request":
            version = request_header_version(definition.api_key, definition.api_version)
            self._fixed(8)
            if version:
                self._op(Op.PAST2)
            if version == 2:
                self._op(Op.TAGS)
        else:
            self._fixed(4)
            if response_header_version(definition.api_key, definition.api_version):
                self._op(Op.TAGS)

    def _fixed(self, size: int, *what: int) -> None:
        """So many bytes, which are a number that is taken where it is said as what."""
        if self._fixed_bytes + size > 0xFF:
            self._flush()
        for one in what:
            self._taken += bytes((self._fixed_bytes, one))
        self._fixed_bytes += size

    def _op(self, op: int, *operands: int) -> None:
        self._flush()
        self.code += bytes((op, *operands))

    def _flush(self) -> None:
        """What is of fixed size so far, as a step."""
        size, taken = self._fixed_bytes, self._taken
        self._fixed_bytes, self._taken = 0, bytearray()
        if taken:
            self.code += bytes((Op.FIXED, size, len(taken) // 2)) + taken
        elif size:
            self.code += bytes((Op.SKIP, size))

    def _fields(self, fields: tuple[Field, ...], taken: dict[str, int], topics: TopicsPlace | None = None) -> None:
        """A struct's fields; ``taken`` says where those go that are wanted, ``topics`` what its elements name."""
        for field in fields:
            if field.tag is None:
                self._field(field, taken.get(field.name), topics)
        if self._flexible:
            tags = {one.name: one.tag for one in fields if one.tag is not None}
            endpoints, leader = tags.get(_ENDPOINTS_FIELD), tags.get(_LEADER_FIELD)
            if endpoints is not None and _ENDPOINTS_FIELD in self._wanted:
                self._op(Op.FIND, endpoints, FRAME_FROM + Frame.ENDPOINTS)
            elif leader is not None and topics is not None and ROWS in self._wanted:
                self._op(Op.FIND, leader, Row.LEADER_EPOCH)
            else:
                self._op(Op.TAGS)

    def _field(self, field: Field, to: int | None, topics: TopicsPlace | None) -> None:
        if field.is_array:
            self._array(field, topics)
        elif field.kind == "struct":
            self._struct(field)
        elif field.kind in FORMATS:
            if to is not None and field.kind == "uuid":
                self._op(Op.UUID, to)
            else:
                what = () if to is None else (KIND * _KINDS[field.kind] + to,)
                self._fixed(struct.calcsize(">" + FORMATS[field.kind]), *what)
        elif field.kind == field.name == "records" and topics is not None and ROWS in self._wanted:
            self._sized(Op.RECORDS, Op.CRECORDS, field)
        elif field.kind != "string":
            self._sized(Op.PAST4, Op.CPAST, field)
        elif to is None:
            self._sized(Op.PAST2, Op.CPAST, field)
        else:
            self._sized(Op.TEXT, Op.CTEXT, field, to)

    def _sized(self, fixed: Op, compact: Op, field: Field, *operands: int) -> None:
        self._op((compact if self._flexible else fixed) | (0 if field.nullable else NO_NULL), *operands)

    def _struct(self, field: Field) -> None:
        if not field.nullable:
            self._fields(field.fields, {})
            return
        self._op(Op.MAYBE, 0)
        start = len(self.code)
        self._fields(field.fields, {})
        self._flush()
        self._close(start)

    def _array(self, field: Field, topics: TopicsPlace | None) -> None:
        if field.kind in FORMATS and not self._is_bare(field, topics):
            size = struct.calcsize(">" + FORMATS[field.kind])
            self._sized(Op.ARRAY, Op.CARRAY, field, size)
            return
        self._sized(Op.EACH, Op.CEACH, field, 0)
        start = len(self.code)
        if field.kind == "struct":
            self._element(field, topics)
        elif self._is_bare(field, topics):
            self._op(Op.ROW, 1)
            self._fixed(4, KIND * _KINDS["int32"] + Row.INDEX)
        else:
            element = field._replace(is_array=False, nullable=False)
            self._sized(Op.PAST2 if field.kind == "string" else Op.PAST4, Op.CPAST, element)
        self._flush()
        self._op(Op.NEXT, len(self.code) - start)
        self._close(start)

    def _is_bare(self, field: Field, topics: TopicsPlace | None) -> bool:
        return topics is not None and topics.bare and field.name == topics.partitions and ROWS in self._wanted

    def _close(self, start: int) -> None:
        """Let the op whose operand stands in front of ``start`` jump to here."""
        self.code[start - 1] = len(self.code) - start

    def _element(self, field: Field, topics: TopicsPlace | None) -> None:
        if ROWS not in self._wanted:
            self._fields(field.fields, {})
        elif topics is not None and field.name == topics.partitions and topics.index_key is not None:
            self._op(Op.ROW, 1)
            self._fields(field.fields, _of_row(field.fields) | {topics.index_key: Row.INDEX}, topics)
        elif topics is None and (own := topics_place((), field)) is not None and not _is_forgotten(field):
            if own.partitions is None and own.index_key is not None:
                self._op(Op.ROW, 0)
                named = _of_row(field.fields) | {own.index_key: int(Row.INDEX)}
                self._fields(field.fields, named | _names(own, 0), own)
            else:
                named = {"error_code": FRAME_FROM + Frame.TOPIC + Row.ERROR_CODE}
                self._fields(field.fields, named | _names(own, FRAME_FROM), own)
        else:
            self._fields(field.fields, {})


def _of_row(fields: tuple[Field, ...]) -> dict[str, int]:
    """Where the fields of a partition go; of two for one place it is the first in `_OF_ROW`."""
    names = {field.name for field in fields}
    found: dict[int, str] = {}
    for name, to in _OF_ROW.items():
        if name in names:
            found.setdefault(to, name)
    return {name: to for to, name in found.items()}


def _names(topics: TopicsPlace, start: int) -> dict[str, int]:
    """Where a topic's name and id go."""
    named = {topics.name_key: start + Row.NAME, topics.id_key: start + Row.TOPIC_ID}
    return {key: to for key, to in named.items() if key is not None}


def _is_forgotten(field: Field) -> bool:
    return field.name.startswith("forgotten_")
