"""The recorded records of each partition by offset: what Fetch can hand out, and what ListOffsets goes by."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from notleader.proxy.replay.markers import End, marker
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import BatchHeader, crc_is_valid, iter_batches, iter_records

Key = tuple[str, int]
"""A topic's name and a partition index."""

_V2: Final = 2
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
    """The records of one partition; ``ends`` are those of the recorded transactions, in their order."""

    def __init__(self, ends: Sequence[End] = ()) -> None:
        self._by_offset: dict[int, Batch] = {}
        self._ends = ends
        self._orders: dict[int, int] = {}
        self._sorted: list[int] | None = None
        self._aborted: list[Aborted] = []
        self.told_start: int | None = None
        self.told_end: int | None = None
        """The high watermark that was recorded last: where the log ends if no record of it is known."""

    def produced(self, base_offset: int, records: memoryview | bytes, order: int = 0) -> None:
        """Take what a producer sent, and the broker put at this offset; formats before v2 are passed over."""
        for batch in _batches(records):
            if batch.magic != _V2:
                return
            raw = records[batch.start : batch.start + batch.size]
            # The offset is the broker's to set: no checksum covers it.
            self._add(_OFFSET.pack(base_offset) + bytes(raw[_OFFSET.size :]))
            self._orders[base_offset] = order
            base_offset += batch.last_offset_delta + 1

    def fetched(self, records: memoryview | bytes, held_us: int = 0) -> list[Batch]:
        """Take what a Fetch answer held, and return it; a batch that is cut off at its end is none."""
        return [
            self._add(bytes(records[batch.start : batch.start + batch.size]), held_us) for batch in _batches(records)
        ]

    def _add(self, data: bytes, held_us: int = 0) -> Batch:
        header = next(iter_batches(data))
        batch = Batch(header, data, crc_is_valid(data, header), held_us)
        known = self._by_offset.get(batch.first)
        if known is None or _worth(batch) > _worth(known):
            self._by_offset[batch.first] = batch
            self._sorted = None
        return batch

    @property
    def offsets(self) -> list[int]:
        """The first offset of each batch, ascending."""
        if self._sorted is None:
            self._drop_conversions()
            self._end_transactions()
            self._sorted = sorted(self._by_offset)
            self._aborted = list(_aborted(self._by_offset[offset] for offset in self._sorted))
        return self._sorted

    def _drop_conversions(self) -> None:
        """Of what a broker also told an old client, in an old format, only the original is kept."""
        covered = -1
        for first in sorted(self._by_offset):
            batch = self._by_offset[first]
            if batch.header.magic == _V2:
                covered = max(covered, batch.last)
            elif first <= covered:
                del self._by_offset[first]

    def _end_transactions(self) -> None:
        """Put in the markers of transactions that were seen to be produced and to end, where no Fetch has told them."""
        of_producer: defaultdict[int, list[End]] = defaultdict(list)
        for end in self._ends:
            of_producer[end.producer_id].append(end)
        last: dict[End, int] = {}
        for first in sorted(self._orders.keys() & self._by_offset.keys()):
            header = self._by_offset[first].header
            if header.is_transactional and not header.is_control:
                later = of_producer[header.producer_id]
                place = bisect_right(later, self._orders[first], key=lambda end: end.order)
                if place < len(later):
                    last[later[place]] = first
        for end, first in last.items():
            batch = self._by_offset[first]
            at = batch.last + 1
            while (there := self._by_offset.get(at)) is not None and there.header.producer_id != end.producer_id:
                at = there.last + 1
            if there is None:
                self._add(marker(at, batch.header, is_committed=end.is_committed))

    def is_whole(self, first: int) -> bool:
        """Whether a batch with this first offset is there that matches its checksum."""
        batch = self._by_offset.get(first)
        return batch is not None and batch.is_whole

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


def _worth(batch: Batch) -> tuple[int, bool]:
    """The newer format first: an older one was made of it for an old client, and has lost its headers."""
    return batch.header.magic, batch.is_whole


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
        self.ends: list[End] = []
        """How transactions ended, in their order."""
        self.reborn: dict[str, int] = {}
        """Topics that were deleted and created again, and from which exchange on they are what they are last."""

    def of(self, key: Key) -> PartitionLog:
        """The records of a partition, none where it is new."""
        return self.partitions.setdefault(key, PartitionLog(self.ends))

    def is_of_the_past(self, topic: str, order: int) -> bool:
        """Whether the exchange of that order was about a topic of this name that was deleted later."""
        return order < self.reborn.get(topic, 0)
