"""The rows of a log from the record batches of a Fetch answer; pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from notleader.proxy.record.rows import MESSAGE_ID_HEADER
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import BatchHeader, Record, crc_is_valid, iter_batches, iter_records

# A message id longer than this is none: nothing that identifies a record is a page of text.
MAX_ID_BYTES: Final = 512
_CONTROL_KEY: Final = Struct(">hh")  # version, type (KIP-98)
_CONTROL_TYPES: Final = {0: "abort", 1: "commit", 2: "leader_change"}
_LOG_APPEND_TIME: Final = 0x08
_SEQUENCES: Final = 1 << 31


class Taken(NamedTuple):
    """What one Fetch answer held of a partition: its rows, the offset to go on from, whether a batch was whole."""

    rows: list[dict[str, Any]]
    next_offset: int
    batches: int


def taken(records: memoryview | bytes, begin: int, end: int, *, value_is_id: bool) -> Taken:
    """The rows from offset `begin` up to but without `end`. A WireError where not even a batch's length can be read."""
    rows: list[dict[str, Any]] = []
    position, batches = begin, 0
    view = memoryview(records)
    for batch in iter_batches(view):
        batches += 1
        rows += (
            row for row in _batch_rows(view, batch, value_is_id) if begin <= row["last_offset"] and row["offset"] < end
        )
        # In formats before v2 a compressed batch has the offset of its last message.
        position = max(position, batch.base_offset + batch.last_offset_delta + 1)
    return Taken(rows, position, batches)


def _batch_rows(view: memoryview, batch: BatchHeader, value_is_id: bool) -> Iterator[dict[str, Any]]:
    content = view[batch.start : batch.start + batch.size]
    last_offset = batch.base_offset + batch.last_offset_delta
    try:
        if not crc_is_valid(view, batch):
            raise WireError("the batch's checksum is wrong")
        records = list(iter_records(content))
    except WireError as error:
        yield {"event": "unread", "offset": batch.base_offset, "last_offset": last_offset, "problem": error.reason}
        return
    common = {
        "timestamp_type": "append" if batch.attributes & _LOG_APPEND_TIME else "create",
        "producer_id": batch.producer_id if batch.producer_id >= 0 else None,
        "producer_epoch": batch.producer_epoch if batch.producer_id >= 0 else None,
        "base_sequence": batch.base_sequence if batch.base_sequence >= 0 else None,
        "transactional": batch.is_transactional,
        "leader_epoch": batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None,
        "compression": batch.compression,
    }
    for record in records:
        row = {**common, "offset": record.offset, "last_offset": record.offset, "timestamp_ms": record.timestamp}
        if batch.is_control:
            yield {**row, "event": "control", "control_type": _control_type(record.key)}
        else:
            sequence = None
            if batch.base_sequence >= 0:
                sequence = (batch.base_sequence + record.offset - batch.base_offset) % _SEQUENCES
            yield {
                **row,
                "event": "record",
                "message_id": _message_id(record, value_is_id),
                "key_hash": None if record.key is None else zlib.crc32(record.key),
                "tombstone": record.value is None,
                "sequence": sequence,
            }


def _control_type(key: bytes | None) -> str:
    if key is None or len(key) < _CONTROL_KEY.size:
        return "unknown"
    _, kind = _CONTROL_KEY.unpack_from(key)
    return _CONTROL_TYPES.get(kind, str(kind))


def _message_id(record: Record, value_is_id: bool) -> str | None:
    for name, value in record.headers:
        if name == MESSAGE_ID_HEADER and value is not None:
            return bytes(value).decode("utf-8", "replace")
    if value_is_id and record.value is not None and len(record.value) <= MAX_ID_BYTES:
        return record.value.decode("utf-8", "replace")
    return None
