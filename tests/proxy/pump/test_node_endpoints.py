"""A pump sees node_endpoints in Produce and Fetch answers wherever the codec does, under any chunking."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy import pump as compiled
from notleader.proxy.pump import pure
from notleader.proxy.pump.flags import ENDPOINTS as MAY_HAVE_ENDPOINTS
from notleader.proxy.wire.codec import known_versions, response_codec
from notleader.proxy.wire.header import encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.probe import has_endpoints

ENDPOINTS = [{"node_id": 1, "host": "real", "port": 9092, "rack": None}]
FETCH, PRODUCE = (
    st.sampled_from([version for version in known_versions(api) if has_endpoints(api, version)])
    for api in (ApiKey.Fetch, ApiKey.Produce)
)


NO_RULES = SimpleNamespace(interest=lambda *_: 0)
FORMS = pytest.mark.parametrize("form", [pure, compiled], ids=["pure", "compiled"])


class Table(dict[int, int]):
    """Whatever is asked, its answer may have endpoints; nothing else matters."""

    shed_bytes = 1 << 30

    def __missing__(self, key: int) -> int:
        return MAY_HAVE_ENDPOINTS


def pumped(form: Any, api_key: int, version: int, frame: bytes, *cuts: int) -> Iterator[Any]:
    """What a pump says to this answer (without its length), cut at these places."""
    pump = form.Pump(SimpleNamespace(client_id=None), Table(), NO_RULES, max_frame_bytes=1 << 30)
    asked = pack(">hhih", api_key, version, int.from_bytes(frame[:4], "big"), -1) + b"\0\0\0\xff\xff" + bytes(20)
    pump.feed_client(pack(">i", len(asked)) + asked, 1)
    whole = pack(">i", len(frame)) + frame
    for start, stop in zip([0, *(4 + cut for cut in cuts)], [*(4 + cut for cut in cuts), len(whole)], strict=True):
        for step in pump.feed_broker(whole[start:stop], 2):
            yield step
            if type(step).__name__ == "Broken":
                return


def said(steps: Iterator[Any]) -> tuple[list[str], bytes]:
    """The kinds of steps other than Pass, and all that passed, without the length in front."""
    listed = list(steps)
    kinds = [type(step).__name__ for step in listed if type(step).__name__ != "Pass"]
    return kinds, b"".join(step.span for step in listed if type(step).__name__ == "Pass")[4:]


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


@FORMS
@given(answer())
def test_a_whole_answer_stops_where_it_has_endpoints_and_only_there(
    form: Any, made: tuple[int, int, bytes, bool]
) -> None:
    api_key, version, frame, endpoints = made
    assert said(pumped(form, api_key, version, frame))[0] == (["Stop"] if endpoints else ["Done"])


@FORMS
@given(answer().filter(lambda made: made[0] == ApiKey.Fetch), st.data())
def test_a_passing_answer_loses_its_endpoints_and_nothing_else(
    form: Any, made: tuple[int, int, bytes, bool], data: st.DataObject
) -> None:
    _, version, frame, endpoints = made
    codec = response_codec(ApiKey.Fetch, version)
    before = codec.decode(frame, 5)
    cuts = data.draw(st.lists(st.integers(5, len(frame) - 1), min_size=1, max_size=8).map(sorted))
    kinds, passed = said(pumped(form, ApiKey.Fetch, version, frame, *cuts))
    assert kinds == ["Done"]
    after = codec.decode(passed, 5)
    assert bool(after.pop("_tags", None)) == endpoints
    assert not after.pop("node_endpoints", None)
    before.pop("node_endpoints", None)
    assert after == before


@FORMS
@pytest.mark.parametrize("size", [0, 1, 4096, 65_535, 65_536, 70_000, 262_144, 300_000])
@pytest.mark.parametrize("version", [16, known_versions(ApiKey.Fetch)[-1]])
def test_a_read_may_end_at_any_byte_around_the_records(form: Any, version: int, size: int) -> None:
    """Two and three pieces, cut around each end of each partition's records and in all that is not records."""
    sizes = (size, 3, size)
    body = {"responses": [{"partitions": [{"records": bytes((0x80 + n,)) * size} for n, size in enumerate(sizes)]}]}
    frame = encode_response_header(ApiKey.Fetch, version, 7) + response_codec(ApiKey.Fetch, version).encode(body)
    cuts = [at for at in range(5, len(frame)) if frame[at - 3 : at + 3] not in (b"\x80" * 6, b"\x82" * 6)]
    for first in cuts:
        for second in {first, *cuts[:: len(cuts) // 5 + 1]}:
            if second >= first:
                kinds, passed = said(pumped(form, ApiKey.Fetch, version, frame, first, second))
                assert (kinds, passed == frame) == (["Done"], True), (first, second)


def aborted(count: int) -> bytes:
    """A Fetch answer whose one partition has that many aborted transactions."""
    transactions = [{"producer_id": 1, "first_offset": 2}] * count
    body = {"responses": [{"partitions": [{"partition_index": 0, "aborted_transactions": transactions}]}]}
    return encode_response_header(ApiKey.Fetch, 16, 7) + response_codec(ApiKey.Fetch, 16).encode(body)


@FORMS
def test_many_aborted_transactions_are_walked_over_as_they_pass(form: Any) -> None:
    frame = aborted(100_000)
    assert said(pumped(form, ApiKey.Fetch, 16, frame, *range(1000, len(frame), 1000))) == (["Done"], frame)


@FORMS
def test_a_header_may_have_tagged_fields(form: Any) -> None:
    frame = aborted(0)
    tagged = frame[:4] + b"\x01\x63\x02hi" + frame[5:]
    assert said(pumped(form, ApiKey.Fetch, 16, tagged, 5)) == (["Done"], tagged)


@FORMS
@pytest.mark.parametrize(
    "lie",
    [
        pytest.param(aborted(0)[:15] + b"\xff" * 300_000, id="varint"),
        # One tagged field of 2 GiB where the partition's would be.
        pytest.param(aborted(1)[:-3] + b"\x01\x00\xff\xff\xff\xff\x07" + bytes(300_000), id="tag"),
    ],
)
def test_lies_are_not_passed_on_for_ever(form: Any, lie: bytes) -> None:
    *_, last = pumped(form, ApiKey.Fetch, 16, lie, *range(1000, len(lie), 1000))
    assert (last.side, last.reason[:15]) == ("broker", "a Fetch answer:")
    assert said(pumped(form, ApiKey.Fetch, 16, lie))[0] == ["Stop"]


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
