"""The recorded records of each partition by offset: what Fetch can hand out, and what ListOffsets goes by."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import BatchHeader, crc_is_valid, iter_batches, iter_records

Key = tuple[str, int]
"""A topic's name and a partition index."""

_OFFSET: Final = struct.Struct(">q")
_CONTROL_TYPE: Final = struct.Struct(">hh")  # version, type: 0 aborts, 1 commits (KIP-98)


class Batch(NamedTuple):
    """One batch as Fetch hands it out. ``held_us``: how much longer than it may wait the recorded Fetch had taken."""

    header: BatchHeader
    data: bytes
    is_whole: bool
    held_us: int = 0

    @property
    def first(self) -> int:
        """The offset of its first record."""
        return self.header.base_offset

    @property
    def last(self) -> int:
        """The offset of its last record."""
        return self.header.base_offset + self.header.last_offset_delta


class Aborted(NamedTuple):
    """A transaction that was aborted: where it began, and where the marker says so."""

    producer_id: int
    first: int
    marker: int


def count_of(records: memoryview | bytes) -> int:
    """How many records there are, compressed sets of the formats before v2 included; those of broken ones are none."""
    try:
        counts = [batch.record_count for batch in iter_batches(records)]
        return sum(1 for _ in iter_records(records)) if -1 in counts else sum(counts)
    except WireError:
        return 0


class PartitionLog:
    """The records of one partition."""

    def __init__(self) -> None:
        self._by_offset: dict[int, Batch] = {}
        self._sorted: list[int] | None = None
        self._aborted: list[Aborted] = []
        self.told_start: int | None = None
        self.told_end: int | None = None
        """The high watermark that was recorded last: where the log ends if no record of it is known."""

    def produced(self, base_offset: int, records: memoryview | bytes) -> None:
        """Take what a producer sent, and the broker put at this offset; formats before v2 are passed over."""
        for batch in _batches(records):
            if batch.magic != 2:
                return
            raw = records[batch.start : batch.start + batch.size]
            # The offset is the broker's to set: no checksum covers it.
            self._add(_OFFSET.pack(base_offset) + bytes(raw[_OFFSET.size :]))
            base_offset += batch.last_offset_delta + 1

    def fetched(self, records: memoryview | bytes, held_us: int = 0) -> None:
        """Take what a Fetch answer held; a batch that is cut off at its end is none."""
        for batch in _batches(records):
            self._add(bytes(records[batch.start : batch.start + batch.size]), held_us)

    def _add(self, data: bytes, held_us: int = 0) -> None:
        header = next(iter_batches(data))
        batch = Batch(header, data, crc_is_valid(data, header), held_us)
        known = self._by_offset.get(batch.first)
        if known is None or batch.is_whole > known.is_whole:
            self._by_offset[batch.first] = batch
            self._sorted = None

    @property
    def offsets(self) -> list[int]:
        """The first offset of each batch, ascending."""
        if self._sorted is None:
            self._sorted = sorted(self._by_offset)
            self._aborted = list(_aborted(self._by_offset[offset] for offset in self._sorted))
        return self._sorted

    @property
    def start(self) -> int:
        """The first offset that there is."""
        return self.offsets[0] if self.offsets else self.end

    @property
    def end(self) -> int:
        """The offset after the last record: the high watermark."""
        if self.offsets:
            return self._by_offset[self.offsets[-1]].last + 1
        return max(self.told_end or 0, 0)

    @property
    def damaged(self) -> int:
        """How many batches don't match their checksum."""
        return sum(not batch.is_whole for batch in self._by_offset.values())

    def read(self, offset: int, most_bytes: int) -> list[Batch]:
        """The batches from the one with this offset on, as far as they have room; one at least where there is one."""
        at = bisect_left(self.offsets, offset)
        if at and self._by_offset[self.offsets[at - 1]].last >= offset:
            at -= 1
        found: list[Batch] = []
        for first in self.offsets[at:]:
            batch = self._by_offset[first]
            most_bytes -= len(batch.data)
            if found and most_bytes < 0:
                break
            found.append(batch)
        return found

    def aborted(self, first: int, last: int) -> list[Aborted]:
        """The aborted transactions with records between these offsets, whoever reads committed ones has to skip."""
        _ = self.offsets
        return [one for one in self._aborted if one.first <= last and one.marker >= first]

    def at_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Offset and timestamp (ms since the epoch) of the first record that is not older; None where all are."""
        for offset in self.offsets:
            batch = self._by_offset[offset]
            if batch.header.max_timestamp >= timestamp_ms:
                try:
                    return next(
                        (record.offset, record.timestamp)
                        for record in iter_records(batch.data)
                        if record.timestamp >= timestamp_ms
                    )
                except (StopIteration, WireError):
                    return batch.first, batch.header.max_timestamp
        return None

    def newest(self) -> tuple[int, int] | None:
        """Offset and timestamp of the batch with the highest timestamp (KIP-734); None without records."""
        batches = [self._by_offset[offset] for offset in self.offsets]
        best = max(batches, key=lambda batch: batch.header.max_timestamp, default=None)
        return None if best is None else (best.last, best.header.max_timestamp)


def _batches(records: memoryview | bytes) -> Iterator[BatchHeader]:
    """The batches up to the first that is broken."""
    try:
        yield from iter_batches(records)
    except WireError:
        return


def _aborted(batches: Iterator[Batch]) -> Iterator[Aborted]:
    """The aborted transactions of a log, by the markers in it."""
    begun: dict[int, int] = {}
    for batch in batches:
        header = batch.header
        if not header.is_transactional:
            continue
        if not header.is_control:
            begun.setdefault(header.producer_id, header.base_offset)
        elif (first := begun.pop(header.producer_id, None)) is not None and _is_abort(batch):
            yield Aborted(header.producer_id, first, batch.first)


def _is_abort(batch: Batch) -> bool:
    try:
        key = next(iter_records(batch.data)).key or b""
        return bool(_CONTROL_TYPE.unpack_from(key)[1] == 0)
    except (WireError, StopIteration, struct.error):
        return False


class Log:
    """All partitions that were recorded."""

    def __init__(self) -> None:
        self.partitions: dict[Key, PartitionLog] = {}

    def of(self, key: Key) -> PartitionLog:
        """The records of a partition, none where it is new."""
        return self.partitions.setdefault(key, PartitionLog())
