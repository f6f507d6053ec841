"""Finished exchanges as numbers, and the tables that these point into: what the loop hands to the journal. Pure.

A row of a capture has three dozen columns, of which a dozen differ from one exchange to the next. Those are eleven
packed integers of their own widths here; who asked, what it was, and which partition, are places in tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, Protocol

from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent

_ROW: Final = Struct("<qqIIiiIIIII")
ROW_BYTES: Final = _ROW.size
_PART: Final = Struct("<qIiii")
PART_BYTES: Final = _PART.size
ALL_TOLD: Final = -1
"""The partitions are those of `Summary.partitions`, all their values included."""
NONE: Final = -(1 << 63)
_NO_NUMBER: Final = -(1 << 31)
_WORD: Final = 4
_WHO_AT, _WHAT_AT, _TEMPLATE_AT = 16, 20, 8
Row = tuple[int, int, int, int, int, int, int, int, int, int, int]
"""who, what, seq, correlation id; the times of request, forwarding, broker's answer and answer (0: never); the bytes of
both; how many parts follow, or ALL_TOLD."""
Part = tuple[int, int, int, int, int]
"""template, base sequence, number of records, their bytes, base offset; NONE for none"""
_ARROW_ROW_BYTES: Final = 240
_ARROW_PARTITION_BYTES: Final = 100
_BYTES_PER_PARTITION: Final = 40

WHAT: Final = (
    "api_key",
    "api_name",
    "api_version",
    "outcome",
    "error_code",
    "throttle_time_ms",
    "transactional_id",
    "group_id",
    "acks",
    "detail",
)
"""What the values of a :class:`Summary` are, in order."""
Packing = bytes | bytearray | memoryview
"""Numbers as the packers above make them."""
Who = tuple[Any, ...]
"""connection_id, client_addr, listener, node_id, client_id, client_software_name, client_software_version, principal"""
Template = tuple[Any, ...]
"""topic, topic_id, partition_index, producer_id, producer_epoch, compression, error_code, leader_epoch"""


def pack_numbers(*row: int) -> bytes:
    """A `Row`, its times as what went by since the request. Raises struct.error where one of them is before it."""
    who, what, seq, correlation_id, request_at_us, *times, request_bytes, response_bytes, count = row
    since = [at_us and at_us - request_at_us + 1 for at_us in times]
    return _ROW.pack(seq, request_at_us, who, what, correlation_id, count, *since, request_bytes, response_bytes)


def pack_part(template: int, sequence: int, count: int, size: int, offset: int) -> bytes:
    """A `Part`. Raises struct.error where one doesn't fit."""
    return _PART.pack(
        offset, template, *(_NO_NUMBER if number == NONE else number for number in (sequence, count, size))
    )


def numbers_of(packed: Packing) -> Iterator[Row]:
    """The rows that were packed."""
    for seq, request_at_us, who, what, correlation_id, count, *since, asked, answered in _ROW.iter_unpack(packed):
        forwarded, responded, response_at_us = (one and request_at_us + one - 1 for one in since)
        times = request_at_us, forwarded, responded, response_at_us
        yield who, what, seq, correlation_id, *times, asked, answered, count


def parts_of(packed: Packing) -> Iterator[Part]:
    """The parts that were packed."""
    for offset, template, *numbers in _PART.iter_unpack(packed):
        sequence, count, size = (NONE if number == _NO_NUMBER else number for number in numbers)
        yield template, sequence, count, size, offset


def whos_among(numbers: Packing) -> memoryview:
    """The places of rows among the whos, one by one."""
    return memoryview(numbers).cast("B").cast("I")[_WHO_AT // _WORD :: ROW_BYTES // _WORD]


def whats_among(numbers: Packing) -> memoryview:
    """The places of rows among the whats."""
    return memoryview(numbers).cast("B").cast("I")[_WHAT_AT // _WORD :: ROW_BYTES // _WORD]


def templates_among(parts: Packing) -> memoryview:
    """The places of parts among the templates."""
    return memoryview(parts).cast("B").cast("I")[_TEMPLATE_AT // _WORD :: PART_BYTES // _WORD]


def unpacked_bytes(rows: int, partitions: int) -> int:
    """About how much memory these take as Arrow columns."""
    return _ARROW_ROW_BYTES * rows + _ARROW_PARTITION_BYTES * partitions


class Summary:
    """What many exchanges have in common: the columns from api_key to detail that are no numbers of each."""

    __slots__ = ("index", "partitions", "told", "values")

    def __init__(self, values: tuple[Any, ...], partitions: list[dict[str, Any]] | None = None) -> None:
        """``values`` of the columns WHAT."""
        self.values = values
        self.partitions = partitions
        self.told = len(partitions or ())
        self.index = -1  # in the table at hand, once it is in it


class Unread(Summary):
    """What exchanges of the same bytes have in common, which nobody has read yet: the recorder will."""

    __slots__ = ("request", "response")

    def __init__(self, exchange: Exchange, name: str, request: bytes, response: bytes) -> None:
        values = (exchange.api_key, name, exchange.api_version, exchange.outcome, *(None,) * 6)
        super().__init__(values, range((len(request) + len(response)) // _BYTES_PER_PARTITION))  # type: ignore[arg-type]
        self.request = request
        self.response = response


class Tables:
    """What the numbers of blocks point into; only grows."""

    __slots__ = ("templates", "whats", "whos")

    def __init__(self) -> None:
        self.whos: list[Who] = []
        self.whats: list[Summary] = []
        self.templates: list[Template] = []


class Block:
    """Some exchanges in the order in which they finished: what the packers above made of each, and of their parts."""

    __slots__ = ("first_us", "last_us", "numbers", "parts", "tables", "told")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.told = 0
        """How many partitions the shapes of its exchanges tell."""
        self.numbers = bytearray()
        self.parts = bytearray()
        self.first_us = self.last_us = 0
        """When the first and the last of the requests came, µs since the epoch."""

    def __len__(self) -> int:
        return len(self.numbers) // ROW_BYTES

    @property
    def size_bytes(self) -> int:
        """How much memory its numbers take."""
        return len(self.numbers) + len(self.parts)

    @property
    def unpacked_bytes(self) -> int:
        """About how much memory it takes as Arrow columns."""
        return unpacked_bytes(len(self), len(self.parts) // PART_BYTES + self.told)


class BlockWriter(Protocol):
    """`block_writer.BlockWriter`, as it is used."""

    is_full: bool

    def take(self, entry: Exchange | ConnectionEvent) -> bool: ...
    def begin(self, block: Block, generation: int) -> None: ...
    def end(self) -> Block: ...
    def remember(self, api: int, request: bytes, response: bytes, what: Summary) -> bool: ...
    def forget(self) -> None: ...
