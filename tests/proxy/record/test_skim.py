"""Skimming says what decoding says, for every version of Produce and Fetch and whatever is in them."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.faults.base import Connection
from notleader.proxy.pump import Exchange, Passing, Probe
from notleader.proxy.record import skim as skimming
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.rows import COLUMNS, Level, Rows, TopicIds
from notleader.proxy.record.skim import skim_request, skim_response
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.probe import NOTHING, facts_program
from tests.proxy.record.blocks import rows_of as block_rows
from tests.proxy.wire.frames import random_body
from tests.proxy.wire.frames import recorded as frames_of_real_clients

PLACES = {name: place for place, name in enumerate(COLUMNS)}
VERSIONS = [(api, version) for api in (ApiKey.Produce, ApiKey.Fetch) for version in known_versions(api)]


def exchange(api: int, version: int, request: bytes, response: bytes | None) -> Exchange:
    made = Exchange(Connection(1, 1, "broker-1", 1, "127.0.0.1:5"), 1, api, version, 1, "c", 1, len(request), 0)
    made.request, made.response = request, response
    return made


def rows_of(entry: Exchange) -> list[Any]:
    """The row of frames that passed, skimmed, and the row of the same that were kept, which is decoded."""
    maker = Rows("run", "proxy", 7, Level.PARTITION, lambda topic_id: f"topic {topic_id}")
    decoded = maker.of(entry)
    api, version = entry.api_key, entry.api_version
    for direction, frame in (("request", entry.request), ("response", entry.response)):
        if frame is None:
            continue
        assert isinstance(frame, bytes)
        code = facts_program(api, version, direction)  # type: ignore[arg-type]
        assert code is not None
        probe = Probe(code, len(frame))
        passed = Passing(probe)
        passed.feed(frame)
        passed.said = skimming.said_by(probe, produces=api == ApiKey.Produce, answers=direction == "response")
        setattr(entry, direction, passed)
    return [maker.of(entry), decoded]


def valid_records(body: Any, rng: Random) -> Any:
    """Random bytes are no batches, and both ways refuse them alike: leave some out, to see further."""
    if isinstance(body, dict):
        return {
            key: rng.choice((None, b"")) if key == "records" else valid_records(value, rng)
            for key, value in body.items()
        }
    return [valid_records(item, rng) for item in body] if isinstance(body, list) else body


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_random_bodies(api: ApiKey, version: int) -> None:
    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def agrees(rng: Random) -> None:
        asked, answered = request_codec(api, version), response_codec(api, version)
        request = encode_request_header(api, version, 1, "c") + asked.encode(
            valid_records(random_body(asked, rng), rng)
        )
        told = valid_records(random_body(answered, rng), rng)
        response = encode_response_header(api, version, 1) + answered.encode(told)
        if any(entry.fields.get("base_offset") == NOTHING for entry in iter_partitions(answered, told)):
            return  # our word for none
        assert skim_request(api, version, request) is not None
        assert skim_response(api, version, response) is not None
        skimmed, decoded = rows_of(exchange(api, version, request, response))
        assert skimmed == decoded
        # Whatever is cut off is never read as something else.
        skim_request(api, version, request[: rng.randrange(len(request))])
        skim_response(api, version, response[: rng.randrange(len(response))])

    agrees()


@pytest.mark.parametrize(("api", "version"), VERSIONS)
@pytest.mark.parametrize(
    ("asked", "leader", "expected"),
    [(-1, (1, 9), 9), (4, (1, 9), 4), (-1, None, -1), (-1, (1, -1), -1)],
    ids=["the answer knows it", "the request does", "nobody does", "the answer knows the leader alone"],
)
def test_the_leader_epoch_of_an_answer_is_told_where_the_request_has_none(
    api: ApiKey, version: int, asked: int, leader: tuple[int, int] | None, expected: int
) -> None:
    with_epoch = api == ApiKey.Fetch and version >= 9
    told = version >= (12 if api == ApiKey.Fetch else 10)
    topic = {"name": "orders", "topic": "orders", "topic_id": UUID(int=7)}
    partitions = [{"index": 0, "partition": 0, "current_leader_epoch": asked, "records": None}]
    request = {"topic_data": [{**topic, "partition_data": partitions}], "topics": [{**topic, "partitions": partitions}]}
    answered: dict[str, Any] = {"index": 0, "partition_index": 0, "error_code": 6, "records": None}
    if leader is not None and told:
        answered["current_leader"] = {"leader_id": leader[0], "leader_epoch": leader[1]}
    parts = {"partition_responses": [answered], "partitions": [answered]}
    frames = [
        encode_request_header(api, version, 1, "c") + request_codec(api, version).encode(request),
        encode_response_header(api, version, 1) + response_codec(api, version).encode({"responses": [topic | parts]}),
    ]
    if not told or not with_epoch:
        expected = asked if with_epoch else leader[1] if told and leader and leader[1] >= 0 else None
    blocks = Blocks(Level.PARTITION, TopicIds())
    entry = exchange(api, version, *frames)
    assert blocks.writer.take(entry)
    made = [*block_rows(blocks.swap(), "run", "proxy", 7), *rows_of(entry)]
    assert [row[PLACES["partitions"]][0]["leader_epoch"] for row in made] == [expected] * 3


def test_frames_of_real_clients() -> None:
    seen = 0
    for one in frames_of_real_clients():
        api, version = int.from_bytes(one.request[:2], "big"), int.from_bytes(one.request[2:4], "big")
        if api > 1:
            continue
        response = getattr(one, "response", None)
        skimmed, decoded = rows_of(exchange(api, version, one.request, response))
        assert skimmed == decoded or skimmed[PLACES["detail"]] == "body not read: too large to be kept"
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff"])
def test_an_absurd_count_is_no_loop(count: bytes) -> None:
    head = encode_request_header(0, 2, 1, "c") + b"\x00\x01\x00\x00\x03\xe8"
    assert skim_request(0, 2, head + count) is None


@pytest.mark.parametrize("version", known_versions(ApiKey.Fetch))
@pytest.mark.parametrize("many", [1, 2])
def test_a_fetch_names_its_partitions_in_order(version: int, many: int) -> None:
    partitions = [{"partition": 3 + index, "current_leader_epoch": 9, "fetch_offset": 77} for index in range(many)]
    topic = {"topic": "orders", "topic_id": UUID(int=7), "partitions": partitions}
    body = request_codec(ApiKey.Fetch, version).encode({"topics": [topic], "session_epoch": 5, "max_bytes": 1 << 20})
    frame = encode_request_header(ApiKey.Fetch, version, 1, "c") + body
    longer = skim_request(ApiKey.Fetch, version, frame)
    assert longer is not None
    assert longer.parts[0][:3] == (None if version >= 13 else "orders", UUID(int=7).bytes if version >= 13 else None, 3)
    assert [part[2] for part in longer.parts] == [3 + index for index in range(many)]
