"""Record batches (message format v2, KIP-98) and the message sets before them (v0, v1).

The only module that touches `aiokafka.record`, whose compiled reader takes the records of a v2 batch apart.
Whatever that reader raises leaves here as a WireError.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from notleader.proxy.wire.compression import MAX_DECOMPRESSED_BYTES, compression_name, decompress
from notleader.proxy.wire.errors import WireError

# base_offset, batch_length, partition_leader_epoch, magic, crc, attributes, last_offset_delta,
# base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record count
_V2 = struct.Struct(">qiibIhiqqqhii")
_V2_FROM_ATTRIBUTES = 21
_V2_ATTRIBUTES = struct.Struct(">h")
# offset, message_size, crc, magic, attributes
_V0 = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_MAGIC_OFFSET = 16
_LOG_OVERHEAD_BYTES = 12  # offset and length precede what the length counts
_SMALLEST = {0: 14, 1: 22, 2: _V2.size - _LOG_OVERHEAD_BYTES}

_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_COMPRESSION = 0x07
_COMPRESSIONS = tuple(map(compression_name, range(8)))

# What records may grow to: a batch is 1 MiB by default, and real data shrinks to a tenth.
_MOST_GROWTH = 64
_BYTES_FOR_NOTHING = 4 << 20
_MOST_BYTES = 256 << 20
_RECORDS_FOR_NOTHING = 100_000

# aiokafka has no one exception for broken input: codecs, varints and sizes each raise their own. Its KafkaError
# is a RuntimeError.
_FOREIGN = (RuntimeError, ValueError, LookupError, TypeError, ArithmeticError, AssertionError, struct.error)


@cache
def _aiokafka() -> tuple[Any, Any]:
    """aiokafka's batch reader and CRC-32C; imported when first needed, for all its clients come along."""
    from aiokafka.record.default_records import DefaultRecordBatch
    from aiokafka.record.util import calc_crc32c

    return DefaultRecordBatch, calc_crc32c


class Allowance:
    """What reading the records of all calls that share it may cost, in bytes and in records.

    In proportion to what was sent: whoever sends little can't have much done, however well it is compressed.
    """

    __slots__ = ("left_bytes", "left_records")

    def __init__(self, sent_bytes: int) -> None:
        self.left_bytes = min(_MOST_BYTES, MAX_DECOMPRESSED_BYTES + _MOST_GROWTH * sent_bytes)
        self.left_records = _RECORDS_FOR_NOTHING + sent_bytes

    def decompress(self, batch: BatchHeader, data: memoryview, limit_bytes: int) -> bytes:
        """The content of one batch, of `limit_bytes` at most; a WireError where it is broken or too large."""
        limit_bytes = min(limit_bytes, self.left_bytes, _BYTES_FOR_NOTHING + _MOST_GROWTH * len(data))
        content = decompress(batch.compression, data, limit_bytes, lz4_checksum_is_wrong=batch.magic == 0)
        self.left_bytes -= len(content)
        return content

    def take_record(self) -> None:
        """One record more; a WireError where these are more than anybody needs for so few bytes."""
        self.left_records -= 1
        if self.left_records < 0:
            raise WireError("more records than a message of this size may have")


class BatchHeader(NamedTuple):
    """What a batch says of itself. `start` and `size` are its place in the records, in bytes, all included.

    A v0 or v1 message is a batch of its own: -1 stands where the format has no such field, and for the
    `record_count` of a compressed one, which takes decompressing to know.
    """

    magic: int
    base_offset: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    compression: str
    is_transactional: bool
    is_control: bool
    start: int
    size: int


class Record(NamedTuple):
    """One record; `timestamp` in ms since the epoch, -1 in message format v0."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    batch: BatchHeader


def iter_batches(records: memoryview | bytes) -> Iterator[BatchHeader]:
    """The header of each batch, nothing copied or decompressed; a batch cut off at the end is left out."""
    start, end = 0, len(records)
    while start + _MAGIC_OFFSET < end:
        # Fetch answers may end in the middle of a batch, by design: then there is no header to unpack either.
        if start + _V2.size <= end and records[start + _MAGIC_OFFSET] == 2:
            fields = _V2.unpack_from(records, start)
            size: int = fields[1] + _LOG_OVERHEAD_BYTES
            if size < _V2.size:
                raise WireError(f"record batch with a length of {fields[1]} bytes")
            if start + size > end:
                return
            attributes = fields[5]
            # One tuple, not seventeen arguments: this runs for every batch that passes.
            yield BatchHeader._make(
                (
                    2,
                    fields[0],
                    fields[2],
                    fields[4],
                    *fields[5:],
                    _COMPRESSIONS[attributes & 7],
                    attributes & _TRANSACTIONAL != 0,
                    attributes & _CONTROL != 0,
                    start,
                    size,
                )
            )
        else:
            size = _other_size(records, start)
            if start + size > end:
                return
            yield _message_header(records, start, size)
        start += size


def _other_size(records: memoryview | bytes, start: int) -> int:
    """The size of a v0 or v1 message, or of a v2 batch that is cut off."""
    length: int = _LENGTH.unpack_from(records, start + 8)[0]
    magic = records[start + _MAGIC_OFFSET]
    if magic not in _SMALLEST:
        raise WireError(f"record batch with magic {magic}")
    if length < _SMALLEST[magic]:
        raise WireError(f"record batch with a length of {length} bytes")
    return length + _LOG_OVERHEAD_BYTES


def _message_header(records: memoryview | bytes, start: int, size: int) -> BatchHeader:
    offset, _size, crc, magic, attributes = _V0.unpack_from(records, start)
    timestamp: int = _TIMESTAMP.unpack_from(records, start + _V0.size)[0] if magic else -1
    compression = compression_name(attributes)
    count = 1 if compression == "none" else -1
    return BatchHeader(
        magic,
        offset,
        -1,
        crc,
        attributes,
        0,
        timestamp,
        timestamp,
        -1,
        -1,
        -1,
        count,
        compression,
        False,
        False,
        start,
        size,
    )


def crc_of(records: memoryview | bytes, batch: BatchHeader) -> int:
    """The checksum of what stands in a batch now: CRC-32C in format v2, CRC-32 before."""
    if batch.magic != 2:
        return zlib.crc32(records[batch.start + _MAGIC_OFFSET : batch.start + batch.size])
    _, crc32c = _aiokafka()
    return int(crc32c(bytes(records[batch.start + _V2_FROM_ATTRIBUTES : batch.start + batch.size])))


def crc_is_valid(records: memoryview | bytes, batch: BatchHeader) -> bool:
    """Whether a v2 batch's CRC-32C matches its content; true for older formats, whose CRC goes unread."""
    if batch.magic != 2:
        return True
    return crc_of(records, batch) == batch.crc


def iter_records(
    records: memoryview | bytes, limit_bytes: int = MAX_DECOMPRESSED_BYTES, allowance: Allowance | None = None
) -> Iterator[Record]:
    """Every record of every whole batch; a WireError for broken ones, and where decompression exceeds a bound.

    One batch may grow to `limit_bytes`, all together to the `allowance`, which several calls may share.
    """
    view = memoryview(records)
    allowance = allowance or Allowance(len(records))
    for batch in iter_batches(view):
        try:
            if batch.magic == 2:
                found = _v2_records(view, batch, limit_bytes, allowance)
            else:
                found = _message_records(view, batch, limit_bytes, allowance)
            for record in found:
                allowance.take_record()
                yield record
        except WireError:
            raise
        except _FOREIGN as error:
            raise WireError(f"broken records: {error or type(error).__name__}") from error


def _v2_records(view: memoryview, batch: BatchHeader, limit_bytes: int, allowance: Allowance) -> Iterator[Record]:
    reader, _ = _aiokafka()
    data = bytes(view[batch.start : batch.start + batch.size])
    if batch.compression != "none":
        content = allowance.decompress(batch, memoryview(data)[_V2.size :], limit_bytes)
        # Handed on as an uncompressed batch, so that the reader never decompresses without a bound.
        plain = _V2_ATTRIBUTES.pack(batch.attributes & ~_COMPRESSION)
        data = data[:_V2_FROM_ATTRIBUTES] + plain + data[_V2_FROM_ATTRIBUTES + 2 : _V2.size] + content
    for record in reader(data):
        yield Record(record.offset, record.timestamp, record.key, record.value, record.headers, batch)


def _message_records(view: memoryview, batch: BatchHeader, limit_bytes: int, allowance: Allowance) -> Iterator[Record]:
    key, value = _key_and_value(view, batch)
    if batch.compression == "none":
        yield Record(batch.base_offset, batch.base_timestamp, _copied(key), _copied(value), [], batch)
        return
    if value is None:
        raise WireError("a compressed message without content")
    inner = memoryview(allowance.decompress(batch, value, limit_bytes))
    shift = 0
    if batch.magic:
        # In format v1 inner offsets count from 0 and the wrapper carries the last one (KIP-31). Read twice, not
        # kept: a header of ours takes ten times the bytes of the smallest message.
        last = deque(iter_batches(inner), maxlen=1)
        shift = batch.base_offset - last[0].base_offset if last else 0
    for message in iter_batches(inner):
        if message.magic == 2 or message.compression != "none":
            raise WireError("a compressed message inside a compressed message")
        key, value = _key_and_value(inner, message)
        timestamp = batch.base_timestamp if batch.attributes & _LOG_APPEND_TIME else message.base_timestamp
        yield Record(message.base_offset + shift, timestamp, _copied(key), _copied(value), [], batch)


def _key_and_value(view: memoryview, message: BatchHeader) -> tuple[memoryview | None, memoryview | None]:
    position = message.start + _V0.size + (_TIMESTAMP.size if message.magic else 0)
    end = message.start + message.size
    found = []
    for _ in range(2):
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size
        if length > end - position:
            raise WireError("a message's key or value is longer than the message")
        found.append(None if length < 0 else view[position : position + length])
        position += max(length, 0)
    return found[0], found[1]


def _copied(data: memoryview | None) -> bytes | None:
    return None if data is None else bytes(data)
