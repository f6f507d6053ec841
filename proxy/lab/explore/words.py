"""What the reports of a search say in the same words, whatever their format."""

from __future__ import annotations

import shlex

from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.findings import Failure
from notleader.proxy.lab.explore.judging import KINDS
from notleader.proxy.lab.explore.search import Explored, Limits

_SHOWN = 3


def found(explored: Explored) -> str:
    """The headline."""
    count = len(explored.failures)
    return f"{count or 'No'} failure{'' if count == 1 else 's'} found"


def basis(explored: Explored, limits: Limits) -> str:
    """What was done, below the headline."""
    return (
        f"{explored.progress()}, in {explored.seconds:.0f} s; seed {limits.seed}; {explored.missed} tries whose rule "
        f"was never hit; {explored.left} candidates left." + (" Interrupted." if explored.interrupted else "")
    )


def rate(failure: Failure) -> str:
    """What it is, and how often it broke; goes on with `without`."""
    how = "With this rule" if failure.rules else "Without any fault"
    times = f"{how} it broke {failure.broke} of {failure.repeated} times{failure.sent}"
    return f"{KINDS[failure.kind].capitalize()}. {times};"


def without(failure: Failure) -> str:
    """What the command does without the rule."""
    if not failure.rules:
        return "no rule is needed."
    return "without it the command ends well." if failure.survives_without else "it broke without it too."


def origin(failure: Failure) -> str:
    """How it was found."""
    return (
        f"Found in try {failure.tries_to_find}, after {failure.seconds_to_find:.0f} s, at {failure.point}, shrunk in "
        f"{failure.tries_to_shrink} tries, seen {failure.seen_again} times more in other places."
    )


def again(number: int, failure: Failure, asked: Asked) -> str:
    """The command that tries it again."""
    return f"{shlex.join(asked.again(number, failure))} COMMAND …"


def unjudged(explored: Explored) -> list[str]:
    """What can't be judged for this command, and what it would take."""
    learned = explored.learned
    told = []
    if not learned.unique:
        told.append(
            "doubled messages: the log of a run without faults has no ids that are unique (the header notleader-id, or "
            "a short value), or the command does not take its topic from {topic}"
        )
    if not learned.tells_ids:
        if learned.always:
            told.append(
                "messages lost though acknowledged: no outcome lines name what the log holds; what the log lacks that "
                "it has without faults is told as `missing`"
            )
        else:
            told.append("lost messages: no outcome lines name what the log holds, and it differs from run to run")
    if learned.goes_back:
        told.append(f"commits that go back by a fault: they do without any ({learned.goes_back})")
    return told


def unstable(explored: Explored) -> list[str]:
    """What broke once and in no repetition, each with its rate: the time, more than the rule, may have done it."""
    return [
        f"{failure.kind}, {failure.times} times: {failure.title} (at {failure.point})" for failure in explored.unstable
    ]


def given_up(explored: Explored) -> list[str]:
    """How the command gave up, and by what."""
    return [
        f"{how} ({len(those)}x): {'; '.join(those[:_SHOWN])}{'; …' if len(those) > _SHOWN else ''}"
        for how, those in explored.gave_up.items()
    ]


def printable(text: str) -> str:
    """Text of the command's own, without what a terminal, Markdown or XML would take for more than text."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)
