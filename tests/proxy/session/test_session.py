"""The session's promises, as scripts: what goes in, what must come out, in which order."""

from __future__ import annotations

from struct import pack
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.record.rows import Level
from notleader.proxy.session.commands import Script
from notleader.proxy.wire.codec import known_versions
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.view import Request
from tests.proxy.session.conversation import Conversation, decoded, framed, request, response

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


def heartbeat(correlation_id: int) -> bytes:
    return request(ApiKey.Heartbeat, 3, correlation_id, HEARTBEAT)


def heart_answer(correlation_id: int) -> bytes:
    return response(ApiKey.Heartbeat, 3, correlation_id)


def produce(correlation_id: int, acks: int = -1, version: int = 7, size: int = 10, topic: str = "orders") -> bytes:
    partition = {"index": 0, "records": b"x" * size}
    body = {"acks": acks, "timeout_ms": 1, "topic_data": [{"name": topic, "partition_data": [partition]}]}
    return request(ApiKey.Produce, version, correlation_id, body)


def produce_answer(correlation_id: int, version: int = 7) -> bytes:
    body = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 5}]}]}
    return response(ApiKey.Produce, version, correlation_id, body)


def test_what_nobody_asked_about_passes_as_it_came() -> None:
    talk = Conversation()
    asked, answered = heartbeat(1), heart_answer(1)
    assert talk.client(asked) == [("to_broker", asked)]
    assert talk.broker(answered) == [("to_client", answered)]
    (exchange,) = talk.exchanges
    assert (exchange.api_key, exchange.correlation_id, exchange.outcome) == (ApiKey.Heartbeat, 1, "answered")
    assert exchange.request_bytes == len(asked)
    assert exchange.response_bytes == len(answered)


def test_a_large_frame_is_cut_through_before_it_is_complete() -> None:
    talk = Conversation()
    whole = produce(1, size=100_000)
    assert talk.client(whole[:5000]) == [("to_broker", whole[:5000])]
    assert talk.client(whole[5000:]) == [("to_broker", whole[5000:])]


@given(st.data())
@pytest.mark.parametrize("level", [None, Level.RECORD])
def test_any_chunking_gives_the_same_bytes_and_the_same_exchanges(level: Level | None, data: st.DataObject) -> None:
    talk = Conversation(level=level)
    asked = [
        heartbeat(1), produce(2, acks=0), produce(3, version=9, size=700), produce(4, size=3000),
        request(ApiKey.Metadata, 4, 5), heartbeat(6),
    ]  # fmt: skip
    stream = b"".join(asked)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    sent = b""
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if stop > start:
            sent += b"".join(command[1] for command in talk.client(stream[start:stop]))
    assert sent == stream

    answers = b"".join(
        [heart_answer(1), produce_answer(3, 9), produce_answer(4), response(ApiKey.Metadata, 4, 5), heart_answer(6)]
    )
    cuts = data.draw(st.lists(st.integers(0, len(answers)), max_size=12).map(sorted))
    received = b""
    for start, stop in zip([0, *cuts], [*cuts, len(answers)], strict=True):
        if stop > start:
            received += b"".join(command[1] for command in talk.broker(answers[start:stop]))
    assert received == answers
    assert sorted(exchange.correlation_id for exchange in talk.exchanges) == [1, 2, 3, 4, 5, 6]
    if level is not None:
        kept = {exchange.correlation_id: exchange.request for exchange in talk.exchanges}
        for number, whole in enumerate(asked, 1):
            frame = kept[number]
            assert frame is not None
            assert b"".join(frame if isinstance(frame, list) else [frame]) == whole[4:]


def test_acks_0_never_waits_for_an_answer() -> None:
    talk = Conversation()
    talk.client(produce(1, acks=0) + heartbeat(2))
    assert talk.broker(heart_answer(2)) == [("to_client", heart_answer(2))]
    assert [(exchange.correlation_id, exchange.outcome) for exchange in talk.exchanges] == [
        (1, "no_response"),
        (2, "answered"),
    ]


def test_acks_0_is_recorded_once_and_as_a_whole() -> None:
    talk = Conversation(level=Level.RECORD)
    whole = produce(1, acks=0, size=50_000)
    talk.client(whole[:20_000])
    assert not talk.exchanges
    talk.client(whole[20_000:] + heartbeat(2))
    (exchange,) = talk.exchanges
    assert isinstance(exchange.request, list)
    assert b"".join(exchange.request) == whole[4:]

    talk = Conversation(level=Level.RECORD)
    talk.client(whole[:20_000])
    talk.session.gone(talk.now_us, "gone")
    assert talk.commands() == [("close", "gone")]
    assert [(exchange.correlation_id, exchange.outcome) for exchange in talk.exchanges] == [(1, "no_response")]


def test_broker_addresses_are_rewritten_and_nothing_else() -> None:
    talk = Conversation()
    talk.client(request(ApiKey.Metadata, 4, 1))
    broker = {"node_id": 2, "host": "real", "port": 9092, "rack": "r"}
    (command,) = talk.broker(response(ApiKey.Metadata, 4, 1, {"brokers": [broker], "cluster_id": "x"}))
    body = decoded(ApiKey.Metadata, 4, command[1])
    assert body["brokers"] == [{"node_id": 2, "host": "proxy", "port": 9002, "rack": "r"}]
    assert body["cluster_id"] == "x"
    assert talk.brokers_seen == {2}


@pytest.mark.parametrize("topics", [1, 1000])
def test_a_rewritten_answer_is_kept_as_the_client_gets_it(topics: int) -> None:
    talk = Conversation(level=Level.RECORD)
    talk.client(request(ApiKey.Metadata, 8, 1))
    broker = {"node_id": 2, "host": "real", "port": 9092}
    told = [{"name": f"topic-{number}"} for number in range(topics)]
    whole = b"".join(
        data for _, data in talk.broker(response(ApiKey.Metadata, 8, 1, {"brokers": [broker], "topics": told}))
    )
    body = decoded(ApiKey.Metadata, 8, whole)
    assert (body["brokers"][0]["host"], len(body["topics"])) == ("proxy", topics)
    (exchange,) = talk.exchanges
    assert exchange.response == whole[4:]
    assert exchange.response_bytes == len(whole)


def test_an_answer_ends_where_its_client_is_cut_off() -> None:
    """A shape that reaches its limit closes while an answer is being sent: nothing follows, and it is told of once."""
    talk = Conversation()
    talk.client(request(ApiKey.Metadata, 8, 1))
    sent: list[bytes] = []

    def cut(data: bytes) -> None:
        sent.append(data)
        talk.session.gone(talk.now_us, "closed at the limit of a shape")

    broker = {"node_id": 2, "host": "real", "port": 9092}
    told = [{"name": f"topic-{number}"} for number in range(1000)]
    with patch.object(talk.script, "to_client", cut):
        talk.broker(response(ApiKey.Metadata, 8, 1, {"brokers": [broker], "topics": told}))
    assert [len(data) for data in sent] == [4]
    assert [exchange.outcome for exchange in talk.exchanges] == ["answered"]


def test_versions_that_could_hide_an_address_are_capped() -> None:
    talk = Conversation()
    talk.client(request(ApiKey.ApiVersions, 0, 1))
    api_keys = [
        {"api_key": int(ApiKey.Metadata), "min_version": 0, "max_version": 99},
        {"api_key": int(ApiKey.Heartbeat), "min_version": 0, "max_version": 99},
        {"api_key": 900, "min_version": 0, "max_version": 3},
    ]
    said, command = talk.broker(response(ApiKey.ApiVersions, 0, 1, {"api_keys": api_keys}))
    known = {api_key: known_versions(api_key)[-1] for api_key in (ApiKey.Metadata, ApiKey.Heartbeat)}
    assert list(map(str, said[1])) == [
        f"the broker speaks Metadata up to version 99, this build up to {known[ApiKey.Metadata]}: "
        f"clients are told {known[ApiKey.Metadata]}",
        f"the broker speaks Heartbeat up to version 99, this build up to {known[ApiKey.Heartbeat]}: "
        "newer ones are passed on unread",
        "the broker speaks API 900, which this build doesn't know: passed on unread",
    ]
    versions = {
        entry["api_key"]: entry["max_version"] for entry in decoded(ApiKey.ApiVersions, 0, command[1])["api_keys"]
    }
    assert versions[ApiKey.Metadata] == known[ApiKey.Metadata]
    assert versions[ApiKey.Heartbeat] == 99
    assert versions[900] == 3


def test_a_delay_holds_the_later_answers_back() -> None:
    talk = Conversation({"kind": "delay", "delay_ms": 100, "phase": "after_broker", "match": {"api_key": "Heartbeat"}})
    talk.client(heartbeat(1) + heartbeat(2))
    woken = talk.broker(heart_answer(1) + heart_answer(2))
    assert woken == [("wake", 1_100_000)]
    assert talk.at(99) == [("wake", 1_100_000)]
    assert talk.at(100) == [("to_client", heart_answer(1)), ("to_client", heart_answer(2))]


def test_delays_of_requests_that_come_together_run_together() -> None:
    late = {"kind": "delay", "delay_ms": 100, "match": {"api_key": "Heartbeat"}, "trigger": {"times": "forever"}}
    talk = Conversation({**late, "phase": "after_broker"})
    talk.client(heartbeat(1) + heartbeat(2))
    talk.broker(heart_answer(1))
    talk.at(60)
    talk.broker(heart_answer(2))
    assert talk.at(100) == [("to_client", heart_answer(1)), ("wake", 1_160_000)]
    assert talk.at(160) == [("to_client", heart_answer(2))]
    talk = Conversation({**late, "name": "one", "delay_ms": 40}, {**late, "name": "other", "delay_ms": 60})
    talk.client(heartbeat(1) + heartbeat(2))
    assert talk.at(99) == [("wake", 1_100_000)]
    assert talk.at(100) == [("to_broker", heartbeat(1)), ("to_broker", heartbeat(2))]


def test_of_a_request_only_the_partitions_that_are_meant_are_doubled() -> None:
    double = {"kind": "duplicate", "copies": 2}
    both = {"topic_data": [{"name": name, "partition_data": [{"index": 0, "records": b"x"}]} for name in ("a", "b")]}
    asked = request(ApiKey.Produce, 7, 1, {"acks": -1, **both})
    talk = Conversation({**double, "match": {"topic": "b"}})
    first, *copies = [command[1] for command in talk.client(asked)]
    assert first == asked
    sent = [[topic["name"] for topic in Request(copy[4:]).body["topic_data"]] for copy in copies]
    assert sent == [["b"], ["b"]]
    talk = Conversation({**double, "match": {"topic": "?"}})
    assert [command[1] for command in talk.client(asked)] == [asked] * 3
    refused = {"kind": "error", "error_code": 6, "match": {"topic": "b"}}
    talk = Conversation({**double, "match": {"topic": "b"}}, refused)
    (only,) = [command[1] for command in talk.client(asked)]
    assert [topic["name"] for topic in Request(only[4:]).body["topic_data"]] == ["a"]


def test_a_delayed_request_holds_the_later_requests_back() -> None:
    talk = Conversation({"kind": "delay", "delay_ms": 50, "match": {"api_key": "Heartbeat"}})
    assert talk.client(heartbeat(1) + produce(2)) == [("wake", 1_050_000)]
    assert talk.at(50) == [("to_broker", heartbeat(1)), ("to_broker", produce(2))]


def test_a_local_answer_waits_for_the_answers_before_it() -> None:
    talk = Conversation(
        {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"api_key": "Produce", "topic": "orders"}}
    )
    assert talk.client(heartbeat(1) + produce(2) + heartbeat(3)) == [
        ("to_broker", heartbeat(1)),
        ("to_broker", heartbeat(3)),
    ]
    first, injected = (command[1] for command in talk.broker(heart_answer(1)))
    assert first == heart_answer(1)
    (topic,) = decoded(ApiKey.Produce, 7, injected)["responses"]
    assert topic["partition_responses"][0]["error_code"] == 6
    assert talk.broker(heart_answer(3)) == [("to_client", heart_answer(3))]
    assert [(e.correlation_id, e.outcome) for e in talk.exchanges] == [
        (1, "answered"),
        (2, "injected"),
        (3, "answered"),
    ]
    assert talk.exchanges[1].hits[0].kind == "error"
    assert talk.client(produce(4)) == [("to_broker", produce(4))], "times defaults to once"


@pytest.mark.parametrize("kind", ["drop_request", "drop_response"])
@pytest.mark.parametrize("when", ["before the answers", "between them", "after them"])
def test_a_client_that_leaves_what_will_never_be_answered_leaves_nothing_behind(kind: str, when: str) -> None:
    """Megabytes of answers may wait behind the lost one, and a broker that isn't read any more can't say goodbye."""
    talk = Conversation({"kind": kind, "match": {"api_key": "Produce"}})
    talk.client(heartbeat(1) + produce(2) + heartbeat(3))
    answers = {"before the answers": [], "between them": [1], "after them": [1, 2, 3]}[when]
    if kind == "drop_request":
        answers = [number for number in answers if number != 2]
    for number in answers:
        talk.broker(produce_answer(2) if number == 2 else heart_answer(number))
    talk.session.client_eof(talk.now_us)
    talk.commands()
    if when == "before the answers":
        assert talk.broker(heart_answer(1))[0] == ("to_client", heart_answer(1)), "this one may leave yet"
    if kind == "drop_response" and 2 not in answers:
        talk.broker(produce_answer(2))
    assert talk.events == [("disconnect", "the client closed the connection")]
    assert {e.correlation_id: e.outcome for e in talk.exchanges} == {1: "answered", 2: "dropped", 3: "no_response"}


def test_a_dropped_answer_holds_the_later_ones_until_the_connection_ends() -> None:
    talk = Conversation({"kind": "drop_response", "match": {"api_key": "Produce"}})
    talk.client(produce(1) + heartbeat(2))
    assert talk.broker(produce_answer(1) + heart_answer(2)) == []
    talk.session.gone(talk.now_us, "the client closed the connection")
    assert talk.commands() == [("close", "the client closed the connection")]
    assert [(e.correlation_id, e.outcome) for e in talk.exchanges] == [(1, "dropped"), (2, "no_response")]


@pytest.mark.parametrize("kind", ["drop_response", "stall"])
def test_the_capture_has_what_the_broker_said_in_an_answer_that_never_got_its_turn(kind: str) -> None:
    talk = Conversation({"kind": kind, "match": {"api_key": "Heartbeat"}}, level=Level.PARTITION)
    talk.client(heartbeat(1) + produce(2))
    for answer in (heart_answer(1), produce_answer(2)):
        talk.broker(answer)
    talk.session.gone(talk.now_us, "the client closed the connection")
    talk.commands()
    (behind,) = (exchange for exchange in talk.exchanges if exchange.correlation_id == 2)
    assert (behind.outcome, behind.response_at_us, behind.response) == ("no_response", 0, produce_answer(2)[4:])


def test_close_ends_the_connection_and_says_which_fault_did() -> None:
    talk = Conversation({"name": "cut", "kind": "close", "match": {"api_key": "Heartbeat"}})
    assert talk.client(heartbeat(1)) == [("close", "closed by fault cut")]
    assert talk.exchanges[0].outcome == "closed"
    assert talk.events == [("disconnect", "closed by fault cut")]
    assert talk.client(heartbeat(2)) == [], "nothing happens after the end"


@pytest.mark.parametrize("version", [200, 256, 32767, -1])
def test_of_api_versions_a_broker_is_asked_whatever_the_version(version: int) -> None:
    """It answers as in version 0 that it doesn't know it (KIP-511): how a newer client finds an older broker's."""
    talk = Conversation()
    asked = framed(pack(">hhih", ApiKey.ApiVersions, version, 7, -1) + b"\0" * (version >= 3))  # tags of a newer header
    assert talk.client(asked) == [("to_broker", asked)]
    told = response(ApiKey.ApiVersions, 0, 7, {"error_code": ErrorCode.UNSUPPORTED_VERSION})
    assert talk.broker(told)[-1] == ("to_client", told)
    assert (talk.exchanges[0].api_version, talk.exchanges[0].outcome) == (version, "answered")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (pack(">ihhih", 10, ApiKey.Metadata, 256, 1, -1), "no Kafka request: api key 3, version 256"),
        (b"GET / HTTP/1.1\r\n\r\n", "this looks like HTTP (GET), not Kafka"),
        (bytes.fromhex("16030100c2010000be0303") + b"x" * 20, "this looks like a TLS handshake"),
        (pack(">i", -1) + b"x" * 20, "a frame length of -1 bytes"),
        (pack(">i", 2**31 - 1) + b"x" * 20, "a frame length of 2147483647 bytes"),
        (pack(">i", 3) + b"x" * 20, "a frame length of 3 bytes"),
        (pack(">ihhih", 50, 12345, 0, 1, -1), "no Kafka request: api key 12345, version 0"),
    ],
)
def test_what_is_not_kafka_closes_its_connection_with_a_reason(sent: bytes, reason: str) -> None:
    talk = Conversation()
    error, close = talk.client(sent)
    assert error[0] == "wire_error"
    assert error[1].startswith(reason)
    assert close[0] == "close"
    assert [event for event, _ in talk.events] == ["wire_error", "disconnect"]


def test_an_http_client_is_told_at_its_first_four_bytes() -> None:
    assert Conversation().client(b"GET ")[0][0] == "wire_error"


def test_an_answer_nobody_waits_for_is_the_brokers_fault() -> None:
    talk = Conversation()
    assert talk.broker(heart_answer(9))[0] == (
        "wire_error",
        "the broker sent an answer (correlation id 9) that no request waits for",
    )
    talk = Conversation()
    talk.client(heartbeat(1))
    assert "where 1 was due" in talk.broker(heart_answer(9))[0][1]


def test_a_client_that_ends_gets_what_it_asked_for() -> None:
    talk = Conversation()
    talk.client(heartbeat(1))
    talk.session.client_eof(talk.now_us)
    assert talk.commands() == [("end_broker",)]
    assert talk.broker(heart_answer(1)) == [("to_client", heart_answer(1))]


def test_held_requests_pause_the_client_before_memory_grows() -> None:
    talk = Conversation({"kind": "delay", "delay_ms": 10, "match": {"api_key": "Produce"}}, max_held_bytes=1000)
    commands = talk.client(produce(1, size=600) + produce(2, size=600))
    assert commands[-1] == ("pause", "client", True)
    commands = talk.at(10)
    assert [command[0] for command in commands] == ["to_broker", "to_broker", "pause"]
    assert commands[-1] == ("pause", "client", False)


def test_bare_sasl_tokens_pass_between_a_version_0_handshake_and_the_first_request() -> None:
    talk = Conversation()
    talk.client(request(ApiKey.SaslHandshake, 0, 1, {"mechanism": "PLAIN"}))
    talk.broker(response(ApiKey.SaslHandshake, 0, 1, {"mechanisms": ["PLAIN"]}))
    token = framed(b"\0alice\0secret")
    assert talk.client(token) == [("to_broker", token)]
    assert talk.session.connection.principal is None
    assert talk.broker(framed(b"")) == [("to_client", framed(b""))]
    assert talk.session.connection.principal == "alice"
    assert talk.client(heartbeat(2)) == [("to_broker", heartbeat(2))]
    assert talk.broker(heart_answer(2)) == [("to_client", heart_answer(2))]
    assert not any(b"secret" in repr(exchange.request).encode() for exchange in talk.exchanges)


def test_bare_tokens_wait_behind_a_request_that_a_rule_holds_while_they_are_agreed() -> None:
    talk = Conversation({"kind": "delay", "delay_ms": 50, "match": {"api_key": "Heartbeat"}})
    talk.client(request(ApiKey.SaslHandshake, 0, 1, {"mechanism": "PLAIN"}) + heartbeat(2))
    talk.broker(response(ApiKey.SaslHandshake, 0, 1, {"mechanisms": ["PLAIN"]}))
    first, second = framed(b"\0alice\0secret"), framed(b"again")
    assert talk.client(first) == []
    assert talk.at(50) == [("to_broker", heartbeat(2)), ("to_broker", first)]
    assert talk.session.connection.asking_principal == "alice"
    assert talk.client(second) == [("to_broker", second)]
    assert talk.client(heartbeat(3)) == [("to_broker", heartbeat(3))]


def test_the_brokers_last_bare_token_may_follow_the_clients_first_request() -> None:
    talk = Conversation()
    talk.client(request(ApiKey.SaslHandshake, 0, 1, {"mechanism": "PLAIN"}))
    talk.broker(response(ApiKey.SaslHandshake, 0, 1, {"mechanisms": ["PLAIN"]}))
    talk.client(framed(b"\0alice\0secret") + heartbeat(2))
    assert talk.broker(framed(b"")) == [("to_client", framed(b""))]
    assert talk.broker(heart_answer(2)) == [("to_client", heart_answer(2))]


@pytest.mark.parametrize("portion", [1000, 10])
def test_an_end_within_a_write_is_the_end(monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    """A shaper closes after so many bytes, while the answer is being sent: the next one neither leaves nor counts."""
    sent = Script.to_client

    def cut(script: Script, data: bytes) -> None:
        sent(script, data)
        talk.session.gone(talk.now_us, "cut")

    monkeypatch.setattr(Script, "to_client", cut)
    talk = Conversation({"kind": "error", "error_code": "REBALANCE_IN_PROGRESS", "trigger": {"skip": 1}})
    talk.client(heartbeat(1) + heartbeat(2))
    answer = heart_answer(1)
    commands = [command for at in range(0, len(answer), portion) for command in talk.broker(answer[at : at + portion])]
    assert commands == [("to_client", answer[:portion]), ("close", "cut")]
    assert [exchange.correlation_id for exchange in talk.exchanges] == ([1, 2] if portion == 10 else [2, 1])
