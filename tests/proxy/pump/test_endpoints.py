"""The walk over Produce and Fetch answers sees node_endpoints wherever the codec does, under any chunking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.pump.endpoints import FetchWalk, surely_absent
from notleader.proxy.wire.codec import known_versions, response_codec
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.probe import has_endpoints

ENDPOINTS = [{"node_id": 1, "host": "real", "port": 9092, "rack": None}]
FETCH, PRODUCE = (
    st.sampled_from([version for version in known_versions(api) if has_endpoints(api, version)])
    for api in (ApiKey.Fetch, ApiKey.Produce)
)


@st.composite
def fetch_partition(draw: st.DrawFn) -> dict[str, Any]:
    partition: dict[str, Any] = {
        "partition_index": draw(st.integers(0, 5)),
        "error_code": draw(st.sampled_from([0, 6])),
        "records": draw(st.one_of(st.none(), st.binary(max_size=200))),
        "aborted_transactions": draw(
            st.one_of(st.none(), st.integers(0, 3).map(lambda count: [{"producer_id": 1, "first_offset": 2}] * count))
        ),
    }
    if draw(st.booleans()):
        partition["current_leader"] = {"leader_id": 3, "leader_epoch": 4}
    return partition


@st.composite
def answer(draw: st.DrawFn) -> tuple[int, int, bytes, bool]:
    """api_key, version, the frame from its correlation id on, whether it names endpoints."""
    endpoints = draw(st.booleans())
    body: dict[str, Any]
    if draw(st.booleans()):
        api_key, version = ApiKey.Fetch, draw(FETCH)
        topics = [{"partitions": p} for p in draw(st.lists(st.lists(fetch_partition(), max_size=3), max_size=3))]
        body = {"responses": topics}
    else:
        api_key, version = ApiKey.Produce, draw(PRODUCE)
        partition = st.fixed_dictionaries(
            {"index": st.integers(0, 5), "base_offset": st.integers(0, 9)},
            optional={
                "error_message": st.sampled_from([None, "no"]),
                "record_errors": st.just([{"batch_index": 1}]),
                "current_leader": st.just({"leader_id": 3, "leader_epoch": 4}),
            },
        )
        lists = draw(st.lists(st.lists(partition, max_size=3), max_size=3))
        body = {"responses": [{"name": "t", "partition_responses": partitions} for partitions in lists]}
    if endpoints:
        body["node_endpoints"] = ENDPOINTS
    frame = encode_response_header(api_key, version, 7) + response_codec(api_key, version).encode(body)
    return api_key, version, frame, endpoints


@given(answer())
def test_absence_is_said_only_where_it_is_true(made: tuple[int, int, bytes, bool]) -> None:
    api_key, version, frame, endpoints = made
    absent = surely_absent(api_key, version, b"xx" + frame + b"yy", 2, 2 + len(frame))
    assert absent != endpoints


@given(answer().filter(lambda made: made[0] == ApiKey.Fetch), st.data())
def test_a_passing_answer_loses_its_endpoints_and_nothing_else(
    made: tuple[int, int, bytes, bool], data: st.DataObject
) -> None:
    _, version, frame, endpoints = made
    codec = response_codec(ApiKey.Fetch, version)
    before = codec.decode(frame, 5)
    cuts = data.draw(st.lists(st.integers(5, len(frame)), max_size=8).map(sorted))
    walk = FetchWalk(version, len(frame))
    passed = b""
    for start, stop in zip([0, *cuts], [*cuts, len(frame)], strict=True):
        chunk = bytearray(frame[start:stop])
        walk.feed(bytes(chunk), 0, len(chunk))
        if walk.hide_at >= 0:
            chunk[walk.hide_at] = 0x7F
        passed += chunk
    after = codec.decode(passed, 5)
    assert walk.ended
    assert bool(after.pop("_tags", None)) == endpoints
    assert not after.pop("node_endpoints", None)
    before.pop("node_endpoints", None)
    assert after == before


@pytest.mark.parametrize("size", [0, 1, 4096, 65_535, 65_536, 70_000, 262_144, 300_000])
@pytest.mark.parametrize("version", [16, known_versions(ApiKey.Fetch)[-1]])
def test_a_read_may_end_at_any_byte_around_the_records(version: int, size: int) -> None:
    """Two and three pieces, cut around each end of each partition's records and in all that is not records."""
    sizes = (size, 3, size)
    body = {"responses": [{"partitions": [{"records": bytes((0x80 + n,)) * size} for n, size in enumerate(sizes)]}]}
    frame = encode_response_header(ApiKey.Fetch, version, 7) + response_codec(ApiKey.Fetch, version).encode(body)
    cuts = [at for at in range(5, len(frame)) if frame[at - 3 : at + 3] not in (b"\x80" * 6, b"\x82" * 6)]
    for first in cuts:
        for second in {first, *cuts[:: len(cuts) // 5 + 1]}:
            if second < first:
                continue
            walk = FetchWalk(version, len(frame))
            for start, stop in ((0, first), (first, second), (second, len(frame))):
                walk.feed(frame[start:stop], 0, stop - start)
            assert walk.ended, (first, second)


def aborted(count: int) -> bytes:
    """A Fetch answer whose one partition has that many aborted transactions."""
    transactions = [{"producer_id": 1, "first_offset": 2}] * count
    body = {"responses": [{"partitions": [{"partition_index": 0, "aborted_transactions": transactions}]}]}
    return encode_response_header(ApiKey.Fetch, 16, 7) + response_codec(ApiKey.Fetch, 16).encode(body)


def test_many_aborted_transactions_are_walked_over_as_they_pass() -> None:
    frame = aborted(100_000)
    walk = FetchWalk(16, len(frame))
    for start in range(0, len(frame), 1000):
        chunk = frame[start : start + 1000]
        walk.feed(chunk, 0, len(chunk))
    assert walk.ended


def test_a_header_may_have_tagged_fields() -> None:
    frame = aborted(0)
    tagged = frame[:4] + b"\x01\x63\x02hi" + frame[5:]
    walk = FetchWalk(16, len(tagged))
    walk.feed(tagged, 0, len(tagged))
    assert walk.ended


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(aborted(0)[:15] + b"\xff" * 300_000, id="varint"),
        # One tagged field of 2 GiB where the partition's would be.
        pytest.param(aborted(1)[:-3] + b"\x01\x00\xff\xff\xff\xff\x07" + bytes(300_000), id="tag"),
    ],
)
@pytest.mark.parametrize("step", [1000, 1_000_000])
def test_lies_end_the_walk(lie: bytes, step: int) -> None:
    walk = FetchWalk(16, len(lie))
    with pytest.raises(WireError) as caught:
        for start in range(0, len(lie), step):
            chunk = lie[start : start + step]
            walk.feed(chunk, 0, len(chunk))
    assert caught.value.side == "broker"
    assert not surely_absent(ApiKey.Fetch, 16, lie, 0, len(lie))


@pytest.mark.parametrize("size", [10, 100_000])
def test_a_session_leaks_no_address_whatever_the_size(size: int) -> None:
    from tests.proxy.session.conversation import Conversation, request, response

    talk = Conversation()
    talk.client(request(ApiKey.Fetch, 16, 1, {}))
    partition = {"partition_index": 0, "error_code": 6, "records": b"r" * size}
    whole = response(ApiKey.Fetch, 16, 1, {"responses": [{"partitions": [partition]}], "node_endpoints": ENDPOINTS})
    passed = b"".join(
        command[1] for start in range(0, len(whole), 5000) for command in talk.broker(whole[start : start + 5000])
    )
    body = response_codec(ApiKey.Fetch, 16).decode(passed, 9)
    assert len(body["responses"][0]["partitions"][0]["records"]) == size
    named = body.get("node_endpoints", [])
    assert [(entry["host"], entry["port"]) for entry in named] == ([("proxy", 9001)] if size == 10 else [])
    assert talk.exchanges[0].outcome == "answered"
