"""The tables of a conversation's life: whole, drawn as they are, and what the pump is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pytest

from notleader.proxy.pump import Pump
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.life import ANSWERS, REQUESTS, Answers, Event, Life, Requests
from notleader.proxy.session.life_docs import PAGE, page

TABLES = pytest.mark.parametrize(("states", "table"), [(Requests, REQUESTS), (Answers, ANSWERS)])


def life() -> tuple[Life, Pump]:
    pump = Pump(
        SimpleNamespace(client_id=None), Handling(None), SimpleNamespace(interest=lambda *_: 0), max_frame_bytes=1000
    )
    return Life(pump), pump


@TABLES
def test_every_state_is_reached_and_can_be_closed(states: type[Enum], table: Mapping[Any, Mapping[Event, Any]]) -> None:
    assert list(table) == list(states)
    reached = {next(iter(states))}
    while more := {after for state in reached for after in table[state].values()} - reached:
        reached |= more
    assert reached == set(states)
    assert {state for state, row in table.items() if Event.CLOSED not in row} == {states["CLOSED"]}


@TABLES
def test_whoever_waits_can_be_silent_or_muted_but_not_speak_again_once_ended(
    states: type[Enum], table: Mapping[Any, Mapping[Event, Any]]
) -> None:
    assert set(table[states["ENDED"]].values()) <= {states["ENDED"], states["CLOSED"]}


def test_the_pump_stops_what_waits() -> None:
    one, pump = life()
    one.happens(Event.REQUEST_HELD)
    assert pump.stops_requests
    one.happens(Event.CLIENT_ENDED_EARLY)
    assert pump.stops_requests
    one.happens(Event.ALL_SENT)
    assert (one.requests, pump.stops_requests) == (Requests.ENDED, False)
    one.happens(Event.SILENCED)
    assert (one.answers, pump.stops_answers) == (Answers.SILENT, True)


def test_tokens_are_agreed_for_both_and_end_on_each_side() -> None:
    one, pump = life()
    one.happens(Event.TOKENS_AGREED)
    assert (pump.bare_requests, pump.bare_answers) == (True, True)
    one.happens(Event.MUTED)  # a token is no request
    one.happens(Event.FIRST_REQUEST)
    assert (pump.bare_requests, pump.bare_answers) == (False, True)
    one.happens(Event.FIRST_ANSWER)
    assert (one.requests, one.answers, pump.bare_answers) == (Requests.PASSING, Answers.PASSING, False)


def test_what_can_not_happen_is_a_mistake_and_changes_nothing() -> None:
    one, _ = life()
    with pytest.raises(KeyError):
        one.happens(Event.ALL_SENT)
    assert (one.requests, one.answers) == (Requests.PASSING, Answers.PASSING)


def test_the_page_is_drawn_from_the_tables() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m notleader.proxy.session.life_docs`"
