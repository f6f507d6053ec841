"""Produce: recorded outcomes in their order, base offsets that follow one another."""

from __future__ import annotations

from typing import Final

from notleader.proxy.replay.exchange import Ending
from notleader.proxy.replay.reply import Source
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from tests.proxy.replay.made import Client, batch, ended, metadata, produce_request, produced

NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_errors_come_in_recorded_order_and_the_last_outcome_again() -> None:
    client = Client(
        produced(1, batch(b"a"), 5), produced(2, batch(b"b"), -1, NOT_LEADER), produced(3, batch(b"b", b"c"), 6)
    )
    assert [client.produce()[0] for _ in range(5)] == [(0, 5), (NOT_LEADER, -1), (0, 6), (0, 7), (0, 8)]
    assert client.stand_in.counts == {Source.RECORDED: 3, Source.REPEATED: 2}


def test_base_offsets_go_on_behind_what_was_sent_and_never_below_what_was_recorded() -> None:
    client = Client(produced(1, batch(b"a"), 5), produced(2, batch(b"b"), 9))
    assert client.produce(batch(b"1", b"2", b"3")) == [(0, 5)]
    assert client.produce(batch(b"4")) == [(0, 9)]
    assert client.produce(batch(b"5")) == [(0, 10)]


def test_an_error_is_met_at_the_node_that_gave_it() -> None:
    client = Client(produced(1, batch(b"a"), -1, NOT_LEADER, node_id=1), produced(2, batch(b"a"), 0, node_id=2))
    assert client.produce(node_id=2) == [(0, 0)]
    assert client.produce(node_id=1) == [(NOT_LEADER, -1)]


def test_a_client_gets_its_own_outcomes() -> None:
    client = Client(
        produced(1, batch(b"a"), -1, NOT_LEADER, client_id="other"), produced(2, batch(b"a"), 0, client_id="shop")
    )
    assert client.produce(client_id="shop") == [(0, 0)]
    assert client.produce(client_id="other") == [(NOT_LEADER, -1)]


def test_a_batch_that_is_sent_again_is_where_it_was() -> None:
    client = Client(produced(1, batch(b"a"), 0))
    again = batch(b"x", producer_id=7, sequence=0)
    assert [client.produce(again)[0] for _ in range(2)] == [(0, 0), (0, 0)]
    assert client.produce(batch(b"y", producer_id=7, sequence=1)) == [(0, 1)]


def test_an_answer_that_was_swallowed_is_missing_once_and_the_records_are_there() -> None:
    client = Client(produced(1, batch(b"a"), -1, is_answered=False, outcome="dropped"), produced(2, batch(b"a"), 1))
    sent = produce_request(batch(b"a"))
    _, reply = client.reply(ApiKey.Produce, 9, sent)
    assert (reply.frame, reply.ending) == (None, Ending.UNANSWERED)
    assert client.produce() == [(0, 1)]
    assert client.produce() == [(0, 2)]
    assert client.stand_in.endings == {Ending.UNANSWERED: 1}


def test_a_connection_that_a_fault_closed_is_closed_after_as_long() -> None:
    refused = {"is_answered": False, "outcome": "closed"}
    client = Client(produced(1, batch(b"a"), -1, **refused), ended(31, "reset by fault cut"))
    _, reply = client.reply(ApiKey.Produce, 9, produce_request(batch(b"a")))
    assert (reply.frame, reply.ending, reply.after_us) == (None, Ending.RESET, 30_000)


def test_at_acks_0_nothing_is_answered() -> None:
    client = Client(produced(1, batch(b"a"), 0))
    _, reply = client.reply(ApiKey.Produce, 9, produce_request(batch(b"a"), acks=0))
    assert (reply.frame, reply.ending) == (None, Ending.ANSWERED)


def test_a_partition_that_only_metadata_knows_takes_records_and_any_other_refuses_them() -> None:
    client = Client(metadata(0, "orders", partitions=2), produced(1, batch(b"a"), 0))
    assert client.produce(batch(b"a"), 1) == [(0, 0)]
    assert client.produce(batch(b"a"), 1) == [(0, 1)]
    assert client.produce(batch(b"a"), 2) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]
    assert len(client.said) == 1
    assert "Produce" in client.said[0]


def test_a_producer_of_another_version_names_the_topic_by_its_id() -> None:
    client = Client(metadata(0, "orders"), produced(1, batch(b"a"), 3))
    topic_id = client.recording.names.topic_id("orders")
    request = produce_request(batch(b"a"))
    request["topic_data"][0]["topic_id"] = topic_id
    (topic,) = client.ask(ApiKey.Produce, 13, request)["responses"]
    assert (topic["topic_id"], topic["partition_responses"][0]["base_offset"]) == (topic_id, 3)
