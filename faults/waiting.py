"""Rules and steps that name a rule, to wait for it or to remove it: whether a document puts one in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from notleader.faults.base import Fault
from notleader.faults.schema import Problem


def names_in(faults: Any, steps: Any = ()) -> list[str]:
    """The names of the rules that these documents put in force, at once or in time."""
    return [name for name in _names([rule for _, rule in [*_listed(faults, ""), *_added(steps)]]) if name]


def waits_in_vain(
    faults: Any,
    steps: Any = (),
    *,
    known: Collection[str] = (),
    removable: Collection[str] = (),
    path: str = "faults",
) -> list[Problem]:
    """A problem for each `after_fault`, `after` or `remove` that no rule of `faults`, of `steps` or in `known` has as
    its name; a `remove` may name one of `removable`, too.

    `faults` and `steps` are documents, right or wrong, or faults; `path` is where `faults` are.
    """
    placed = [*_listed(faults, path), *_added(steps)]
    named = list(_names([rule for _, rule in placed]))
    given = Counter([*known, *named])  # of two rules in turn with one name the first may set the second off
    awaits = {name: _awaited(rule) for name, (_, rule) in zip(named, placed, strict=True) if given[name] == 1}
    problems = []
    for name, (place, rule) in zip(named, placed, strict=True):
        awaited = _awaited(rule)
        if awaited is None:
            continue
        where = f"{place}.trigger.after_fault" if place else "trigger.after_fault"
        if awaited not in given:
            problems.append(Problem(where, f"there is no rule named {awaited!r}: this one would never strike"))
        elif awaited == name:
            problems.append(Problem(where, "names the rule itself, which would never strike"))
        elif circle := _back_to(name, awaits):
            problems.append(Problem(where, f"these rules wait for each other, and none would strike: {circle}"))
    for place, step in _listed(steps, "steps"):
        awaited = _text(step.get("after"), "fault") if isinstance(step, dict) else ""
        if awaited and awaited not in given:
            where = f"{place}.after.fault"
            problems.append(Problem(where, f"there is no rule named {awaited!r}: this step would never be taken"))
        problems += [
            Problem(f"{place}.remove", f"there is no rule named {name!r}: nothing adds it")
            for name in _removed(step)
            if name not in given and name not in removable
        ]
    return problems


def _removed(step: Any) -> list[str]:
    removed = step.get("remove") if isinstance(step, dict) else None
    names = removed if isinstance(removed, list) else [removed]
    return [name for name in names if isinstance(name, str) and name]


def _listed(documents: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(documents, list | tuple):
        yield from ((f"{path}[{position}]", each) for position, each in enumerate(documents))


def _added(steps: Any) -> Iterator[tuple[str, Any]]:
    for place, step in _listed(steps, "steps"):
        added = step.get("add") if isinstance(step, dict) else None
        yield from _listed(added, f"{place}.add") if isinstance(added, list) else ((f"{place}.add", added),)


def _back_to(name: str, awaits: dict[str, str | None]) -> str | None:
    """The way from a rule over those that are awaited back to it, in words; None where it leads elsewhere."""
    way = [name]
    while (awaited := awaits.get(way[-1])) is not None and awaited not in way:
        way.append(awaited)
    return " → ".join([*way, name]) if awaited == name else None


def _names(rules: list[Any]) -> Iterator[str]:
    """Their names, and those that rules without one are given: of their kind and a number; none for what is no rule."""
    unnamed: Counter[str] = Counter()
    for rule in rules:
        kind = _text(rule, "kind")
        if (name := _text(rule, "name")) or not kind:
            yield name
        else:
            unnamed[kind] += 1
            yield f"{kind}-{unnamed[kind]}"


def _text(rule: Any, key: str) -> str:
    value = rule.get(key) if isinstance(rule, dict) else getattr(rule, key, None)
    return value if isinstance(value, str) else ""


def _awaited(rule: Any) -> str | None:
    if isinstance(rule, Fault):
        return rule.trigger.after_fault
    trigger = rule.get("trigger") if isinstance(rule, dict) else None
    awaited = trigger.get("after_fault") if isinstance(trigger, dict) else None
    return awaited if isinstance(awaited, str) else None
