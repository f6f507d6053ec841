"""The table for the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.explore.cases import PLANTED, OfIncident, Service
from notleader.proxy.lab.explore.candidates import family

Found = Mapping[tuple[str, str], Mapping[str, Any]]
"""What each search said, by case and mode."""


def table(cases: Sequence[Service | OfIncident], found: Found) -> str:
    """Markdown: a row for each case that was searched."""
    lines = [
        "| client | the known bug | shrunk to | all failures | by chance | without the bug |",
        "|---|---|---|---|---|---|",
    ]
    for case in cases:
        if any(name == case.name for name, _ in found):
            cells = [
                case.name if case.buggy == PLANTED else f"{case.buggy} (`{case.name}`)",
                *_searched(case, found.get((case.name, "bug"))),
                _by_chance(case, found.get((case.name, "chance"))),
                _sound(case, found.get((case.name, "sound"))),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _searched(case: Service | OfIncident, said: Mapping[str, Any] | None) -> list[str]:
    if said is None or "failures" not in said:
        return ["not searched", "", ""]
    failures = said["failures"]
    known = _known(case, said)
    first = f"; the first in {_found_at(failures[0])}" if failures and known is not failures[0] else ""
    return [
        f"{_found_at(known)}; {_is(case, known)}" if known else "not found",
        _rules(known) if known else "",
        f"{len(failures)} in {_budget(said)}{first}",
    ]


def _by_chance(case: Service | OfIncident, said: Mapping[str, Any] | None) -> str:
    if said is None or "failures" not in said:
        return "not searched"
    known = _known(case, said)
    if known is None:
        return f"not found; {len(said['failures'])} other in {_budget(said)}"
    return f"{_found_at(known)}; {_is(case, known)}"


def _sound(case: Service | OfIncident, said: Mapping[str, Any] | None) -> str:
    if said is None or "failures" not in said:
        return "not searched"
    if not said["failures"]:
        return f"{case.sound}: nothing in {_budget(said)}"
    known = _known(case, said)
    kinds = Counter(failure["kind"] for failure in said["failures"])
    told = ", ".join(f"{count} `{kind}`" for kind, count in sorted(kinds.items()))
    return f"{case.sound}: {told} in {_budget(said)}; {'the same among them' if known else 'not this one'}"


def _budget(said: Mapping[str, Any]) -> str:
    return f"{said['tries']} tries, {said['minutes']:g} min"


def _known(case: Service | OfIncident, said: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The failure that is the known bug; one with the same rules before one with others or only some of them."""
    for wanted in ("yes", "same", "part"):
        for failure in said["failures"]:
            if case.is_known(failure) == wanted:
                known: Mapping[str, Any] = failure
                return known
    return None


def _is(case: Service | OfIncident, failure: Mapping[str, Any]) -> str:
    if case.buggy == PLANTED:
        return "as planted"
    if not failure["rules"]:
        return "it needs no fault"
    said = {"yes": "its recipe", "same": "by another fault", "part": "part of its recipe"}
    return said[case.is_known(failure)]


def _found_at(failure: Mapping[str, Any]) -> str:
    return f"try {failure['tries_to_find']}, {failure['seconds_to_find']:.0f} s"


def _rules(failure: Mapping[str, Any]) -> str:
    said = []
    for rule in failure["rules"]:
        trigger = rule.get("trigger", {})
        often = [f"{key}={value}" for key, value in trigger.items() if (key, value) != ("times", 1)]
        said.append(" ".join([*family(rule), *often]))
    said = said or ["no fault"]
    if count := failure.get("messages"):
        said[-1] += f", {count} message{'' if count == 1 else 's'}"
    return f"`{failure['kind']}`: {' and '.join(said)}; in {failure['tries_to_shrink']} tries"
