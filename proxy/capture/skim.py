"""The few facts a capture row needs of Produce and Fetch, read without decoding the rest. Pure.

These two are nearly all of the traffic; a full decode costs ten times as much. The layouts are those of Kafka's
message definitions, and a test compares every version with what the codecs say.
"""

from __future__ import annotations

import struct
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from notleader.proxy import plain
from notleader.proxy.wire.compression import compression_name
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.primitives import read_uvarint
from notleader.proxy.wire.records import iter_batches

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_UUID_BYTES: Final = 16

# offset, length, leader epoch, magic, CRC, attributes, last offset delta, times, producer id, epoch, sequence, count
BATCH: Final = Struct(">qiibIhiqqqhii")
_LOG_OVERHEAD_BYTES: Final = 12
_LENGTH_MAGIC_COUNT: Final = Struct(">8xi4xb40xi")  # of `BATCH`
COMPRESSIONS: Final = tuple(map(compression_name, range(8)))

Buffer = bytes


class Batches(NamedTuple):
    """What the record batches of one partition say about themselves; of the first one, but for the sums."""

    record_count: int
    batch_bytes: int
    producer_id: int | None = None
    producer_epoch: int | None = None
    base_sequence: int | None = None
    compression: str | None = None
    base_offset: int | None = None


# topic name, topic id (16 bytes), partition index, error code, base offset, leader epoch, records or None
Part = tuple[str | None, bytes | None, int, int | None, int | None, int | None, Batches | None]


class Skimmed(NamedTuple):
    """What a body says; ``parts`` in wire order."""

    parts: list[Part]
    transactional_id: str | None = None
    acks: int | None = None
    error_code: int = 0
    throttle_time_ms: int | None = None


class NotSkimmedError(Exception):
    """The body is not laid out as expected: decode it in full, and let that say what is wrong."""


PRODUCE_VERSIONS: Final = range(14)
FETCH_VERSIONS: Final = range(19)


def produce_request(data: Buffer, position: int, version: int) -> Skimmed:
    """transactional_id, acks, and where the records of each partition are."""
    flexible = version >= 9
    transactional_id = None
    if version >= 3:
        transactional_id, position = _string(data, position, flexible)
    (acks,) = _I16.unpack_from(data, position)
    topics, position = _count(data, position + 6, flexible)
    parts: list[Part] = []
    for _ in range(topics):
        name, topic_id, position = _topic(data, position, flexible, version >= 13)
        partitions, position = _count(data, position, flexible)
        for _ in range(partitions):
            (index,) = _I32.unpack_from(data, position)
            records, position = _records(data, position + 4, flexible)
            parts.append((name, topic_id, index, None, None, None, records))
            if flexible:
                position = _past_tags(data, position)
        if flexible:
            position = _past_tags(data, position)
    _check(data, position)
    return Skimmed(parts, transactional_id, acks)


def produce_response(data: Buffer, position: int, version: int) -> Skimmed:
    """error_code and base_offset of each partition, and the throttle time."""
    flexible = version >= 9
    topics, position = _count(data, position, flexible)
    parts: list[Part] = []
    error = 0
    head = _produce_head(version)
    for _ in range(topics):
        name, topic_id, position = _topic(data, position, flexible, version >= 13)
        partitions, position = _count(data, position, flexible)
        for _ in range(partitions):
            index, code, base_offset = head.unpack_from(data, position)
            position += head.size
            if version >= 8:
                errors, position = _count(data, position, flexible)
                for _ in range(errors):
                    position = _past_string(data, position + 4, flexible)
                    if flexible:
                        position = _past_tags(data, position)
                position = _past_string(data, position, flexible)
            if flexible:
                position = _past_tags(data, position)
            error = error or code
            parts.append((name, topic_id, index, code, base_offset, None, None))
        if flexible:
            position = _past_tags(data, position)
    throttle = None
    if version >= 1:
        (throttle,) = _I32.unpack_from(data, position)
        position += 4
    _check(data, position)
    return Skimmed(parts, error_code=error, throttle_time_ms=throttle)


def fetch_request(data: Buffer, position: int, version: int) -> Skimmed:
    """Which partitions are asked for, and in which leader epoch."""
    flexible = version >= 12
    position += 12 if version < 15 else 8  # replica_id until version 14, max_wait_ms, min_bytes
    position += 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7)
    topics, position = _count(data, position, flexible)
    parts: list[Part] = []
    size = 4 + 4 * (version >= 9) + 8 + 4 * (version >= 12) + 8 * (version >= 5) + 4
    for _ in range(topics):
        name, topic_id, position = _topic(data, position, flexible, version >= 13)
        partitions, position = _count(data, position, flexible)
        for _ in range(partitions):
            (index,) = _I32.unpack_from(data, position)
            epoch = _I32.unpack_from(data, position + 4)[0] if version >= 9 else None
            parts.append((name, topic_id, index, None, None, epoch, None))
            position += size
            if flexible:
                position = _past_tags(data, position)
        if flexible:
            position = _past_tags(data, position)
    _check(data, position)
    return Skimmed(parts)


def _of_the_whole(data: Buffer, position: int, version: int) -> tuple[int | None, int, int]:
    """throttle_time_ms and error_code of a Fetch answer, and where its topics begin."""
    throttle, error = None, 0
    if version >= 1:
        (throttle,) = _I32.unpack_from(data, position)
        position += 4
    if version >= 7:
        (error,) = _I16.unpack_from(data, position)
        position += 6
    return throttle, error, position


def fetch_response(data: Buffer, position: int, version: int) -> Skimmed:
    """error_code and records of each partition, the error of the whole, and the throttle time."""
    flexible = version >= 12
    throttle, error, position = _of_the_whole(data, position, version)
    topics, position = _count(data, position, flexible)
    parts: list[Part] = []
    offsets = 8 + 8 * (version >= 4) + 8 * (version >= 5)
    for _ in range(topics):
        name, topic_id, position = _topic(data, position, flexible, version >= 13)
        partitions, position = _count(data, position, flexible)
        for _ in range(partitions):
            (index,) = _I32.unpack_from(data, position)
            (code,) = _I16.unpack_from(data, position + 4)
            position += 6 + offsets
            if version >= 4:
                aborted, position = _count(data, position, flexible)
                if flexible:
                    for _ in range(aborted):
                        position = _past_tags(data, position + 16)
                else:
                    position += 16 * aborted
            if version >= 11:
                position += 4
            records, position = _records(data, position, flexible)
            if flexible:
                position = _past_tags(data, position)
            error = error or code
            parts.append((name, topic_id, index, code, None, None, records))
        if flexible:
            position = _past_tags(data, position)
    _check(data, position)
    return Skimmed(parts, error_code=error, throttle_time_ms=throttle)


@cache
def _produce_head(version: int) -> Struct:
    """index, error_code, base_offset, and past what follows them."""
    return Struct(">ihq" + "8x" * (version >= 2) + "8x" * (version >= 5))


def _check(data: Buffer, position: int) -> None:
    if position > len(data):
        raise NotSkimmedError


def _count(data: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """The length of an array, 0 for null."""
    if flexible:
        count, position = read_uvarint(data, position)
        count -= 1
    else:
        (count,) = _I32.unpack_from(data, position)
        position += 4
    # An element takes a byte at least: a count beyond that is nonsense, not a reason to loop.
    if count > len(data) - position:
        raise NotSkimmedError
    return max(count, 0), position


def _string(data: Buffer, position: int, flexible: bool) -> tuple[str | None, int]:
    if flexible:
        length, position = read_uvarint(data, position)
        length -= 1
    else:
        (length,) = _I16.unpack_from(data, position)
        position += 2
    if length < 0:
        return None, position
    end = position + length
    return str(data[position:end], "utf-8", "surrogateescape"), end


def _past_string(data: Buffer, position: int, flexible: bool) -> int:
    if flexible:
        length, position = read_uvarint(data, position)
        length -= 1
    else:
        (length,) = _I16.unpack_from(data, position)
        position += 2
    return position + max(length, 0)


def _topic(data: Buffer, position: int, flexible: bool, by_id: bool) -> tuple[str | None, bytes | None, int]:
    if by_id:
        end = position + _UUID_BYTES
        return None, data[position:end], end
    name, position = _string(data, position, flexible)
    return name, None, position


def _records_length(data: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """The length of records, -1 for null, and where they begin."""
    if flexible:
        length, position = read_uvarint(data, position)
        return length - 1, position
    return _I32.unpack_from(data, position)[0], position + 4


def _records(data: Buffer, position: int, flexible: bool) -> tuple[Batches | None, int]:
    length, position = _records_length(data, position, flexible)
    if length < 0:
        return None, position
    end = position + length
    _check(data, end)
    return batches(data, position, end), end


def batches(data: Buffer, start: int, end: int) -> Batches:
    """What the batches in ``data[start:end]`` say. Raises WireError."""
    if end - start >= BATCH.size and (whole := _whole_batch(data, start, end - start)) is not None:
        return whole
    count = 0
    first = None
    for batch in iter_batches(memoryview(data)[start:end]):
        first = first or batch
        count += batch.record_count
    if first is None:
        return Batches(0, end - start)
    if first.magic < 2:
        return Batches(count, end - start, None, None, None, first.compression, first.base_offset)
    who = first.producer_id, first.producer_epoch, first.base_sequence
    return Batches(count, end - start, *who, first.compression, first.base_offset)


def _whole_batch(data: Buffer, start: int, size: int) -> Batches | None:
    """What records of this size say that are one batch, of which the header at least is here; None for others."""
    head = BATCH.unpack_from(data, start)
    if head[3] != 2 or head[1] + _LOG_OVERHEAD_BYTES != size:
        return None
    return _batches_like(head, head[12], size)


def _batches_like(head: tuple[int, ...], count: int, size: int) -> Batches:
    """So many records, of this size, that begin with the batch of which this is the header."""
    return Batches(count, size, head[9], head[10], head[11], COMPRESSIONS[head[5] & 7], head[0])


def _past_tags(data: Buffer, position: int) -> int:
    if data[position] == 0:
        return position + 1
    count, position = read_uvarint(data, position)
    for _ in range(count):
        _, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
        _check(data, position)
    return position


def past_request_header(data: Buffer, flexible: bool) -> int:
    """Where the body of a request begins: after api key, version, correlation id, client id (and tags)."""
    (length,) = _I16.unpack_from(data, 8)
    position = 10 + max(length, 0)
    return _past_tags(data, position) if flexible else position


def past_response_header(data: Buffer, flexible: bool) -> int:
    """Where the body of an answer begins."""
    return _past_tags(data, 4) if flexible else 4


class _Api(NamedTuple):
    versions: range
    flexible_from: int
    request: Any
    response: Any


_APIS: Final = {
    0: _Api(PRODUCE_VERSIONS, 9, produce_request, produce_response),
    1: _Api(FETCH_VERSIONS, 12, fetch_request, fetch_response),
}


def skim_request(api_key: int, version: int, request: Buffer) -> Skimmed | None:
    """A request, skimmed; None for other APIs, and for what has to be decoded in full."""
    api = _APIS.get(api_key)
    if api is None or version not in api.versions:
        return None
    flexible = version >= api.flexible_from
    try:
        return api.request(request, past_request_header(request, flexible), version)  # type: ignore[no-any-return]
    except (IndexError, NotSkimmedError, struct.error, WireError):
        return None


def skim_response(api_key: int, version: int, response: Buffer) -> Skimmed | None:
    """An answer, likewise."""
    api = _APIS.get(api_key)
    if api is None or version not in api.versions:
        return None
    flexible = version >= api.flexible_from
    try:
        return api.response(response, past_response_header(response, flexible), version)  # type: ignore[no-any-return]
    except (IndexError, NotSkimmedError, struct.error, WireError):
        return None


class Begun(NamedTuple):
    """A message for one partition, read up to its records; behind these come ends without tagged fields alone."""

    records_at: int
    length: int
    """Of the records; -1 for null."""
    partition: tuple[str | None, bytes | None, int, int | None]
    """As a `Part` begins."""
    rest: tuple[str | None, int | None, int, int | None]
    """As a `Skimmed` ends."""

    def with_records(self, records: Batches | None) -> Skimmed:
        """What it says in all."""
        return Skimmed([(*self.partition, None, None, records)], *self.rest)

    def one_batch(self, start: Buffer) -> Skimmed | None:
        """What it says in all if its records are one batch, whose header is here; None otherwise."""
        if self.length < BATCH.size or len(start) < self.records_at + BATCH.size:
            return None
        whole = _whole_batch(start, self.records_at, self.length)
        return None if whole is None else self.with_records(whole)


def request_begun(version: int, start: Buffer, total: int) -> Begun | None:
    """A Produce of ``total`` bytes that has only begun; None where it is for more than one partition."""
    if version not in PRODUCE_VERSIONS:
        return None
    flexible = version >= 9
    try:
        transactional_id = None
        position = past_request_header(start, flexible)
        if version >= 3:
            transactional_id, position = _string(start, position, flexible)
        (acks,) = _I16.unpack_from(start, position)
        position = _past_one(start, position + 6, flexible)
        name, topic_id, position = _topic(start, position, flexible, version >= 13)
        position = _past_one(start, position, flexible)
        (index,) = _I32.unpack_from(start, position)
        length, position = _last_records(start, position + 4, flexible, total)
    except (IndexError, NotSkimmedError, struct.error, WireError):
        return None
    return Begun(position, length, (name, topic_id, index, None), (transactional_id, acks, 0, None))


def response_begun(version: int, start: Buffer, total: int) -> Begun | None:
    """A Fetch answer, likewise."""
    if version not in FETCH_VERSIONS:
        return None
    flexible = version >= 12
    try:
        throttle, error, position = _of_the_whole(start, past_response_header(start, flexible), version)
        position = _past_one(start, position, flexible)
        name, topic_id, position = _topic(start, position, flexible, version >= 13)
        position = _past_one(start, position, flexible)
        (index,) = _I32.unpack_from(start, position)
        (code,) = _I16.unpack_from(start, position + 4)
        position += 14 + 8 * (version >= 4) + 8 * (version >= 5)
        if version >= 4:
            aborted, position = _count(start, position, flexible)
            if aborted:
                return None
        position += 4 * (version >= 11)
        length, position = _last_records(start, position, flexible, total)
    except (IndexError, NotSkimmedError, struct.error, WireError):
        return None
    return Begun(position, length, (name, topic_id, index, code), (None, None, error or code, throttle))


def _past_one(data: Buffer, position: int, flexible: bool) -> int:
    count, position = _count(data, position, flexible)
    if count != 1:
        raise NotSkimmedError
    return position


def _last_records(data: Buffer, position: int, flexible: bool, total: int) -> tuple[int, int]:
    """As `_records_length`, of records that are, but for three ends without tagged fields, the rest of the message."""
    length, position = _records_length(data, position, flexible)
    if position + max(length, 0) + 3 * flexible != total:
        raise NotSkimmedError
    return length, position


class Walk:
    """Over the record batches of one partition: their sums, and the first one's own words."""

    __slots__ = ("_length", "count", "first", "left")

    def __init__(self, length: int) -> None:
        self.left = self._length = length
        self.count = 0
        self.first: tuple[int, ...] | None = None

    def over(self, part: bytes | memoryview, position: int, end: int) -> int:
        """Where it stands once the part has no whole header of a batch any more, or there is none: maybe behind it."""
        left = self.left
        while left >= BATCH.size and position + BATCH.size <= end:
            length, magic, count = _LENGTH_MAGIC_COUNT.unpack_from(part, position)
            size = length + _LOG_OVERHEAD_BYTES
            if magic != 2 or size < BATCH.size:
                raise NotSkimmedError  # an older format, or none
            if size > left:
                self.left = 0
                return position + left  # it is cut off at the end
            if self.first is None:
                self.first = BATCH.unpack_from(part, position)
            self.count += count
            left -= size
            position += size
        if left < BATCH.size:
            position += left
            left = 0
        self.left = left
        return position

    def told(self) -> Batches:
        """The sums over all batches and the first one's own; a batch that is cut off at the end is left out."""
        if self.first is None:
            return Batches(0, self._length)
        return _batches_like(self.first, self.count, self._length)


if not TYPE_CHECKING and plain.IS_NATIVE:
    Begun, Walk = plain.native.Begun, plain.native.Walk
    request_begun, response_begun = plain.native.request_begun, plain.native.response_begun


def only_records_at(request: Buffer, version: int) -> int | None:
    """Where the length of the records is in a flexible Produce to one partition; None where it asks for more.

    None also where so much of it isn't there: of a large request only the beginning is kept.
    """
    try:
        _, position = _string(request, past_request_header(request, True), True)
        topics, position = _count(request, position + 6, True)
        if topics != 1:
            return None
        _, _, position = _topic(request, position, True, version >= 13)
        partitions, position = _count(request, position, True)
    except (IndexError, NotSkimmedError, struct.error):
        return None
    return position + 4 if partitions == 1 and position + 4 <= len(request) else None


def only_offset_at(response: Buffer, version: int) -> int | None:
    """Where the base offset is in the answer to such a Produce."""
    topics, position = _count(response, past_response_header(response, True), True)
    if topics != 1:
        return None
    _, _, position = _topic(response, position, True, version >= 13)
    partitions, position = _count(response, position, True)
    return position + 6 if partitions == 1 else None


# What one partition of an exchange comes to: topic, topic id, index, producer id and epoch, compression, error code,
# leader epoch; base sequence, number of records, their bytes, base offset.
Told = list[Any]
_NO_RECORDS: Final = (None, None, None, None)


def told(asked: Skimmed, answered: Skimmed | None) -> list[Told]:
    """Request and answer brought together, partition by partition."""
    if not asked.parts and (answered is None or not answered.parts):
        return []
    found: dict[Any, Told] = {}
    for name, topic_id, index, _, _, epoch, records in asked.parts:
        found[name or topic_id, index] = one = [name, topic_id, index, None, None, None, None, epoch, *_NO_RECORDS]
        if records is not None:
            one[9], one[10], one[3], one[4], one[8], one[5], _ = records  # the offset is the client's own count
    for name, topic_id, index, error, offset, epoch, records in answered.parts if answered is not None else ():
        one = found.get((name or topic_id, index))  # type: ignore[assignment]
        if one is None:
            found[name or topic_id, index] = one = [name, topic_id, index, None, None, None, None, epoch, *_NO_RECORDS]
        one[6] = error
        if offset is not None:
            one[11] = offset
        if records is not None:
            one[9], one[10], one[3], one[4], one[8], one[5], one[11] = records
    return list(found.values())
