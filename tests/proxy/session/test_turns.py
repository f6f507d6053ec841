"""How much of one conversation is taken in one go, and how much of it may be open: others have their turn too."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.proxy.pump.flags import MOST_OPEN, MOST_STOPS
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import Conversation, request, response
from tests.proxy.session.test_session import heart_answer, heartbeat, produce

MORE = MOST_OPEN + 10
PAUSED, READ_ON = ("pause", "client", True), ("pause", "client", False)


def asked(first: int, last: int) -> bytes:
    return b"".join(heartbeat(number) for number in range(first, last + 1))


def answers(first: int, last: int) -> bytes:
    return b"".join(heart_answer(number) for number in range(first, last + 1))


def to(side: str, commands: list[Any]) -> bytes:
    return b"".join(command[1] for command in commands if command[0] == f"to_{side}")


def now(talk: Conversation) -> tuple[str, int]:
    return ("wake", talk.now_us)


def test_a_client_is_not_read_while_too_much_is_open_until_half_of_that_is_answered() -> None:
    talk = Conversation()
    assert PAUSED not in talk.client(asked(1, MOST_OPEN))
    assert talk.client(asked(MOST_OPEN + 1, MORE))[1:] == [PAUSED]
    half = MORE - MOST_OPEN // 2
    assert len(talk.broker(answers(1, half - 1))) == 1
    assert talk.broker(heart_answer(half))[1:] == [now(talk)]
    assert talk.at(0) == [READ_ON]
    assert len(talk.client(asked(MORE + 1, MORE + 5))) == 1


def test_requests_without_an_answer_are_not_open() -> None:
    talk = Conversation()
    assert len(talk.client(b"".join(produce(number, acks=0) for number in range(1, MORE)))) == 1


def test_what_a_rule_holds_back_goes_on_when_it_is_let_go() -> None:
    rule = {"name": "hold", "kind": "stall", "phase": "before_broker", "match": {"api_key": "Heartbeat"}}
    talk = Conversation({**rule, "trigger": {"times": 1}})
    taken = MOST_OPEN + MOST_STOPS
    commands = talk.client(asked(1, taken + 10))
    while commands[-1] == now(talk):
        commands = talk.at(talk.now_ms)
    assert commands[-1] == PAUSED
    assert talk.session.exchanges == taken
    talk.plan.remove("hold")
    assert to("broker", talk.at(0)) == asked(1, taken)
    talk.broker(answers(1, taken))
    commands = talk.at(0)
    assert commands[0] == READ_ON
    assert to("broker", commands) == asked(taken + 1, taken + 10)


def test_answers_made_here_let_the_client_go_on() -> None:
    rule = {"name": "hold", "kind": "stall", "phase": "after_broker", "match": {"api_key": "Heartbeat"}}
    talk = Conversation({**rule, "trigger": {"times": 1}})
    talk.client(heartbeat(1))
    talk.client(asked(2, MORE))
    for number in range(1, MORE + 1, MOST_STOPS // 2):
        talk.broker(answers(number, min(number + MOST_STOPS // 2 - 1, MORE)))
    talk.plan.remove("hold")
    commands = talk.at(0)
    assert to("client", commands) == answers(1, MORE)
    assert commands[-1] == READ_ON


@pytest.mark.parametrize("first", ["crowded", "dropped"])
def test_a_client_that_will_get_no_answer_is_noticed_when_it_leaves(first: str) -> None:
    rule = {"kind": "drop_response", "match": {"api_key": "Heartbeat"}, "trigger": {"times": 1}}
    talk = Conversation(rule)
    talk.client(heartbeat(1))
    if first == "dropped":
        talk.broker(heart_answer(1))
    commands = talk.client(asked(2, MORE))
    if first == "crowded":
        commands += talk.broker(heart_answer(1))
    assert commands[1:] == [PAUSED, now(talk)]
    assert talk.at(0) == [READ_ON]
    assert talk.client(asked(MORE + 1, 2 * MORE) + heartbeat(1)[:5]) == []
    assert talk.session.exchanges == MORE
    talk.session.client_eof(talk.now_us)
    assert talk.commands()[-1] == ("close", "the client closed the connection")
    assert len(talk.exchanges) == MORE


def test_what_has_to_be_seen_is_seen_in_turns_and_in_order() -> None:
    talk = Conversation()
    count = 2 * MOST_STOPS + 5
    frames = b"".join(request(ApiKey.ApiVersions, 0, number) for number in range(1, count + 1))
    commands = talk.client(frames + heartbeat(count + 1))
    assert commands[-2:] == [PAUSED, now(talk)]
    assert talk.session.exchanges == MOST_STOPS
    talk.session.client_eof(talk.now_us)
    for seen in (2 * MOST_STOPS, count + 1):
        commands += talk.at(0)
        assert talk.session.exchanges == seen
    assert to("broker", commands) == frames + heartbeat(count + 1)
    assert commands[-1] == ("end_broker",)


def test_answers_are_seen_in_turns_and_the_brokers_end_behind_them() -> None:
    talk = Conversation()
    count = MOST_STOPS + 5
    frames = [response(ApiKey.ApiVersions, 0, number) for number in range(1, count + 1)]
    talk.client(b"".join(request(ApiKey.ApiVersions, 0, number) for number in range(1, count + 1)))
    talk.at(0)
    commands = talk.broker(b"".join(frames))
    assert commands[-2:] == [("pause", "broker", True), now(talk)]
    talk.session.broker_eof(talk.now_us)
    assert talk.commands() == []
    commands += talk.at(0)
    assert to("client", commands) == b"".join(frames)
    assert ("pause", "broker", False) in commands
    assert commands[-1] == ("close", "the broker closed the connection")
