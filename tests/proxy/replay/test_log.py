"""The records of a partition: offsets, damage, aborted transactions."""

from __future__ import annotations

from struct import pack

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from notleader.proxy.replay.log import PartitionLog, count_of
from notleader.proxy.replay.markers import End
from tests.proxy.replay.made import batch


def in_transaction(value: bytes, base_offset: int, *, marker: int | None = None) -> bytes:
    """A batch of producer 7, or the marker that aborts (0) or commits (1)."""
    builder = DefaultRecordBatchBuilder(2, 0, 1, 7, 0, 0, 1 << 20)
    key = None if marker is None else pack(">hh", 0, marker)
    builder.append(0, timestamp=0, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    data[:8] = base_offset.to_bytes(8, "big")
    if marker is not None:
        data[22] |= 0x20  # the low byte of the attributes: a control batch
    return bytes(data)


def test_several_batches_of_one_produce_follow_one_another() -> None:
    log = PartitionLog()
    log.produced(10, batch(b"a", b"b") + batch(b"c"))
    assert (log.offsets, log.start, log.end) == ([10, 12], 10, 13)


def test_a_whole_batch_takes_the_place_of_a_damaged_one() -> None:
    whole = batch(b"abc", base_offset=3)
    damaged = whole[:-2] + b"**"
    log = PartitionLog()
    log.fetched(damaged)
    assert log.damaged == 1
    log.produced(3, batch(b"abc"))
    assert (log.damaged, log.read(3, 1 << 20)[0].data) == (0, whole)
    log.fetched(damaged)
    assert log.damaged == 0


def test_a_gap_is_passed_over_as_in_a_compacted_log() -> None:
    log = PartitionLog()
    log.fetched(batch(b"a", base_offset=0) + batch(b"b", base_offset=9))
    assert [one.first for one in log.read(5, 1 << 20)] == [9]


def test_aborted_transactions_are_told_where_their_records_are() -> None:
    log = PartitionLog()
    first = [in_transaction(b"lost", 0), in_transaction(b"", 1, marker=0)]
    log.fetched(b"".join([*first, in_transaction(b"kept", 2), in_transaction(b"", 3, marker=1)]))
    assert [(one.producer_id, one.first) for one in log.aborted(0, 3)] == [(7, 0)]
    assert log.aborted(2, 3) == []


def test_records_are_counted() -> None:
    assert count_of(batch(b"a", b"b") + batch(b"c")) == 3
    assert count_of(b"no records at all, but bytes") == 0


def sent_in_transaction(value: bytes, sequence: int) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 1, 7, 0, sequence, 1 << 20)
    builder.append(0, timestamp=5, key=None, value=value, headers=[])
    return bytes(builder.build())


def test_a_transaction_that_was_seen_to_end_has_its_marker_without_a_fetch() -> None:
    """Two of producer 7, the first aborted; another's record is where the first marker might have been."""
    ends = [End(3, 7, False), End(9, 7, True)]
    log = PartitionLog(ends)
    log.produced(0, sent_in_transaction(b"lost", 0), 1)
    log.produced(1, batch(b"other's"), 2)
    log.produced(4, sent_in_transaction(b"kept", 1), 5)
    assert log.offsets == [0, 1, 2, 4, 5]
    assert [(one.producer_id, one.first, one.marker) for one in log.aborted(0, 9)] == [(7, 0, 2)]
    first, second = (log.read(offset, 1)[0] for offset in (2, 5))
    assert (first.is_whole, second.is_whole, log.end) == (True, True, 6)
    made = DefaultRecordBatch(first.data)
    assert (made.is_control_batch, made.is_transactional, made.producer_id, made.validate_crc()) == (
        True,
        True,
        7,
        True,
    )
    assert [(one.key, one.offset) for one in made] == [(pack(">hh", 0, 0), 2)]


def test_a_marker_that_a_fetch_told_stays_the_only_one() -> None:
    log = PartitionLog([End(3, 7, False)])
    log.produced(0, sent_in_transaction(b"lost", 0), 1)
    log.fetched(in_transaction(b"", 1, marker=0))
    assert log.offsets == [0, 1]


def test_what_a_broker_converted_for_an_old_client_is_no_second_record() -> None:
    def converted(offset: int) -> bytes:
        builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
        builder.append(offset, timestamp=0, key=None, value=b"old")
        return bytes(builder.build())

    log = PartitionLog()
    log.fetched(b"".join(converted(offset) for offset in (1, 2, 3)))
    log.fetched(batch(b"a", b"b", base_offset=1))
    assert [(one.first, one.header.magic) for one in log.read(1, 1 << 20)] == [(1, 2), (3, 1)]
