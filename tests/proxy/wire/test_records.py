"""Records of every format and compression, whole, cut off and broken."""

from __future__ import annotations

import gzip
import struct
import zlib
from contextlib import suppress

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from notleader.proxy.wire.compression import NAMES, decompress
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import crc_is_valid, iter_batches, iter_records

CODECS = {name: code for code, name in enumerate(NAMES)}
HEADERS = [("notleader-id", b"m-1"), ("empty", b""), ("null", None)]


def batch(compression: str = "none", count: int = 3, value: bytes = b"value %d", **settings: int) -> bytes:
    """A v2 batch of `count` records with the keys k0, k1, … as aiokafka's producer would build it."""
    fields = {"is_transactional": 1, "producer_id": 7, "producer_epoch": 2, "base_sequence": 40} | settings
    builder = DefaultRecordBatchBuilder(2, CODECS[compression], batch_size=1 << 21, **fields)
    for number in range(count):
        builder.append(number, 1000 + number, b"k%d" % number, value.replace(b"%d", b"%d" % number), HEADERS)
    return bytes(builder.build())


def message_set(magic: int, compression: str = "none", count: int = 3) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, CODECS[compression], 1 << 20)
    for number in range(count):
        builder.append(number, 1000 + number, b"k%d" % number, b"value %d" % number)
    data = bytearray(builder.build())
    if compression != "none" and magic == 1:
        # Like Java and the brokers, and unlike aiokafka: the wrapper of format v1 has the last record's offset.
        struct.pack_into(">q", data, 0, count - 1)
    return bytes(data)


def test_header_of_a_v2_batch() -> None:
    data = batch("zstd")
    (found,) = iter_batches(memoryview(data))
    assert found._asdict() == {
        "magic": 2,
        "base_offset": 0,
        "partition_leader_epoch": -1,
        "crc": int.from_bytes(data[17:21], "big"),
        "attributes": 4 | 0x10,
        "last_offset_delta": 2,
        "base_timestamp": 1000,
        "max_timestamp": 1002,
        "producer_id": 7,
        "producer_epoch": 2,
        "base_sequence": 40,
        "record_count": 3,
        "compression": "zstd",
        "is_transactional": True,
        "is_control": False,
        "start": 0,
        "size": len(data),
    }


@pytest.mark.parametrize("compression", NAMES)
def test_records_of_a_v2_batch(compression: str) -> None:
    data = batch(compression)
    records = list(iter_records(memoryview(data + data)))
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records[:3]] == [
        (n, 1000 + n, b"k%d" % n, b"value %d" % n) for n in range(3)
    ]
    assert len(records) == 6
    assert records[0].headers == HEADERS
    assert [r.batch.start for r in records] == [0, 0, 0, len(data), len(data), len(data)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_records_of_a_message_set(magic: int, compression: str) -> None:
    data = message_set(magic, compression)
    records = list(iter_records(data))
    assert [(r.offset, r.key, r.value) for r in records] == [(n, b"k%d" % n, b"value %d" % n) for n in range(3)]
    assert [r.timestamp for r in records] == ([1000, 1001, 1002] if magic else [-1, -1, -1])
    headers = list(iter_batches(data))
    assert [h.record_count for h in headers] == ([1, 1, 1] if compression == "none" else [-1])
    assert {h.magic for h in headers} == {magic}


def test_offsets_inside_a_v1_wrapper_count_from_the_last() -> None:
    """A broker that assigned offsets 100 to 102 writes only the last one, on the wrapper (KIP-31)."""
    data = bytearray(message_set(1, "gzip"))
    struct.pack_into(">q", data, 0, 102)
    assert [r.offset for r in iter_records(bytes(data))] == [100, 101, 102]


def test_a_cut_off_last_batch_ends_the_iteration() -> None:
    data = batch()
    for cut in range(1, len(data)):
        assert [h.start for h in iter_batches(data + data[:-cut])] == [0]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (batch()[:16] + b"\x03" + batch()[17:], "magic 3"),
        (batch()[:8] + b"\xff\xff\xff\xff" + batch()[12:], "length of -1"),
        (batch()[:8] + b"\x00\x00\x00\x30" + batch()[12:], "length of 48"),
    ],
)
def test_a_batch_that_is_none(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        list(iter_batches(data))


def test_crc() -> None:
    data = batch("gzip")
    (header,) = iter_batches(data)
    assert crc_is_valid(data, header)
    assert not crc_is_valid(data[:-1] + bytes([data[-1] ^ 1]), header)


@pytest.mark.parametrize("compression", NAMES[1:])
def test_a_decompression_bomb_is_refused(compression: str) -> None:
    zeros = bytes(4 << 20)
    packed = {
        "gzip": lambda: gzip.compress(zeros),
        "snappy": lambda: bytes(cramjam.snappy.compress_raw(zeros)),
        "lz4": lambda: bytes(cramjam.lz4.compress(zeros)),
        "zstd": lambda: bytes(cramjam.zstd.compress(zeros)),
    }[compression]()
    assert len(decompress(compression, memoryview(packed), 4 << 20)) == len(zeros)
    with pytest.raises(WireError, match="beyond"):
        decompress(compression, memoryview(packed), (4 << 20) - 1)


def test_lz4_of_message_format_0() -> None:
    """The frame as the 0.8 and 0.9 clients wrote it: the checksum taken over the magic number too (KAFKA-3160)."""
    good = bytes(cramjam.lz4.compress(b"hello " * 20))
    end = 14 if good[4] & 8 else 6
    wrong = good[:end] + bytes([good[end] ^ 0x55]) + good[end + 1 :]
    with pytest.raises(WireError, match="broken"):
        decompress("lz4", memoryview(wrong))
    for frame in (good, wrong):
        assert decompress("lz4", memoryview(frame), lz4_checksum_is_wrong=True) == b"hello " * 20
    for end in range(7):
        with pytest.raises(WireError):
            decompress("lz4", memoryview(good[:end]), lz4_checksum_is_wrong=True)


def test_gzip_of_several_members() -> None:
    packed = gzip.compress(b"one ") + gzip.compress(b"two")
    assert decompress("gzip", memoryview(packed)) == b"one two"
    with pytest.raises(WireError, match="too early"):
        decompress("gzip", memoryview(packed[:-3]))


def test_an_unknown_compression() -> None:
    data = batch()
    data = data[:21] + b"\x00\x05" + data[23:]
    assert next(iter_batches(data)).compression == "codec-5"
    with pytest.raises(WireError, match="codec-5"):
        list(iter_records(data))


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([batch(name) for name in NAMES] + [message_set(m, c) for m in (0, 1) for c in NAMES[:3]]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_only_wire_errors_escape(data: bytes, changes: list[tuple[int, int]]) -> None:
    mutated = bytearray(data)
    for position, value in changes:
        mutated[position % len(mutated)] = value
    with suppress(WireError):
        list(iter_records(bytes(mutated), limit_bytes=1 << 20))


def test_zlib_streams_are_no_gzip() -> None:
    with pytest.raises(WireError, match="gzip"):
        decompress("gzip", memoryview(zlib.compress(b"x")))
