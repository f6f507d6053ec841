"""Steps by time and by hits."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.faults.plan import Plan
from notleader.faults.schema import FaultDocumentError
from notleader.faults.timeline import parse_duration_ms, parse_timeline
from notleader.proxy.wire.names import ApiKey
from tests.faults.script import exchange, request

HEARTBEAT = request(ApiKey.Heartbeat, 4, {"group_id": "g"})
CLOSE = {"kind": "close", "trigger": {"times": "forever"}}


def names(plan: Plan) -> list[str]:
    return [rule.name for rule in plan.rules()]


def test_steps_are_carried_out_when_their_time_has_come() -> None:
    plan = Plan()
    timeline = parse_timeline(
        [
            {"at": "200ms", "add": {"name": "a", **CLOSE}},
            {"at": 1, "add": [{"name": "b", **CLOSE}, {"name": "c", **CLOSE}]},
            {"at": "1.5s", "remove": "a"},
            {"at": "2s", "clear": True},
        ]
    )
    story = []
    for elapsed_ms in (0, 200, 999, 1000, 1500, 1999, 2500):
        timeline.run_due(plan, elapsed_ms, elapsed_ms * 1000)
        story.append(names(plan))
    assert story == [[], ["a"], ["a"], ["a", "b", "c"], ["b", "c"], ["b", "c"], []]
    assert timeline.finished


def test_the_next_wake_is_the_next_timed_step() -> None:
    timeline = parse_timeline([{"at": "3s", "clear": True}, {"at": "1s", "clear": True}])
    assert timeline.next_wake_ms(0) == 1000
    timeline.due(Plan(), 1000)
    assert timeline.next_wake_ms(1000) == 3000
    timeline.due(Plan(), 3000)
    assert timeline.next_wake_ms(3000) is None


def test_a_step_waits_for_the_hits_of_an_earlier_rule() -> None:
    plan = Plan()
    timeline = parse_timeline(
        [
            {"at": 0, "add": {"name": "first", "kind": "delay", "delay_ms": 1, "trigger": {"times": 2}}},
            {"after": {"fault": "first", "hits": 2}, "add": {"name": "then", **CLOSE}, "remove": "first"},
        ]
    )
    story = []
    for _ in range(3):
        timeline.run_due(plan, 0, 0)
        story.append(names(plan))
        exchange(plan, HEARTBEAT)
    assert story == [["first"], ["first"], ["then"]]


def test_each_step_is_handed_out_once() -> None:
    timeline = parse_timeline([{"at": 0, "add": CLOSE}])
    plan = Plan()
    assert [timeline.run_due(plan, now, 0) for now in (0, 1, 2)] == [True, False, False]
    assert names(plan) == ["close-1"]


def test_adding_a_name_again_replaces_the_rule() -> None:
    plan = Plan()
    timeline = parse_timeline(
        [{"at": 0, "add": {"name": "a", **CLOSE}}, {"at": 1, "add": {"name": "a", "kind": "stall"}}]
    )
    timeline.run_due(plan, 5000, 0)
    assert [(rule.name, rule.fault.kind) for rule in plan.rules()] == [("a", "stall")]


def test_the_window_of_an_added_rule_opens_when_it_is_added() -> None:
    plan = Plan()
    document = {"at": "1s", "add": {"name": "a", "kind": "close", "trigger": {"for_ms": 100, "times": "forever"}}}
    parse_timeline([document]).run_due(plan, 1000, 5_000_000)
    assert exchange(plan, HEARTBEAT, now_ms=5099).hits
    assert not exchange(plan, HEARTBEAT, now_ms=5100).hits


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1.5s", 1500), ("200ms", 200), ("2m", 120_000), ("1h", 3_600_000), ("500us", 0.5), (3, 3000), (0.5, 500)],
)
def test_durations(text: Any, ms: float) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["soon", "5", "-1s", -1, None, True, "1.s"])
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError, match="time"):
        parse_duration_ms(text)


def test_every_problem_is_told_with_its_path() -> None:
    with pytest.raises(FaultDocumentError) as caught:
        parse_timeline(
            [
                {"at": "soon", "add": {"kind": "clse"}},
                {"add": {"kind": "close"}},
                {"at": 1, "after": {"fault": "a"}, "clear": False},
                {"after": {"falt": "a", "hits": 0}, "remove": 7},
                {"at": 1},
                {"at": 1, "ad": {}, "clear": True},
                "x",
            ]
        )
    assert [tuple(problem) for problem in caught.value.problems] == [
        ("steps[0].at", "'soon' is no time such as '1.5s' or '200ms'"),
        ("steps[0].add.kind", "there is no kind 'clse'; did you mean 'close'?"),
        ("steps[1]", "says when by one of: at, after"),
        ("steps[2]", "says when by one of: at, after"),
        ("steps[2].clear", "only true makes sense here, got False"),
        ("steps[3].after.falt", "unknown key; did you mean 'fault'?"),
        ("steps[3].after.fault", "the name of a rule expected"),
        ("steps[3].after.hits", "a number of hits from 1 on expected, got 0"),
        ("steps[3].remove", "the name of a rule expected, got 7"),
        ("steps[4]", "says what by one of: add, remove, clear"),
        ("steps[5].ad", "unknown key; did you mean 'add'?"),
        ("steps[6]", "a mapping expected"),
    ]


def test_steps_have_to_be_a_list() -> None:
    with pytest.raises(FaultDocumentError, match="a list of steps expected"):
        parse_timeline({"at": 1})
