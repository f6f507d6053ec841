"""Requests of which other brokers get a part: what each is sent, and when the one answer leaves."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any

import pytest

from notleader.faults.effects import Effect, error_codes
from notleader.faults.schema import parse_fault_document
from notleader.proxy.session.login import Login
from notleader.proxy.wire.codec import request_codec
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import Conversation, decoded, request, response

_REPLICAS = {"error_code": 0, "replica_nodes": [1, 2], "isr_nodes": [1, 2]}
LEADERS = {
    "brokers": [{"node_id": node, "host": f"b{node}", "port": 9092, "rack": None} for node in (1, 2)],
    "topics": [
        {
            "error_code": 0,
            "name": "orders",
            "partitions": [
                {**_REPLICAS, "partition_index": index, "leader_id": leader}
                for index, leader in ((0, 1), (1, 2))
            ],
        }
    ],
}  # fmt: skip


def conversation(login: Callable[[], Login | None] = lambda: None) -> Conversation:
    """A client on broker 2, which is shown to lead partition 0 of broker 1 too."""
    talk = Conversation(login=login)
    talk.session.connection.node_id = 2
    talk.plan.cluster.observe_metadata(LEADERS)
    talk.plan.elections.move("orders", 0, 2)
    return talk


def produce(correlation_id: int, *partitions: int, acks: int = -1) -> bytes:
    data = [{"index": index, "records": b"x"} for index in partitions]
    body = {"acks": acks, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": data}]}
    return request(ApiKey.Produce, 7, correlation_id, body)


def produced(correlation_id: int, *partitions: int) -> bytes:
    data = [{"index": index, "base_offset": 10 + index} for index in partitions]
    return response(ApiKey.Produce, 7, correlation_id, {"responses": [{"name": "orders", "partition_responses": data}]})


def indexes(whole: bytes) -> list[int]:
    """The partitions of a Produce request of a client named c."""
    topics: list[dict[str, Any]] = request_codec(ApiKey.Produce, 7).decode(whole, 15)["topic_data"]
    return [data["index"] for topic in topics for data in topic["partition_data"]]


def answered(whole: bytes) -> list[tuple[int, int]]:
    (topic,) = decoded(ApiKey.Produce, 7, whole)["responses"]
    return [(data["index"], data["base_offset"]) for data in topic["partition_responses"]]


def test_a_request_is_cut_and_its_answers_become_one_in_whatever_order_they_come() -> None:
    for own_first in (True, False):
        talk = conversation()
        relayed, own = talk.client(produce(7, 0, 1))
        assert (relayed[:2], indexes(relayed[2])) == (("to_node", 1), [0])
        assert (own[0], indexes(own[1])) == ("to_broker", [1])
        if own_first:
            assert talk.broker(produced(7, 1)) == []
            talk.session.node_bytes(1, produced(1, 0), talk.now_us)
            (sent,) = talk.commands()
        else:
            talk.session.node_bytes(1, produced(1, 0), talk.now_us)
            assert talk.commands() == []
            (sent,) = talk.broker(produced(7, 1))
        assert (sent[0], answered(sent[1])) == ("to_client", [(0, 10), (1, 11)])
        assert [(each.outcome, each.hits) for each in talk.exchanges] == [("answered", ())]


def test_answers_leave_in_the_order_of_the_requests() -> None:
    talk = conversation()
    talk.client(produce(1, 0) + produce(2, 1) + produce(3, 0))
    assert talk.broker(produced(2, 1)) == [], "the first is still with the other broker"
    first, third = produced(1, 0), produced(2, 0)
    talk.session.node_bytes(1, first + third[:10], talk.now_us)
    assert [command[1][4:8] for command in talk.commands()] == [b"\0\0\0\1", b"\0\0\0\2"]
    talk.session.node_bytes(1, third[10:], talk.now_us)
    assert [command[1][4:8] for command in talk.commands()] == [b"\0\0\0\3"]


def test_without_acks_nobody_waits() -> None:
    talk = conversation()
    assert [command[0] for command in talk.client(produce(1, 0, 1, acks=0))] == ["to_node", "to_broker"]
    assert [each.outcome for each in talk.exchanges] == ["no_response"]
    talk.session.node_gone(1, "it closed the connection", talk.now_us)
    assert talk.commands() == []


def codes(whole: bytes) -> list[tuple[int, int]]:
    (topic,) = decoded(ApiKey.Produce, 7, whole)["responses"]
    return [(data["index"], data["error_code"]) for data in topic["partition_responses"]]


def told(talk: Conversation) -> list[tuple[str, list[tuple[str, str, tuple[Effect, ...]]]]]:
    """How each exchange ended, and whose doing that was."""
    return [(each.outcome, [(hit.rule_name, hit.kind, hit.effects) for hit in each.hits]) for each in talk.exchanges]


TIMED_OUT, NO_COORDINATOR = 7, 15
REFUSED = Effect("answered", TIMED_OUT, frozenset({("orders", 0)}))


def test_what_a_broker_that_is_gone_was_to_get_is_refused_in_its_place_by_whose_doing_it_was_to() -> None:
    talk = conversation()
    talk.client(produce(1, 0) + produce(2, 0, 1))
    talk.session.node_gone(1, "it closed the connection", talk.now_us)
    (sent,) = talk.commands()
    assert (sent[0], codes(sent[1])) == ("to_client", [(0, TIMED_OUT)])
    (sent,) = talk.broker(produced(2, 1))
    assert (sent[0], codes(sent[1])) == ("to_client", [(0, TIMED_OUT), (1, 0)])
    by = [("move", "leader_move", (REFUSED,))]
    assert told(talk) == [("injected", by), ("altered", by)]


@pytest.mark.parametrize(
    ("api_key", "version", "topics"),
    [
        (ApiKey.Fetch, 4, [{"topic": "orders", "partitions": [{"partition": 0}, {"partition": 1}]}]),
        (ApiKey.ListOffsets, 2, [{"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]),
        (ApiKey.OffsetForLeaderEpoch, 2, [{"topic": "orders", "partitions": [{"partition": 0}, {"partition": 1}]}]),
        (ApiKey.DeleteRecords, 1, [{"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]),
    ],
)
def test_a_leader_that_is_gone_leads_no_more(api_key: ApiKey, version: int, topics: list[dict[str, Any]]) -> None:
    talk = conversation()
    talk.plan.elections.move("orders", 1, 2)
    for index in (0, 1):
        talk.plan.cluster.leaders["orders", index] = talk.plan.cluster.leaders["orders", 0]
    (sent,) = [each for each in talk.client(request(api_key, version, 1, {"topics": topics})) if each[0] == "to_node"]
    assert sent[:2] == ("to_node", 1)
    talk.session.node_gone(1, "it closed the connection", talk.now_us)
    (sent,) = talk.commands()
    assert sent[0] == "to_client"
    assert list(error_codes(decoded(api_key, version, sent[1]))) == [6, 6]


def test_a_coordinator_that_is_gone_is_none() -> None:
    talk = Conversation({"kind": "broker_down", "name": "down", "node_id": 1, "election_ms": 0})
    talk.session.connection.node_id = 2
    talk.plan.cluster.observe_metadata(LEADERS)
    talk.client(request(ApiKey.FindCoordinator, 1, 1, {"key": "g", "key_type": 0}))
    found = {"error_code": 0, "error_message": None, "node_id": 1, "host": "b1", "port": 9092}
    talk.broker(response(ApiKey.FindCoordinator, 1, 1, found))
    (sent,) = talk.client(request(ApiKey.Heartbeat, 1, 2, {"group_id": "g", "generation_id": 1, "member_id": "m"}))
    assert sent[:2] == ("to_node", 1)
    talk.session.node_gone(1, "Connection refused", talk.now_us)
    (sent,) = talk.commands()
    assert decoded(ApiKey.Heartbeat, 1, sent[1])["error_code"] == NO_COORDINATOR
    assert told(talk)[-1] == ("injected", [("down", "broker_down", (Effect("answered", NO_COORDINATOR),))])


def test_an_answer_that_was_not_asked_for_breaks_the_protocol() -> None:
    talk = conversation()
    talk.client(produce(1, 0))
    talk.session.node_bytes(1, produced(9, 0), talk.now_us)
    error, close = talk.commands()
    assert error == ("wire_error", "broker 1 answered what it wasn't asked")
    assert close[0] == "close"


def test_a_request_that_is_sent_twice_is_relayed_twice_and_answered_once() -> None:
    talk = conversation()
    talk.plan.add(parse_fault_document({"kind": "duplicate"}))
    sent = talk.client(produce(7, 0, 1))
    assert [command[0] for command in sent] == ["to_node", "to_node", "to_broker", "to_broker"]
    assert sent[0][2][12:] == sent[1][2][12:], "but for the correlation id"
    assert talk.broker(produced(7, 1)) == []
    talk.session.node_bytes(1, produced(1, 0), talk.now_us)
    (answer,) = talk.commands()
    assert answered(answer[1]) == [(0, 10), (1, 11)]
    talk.session.node_bytes(1, produced(2, 0), talk.now_us)
    assert (talk.commands(), talk.broker(produced(7, 1))) == ([], [])
    talk.session.node_gone(1, "it closed the connection", talk.now_us)
    assert talk.commands() == [], "nobody waits for it any more"


def handshaken() -> bytes:
    return response(ApiKey.SaslHandshake, 1, 0, {"error_code": 0, "mechanisms": ["PLAIN"]})


def let_in(**other: Any) -> bytes:
    return response(ApiKey.SaslAuthenticate, 1, 0, {"error_code": 0, "auth_bytes": b"", **other})


def sent_to_1(talk: Conversation, data: bytes = b"") -> list[int]:
    """The APIs of what broker 1 is sent, after it said this."""
    if data:
        talk.session.node_bytes(1, data, talk.now_us)
    return [int.from_bytes(command[2][4:6], "big") for command in talk.commands() if command[0] == "to_node"]


def test_parts_wait_for_the_login_and_for_the_next_one_before_the_session_ends() -> None:
    talk = conversation(lambda: Login("PLAIN", "relay", "secret"))

    def ask(correlation_id: int) -> list[int]:
        talk.session.client_bytes(produce(correlation_id, 0), talk.now_us)
        return sent_to_1(talk)

    assert ask(1) == [ApiKey.SaslHandshake]
    assert ask(2) == []
    assert sent_to_1(talk, handshaken()) == [ApiKey.SaslAuthenticate]
    assert sent_to_1(talk, let_in(session_lifetime_ms=6000)) == [ApiKey.Produce, ApiKey.Produce]
    talk.now_ms = 5000
    assert ask(3) == [ApiKey.Produce]
    talk.now_ms = 5500
    assert ask(4) == [ApiKey.SaslHandshake], "the broker would end the session with a request after six seconds"
    answers = produced(1, 0) + produced(2, 0) + produced(3, 0) + handshaken()
    assert sent_to_1(talk, answers[:-5]) == [], "what was asked before is answered before"
    assert [each.outcome for each in talk.exchanges] == ["answered"] * 3
    assert sent_to_1(talk, answers[-5:]) == [ApiKey.SaslAuthenticate]
    assert sent_to_1(talk, let_in(session_lifetime_ms=0)) == [ApiKey.Produce]
    talk.now_ms = 60_000
    assert ask(5) == [ApiKey.Produce], "a session without an end is not renewed"


def test_a_login_that_is_refused_ends_the_conversation_and_is_told() -> None:
    talk = conversation(lambda: Login("PLAIN", "relay", "secret"))
    talk.client(produce(1, 0))
    talk.session.node_bytes(1, handshaken() + let_in(error_code=58, error_message="who?"), talk.now_us)
    *_, told, close = talk.commands()
    assert told == ("not_let_in", 1, "SASL_AUTHENTICATION_FAILED: who?")
    assert close[0] == "close"
    assert "secret" not in close[1]


def test_the_next_connection_to_a_broker_begins_anew() -> None:
    talk = conversation(lambda: Login("PLAIN", "relay", "secret"))
    talk.plan.add(parse_fault_document({"kind": "duplicate", "trigger": {"times": 1}}))
    talk.client(produce(1, 0))
    sent_to_1(talk, handshaken())
    assert len(sent_to_1(talk, let_in())) == 2
    sent_to_1(talk, produced(1, 0) + produced(2, 0)[:9])
    talk.session.node_gone(1, "it closed the connection", talk.now_us)
    assert sent_to_1(talk) == []
    talk.session.client_bytes(produce(2, 0), talk.now_us)
    assert sent_to_1(talk) == [ApiKey.SaslHandshake]
    sent_to_1(talk, handshaken())
    assert sent_to_1(talk, let_in()) == [ApiKey.Produce]
    sent_to_1(talk, produced(3, 0))
    assert [each.outcome for each in talk.exchanges] == ["altered", "answered"]


def test_an_impossible_length_of_another_broker_is_one_at_its_fourth_byte() -> None:
    for size in (-1, 0, 3, 2**31 - 1):
        talk = conversation()
        talk.client(produce(7, 0, 1))
        whole = pack(">i", size)
        talk.session.node_bytes(1, whole[:3], talk.now_us)
        assert talk.commands() == []
        talk.session.node_bytes(1, whole[3:], talk.now_us)
        assert talk.commands()[0] == ("wire_error", f"an answer of {size} bytes from broker 1")
