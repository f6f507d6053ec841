"""Frames that lie: only a WireError may leave the decoder, soon and without much memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.wire.addresses import rewrite_addresses
from proxy.wire.codec import Codec
from proxy.wire.errors import WireError
from proxy.wire.header import parse_request_header
from proxy.wire.partitions import iter_topics
from proxy.wire.records import iter_records
from proxy.wire.view import Request, Response
from tests.proxy.wire.frames import Exchange, all_codecs, recorded, views

FRAMES = list(views())
# The worst that a sender can do: an empty struct of two bytes becomes a dict of some 200.
MEMORY_PER_BYTE = 200
MEMORY_FLOOR_BYTES = 200_000


@contextmanager
def bounded(frame_bytes: int, limit_s: float = 2.0) -> Iterator[None]:
    """Fails when the block takes long, or more memory than its input explains."""
    tracemalloc.start()
    began = time.perf_counter()
    try:
        yield
    finally:
        elapsed_s = time.perf_counter() - began
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


def test_the_largest_honest_amplification_is_bounded() -> None:
    """64 KiB of empty elements: what an array costs per element is all that a sender can make us spend."""
    size = 1 << 16
    arrays = [
        codec
        for codec in all_codecs()
        if codec.flexible and codec.fields and codec.fields[0].is_array and codec.fields[0].kind == "struct"
    ]
    worst = max(decoded_bytes(codec, size) for codec in arrays)
    assert 10 * size < worst < MEMORY_FLOOR_BYTES + MEMORY_PER_BYTE * size


def decoded_bytes(codec: Codec, size: int) -> int:
    count = size // 2 + 1
    data = bytes((count & 0x7F | 0x80, count >> 7 & 0x7F | 0x80, count >> 14)) + bytes(size)
    tracemalloc.start()
    with suppress(WireError):
        codec.decode(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


@given(st.binary(max_size=80))
def test_random_request_headers(data: bytes) -> None:
    with suppress(WireError):
        header = parse_request_header(data)
        assert header.body_offset <= len(data)
