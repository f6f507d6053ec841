from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from notleader.proxy.lab.explore.shrinking import Breaks, Recipe, Rules, shrink, steps, text


def error(times: int, skip: int = 0, **match: Any) -> dict[str, Any]:
    trigger = {"times": times} | ({"skip": skip} if skip else {})
    return {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": match, "trigger": trigger}


def shrunk(rules: Rules, breaks: Callable[[Rules], bool], **limits: int) -> Rules:
    return shrink(Recipe(rules), one_by_one(lambda recipe: breaks(recipe.rules)), **limits)[-1].rules


def one_by_one(breaks: Callable[[Recipe], bool]) -> Breaks:
    return lambda recipes: map(breaks, recipes)


def test_other_rules_places_counts_and_keys_go_until_nothing_can() -> None:
    """A client that breaks at the fourth refusal of a Produce, wherever it is."""

    def breaks(rules: list[dict[str, Any]]) -> bool:
        return any(rule["kind"] == "error" and rule["trigger"]["times"] >= 4 for rule in rules)

    delay = {"kind": "delay", "delay_ms": 1500, "match": {"api_key": "Metadata"}, "trigger": {"times": 1}}
    found = shrunk([delay, error(5, skip=7, api_key="Produce", partition_index=2)], breaks)
    assert found == [error(4, api_key="Produce")]


def test_a_place_that_matters_stays() -> None:
    def breaks(rules: list[dict[str, Any]]) -> bool:
        return rules[0]["trigger"].get("skip", 0) == 2

    given = [error(1, skip=2, api_key="Produce")]
    assert shrunk(given, breaks) == given


def test_windows_and_kinds_become_smaller() -> None:
    election = {"kind": "leader_election", "for_ms": 2000, "match": {"api_key": "Produce"}, "trigger": {"times": 1}}
    assert shrunk([election], lambda rules: True)[0]["kind"] == "error"
    kept = shrunk([election], lambda rules: rules[0]["kind"] == "leader_election" and rules[0]["for_ms"] >= 500)
    assert kept[0]["for_ms"] == 500


def test_an_error_becomes_the_usual_one_of_its_api_where_that_does_the_same() -> None:
    rare = error(1, api_key="Produce") | {"error_code": "KAFKA_STORAGE_ERROR"}
    assert shrunk([rare], lambda rules: True) == [error(1, api_key="Produce")]
    assert shrunk([rare], lambda rules: rules == [rare]) == [rare]
    applied = rare | {"phase": "after_broker"}
    assert shrunk([applied], lambda rules: True) == [applied]


def test_two_that_only_break_it_together_stay_two() -> None:
    two = [error(1, api_key="Produce"), error(1, api_key="ListOffsets")]
    assert shrunk(two, lambda rules: len(rules) == 2) == two


def test_no_more_questions_than_allowed_and_none_twice() -> None:
    asked: list[str] = []

    def breaks(rules: list[dict[str, Any]]) -> bool:
        asked.append(text(Recipe(rules)))
        return False

    shrunk([error(5, skip=9, api_key="Produce", partition_index=1)], breaks, most=3)
    assert len(asked) == len(set(asked)) == 3


def test_nothing_is_one_step_smaller_than_the_smallest() -> None:
    assert list(steps([error(1, api_key="Produce")])) == []


@pytest.mark.parametrize(("given", "needed", "tries"), [(20, 1, 5), (20, 6, 9), (20, 20, 7), (114, 34, 12)])
def test_messages_become_fewer_by_halves_and_then_by_smaller_steps(given: int, needed: int, tries: int) -> None:
    """A client that breaks at its third refusal, once it has so many messages to send."""
    asked: list[Recipe] = []

    def breaks(recipe: Recipe) -> bool:
        asked.append(recipe)
        return recipe.rules[0]["trigger"]["times"] >= 3 and (recipe.messages or 0) >= needed

    found = shrink(Recipe([error(3, api_key="Produce")], given), one_by_one(breaks))[-1]
    assert found == Recipe([error(3, api_key="Produce")], needed)
    assert len(asked) == tries


def test_a_place_that_goes_by_the_number_of_messages_becomes_earlier_with_it() -> None:
    """A client that breaks when its last exchange is lost; and one that breaks at its third, of four."""
    last = [error(1, skip=19, api_key="Produce")]
    at_last = one_by_one(lambda it: it.rules[0]["trigger"].get("skip", 0) == (it.messages or 0) - 1)
    found = shrink(Recipe(last, 20), at_last)[-1]
    assert found == Recipe([error(1, api_key="Produce")], 1)
    third = [error(1, skip=2, api_key="Produce")]
    found = shrink(Recipe(third, 20), one_by_one(lambda it: it.rules == third and (it.messages or 0) >= 4))[-1]
    assert found == Recipe(third, 4)


def test_who_is_not_told_how_many_is_asked_for_no_fewer() -> None:
    asked: list[int | None] = []
    shrink(Recipe([error(5, api_key="Produce")]), one_by_one(lambda recipe: bool(asked.append(recipe.messages))))
    assert set(asked) == {None}


def test_several_are_tried_at_once_and_the_first_that_breaks_counts() -> None:
    together: list[int] = []

    def breaks(recipes: Sequence[Recipe]) -> list[bool]:
        together.append(len(recipes))
        return [recipe.rules[0]["trigger"]["times"] >= 3 for recipe in recipes]

    found = shrink(Recipe([error(8, skip=9, api_key="Produce")]), breaks, at_once=2, most=7)
    assert [each.rules[0]["trigger"]["times"] for each in found] == [8, 4, 3, 3]
    assert together == [2, 2, 2, 1]
