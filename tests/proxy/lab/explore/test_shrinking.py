from __future__ import annotations

from typing import Any

from notleader.proxy.lab.explore.shrinking import shrink, steps, text


def error(times: int, skip: int = 0, **match: Any) -> dict[str, Any]:
    trigger = {"times": times} | ({"skip": skip} if skip else {})
    return {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": match, "trigger": trigger}


def test_other_rules_places_counts_and_keys_go_until_nothing_can() -> None:
    """A client that breaks at the fourth refusal of a Produce, wherever it is."""

    def breaks(rules: list[dict[str, Any]]) -> bool:
        return any(rule["kind"] == "error" and rule["trigger"]["times"] >= 4 for rule in rules)

    delay = {"kind": "delay", "delay_ms": 1500, "match": {"api_key": "Metadata"}, "trigger": {"times": 1}}
    found = shrink([delay, error(5, skip=7, api_key="Produce", partition_index=2)], breaks)
    assert found == [error(4, api_key="Produce")]


def test_a_place_that_matters_stays() -> None:
    def breaks(rules: list[dict[str, Any]]) -> bool:
        return rules[0]["trigger"].get("skip", 0) == 2

    given = [error(1, skip=2, api_key="Produce")]
    assert shrink(given, breaks) == given


def test_windows_and_kinds_become_smaller() -> None:
    election = {"kind": "leader_election", "for_ms": 2000, "match": {"api_key": "Produce"}, "trigger": {"times": 1}}
    assert shrink([election], lambda rules: True)[0]["kind"] == "error"
    kept = shrink([election], lambda rules: rules[0]["kind"] == "leader_election" and rules[0]["for_ms"] >= 500)
    assert kept[0]["for_ms"] == 500


def test_two_that_only_break_it_together_stay_two() -> None:
    two = [error(1, api_key="Produce"), error(1, api_key="Metadata")]
    assert text(shrink(two, lambda rules: len(rules) == 2)) == text(two)


def test_no_more_questions_than_allowed_and_none_twice() -> None:
    asked: list[str] = []

    def breaks(rules: list[dict[str, Any]]) -> bool:
        asked.append(text(rules))
        return False

    shrink([error(5, skip=9, api_key="Produce", partition_index=1)], breaks, most=3)
    assert len(asked) == len(set(asked)) == 3


def test_nothing_is_one_step_smaller_than_the_smallest() -> None:
    assert list(steps([error(1, api_key="Produce")])) == []
