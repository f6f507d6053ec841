"""Record batches of version 2 with a header as wanted; nobody looks into the records."""

from __future__ import annotations

from struct import pack


def batch(
    records: bytes,
    *,
    base_sequence: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    record_count: int = 1,
    attributes: int = 0,
    base_offset: int = 0,
) -> bytes:
    """One batch; its CRC is none."""
    rest = pack(">ibIhiqqqhii", -1, 2, 0, attributes, 0, 0, 0, producer_id, producer_epoch, base_sequence, record_count)
    return pack(">qi", base_offset, len(rest) + len(records)) + rest + records
