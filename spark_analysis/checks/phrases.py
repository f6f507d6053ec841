"""The words that sentences are made of."""

from __future__ import annotations

from notleader.spark_analysis.checks.base import Group
from notleader.spark_analysis.kafka_names import error_name

_HAPPENED = {
    "dropped": "had a request or its answer swallowed",
    "closed": "had the connection cut under them",
    "no_response": "got no answer",
}


def count(number: int, word: str, words: str | None = None) -> str:
    """`1 send`, `3 sends`."""
    return f"{number:,} {word if number == 1 else words or word + 's'}"


def duration(microseconds: int | None) -> str:
    """A length of time as people say it: `340 ms`, `2.3 s`, `2 min 7 s`."""
    if microseconds is None:
        return "an unknown time"
    if abs(microseconds) < 1000:
        return f"{microseconds} µs"
    if abs(microseconds) < 1_000_000:
        return f"{microseconds / 1000:.0f} ms"
    if abs(microseconds) < 120_000_000:
        return f"{microseconds / 1_000_000:.1f} s"
    return f"{microseconds // 60_000_000} min {microseconds // 1_000_000 % 60} s"


def place(group: Group) -> str:
    """`orders-0`, or as much of it as is known."""
    if group.topic is None:
        return "an unknown topic"
    return group.topic if group.partition is None else f"{group.topic}-{group.partition}"


def sends(group: Group) -> str:
    """`3 sends to orders-0 by aiokafka`."""
    return f"{count(group.cases, 'send')} to {place(group)}{by_client(group)}"


def by_client(group: Group) -> str:
    return f" by {group.client}" if group.client else ""


def by_rule(group: Group) -> str:
    """` by rule lose-leader (error)`, or nothing when no fault had a hand in it."""
    if not group.rule:
        return ""
    word = "rules" if "," in group.rule else "rule"
    return f" by {word} {group.rule} ({group.kind})" if group.kind else f" by {word} {group.rule}"


def met(group: Group) -> str:
    """What the first troubled attempt met: `were answered NOT_LEADER_OR_FOLLOWER by rule lose-leader (error)`."""
    if group.trouble is None:
        touched = f"were touched{by_rule(group)}" if group.rule else "met nothing unusual on the wire"
        return number_agrees(group.cases, touched)
    sort, _, what = group.trouble.partition(":")
    if sort == "unsent":
        return "never reached the wire"
    if sort == "while":
        return f"waited while {'these struck' if ', ' in what else 'this struck'}: {what}"
    happened = f"were answered {error_name(int(what))}" if sort == "error" else _HAPPENED.get(what, what)
    return number_agrees(group.cases, happened) + by_rule(group)


def number_agrees(number: int, phrase: str) -> str:
    """`were …` as `was …` for one; the other phrases fit any number."""
    if number != 1:
        return phrase
    return ("was" + phrase[4:] if phrase.startswith("were ") else phrase).replace("under them", "under it")


def because(group: Group) -> str:
    """`: rule lose-leader (error) had answered NOT_LEADER_OR_FOLLOWER`, as the tail of a sentence."""
    if group.trouble is None and not group.rule:
        return "; no fault touched " + ("it" if group.cases == 1 else "them")
    them = "it" if group.cases == 1 else "they"
    return f"; {them} {met(group)}"
