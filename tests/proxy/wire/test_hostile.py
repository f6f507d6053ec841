"""Frames that lie: only a WireError may leave the decoder, soon and without much memory."""

from __future__ import annotations

import time
import tracemalloc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from random import Random
from struct import pack
from typing import Any

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.proxy.wire.addresses import rewrite_addresses
from notleader.proxy.wire.codec import Codec, request_codec
from notleader.proxy.wire.decoder import MAX_OBJECT_BYTES, _object_bytes
from notleader.proxy.wire.errors import BodyTooLarge, WireError
from notleader.proxy.wire.header import parse_request_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import iter_topics
from notleader.proxy.wire.records import Allowance, iter_records
from notleader.proxy.wire.schemas import NO_UUID, Field
from notleader.proxy.wire.view import Request, Response
from tests.proxy.session.conversation import Conversation, request, response
from tests.proxy.wire.frames import Exchange, all_codecs, recorded, views
from tests.proxy.wire.test_records import batch

FRAMES = list(views())
# The worst that a sender can do: an empty struct of two bytes becomes a dict of some 200.
MEMORY_PER_BYTE = 200
MEMORY_FLOOR_BYTES = 200_000


@contextmanager
def bounded(frame_bytes: int, limit_s: float = 2.0) -> Iterator[None]:
    """Fails when the block takes much CPU, or more memory than its input explains."""
    tracemalloc.start()
    began = time.thread_time()
    try:
        yield
    finally:
        elapsed_s = time.thread_time() - began
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert elapsed_s < limit_s
    assert peak < MEMORY_FLOOR_BYTES + MEMORY_PER_BYTE * frame_bytes


def read_all(view: Request | Response, frame: bytes) -> None:
    """Everything the proxy may do with a frame somebody sent."""
    if isinstance(view, Request):
        message: Request | Response = Request(frame)
    else:
        message = Response(frame, view.request)
    body = message.body
    list(iter_topics(message.codec, body))
    for entry in message.partitions:
        records = entry.fields.get("records")
        if records is not None:
            list(iter_records(records, limit_bytes=1 << 20))
    rewrite_addresses(message.codec, body, lambda _node_id, host, port: (host, port))
    message.codec.encode(body)


edits = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 1 << 13), st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF])),
        st.tuples(st.just("flip"), st.integers(0, 1 << 13), st.integers(0, 7)),
        st.tuples(st.just("cut"), st.integers(0, 1 << 13), st.integers(1, 64)),
        st.tuples(st.just("insert"), st.integers(0, 1 << 13), st.integers(1, 64)),
        st.tuples(st.just("length"), st.integers(0, 1 << 13), st.sampled_from([-(1 << 31), -2, -1, 1 << 30, 65536])),
    ),
    min_size=1,
    max_size=4,
)


def edited(frame: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    data = bytearray(frame)
    for kind, place, value in changes:
        at = place % max(len(data), 1)
        if not data:
            break
        if kind == "set":
            data[at] = value
        elif kind == "flip":
            data[at] ^= 1 << value
        elif kind == "cut":
            del data[at : at + value]
        elif kind == "insert":
            data[at:at] = data[at : at + value]
        else:
            data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    return bytes(data)


@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FRAMES), edits)
def test_mutated_frames_raise_only_wire_errors(view: Request | Response, changes: list[tuple[str, int, int]]) -> None:
    with suppress(WireError):
        read_all(view, edited(bytes(view.frame), changes))


@pytest.mark.parametrize("exchange", recorded()[::7], ids=repr)
def test_every_cut_is_a_wire_error(exchange: Exchange) -> None:
    request = Request(exchange.request)
    for end in range(len(exchange.request)):
        with pytest.raises(WireError) as caught:
            read_all(request, exchange.request[:end])
        assert caught.value.side == "client"


HOSTILE = [
    bytes(2000),
    b"\xff" * 2000,
    b"\x7f" * 2000,
    b"\x80" * 2000,
    b"\x00\x00\x07\x00" * 500,  # arrays of 1792 elements, over and over
    b"\x7f\xff\xff\xff" * 500,
    b"\xff\xff\xff\xff\x0f" * 400,  # varints of 32 bits
    b"\x02" * 2000,  # one element, then one element inside it, …
    b"\xfe\x0f" + bytes(2045),
]


@pytest.mark.parametrize("data", HOSTILE, ids=lambda data: data[:5].hex())
def test_hostile_bodies_for_every_codec(data: bytes) -> None:
    codecs = list(all_codecs())
    for codec in codecs:
        with suppress(WireError):
            codec.decode(codec.encode({}))
    for codec in codecs:
        with bounded(len(data)), suppress(WireError):
            codec.decode(data)


def array_codecs() -> Iterator[tuple[Codec, Field]]:
    """Codecs of messages with an array of structs or strings, and that array, not nullable in the copy."""
    for codec in all_codecs():
        for field in codec.fields:
            if field.is_array and field.tag is None and field.kind in ("struct", "string", "bytes"):
                yield codec, field


def many(codec: Codec, field: Field, count: int) -> bytes:
    """A body whose array has that many of the shortest elements."""
    empty: Any = {} if field.kind == "struct" else "" if field.kind == "string" else b""
    return codec.encode({field.name: [empty] * count})


def decoded_bytes(codec: Codec, data: bytes) -> int:
    """The peak of memory while decoding, BodyTooLarge included."""
    tracemalloc.start()
    try:
        with suppress(BodyTooLarge):
            codec.decode(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_element_costs_more_than_it_is_charged() -> None:
    count = 300
    checked = 0
    for codec, field in list(array_codecs())[::5]:
        data = many(codec, field, count)
        codec.decode(data)  # compiled before it is measured
        charged = count * (9 + _object_bytes(field._replace(is_array=False)))
        assert decoded_bytes(codec, data) < charged + 20_000, (codec, field.name)
        checked += 1
    assert checked > 60


def amplification(codec: Codec, field: Field) -> float:
    """Bytes in memory per byte on the wire."""
    return _object_bytes(field._replace(is_array=False)) / (len(many(codec, field, 2)) - len(many(codec, field, 1)))


def test_a_body_that_would_fill_the_memory_is_refused() -> None:
    worst = sorted(array_codecs(), key=lambda pair: -amplification(*pair))[:2]
    for codec, field in worst:
        assert amplification(codec, field) > 50
        data = many(codec, field, MAX_OBJECT_BYTES // 100)
        with pytest.raises(BodyTooLarge, match="more than 128 MiB") as caught:
            codec.decode(data)
        assert caught.value.side is not None
        assert decoded_bytes(codec, data) < MAX_OBJECT_BYTES + 4 * len(data)


def test_unknown_tagged_fields_are_charged_and_counted() -> None:
    codec = request_codec(ApiKey.Metadata, 12)
    topic = {"topic_id": NO_UUID, "name": "t", "_tags": dict.fromkeys(range(100, 60100), b"")}
    assert len(codec.decode(codec.encode({"topics": [topic]}))["topics"][0]["_tags"]) == 60_000
    with pytest.raises(BodyTooLarge):
        codec.decode(codec.encode({"topics": [topic] * 12}))
    more = {"_tags": dict.fromkeys(range(100, 70000), b"")}
    with pytest.raises(WireError, match="69900 tagged fields"):
        codec.decode(codec.encode(more))
    with pytest.raises(WireError, match="tagged fields"):
        parse_request_header(bytes.fromhex("0003000c000000010000ffffff7f") + bytes(1000))


def test_a_body_too_large_to_learn_from_passes() -> None:
    """A Metadata answer that takes too much memory to decode still has its addresses replaced."""
    talk = Conversation()
    broker = {"node_id": 1, "host": "real", "port": 9092}
    topics = [{"name": "t", "partitions": []}] * (MAX_OBJECT_BYTES // 300)
    talk.client(request(ApiKey.Metadata, 9, 1, {"topics": None}))
    passed = talk.broker(response(ApiKey.Metadata, 9, 1, {"brokers": [broker], "topics": topics}))
    whole = b"".join(data for _, data in passed)
    assert b"proxy" in whole[:40]
    assert b"real" not in whole[:40]
    assert [exchange.outcome for exchange in talk.exchanges] == ["answered"]
    ((event, detail),) = talk.events
    assert event == "wire_error"
    assert detail.startswith("broker: response of API 3 v9: decoded it would take more than 128 MiB")


def test_bombs_in_one_message_share_an_allowance() -> None:
    bomb = batch("zstd", count=1, value=bytes(1 << 20))
    assert len(bomb) < 5000
    allowance = Allowance(len(bomb))
    read = 0
    with pytest.raises(WireError, match="when decompressed"):
        for _ in range(40):
            read += sum(1 for _ in iter_records(bomb, allowance=allowance))
    assert 15 <= read <= 16


def squeezed(content: bytes, count: int) -> bytes:
    """A v2 batch of so many records that are compressed with zstd; its CRC is none."""
    data = bytes(cramjam.zstd.compress(content))
    rest = pack(">ibIhiqqqhii", -1, 2, 0, 4, count - 1, 0, 0, -1, -1, -1, count)
    return pack(">qi", 0, len(rest) + len(data)) + rest + data


def test_what_reading_costs_is_in_proportion_to_what_was_sent() -> None:
    nothing = b"\x0c\x00\x00\x00\x01\x00\x00"  # the smallest record there is
    assert sum(1 for _ in iter_records(squeezed(nothing * 100_000, 100_000))) == 100_000
    with pytest.raises(WireError, match="more records than"):
        deque(iter_records(squeezed(nothing * 200_000, 200_000)), maxlen=0)
    with pytest.raises(WireError, match="grow beyond"):
        deque(iter_records(squeezed(bytes(5 << 20), 1)), maxlen=0)
    dense = batch("zstd", count=1, value=Random(1).randbytes(1 << 20) * 6)
    assert sum(1 for _ in iter_records(dense)) == 1


@given(st.binary(max_size=80))
def test_random_request_headers(data: bytes) -> None:
    with suppress(WireError):
        header = parse_request_header(data)
        assert header.body_offset <= len(data)
