"""Finished exchanges as numbers, and the tables that these point into: what the loop hands to the journal. Pure.

A row of a capture has three dozen columns, of which a dozen differ from one exchange to the next, and these by little.
They are numbers of as few bytes as each takes here; who asked, what it was, and which partition, are places in tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent

ALL_TOLD: Final = -1
"""The partitions are those of `Summary.partitions`, all their values included."""
NONE: Final = -(1 << 63)
Row = tuple[int, int, int, int, int, int, int, int, int, int, int]
"""who, what, seq, correlation id; the times of request, forwarding, broker's answer and answer (NONE: never); the bytes
of both; how many parts follow, or ALL_TOLD."""
Part = tuple[int, int, int, int, int]
"""template, base sequence, number of records, their bytes, base offset; NONE for none"""
_MASK: Final = (1 << 64) - 1
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
"""Numbers as `exchanges_of` reads them."""
Who = tuple[Any, ...]
"""connection_id, client_addr, listener, node_id, client_id, client_software_name, client_software_version, principal"""
Template = tuple[Any, ...]
"""topic, topic_id, partition_index, producer_id, producer_epoch, compression, error_code, leader_epoch"""


def exchanges_of(numbers: Packing) -> Iterator[tuple[Row, list[Part]]]:
    """The exchanges that were packed, as journal.md says. Raises ValueError where they end amid one."""
    take = _varints(bytes(numbers)).__next__
    before_us = before = 0
    lasts: dict[int, Part] = {}
    try:
        while (who := take()) >= 0:
            what, seq = take(), _signed(take())
            correlation_id = _signed(take(), seq)
            before_us = _signed(take(), before_us)
            forwarded, responded = take(), take()
            times = forwarded, responded, _signed(take(), responded)
            since = (before_us + one - 1 if one else NONE for one in times)
            sizes, count = (take(), take()), take() - 1
            parts = []
            for _ in range(count):
                head = take()
                before += _signed(head >> 1)
                _, sequence, records, size, offset = lasts.get(before, (0,) * 5)
                sequence, offset = (one if one < 0 else _signed(0, one + records) for one in (sequence, offset))
                if head & 1:
                    sequence, records = _signed(take(), sequence), _signed(take(), records)
                    size, offset = _signed(take(), size), _signed(take(), offset)
                lasts[before] = before, sequence, records, size, offset
                parts.append(lasts[before])
            row: Any = (who, what, seq, correlation_id, before_us, *since, *sizes, count)
            yield row, parts
    except StopIteration:
        raise ValueError("the numbers end amid an exchange") from None


def _varints(packed: bytes) -> Iterator[int]:
    """Unsigned numbers of up to 64 bits, and -1 behind the last one."""
    value = shift = 0
    for byte in packed:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value & _MASK
            value = shift = 0
    if not shift:
        yield -1


def _signed(zigzag: int, to: int = 0) -> int:
    """That, added to what was expected; 64 bits that wrap."""
    found = (zigzag >> 1 ^ -(zigzag & 1)) + to & _MASK
    return found - (found >> 63 << 64)


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
    """Some exchanges in the order in which they finished, as numbers."""

    __slots__ = ("first_us", "last_us", "numbers", "parts", "rows", "tables", "told", "used")

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.numbers = b""
        self.rows = self.parts = 0
        """How many exchanges, and partitions of their own."""
        self.told = 0
        """How many partitions the shapes of its exchanges tell."""
        self.used: tuple[list[int], list[int], list[int]] = ([], [], [])
        """The places of whos, whats and templates that its numbers point to, each once."""
        self.first_us = self.last_us = 0
        """When the first and the last of the requests came, µs since the epoch."""

    def __len__(self) -> int:
        return self.rows

    @property
    def unpacked_bytes(self) -> int:
        """About how much memory it takes as Arrow columns."""
        return unpacked_bytes(self.rows, self.parts + self.told)


class BlockWriter(Protocol):
    """`block_writer.BlockWriter`, as it is used."""

    is_full: bool
    rows: int

    def take(self, entry: Exchange | ConnectionEvent) -> bool: ...
    def begin(self, block: Block, generation: int) -> None: ...
    def end(self) -> Block: ...
    def remember(self, api: int, request: bytes, response: bytes, what: Summary) -> bool: ...
    def forget(self) -> None: ...
