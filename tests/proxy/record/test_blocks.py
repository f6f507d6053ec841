"""What the loop reads in passing is what reading in full says, for whatever real clients or chance send."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from notleader.faults.base import Connection
from notleader.proxy.pump import Exchange, passing
from notleader.proxy.pump.flags import api_number
from notleader.proxy.record.block import Summary
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.rows import PARTITIONS, Level, Row, Rows
from notleader.proxy.recorder.schema import batch_of
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.batches import batch
from tests.proxy.record.blocks import rows_of
from tests.proxy.record.made import table_of_block
from tests.proxy.session.conversation import Conversation, framed
from tests.proxy.wire.frames import random_body
from tests.proxy.wire.frames import recorded as frames_of_real_clients

IDENTITY = ("run", "proxy", 7)


def exchange(
    number: int, api: int, version: int, request: bytes | None, response: bytes | None, **changed: Any
) -> Exchange:
    connection = Connection(number % 3, 1, f"broker-{number % 3}", number % 3, f"127.0.0.1:{number % 3}")
    made = Exchange(connection, number, api, version, number, "c", 1000 + number, 4 + len(request or b""), 0)
    made.request, made.response = request, response
    made.outcome = "answered" if response is not None else "no_response"
    made.forwarded_at_us = 1001 + number
    if response is not None:
        made.response_bytes = len(response)
        made.broker_responded_at_us, made.response_at_us = 1002 + number, 1003 + number
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def name_of(topic_id: UUID) -> str | None:
    return f"topic {topic_id}" if topic_id.int % 5 else None


class Both:
    """What the loop reads in passing, and all of it read in full, beside each other."""

    def __init__(self, level: Level = Level.PARTITION) -> None:
        self.rows = Rows(*IDENTITY, level, name_of)
        self.blocks = Blocks(level, self.rows.topics)
        self.taken = 0
        self.expected: list[Row] = []

    def see(self, entries: Iterable[Exchange]) -> None:
        for entry in entries:
            full = self.rows.of(entry)
            if self.blocks.writer.take(entry):
                self.taken += 1
                self.expected.append(full)
            else:
                self.blocks.remember(entry)

    def agree(self) -> None:
        block = self.blocks.swap()
        if self.expected:
            made = table_of_block(block, self.rows)
            made.validate(full=True)
            assert made.to_pylist() == batch_of(self.expected).to_pylist()
        self.expected = []


def frames(api: ApiKey, version: int, number: int, asked: Any, answered: Any) -> tuple[bytes, bytes]:
    request = encode_request_header(api, version, number, "c") + request_codec(api, version).encode(asked)
    return request, encode_response_header(api, version, number) + response_codec(api, version).encode(answered)


def test_frames_of_real_clients() -> None:
    both = Both()
    entries = []
    for number, one in enumerate(frames_of_real_clients()):
        api, version = int.from_bytes(one.request[:2], "big"), int.from_bytes(one.request[2:4], "big")
        entries.append(exchange(number, api, version, one.request, getattr(one, "response", None)))
    both.see(entries)
    both.see(entries)  # what was learned the first time is known now
    assert both.taken > len(entries)
    both.agree()


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api, step in ((ApiKey.Produce, 1), (ApiKey.Fetch, 1), (ApiKey.Metadata, 4), (ApiKey.OffsetCommit, 3))
        for version in known_versions(api)[::step]
    ],
)
def test_random_bodies(api: ApiKey, version: int) -> None:
    taken = 0

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.randoms(use_true_random=True))
    def agrees(rng: Random) -> None:
        both = Both()
        entries = []
        for number in range(4):
            asked = with_batches(random_body(request_codec(api, version), rng), rng)
            answered = with_batches(random_body(response_codec(api, version), rng), rng)
            request, response = frames(api, version, number, asked, answered)
            entries.append(exchange(number, api, version, request, response))
            entries.append(exchange(number, api, version, request[: rng.randrange(12, len(request))], response))
            entries.append(exchange(number, api, version, request, response[: rng.randrange(len(response))]))
            entries.append(exchange(number, api, version, request, None))
        both.see(entries)
        both.see(entries)
        both.agree()
        nonlocal taken
        taken += both.taken

    agrees()
    assert taken  # not of each: long answers to the same request may take each other's place every time


@pytest.mark.parametrize("version", range(9, 14))
def test_produces_of_one_batch_one_after_the_other(version: int) -> None:
    """The common case has a way of its own; sizes around those where a length takes another byte."""
    both = Both()
    entries = []
    rng = Random(version)
    topics: list[dict[str, Any]] = [
        {"name": "orders", "topic_id": UUID(int=7)},
        {"name": "o" * 130, "topic_id": UUID(int=11)},
    ]
    for number in range(120):
        topic = rng.choice(topics)
        size = rng.choice((1, 40, 60, 61, 62, 63, 64, 65, 66, 67, 16_310, 16_315, 16_316, 16_317, 16_320, 200_000))
        records = batch(
            bytes(size),
            base_sequence=number,
            producer_id=rng.choice((-1, 5)),
            producer_epoch=rng.choice((-1, 3)),
            record_count=rng.choice((1, 500)),
            attributes=rng.choice((0, 2)),
        )
        if not number % 9:
            records += records
        code = rng.choice((0, 0, 0, 6))
        index = number % 2
        asked = {
            "acks": rng.choice((-1, 1)),
            "topic_data": [{**topic, "partition_data": [{"index": index, "records": records}]}],
        }
        part = {"index": index, "error_code": code, "base_offset": rng.choice((-1, number, 1 << 40))}
        if not number % 7:
            part["log_append_time_ms"] = number
        told = {"responses": [{**topic, "partition_responses": [part]}], "throttle_time_ms": rng.choice((0, 0, 9))}
        request, response = frames(ApiKey.Produce, version, number, asked, told)
        entries.append(exchange(number, ApiKey.Produce, version, request, response))
        if size > 100_000:
            entries[-1].request = passing(ApiKey.Produce, version, True, request[:5000], len(request))
            entries[-1].request.feed(request[5000:])
        elif number % 2:
            entries[-1].request = memoryview(request) if number % 4 == 1 else [request[:50], memoryview(request)[50:]]
    both.see(entries)
    assert both.taken == len(entries)
    both.agree()


@pytest.mark.parametrize("version", known_versions(ApiKey.Fetch))
def test_fetches_of_one_partition_one_after_the_other(version: int) -> None:
    """What is alike is read in full once; what differs from one to the next is nobody else's."""
    rng = Random(version)
    orders = {"topic": "orders", "topic_id": UUID(int=7)}
    other = {"topic": "o" * 130, "topic_id": UUID(int=11)}
    entries = []
    talk = Conversation(level=Level.PARTITION)
    talk.table.record_at(Level.PARTITION, 150)
    for number in range(300):
        topic, index = rng.choice((orders, orders, other)), number % 2
        some = batch(
            bytes(rng.choice((1, 70, 300))),
            base_offset=rng.choice((number, 1 << 40)),
            base_sequence=number,
            producer_id=rng.choice((-1, 5)),
            producer_epoch=rng.choice((-1, 3)),
            record_count=rng.choice((1, 500)),
            attributes=rng.choice((0, 2)),
        )
        torn = (some + some[:50], some + some[:-1], some[:40], some[:-1])
        records = rng.choice((some, some, some, some * 3, b"", None, *torn, bytes(200_000)))
        part = {"partition_index": index, "records": records, "error_code": rng.choice((0, 0, 0, 6))}
        if not number % 19:
            part["aborted_transactions"] = [{"producer_id": 5, "first_offset": 1}]
        wanted = [{"partition": index, "current_leader_epoch": rng.choice((-1, 3)), "fetch_offset": number}]
        asked = rng.choice(([], [{**topic, "partitions": wanted}], [{**other, "partitions": wanted}]))
        told = {"responses": [{**topic, "partitions": [part]}], "throttle_time_ms": rng.choice((0, 0, 9))}
        if not number % 7:
            told["responses"] = []
        if not number % 17:
            told["error_code"] = 70
        request, response = frames(ApiKey.Fetch, version, number, {"topics": asked}, told)
        entries.append(exchange(number, ApiKey.Fetch, version, request, response))
        if number % 2:
            entries[-1].response = [response[:90], memoryview(response)[90:]]
        if version >= 4:
            talk.client(framed(request))
            whole, cut = framed(response), rng.choice((5, 60, 90, 120, 170, 1000))
            talk.broker(whole[:cut])
            talk.broker(whole[cut:])
    assert len(talk.exchanges) == (len(entries) if version >= 4 else 0)
    for whole_or_passing in (entries, talk.exchanges):
        both = Both()
        both.see(whole_or_passing)
        both.agree()


def test_fetch_sessions_of_todays_clients_are_read_in_passing() -> None:
    blocks = Blocks(Level.PARTITION, Rows(*IDENTITY, Level.PARTITION, name_of).topics)
    topic = {"topic": "orders", "topic_id": UUID(int=7)}
    for number in range(6):
        part = {"partition_index": 0, "records": batch(b"x" * (70 + number), base_offset=number)}
        asked = {"session_epoch": number, "topics": [{**topic, "partitions": [{"partition": 0}]}] if number else []}
        told = {"responses": [{**topic, "partitions": [part]}], "error_code": 70 if number == 4 else 0}
        if number in (2, 5):
            told["responses"] = []
        request, response = frames(ApiKey.Fetch, 17, number, asked, told)
        made = exchange(number, ApiKey.Fetch, 17, request, response)
        made.response = [response[:40], response[40:]]  # a broker sends its records apart
        assert blocks.writer.take(made)
    block = blocks.swap()
    assert (block.first_us, block.last_us) == (1000, 1005)
    offsets = [row[PARTITIONS][0]["base_offset"] for row in rows_of(block, *IDENTITY)]
    assert offsets == [0, 1, None, 3, 4, None]


FRAME = st.binary(max_size=2) | st.lists(st.sampled_from([0, 1]), max_size=2).map(bytes)


@given(st.lists(st.tuples(st.sampled_from([2, 3, 0x7FFF]), FRAME, FRAME), min_size=1, max_size=8))
@settings(deadline=None)
def test_what_was_read_once_holds_for_the_same_bytes_alone(said: list[tuple[int, bytes, bytes]]) -> None:
    """A frame begins with its API, version and correlation id; an answer with that id."""
    whole = [(b"h" * 8 + asked, b"id__" + told) for _, asked, told in said]
    for remembered, frame in zip(said, whole, strict=True):
        writer = Blocks(Level.PARTITION, Rows(*IDENTITY, Level.PARTITION).topics).writer
        what = Summary((remembered[0], "?", 0, "answered", *(None,) * 6))
        assert writer.remember(api_number(remembered[0], 0), *frame, what)
        for number, (other, (request, response)) in enumerate(zip(said, whole, strict=True)):
            made = exchange(number, other[0], 0, b"other!!!" + request[8:], b"di--" + response[4:])
            assert writer.take(made) == (other == remembered)


@pytest.mark.parametrize("api", [ApiKey.Produce, ApiKey.Fetch])
@pytest.mark.parametrize("many", [3, 300, 1200])
def test_partitions_are_paired_whatever_their_order_and_number(api: ApiKey, many: int) -> None:
    """Asked for in one order and answered in another, some of them twice, some not at all.

    Where one stands twice, or they are very many, it is left to the recorder.
    """
    version = 9 if api == ApiKey.Produce else 12
    rng = Random(many)
    both = Both()
    for number in range(8):
        named = [(f"t{rng.randrange(3)}", index) for index in rng.sample(range(many), many)]
        again = named + named[: 2 * (number == 5)]
        asked, answered = ([[name, index] for name, index in one] for one in (again, rng.sample(named, many)))
        if number == 6:
            answered += answered[:1]
        if number == 7:
            answered = [*answered[1:], ["t9", 7]]
        if api == ApiKey.Produce:
            topics = [{"name": t, "partition_data": [{"index": i, "records": batch(b"x")}]} for t, i in asked]
            told = [{"name": t, "partition_responses": [{"index": i, "base_offset": i}]} for t, i in answered]
            bodies: Any = {"topic_data": topics}, {"responses": told}
        else:
            topics = [{"topic": t, "partitions": [{"partition": i, "current_leader_epoch": i}]} for t, i in asked]
            told = [{"topic": t, "partitions": [{"partition_index": i, "records": batch(b"x")}]} for t, i in answered]
            bodies = {"topics": topics}, {"responses": told}
        both.see([exchange(number, api, version, *frames(api, version, number, *bodies))])
    assert both.taken == (0 if many > 1024 else 6)
    both.agree()


def test_a_topic_with_an_empty_name_beside_others_stays_apart() -> None:
    both = Both()
    names = ["", "a", "", "b"]
    asked = {"topic_data": [{"name": n, "partition_data": [{"index": i}]} for i, n in enumerate(names)]}
    told = {"responses": [{"name": n, "partition_responses": [{"index": i}]} for i, n in enumerate(names)]}
    for number in range(3):
        both.see([exchange(number, ApiKey.Produce, 9, *frames(ApiKey.Produce, 9, number, asked, told))])
    assert both.taken == 3
    both.agree()


@pytest.mark.parametrize(("batches", "is_taken"), [(1, True), (2, False)])
def test_more_records_than_a_column_holds_are_left_to_the_recorder(batches: int, is_taken: bool) -> None:
    records = batch(b"x" * 70, record_count=(1 << 31) - 1) * batches
    topic = {"name": "orders", "topic_id": UUID(int=7)}
    asked = {"acks": 1, "topic_data": [{**topic, "partition_data": [{"index": 0, "records": records}]}]}
    part = {"index": 0, "error_code": 0, "base_offset": 1}
    told = {"responses": [{**topic, "partition_responses": [part]}], "throttle_time_ms": 0}
    both = Both()
    both.see([exchange(1, ApiKey.Produce, 12, *frames(ApiKey.Produce, 12, 1, asked, told))])
    assert both.taken == is_taken
    both.agree()


def test_a_topic_whose_name_becomes_known_later_is_named_from_the_next_block_on() -> None:
    names: dict[UUID, str] = {}
    rows = Rows(*IDENTITY, Level.PARTITION, names.get)
    blocks = Blocks(Level.PARTITION, rows.topics)
    topic_id = UUID(int=99)
    asked = {"topic_data": [{"topic_id": topic_id, "partition_data": [{"index": 0, "records": batch(b"x")}]}]}
    told = {"responses": [{"topic_id": topic_id, "partition_responses": [{"index": 0}]}]}
    request, response = frames(ApiKey.Produce, 13, 1, asked, told)
    topics = []
    for number in range(6):
        if number == 3:
            names[topic_id] = "orders"
        assert blocks.writer.take(exchange(number, ApiKey.Produce, 13, request, response))
        if number % 2:
            block = blocks.swap()
            made = table_of_block(block, Rows(*IDENTITY, Level.PARTITION)).to_pylist()
            topics += [row["partitions"][0]["topic"] for row in made]
    assert topics == [None, None, None, None, "orders", "orders"]
    assert len(block.tables.templates) == 2, "one entry without a name, however many exchanges there are"


def test_at_level_header_nothing_is_read() -> None:
    both = Both(Level.HEADER)
    both.see(exchange(number, 12, 4, None, None, outcome="answered", response_at_us=5000) for number in range(5))
    assert both.taken == 5
    both.agree()


def test_who_asks_may_change_while_a_connection_is_open() -> None:
    blocks = Blocks(Level.HEADER, Rows(*IDENTITY, Level.HEADER).topics)
    connection = Connection(1, 1, "bootstrap", None, "127.0.0.1:5")

    def ask(number: int, api: int) -> None:
        blocks.writer.take(exchange(number, api, 3, None, None, connection=connection, client_id=connection.client_id))

    ask(1, ApiKey.Metadata)
    connection.client_software_name = "librdkafka"
    ask(2, ApiKey.ApiVersions)
    ask(3, ApiKey.Metadata)
    connection.principal = "alice"
    ask(4, ApiKey.Metadata)
    connection.client_id = "other"
    ask(5, ApiKey.Metadata)
    whos = [(row[8], row[9], row[11]) for row in rows_of(blocks.swap(), *IDENTITY)]
    named = ("librdkafka", "alice")
    assert whos == [
        (None, None, None),
        (None, "librdkafka", None),
        (None, "librdkafka", None),
        (None, *named),
        ("other", *named),
    ]


def with_batches(body: Any, rng: Random) -> Any:
    if isinstance(body, dict):
        return {
            key: rng.choice((None, b"", batch(b"abc"), batch(b"d") * 2))
            if key == "records"
            else with_batches(value, rng)
            for key, value in body.items()
        }
    return [with_batches(item, rng) for item in body] if isinstance(body, list) else body
