"""How transactions ended, in partitions of whose log nobody was recorded fetching the markers. Pure.

A producer says EndTxn, and the broker puts a control batch into each partition (KIP-98). Who reads committed records
goes by these: without one, the records of an aborted transaction would be handed out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from notleader.proxy.wire.records import BatchHeader, crc_of, iter_batches

# The fields of a batch of format v2, and its one record: lengths are zigzag varints, key is version and type.
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")
_RECORD: Final = struct.Struct(">bbbbbhhbhib")
_LENGTH_FROM: Final = 12
_CRC: Final = struct.Struct(">I")
_CRC_AT: Final = 17
_TRANSACTIONAL_CONTROL: Final = 0x30


class End(NamedTuple):
    """An EndTxn that was answered well; ``order`` is its place among all recorded exchanges."""

    order: int
    producer_id: int
    is_committed: bool


def marker(offset: int, last: BatchHeader, *, is_committed: bool) -> bytes:
    """The control batch that ends, at this offset, the transaction whose last batch in the partition is ``last``."""
    record = _RECORD.pack(_RECORD.size - 1 << 1, 0, 0, 0, 4 << 1, 0, int(is_committed), 6 << 1, 0, 0, 0)
    at_ms = last.max_timestamp
    batch = (
        _BATCH.pack(
            *(offset, _BATCH.size - _LENGTH_FROM + len(record), 0, 2, 0, _TRANSACTIONAL_CONTROL, 0, at_ms, at_ms),
            *(last.producer_id, last.producer_epoch, -1, 1),
        )
        + record
    )
    crc = _CRC.pack(crc_of(batch, next(iter_batches(batch))))
    return batch[:_CRC_AT] + crc + batch[_CRC_AT + len(crc) :]
