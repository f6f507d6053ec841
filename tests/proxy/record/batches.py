"""Record batches of version 2: with a header as wanted and nothing inside, or with real records."""

from __future__ import annotations

from struct import pack

from aiokafka.record.default_records import DefaultRecordBatchBuilder


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


def built(records: list[tuple[bytes | None, bytes, list[tuple[str, bytes]]]]) -> bytes:
    """One uncompressed batch of these records: key, value, headers."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset, (key, value, headers) in enumerate(records):
        builder.append(offset, timestamp=0, key=key, value=value, headers=headers)
    return bytes(builder.build())
