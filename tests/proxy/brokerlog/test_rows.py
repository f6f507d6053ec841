"""What a Fetch answer's batches become: records, markers, and what can't be read."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from notleader.proxy.brokerlog.rows import taken
from notleader.proxy.brokerlog.schema import PartitionFile, rows_of
from notleader.proxy.wire.records import crc_of, iter_batches


def batch(base_offset: int, *values: tuple[bytes | None, bytes | None, str | None], **settings: Any) -> bytes:
    """A v2 batch of (key, value, message id)."""
    given = {
        "magic": 2, "compression_type": 0, "is_transactional": 0, "producer_id": -1, "producer_epoch": -1,
        "base_sequence": -1, "batch_size": 1 << 20, **settings,
    }  # fmt: skip
    builder = DefaultRecordBatchBuilder(**given)
    for number, (key, value, message_id) in enumerate(values):
        headers = [("notleader-id", message_id.encode())] if message_id else []
        assert builder.append(number, 1000 + number, key, value, headers) is not None
    return struct.pack(">q", base_offset) + bytes(builder.build())[8:]


def marker(offset: int, kind: int, producer_id: int) -> bytes:
    """An end marker of a transaction: 0 abort, 1 commit."""
    data = bytearray(
        batch(offset, (struct.pack(">hh", 0, kind), b"\0\0\0\0\0\0", None), is_transactional=1, producer_id=producer_id)
    )
    data[22] |= 0x20  # attributes, second byte: a control batch
    (header,) = iter_batches(data)
    data[17:21] = struct.pack(">I", crc_of(data, header))
    return bytes(data)


def test_records_with_their_places_ids_and_sequences() -> None:
    data = batch(40, (b"k", b"v", "a"), (None, None, "b"), producer_id=7, producer_epoch=1, base_sequence=(1 << 31) - 1)
    got = taken(data, 40, 42, value_is_id=False)
    assert got.next_offset == 42
    assert [(row["event"], row["offset"], row["message_id"], row["sequence"]) for row in got.rows] == [
        ("record", 40, "a", (1 << 31) - 1),
        ("record", 41, "b", 0),
    ]
    first, second = got.rows
    assert first["key_hash"] == zlib.crc32(b"k")
    assert (second["key_hash"], second["tombstone"], first["tombstone"]) == (None, True, False)
    assert first["producer_id"] == 7
    assert first["timestamp_ms"] == 1000


def test_only_what_was_there_at_the_start_and_no_value_unasked() -> None:
    data = batch(0, *[(None, b"v%d" % n, None) for n in range(5)])
    assert [row["offset"] for row in taken(data, 1, 3, value_is_id=False).rows] == [1, 2]
    assert {row["message_id"] for row in taken(data, 0, 5, value_is_id=False).rows} == {None}
    assert [row["message_id"] for row in taken(data, 0, 2, value_is_id=True).rows] == ["v0", "v1"]


def test_a_broken_batch_is_told_and_what_follows_is_read() -> None:
    broken = bytearray(batch(0, (None, b"one", "a"), (None, b"two", "b")))
    broken[-1] ^= 0xFF
    got = taken(bytes(broken) + batch(2, (None, b"three", "c")), 0, 3, value_is_id=False)
    assert [(row["event"], row["offset"], row["last_offset"]) for row in got.rows] == [
        ("unread", 0, 1),
        ("record", 2, 2),
    ]
    assert "checksum" in got.rows[0]["problem"]
    assert got.next_offset == 3


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    data = batch(0, (None, b"v", "a"))
    assert taken(data + data[:30], 0, 5, value_is_id=False).next_offset == 1
    assert taken(data[:30], 0, 5, value_is_id=False) == ([], 0, 0)


@pytest.mark.parametrize("chunk", [1, 3, 50_000])
def test_a_transaction_is_what_its_own_producers_next_marker_says(
    tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notleader.proxy.brokerlog.schema._ROWS", chunk)
    # Two producers at once: each one's records end with its own marker, not with the next.
    log = [
        batch(0, (None, b"", "one-a"), is_transactional=1, producer_id=1),
        batch(1, (None, b"", "two-a"), is_transactional=1, producer_id=2),
        batch(2, (None, b"", "plain")),
        marker(3, 0, 2),
        batch(4, (None, b"", "two-b"), is_transactional=1, producer_id=2),
        marker(5, 1, 1),
        batch(6, (None, b"", "one-b"), is_transactional=1, producer_id=1),
        marker(7, 1, 2),
    ]
    file = PartitionFile(tmp_path, "orders", 0, "run-1")
    for row in taken(b"".join(log), 0, 8, value_is_id=False).rows:
        file.add(row)
    assert list(tmp_path.glob("*.parquet")) == [], "nobody sees half a log"
    assert file.finish({"log_start_offset": 0, "log_end_offset": 8}) == {"committed": 2, "aborted": 1, "open": 1}
    rows = rows_of(tmp_path)
    assert {row["message_id"]: row["transaction"] for row in rows if row["event"] == "record"} == {
        "one-a": "committed",
        "two-a": "aborted",
        "plain": None,
        "two-b": "committed",
        "one-b": "open",
    }
    assert [row["control_type"] for row in rows if row["event"] == "control"] == ["abort", "commit", "commit"]
    assert [row["log_end_offset"] for row in rows if row["event"] == "partition"] == [8]
    assert {(row["run_id"], row["topic"], row["partition"]) for row in rows} == {("run-1", "orders", 0)}


def test_a_reading_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    for count in (3, 1):
        file = PartitionFile(tmp_path, "orders", 0, None)
        for number in range(count):
            file.add({"event": "record", "offset": number})
        file.finish({})
    assert len(rows_of(tmp_path)) == 2
    file = PartitionFile(tmp_path, "orders", 0, None)
    file.discard()
    assert len(rows_of(tmp_path)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["log-orders-0.parquet"]
