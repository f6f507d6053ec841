"""What is told of a frame while it passes is what skimming it whole says, however it is cut; memory stays small."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.proxy.pump import Passing, passing
from notleader.proxy.record import skim
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.batches import batch
from tests.proxy.record.test_blocks import with_batches
from tests.proxy.session.conversation import Conversation, request, response
from tests.proxy.wire.frames import random_body
from tests.proxy.wire.frames import recorded as frames_of_real_clients


def fed(it: Passing, frame: bytes, rng: Random) -> Passing:
    position = 0
    while position < len(frame):
        size = rng.choice((1, 2, 7, 60, 61, 62, 5000))
        if it.skip > size:
            it.pass_over(min(size, len(frame) - position))  # what tells nothing need not be fed
        else:
            it.feed(memoryview(frame)[position : position + size])
        position += size
    return it


def agree(api: int, version: int, asked: bytes, answered: bytes, rng: Random) -> None:
    start = rng.randrange(20)
    if api == ApiKey.Produce:
        passed = fed(passing(api, version, True, asked[:start], len(asked)), asked[start:], rng)
        assert skim.skimmed(passed) == skim.skim_request(api, version, asked)
        assert passed.head == asked[:start]
    else:
        passed = fed(passing(api, version, False, answered[:start], len(answered)), answered[start:], rng)
        assert skim.skimmed(passed) == skim.skim_response(api, version, answered)


@pytest.mark.parametrize(
    ("api", "version"), [(api, version) for api in (ApiKey.Produce, ApiKey.Fetch) for version in known_versions(api)]
)
def test_random_frames_in_random_chunks(api: ApiKey, version: int) -> None:
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def agrees(rng: Random) -> None:
        asked = encode_request_header(api, version, 1, "c") + request_codec(api, version).encode(
            with_batches(random_body(request_codec(api, version), rng), rng)
        )
        answered = encode_response_header(api, version, 1) + response_codec(api, version).encode(
            with_batches(random_body(response_codec(api, version), rng), rng)
        )
        agree(api, version, asked, answered, rng)

    agrees()


@pytest.mark.parametrize(
    ("api", "version"),
    [(ApiKey.Produce, version) for version in range(3, 14)] + [(ApiKey.Fetch, version) for version in range(4, 18)],
)
def test_records_are_told_by_their_headers_alone(api: ApiKey, version: int) -> None:
    records = batch(bytes(9000), base_offset=7, record_count=3)
    for batches, many in ((1, 1), (3, 1), (1, 2)):
        if api == ApiKey.Produce:
            data = {"name": "orders", "partition_data": [{"index": 4, "records": records * batches}] * many}
            body = request_codec(api, version).encode({"transactional_id": "t", "acks": 1, "topic_data": [data]})
            frame = encode_request_header(api, version, 1, "c") + body
            told = skim.skim_request(api, version, frame)
            passed = passing(api, version, True, memoryview(frame)[:500], len(frame))
        else:
            part = {"partition_index": 4, "error_code": 3, "records": records * batches}
            body = response_codec(api, version).encode(
                {"throttle_time_ms": 9, "responses": [{"topic": "orders", "partitions": [part] * many}]}
            )
            frame = encode_response_header(api, version, 1) + body
            told = skim.skim_response(api, version, frame)
            passed = passing(api, version, False, memoryview(frame)[:500], len(frame))
        assert told is not None
        assert passed.skip > 8000, "the records of a batch tell nothing"
        passed.feed(memoryview(frame)[500:])
        assert skim.skimmed(passed) == told


def test_frames_of_real_clients() -> None:
    seen = 0
    for one in frames_of_real_clients():
        api, version = int.from_bytes(one.request[:2], "big"), int.from_bytes(one.request[2:4], "big")
        told = getattr(one, "response", None)
        if api in (ApiKey.Produce, ApiKey.Fetch) and told is not None and version >= 4:
            agree(api, version, one.request, told, Random(seen))
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("level", [Level.PARTITION, Level.PAYLOAD])
def test_a_large_exchange_keeps_its_row_and_loses_only_its_frames(level: Level) -> None:
    talk = Conversation(level=level)
    talk.table.record_at(level, 100_000)
    records = batch(bytes(300_000), base_offset=7, record_count=3)
    topics = [{"topic": "orders", "partitions": [{"partition": 0, "current_leader_epoch": 4}]}]
    talk.client(request(ApiKey.Fetch, 11, 1, {"topics": topics}))
    parts = [{"partition_index": 0, "records": records}]
    whole = response(ApiKey.Fetch, 11, 1, {"responses": [{"topic": "orders", "partitions": parts}]})
    for start in range(0, len(whole), 50_000):
        talk.broker(whole[start : start + 50_000])
    body = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]}
    asked = request(ApiKey.Produce, 7, 2, body)
    for start in range(0, len(asked), 50_000):
        talk.client(asked[start : start + 50_000])
    told = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 9}]}]}
    talk.broker(response(ApiKey.Produce, 7, 2, told))

    fetched, produced = talk.exchanges
    assert isinstance(fetched.response, Passing)
    assert isinstance(produced.request, Passing)
    assert len(produced.request.head) < 2_000
    rows = Rows("run", "proxy", 7, level)
    made = [dict(zip(COLUMNS, rows.of(one), strict=True)) for one in (fetched, produced)]
    lost = "too large to be kept: the frame of the "
    details = [lost + "answer", lost + "request"] if level is Level.PAYLOAD else [None, None]
    assert [row["detail"] for row in made] == details
    (first,), (second,) = (row["partitions"] for row in made)
    assert (first["record_count"], first["base_offset"], first["leader_epoch"]) == (3, 7, 4)
    assert (second["record_count"], second["batch_bytes"], second["base_offset"]) == (3, len(records), 9)
    assert made[0]["response_bytes"] == len(whole)
    assert made[0]["response_frame"] is made[1]["request_frame"] is None
    assert (made[0]["request_frame"] is not None) == (level is Level.PAYLOAD)
    assert rows.lost_frames == (2 if level is Level.PAYLOAD else 0)


def test_any_other_large_frame_is_a_row_without_its_facts() -> None:
    talk = Conversation(level=Level.PAYLOAD)
    talk.table.record_at(Level.PAYLOAD, 5000)
    talk.client(request(ApiKey.DescribeConfigs, 1, 1, {"resources": []}))
    results = [{"resource_name": "x" * 6000}]
    talk.broker(response(ApiKey.DescribeConfigs, 1, 1, {"results": results}))
    rows = Rows("run", "proxy", 7, Level.PAYLOAD)
    row = dict(zip(COLUMNS, rows.of(talk.exchanges[0]), strict=True))
    assert row["detail"] == "body not read: too large to be kept"
    assert row["response_frame"] is None
    assert rows.lost_frames == 1
