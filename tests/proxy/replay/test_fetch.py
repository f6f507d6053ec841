"""Fetch: recorded records by offset, else nothing, once the wait is over; and what went wrong, once."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from notleader.proxy.replay.exchange import Ending
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.records import iter_records
from notleader.proxy.wire.schemas import NO_UUID
from tests.proxy.replay.made import Client, Row, batch, ended, fetch_request, fetched, metadata, produced, row


def values(partition: dict[str, Any]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in iter_records(partition["records"] or b"")]


def two_batches() -> tuple[Row, Row]:
    """One that was produced at offset 4, and one of which only a consumer knows."""
    return produced(1, batch(b"a", b"b"), 4), fetched(2, 6, batch(b"c", base_offset=6), high_watermark=7)


def test_what_was_produced_and_what_was_fetched_is_handed_out_by_offset() -> None:
    client = Client(*two_batches())
    assert values(client.fetch(4)) == [(4, b"a"), (5, b"b"), (6, b"c")]
    assert values(client.fetch(5)) == [(4, b"a"), (5, b"b"), (6, b"c")], "a batch is handed out as a whole"
    assert values(client.fetch(6)) == [(6, b"c")]
    told = client.fetch(4)
    assert (told["log_start_offset"], told["high_watermark"], told["last_stable_offset"]) == (4, 7, 7)


def test_who_has_room_for_little_gets_a_batch_at_least() -> None:
    client = Client(*two_batches())
    assert values(client.fetch(4, max_bytes=1)) == [(4, b"a"), (5, b"b")]


def test_at_the_end_there_is_nothing_once_the_wait_is_over() -> None:
    client = Client(*two_batches())
    _, reply = client.reply(ApiKey.Fetch, 12, fetch_request(7))
    assert reply.after_us == 500_000
    assert values(client.fetch(7)) == []
    _, reply = client.reply(ApiKey.Fetch, 12, fetch_request(4))
    assert reply.after_us == 0


def test_an_offset_out_of_range_is_told_as_that() -> None:
    client = Client(*two_batches())
    assert [client.fetch(offset)["error_code"] for offset in (3, 8)] == [ErrorCode.OFFSET_OUT_OF_RANGE] * 2


def test_every_version_gets_the_same_records() -> None:
    client = Client(metadata(0, "orders"), *two_batches())
    topic_id = client.recording.names.topic_id("orders")
    for version in client.stand_in.offer[ApiKey.Fetch]:
        asked = fetch_request(4)
        asked["topics"][0]["topic_id"] = topic_id
        (topic,) = client.ask(ApiKey.Fetch, version, asked)["responses"]
        assert len(values(topic["partitions"][0])) == 3, version
        assert topic.get("topic_id", topic_id) == topic_id


def test_an_error_is_met_once_by_who_has_come_as_far_at_that_node() -> None:
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    client = Client(*two_batches(), fetched(3, 6, b"", error, high_watermark=-1))
    assert client.fetch(4)["error_code"] == 0
    elsewhere = client.ask(ApiKey.Fetch, 12, fetch_request(6), node_id=2)
    assert elsewhere["responses"][0]["partitions"][0]["error_code"] == 0
    assert [client.fetch(6)["error_code"] for _ in range(2)] == [error, 0]


def test_in_a_fetch_session_an_error_is_at_the_offset_that_was_asked_for_before() -> None:
    def in_session(at_ms: int, epoch: int, topics: list[Any], told: list[Any]) -> Row:
        asked = fetch_request(0, session_id=9 if epoch else 0, session_epoch=epoch, topics=topics)
        return row(at_ms, ApiKey.Fetch, 11, asked, {"session_id": 9, "responses": told})

    partition = {"partition_index": 0, "aborted_transactions": None, "records": b""}
    ok = [{"topic": "orders", "partitions": [{**partition, "high_watermark": 9}]}]
    refused = [{"topic": "orders", "partitions": [{**partition, "error_code": 6, "high_watermark": -1}]}]
    client = Client(
        produced(0, batch(*[b"v"] * 9), 0),
        in_session(1, 0, fetch_request(5)["topics"], ok),
        in_session(2, 1, [], refused),
    )
    assert [client.fetch(offset)["error_code"] for offset in (4, 5, 5)] == [0, 6, 0]


def test_a_session_of_before_is_not_known() -> None:
    client = Client(*two_batches())
    body = client.ask(ApiKey.Fetch, 12, fetch_request(4, session_id=5, session_epoch=3))
    assert body["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_fetch_that_never_came_back_does_so_once_unless_its_client_just_left() -> None:
    lost = fetched(3, 6, b"", is_answered=False)
    client = Client(*two_batches(), lost, ended(2000, "the client closed the connection"))
    assert client.reply(ApiKey.Fetch, 12, fetch_request(6))[1].ending is Ending.SILENT
    assert values(client.fetch(6)) == [(6, b"c")]
    left = Client(*two_batches(), lost, ended(300, "the client closed the connection"))
    assert values(left.fetch(6)) == [(6, b"c")]


def test_only_what_a_fetch_took_beyond_its_wait_is_kept_of_its_latency() -> None:
    records = batch(b"c", base_offset=6)
    slow = Client(fetched(2, 6, records, response_at_us=902_000))
    assert slow.reply(ApiKey.Fetch, 12, fetch_request(6))[1].after_us == 400_000
    waited = Client(fetched(2, 6, records, response_at_us=402_000))
    assert waited.reply(ApiKey.Fetch, 12, fetch_request(6))[1].after_us == 0
    hurried = Client(fetched(2, 6, records, response_at_us=902_000), at_once=True)
    assert hurried.reply(ApiKey.Fetch, 12, fetch_request(6))[1].after_us == 0


def test_a_topic_that_was_not_recorded_is_unknown() -> None:
    client = Client(metadata(0, "empty"), *two_batches())
    codes = []
    for topic in ("empty", "none"):
        answer = client.ask(ApiKey.Fetch, 12, fetch_request(0, topic=topic))
        codes.append(answer["responses"][0]["partitions"][0]["error_code"])
    assert codes == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_damaged_batch_is_met_once_where_a_whole_one_was_recorded_too() -> None:
    whole = batch(b"a", b"b", base_offset=4)
    damaged = whole[:-2] + b"**"
    client = Client(produced(1, batch(b"a", b"b"), 4), fetched(2, 4, damaged, high_watermark=6))
    assert [bytes(client.fetch(4)["records"]) for _ in range(3)] == [damaged, whole, whole]
    alone = Client(fetched(2, 4, damaged, high_watermark=6))
    assert [bytes(alone.fetch(4)["records"]) for _ in range(2)] == [damaged, damaged]


def test_a_topic_that_was_made_anew_has_the_records_of_its_last_life_alone() -> None:
    """A broker that lags tells of the first one once more."""

    def told(at_ms: int, number: int) -> Row:
        partitions = [{"partition_index": 0, "leader_id": 1}]
        topic = {"name": "orders", "topic_id": UUID(int=number), "partitions": partitions}
        brokers = [{"node_id": 1, "host": "kafka", "port": 9001}]
        asked = {"topics": [{"name": "orders", "topic_id": NO_UUID}]}
        return row(at_ms, ApiKey.Metadata, 12, asked, {"brokers": brokers, "controller_id": 1, "topics": [topic]})

    first = [told(0, 1), produced(1, batch(b"1", b"2", b"3"), 0), fetched(2, 0, batch(b"1", b"2", b"3"))]
    client = Client(*first, told(3, 2), told(4, 1), produced(5, batch(b"x"), 0))
    assert values(client.fetch(0)) == [(0, b"x")]
    assert client.recording.log.reborn == {"orders": 3}
    assert client.recording.names.topic_id("orders") == UUID(int=2)


def test_aborted_transactions_are_told_to_who_reads_committed_records_alone() -> None:
    sent = batch(b"a", producer_id=7, sequence=0, is_transactional=True)
    ending = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0, "committed": False}
    client = Client(produced(0, sent, 0), row(1, ApiKey.EndTxn, 3, ending, {"error_code": 0}))
    asked = [fetch_request(0, isolation_level=level) for level in (0, 1)]
    answers = [client.ask(ApiKey.Fetch, 12, one)["responses"][0]["partitions"][0] for one in asked]
    assert [one["aborted_transactions"] and len(one["aborted_transactions"]) for one in answers] == [None, 1]
