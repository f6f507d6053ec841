"""When one side is gone, everything that can leave leaves, and then the other side ends. Always."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import Conversation, request, response

REFUSED = {"kind": "error", "error_code": 6, "match": {"client_id": "refused"}, "trigger": {"times": "forever"}}
LATE = {"kind": "delay", "delay_ms": 50, "match": {"client_id": "late*"}, "trigger": {"times": "forever"}}
LATE_ANSWER = {**LATE, "phase": "after_broker", "match": {"client_id": "slow"}}
LATE_REFUSED = {**REFUSED, "match": {"client_id": "late-refused"}}
LOST = {"kind": "drop_response", "match": {"client_id": "lost"}, "trigger": {"times": "forever"}}
RULES = (LATE, LATE_ANSWER, REFUSED, LATE_REFUSED, LOST)
CLIENTS = ("plain", "refused", "late", "late-refused", "slow", "lost")


def produce(correlation_id: int, client_id: str) -> bytes:
    partitions = [{"index": 0, "records": None}]
    body = {"acks": -1, "topic_data": [{"name": "t", "partition_data": partitions}]}
    return request(ApiKey.Produce, 8, correlation_id, body, client_id)


def produced(correlation_id: int) -> bytes:
    partitions = [{"index": 0, "base_offset": correlation_id}]
    return response(
        ApiKey.Produce, 8, correlation_id, {"responses": [{"name": "t", "partition_responses": partitions}]}
    )


def answered(commands: list[Any]) -> list[int]:
    """The correlation ids of the whole answers among what was sent to the client."""
    data = b"".join(part for command in commands if command[0] == "to_client" for part in command[1:2])
    found = []
    while len(data) >= 8:
        size = int.from_bytes(data[:4])
        if len(data) < 4 + size:
            break
        found.append(int.from_bytes(data[4:8]))
        data = data[4 + size :]
    return found


def test_an_answer_behind_a_request_that_the_broker_took_along_ends_the_client() -> None:
    talk = Conversation(*RULES)
    talk.client(produce(1, "plain"))
    talk.client(produce(2, "refused"))
    talk.session.broker_eof(talk.now_us)
    assert [command[0] for command in talk.commands()] == ["close"]
    assert [exchange.outcome for exchange in talk.exchanges] == ["no_response", "no_response"]


def test_an_answer_that_is_held_for_a_time_leaves_before_the_client_is_ended() -> None:
    talk = Conversation(*RULES)
    talk.client(produce(1, "slow"))
    talk.broker(produced(1))
    talk.client(produce(2, "refused"))
    talk.client(produce(3, "plain"))
    talk.session.broker_eof(talk.now_us)
    assert "close" not in [command[0] for command in talk.commands()]
    commands = talk.at(60)
    assert answered(commands) == [1, 2]
    assert commands[-1][0] == "close"


@pytest.mark.parametrize("level", [None, *Level])
def test_an_answer_cut_in_mid_frame_is_closed_with_the_bytes_that_passed(level: Level | None) -> None:
    talk = Conversation(level=level)
    talk.client(request(ApiKey.Fetch, 11, 1, {}))
    partition = {"partition_index": 0, "records": b"r" * 5000}
    whole = response(ApiKey.Fetch, 11, 1, {"responses": [{"topic": "t", "partitions": [partition]}]})
    talk.broker(whole[:3000])
    talk.session.broker_eof(talk.now_us)
    talk.commands()
    (exchange,) = talk.exchanges
    assert (exchange.outcome, exchange.response_bytes) == ("closed", 3000)
    row = dict(zip(COLUMNS, Rows("run", "proxy", 7, level or Level.HEADER).of(exchange), strict=True))
    assert (row["outcome"], row["response_bytes"], row["error_code"]) == ("closed", 3000, None)


def test_an_answer_that_broke_off_is_told_also_where_another_left_after_it() -> None:
    talk = Conversation(*RULES)
    talk.client(produce(1, "slow") + produce(2, "plain"))
    talk.broker(produced(1) + produced(2)[:20])
    talk.session.broker_eof(talk.now_us)
    assert "close" not in [command[0] for command in talk.commands()]
    commands = talk.at(60)
    assert answered(commands) == [1]
    assert commands[-1] == ("close", "the broker closed the connection in the middle of an answer")


def test_who_closed_first_is_told_where_an_answer_breaks_off() -> None:
    talk = Conversation()
    talk.client(produce(1, "plain"))
    talk.session.client_eof(talk.now_us)
    talk.broker(produced(1)[:20])
    talk.session.broker_eof(talk.now_us)
    assert talk.commands()[-1] == ("close", "the client closed the connection")


@settings(max_examples=400)
@given(st.data())
@pytest.mark.parametrize("gone", ["broker", "client"])
def test_whatever_waits(gone: str, data: st.DataObject) -> None:
    talk = Conversation(*RULES)
    seen: list[Any] = []
    asked: list[tuple[int, str]] = []
    owed: list[int] = []
    told: set[int] = set()  # what the broker has answered in full

    def noted(commands: list[Any]) -> None:
        seen.extend(commands)
        owed.extend(int.from_bytes(command[1][8:12]) for command in commands if command[0] == "to_broker")

    def answer() -> None:
        told.add(owed[0])
        noted(talk.broker(produced(owed.pop(0))))

    for _ in range(data.draw(st.integers(0, 12))):
        step = data.draw(st.sampled_from(["ask", "ask", "answer", "time"]))
        if step == "ask":
            asked.append((len(asked) + 1, data.draw(st.sampled_from(CLIENTS))))
            noted(talk.client(produce(*asked[-1])))
        elif step == "answer" and owed:
            answer()
        else:
            noted(talk.at(talk.now_ms + data.draw(st.integers(1, 60))))
    if gone == "broker":
        torn = data.draw(st.integers(0, 20)) if owed else 0
        if torn:
            noted(talk.broker(produced(owed[0])[:torn]))
        talk.session.broker_eof(talk.now_us)
    else:
        talk.session.client_eof(talk.now_us)
        noted(talk.commands())
        while any(command[0] == "end_broker" for command in seen) and owed:
            answer()
        talk.session.broker_eof(talk.now_us)
    noted(talk.commands())
    for _ in range(40):
        noted(talk.at(talk.now_ms + 60))
    assert [command[0] for command in seen].count("close") == 1
    # Answers leave in order: all of them up to the first that only the broker could have given, or that is lost.
    can_leave = takewhile(lambda each: "refused" in each[1] or (each[0] in told and each[1] != "lost"), asked)
    assert answered(seen) == [correlation_id for correlation_id, _ in can_leave]


def test_a_connection_whose_client_leaves_while_an_answer_is_held_ended_then_and_not_when_that_was_written() -> None:
    talk = Conversation(*RULES)
    talk.client(produce(1, "slow"))
    talk.broker(produced(1))
    left_us = talk.now_us
    talk.session.client_eof(talk.now_us)
    talk.at(60)
    talk.session.broker_eof(talk.now_us)
    talk.commands()
    assert talk.now_us > left_us
    ends = [row for row in talk.records if isinstance(row, ConnectionEvent) and row.event == "disconnect"]
    assert [(row.at_us, row.detail) for row in ends] == [(left_us, "the client closed the connection")]


def test_whose_answer_is_swallowed_was_struck_when_that_was_and_not_when_its_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    talk = Conversation(*RULES)
    struck: list[Exchange] = []
    monkeypatch.setattr(talk.script, "struck", struck.append)
    talk.client(produce(1, "lost"))
    assert not struck
    talk.broker(produced(1))
    assert [exchange.outcome for exchange in struck] == ["dropped"]
    assert not talk.exchanges
