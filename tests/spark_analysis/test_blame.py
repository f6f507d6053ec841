"""Causes against what they really are: each world is played again with every choice of its rules.

A rule is innocent of what became of a send where it changes nothing of that, whichever others are there. Where all but
one are, and without that one nothing is wrong, it is guilty. Where several had a hand in it nothing is asked of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, combinations
from typing import Any, NamedTuple

import pytest

from notleader.spark_analysis.checks import Tables, all_checks
from notleader.spark_analysis.findings import cases
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story
from tests.spark_analysis.worlds import OWN, Became, ended, first_strikes, play, powers, random_world

pytestmark = pytest.mark.spark

# Of 1,500 worlds the first, and some later ones of which the analysis was wrong once.
WORLDS = (*range(400), 525, 740, 824, 1262)
SLOW_MS = 1000
OPTIONS = Options(by_run=True, slow_ms=SLOW_MS)
CAUSES = ("slow_by", "ended_by", "retried_by")
_ALIKE = 0.1


class Judged(NamedTuple):
    """Of a question about a send: the rule that alone is guilty, if one is, and those that are innocent."""

    guilty: str | None
    innocent: frozenset[str]


QUESTIONS: dict[str, Callable[[Became], bool]] = {
    # The history's column, or the check → what is ill in the eyes of its question.
    "slow_by": lambda b: b.took is None or b.took >= SLOW_MS,
    "ended_by": lambda b: b.outcome == "info",
    "retried_by": lambda b: b.attempts > 1,
    "duplicate": lambda b: b.copies > 1,
}


def alike(one: Became, other: Became) -> bool:
    """The same happened, but for a trifle of time."""
    if one.took is None or other.took is None:
        return one == other
    near = abs(one.took - other.took) <= _ALIKE * one.took
    return near and one._replace(took=0) == other._replace(took=0)


@cache
def played(seed: int) -> dict[frozenset[str], dict[str, Became]]:
    """What becomes of each send with every choice of that world's powers."""
    world = random_world(seed)
    return {some: play(world, some) for some in map(frozenset, powerset(powers(world)))}


@cache
def innocents(seed: int) -> dict[str, frozenset[str]]:
    """By message the powers that change nothing of what becomes of it.

    Nor would they if all else ended when they began: what would have done the same a moment later clears nobody.
    """
    world, plays = random_world(seed), played(seed)
    strikes = first_strikes(world)
    changed: dict[str, set[str]] = {message: set() for message in plays[frozenset()]}
    for name in powers(world):
        pairs = [(plays[some], plays[some | {name}]) for some in plays if name not in some]
        if name in strikes:
            calm = ended(world, strikes[name], but=name)
            pairs.append((play(calm, powers(world) - {name}), play(calm)))
        for message, by in changed.items():
            if not all(alike(one[message], other[message]) for one, other in pairs):
                by.add(name)
    return {message: powers(world) - by for message, by in changed.items()}


def judged(seed: int, question: str) -> dict[str, Judged]:
    """Each send that is ill, by counterfactual plays alone."""
    ill, names, plays = QUESTIONS[question], powers(random_world(seed)), played(seed)
    found = {}
    for message, became in plays[names].items():
        if ill(became):
            innocent = innocents(seed)[message]
            guilty = [name for name in names - innocent if not ill(plays[names - {name}][message])]
            alone = len(guilty) == 1 and guilty[0] not in OWN and len(innocent) == len(names) - 1
            found[message] = Judged(guilty[0] if alone else None, innocent)
    return found


def powerset(names: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Every set of some of them, none and all among these."""
    return chain.from_iterable(combinations(sorted(names), size) for size in range(len(names) + 1))


@pytest.fixture(scope="module")
def tables(build: Callable[..., Tables]) -> Tables:
    together = Story()
    for seed in WORLDS:
        told = Story(run_id=f"w{seed}", client=f"w{seed}")
        play(random_world(seed), story=told)
        together.add(told)
    return build(together, OPTIONS)


@pytest.fixture(scope="module")
def history(tables: Tables) -> dict[str, Any]:
    """By message id what the analysis says of a send."""
    rows = tables.history.select("message_id", *CAUSES, "attempt_count", "outcome", "landed_count").collect()
    return {row.message_id: row for row in rows}


@pytest.fixture(scope="module")
def named(tables: Tables, history: dict[str, Any]) -> dict[str, dict[str, set[str]]]:
    """By question, by message id the rules that the analysis names."""
    found = {q: {m: {cause["rule"] for cause in row[q]} for m, row in history.items()} for q in CAUSES}
    doubled = cases(tables, OPTIONS, [check for check in all_checks() if check.name == "duplicate"])
    said = doubled.select("message_id", "rule").collect()
    return {**found, "duplicate": {row.message_id: set((row.rule or "").split(", ")) - {""} for row in said}}


@pytest.mark.parametrize("question", sorted(QUESTIONS))
def test_the_analysis_names_the_guilty_and_no_innocent(named: dict[str, dict[str, set[str]]], question: str) -> None:
    wrong, asked = [], 0
    for seed in WORLDS:
        for message, (guilty, innocent) in judged(seed, question).items():
            told = named[question].get(f"w{seed}-{message}", set())
            asked += 1
            if (guilty and guilty not in told) or told & innocent:
                wrong.append((f"w{seed}-{message}", guilty, sorted(told & innocent), sorted(told)))
    assert not wrong, f"{len(wrong)} of {asked}:\n" + "\n".join(map(str, wrong[:40]))


def test_the_history_is_that_of_the_worlds(history: dict[str, Any]) -> None:
    for seed in WORLDS:
        for message, became in play(random_world(seed)).items():
            row = history[f"w{seed}-{message}"]
            told = (row.attempt_count, row.outcome, row.landed_count)
            assert told == (became.attempts, became.outcome, became.copies), f"w{seed}-{message}"


def test_most_questions_have_one_answer() -> None:
    """Else the others prove nothing."""
    for question in QUESTIONS:
        found = [j for seed in WORLDS for j in judged(seed, question).values()]
        assert sum(j.guilty is not None for j in found) > len(found) / 4, question
