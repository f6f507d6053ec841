"""Make what breaks a client as small as it can be: each step is kept when the client still breaks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

from notleader.proxy.lab.explore.candidates import RETRIABLE, Rule, frozen

Rules = list[Rule]

_SHORTEST_MS = 50
_WINDOWS = ("for_ms", "delay_ms", "release_delay_ms")
# What says the same with less: fewer exchanges, fewer sides that have to agree.
_SIMPLER: dict[str, list[Rule]] = {
    "leader_election": [{"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER"}],
    "reset": [{"kind": "close"}],
    "stall": [{"kind": "drop_response"}],
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What breaks a client: rules, and how many messages it is told to send; None where it is not told."""

    rules: Rules
    messages: int | None = None


Breaks = Callable[[Sequence[Recipe]], Iterable[bool]]
"""Whether the client breaks in the same way, for each of several recipes that are tried at once."""


def shrink(recipe: Recipe, breaks: Breaks, *, at_once: int = 1, most: int = 60) -> list[Recipe]:
    """The way to the smallest recipe found, which is its last; the given one is its first.

    At most `most` questions are asked, `at_once` of them together: the first that breaks counts. Nothing of the
    smallest can be taken away by one step of those tried, unless the questions were used up. Once nothing of the rules
    can, it is the messages' turn, and so on: each step of one has the other's to be tried again.
    """
    way = [copy.deepcopy(recipe)]
    asked: set[str] = {text(recipe)}
    too_few: dict[str, int] = {}

    def first(smaller: Iterable[Recipe]) -> Recipe | None:
        fresh = (each for each in smaller if text(each) not in asked)
        while together := list(islice(fresh, min(at_once, most + 1 - len(asked)))):
            asked.update(map(text, together))
            for each, broke in zip(together, breaks(together), strict=True):
                if broke:
                    return each
                if each.rules == way[-1].rules:
                    too_few[text(Recipe(each.rules))] = each.messages or 0
        return None

    def with_fewer(recipe: Recipe) -> Iterator[Recipe]:
        return fewer_messages(recipe, too_few.get(text(Recipe(recipe.rules)), 0))

    turns = cycle((_smaller_rules, with_fewer))
    turn, idle = next(turns), 0
    while idle < 2:
        if (smaller := first(turn(way[-1]))) is not None:
            way.append(smaller)
            idle = 0
        else:
            turn, idle = next(turns), idle + 1
    return way


def text(recipe: Recipe) -> str:
    """A recipe as one text, for comparing."""
    return "\n".join([*sorted(map(frozen, recipe.rules)), str(recipe.messages)])


def fewer_messages(recipe: Recipe, too_few: int = 0) -> Iterator[Recipe]:
    """Recipes with fewer messages, the fewest first: its places earlier by as much, or where they are.

    It is one message, or half way from those that are too few to those that there are, half of that way, and so on.
    """
    given = recipe.messages or 1
    gap = given - too_few
    numbers = [1]
    while gap > 1:
        gap //= 2
        numbers.append(given - gap)
    for fewer in dict.fromkeys(numbers):
        if too_few < fewer < given:
            earlier = [_earlier(rule, fewer / given) for rule in recipe.rules]
            for rules in [earlier, recipe.rules] if earlier != recipe.rules else [earlier]:
                yield Recipe(rules, fewer)


def _earlier(rule: Rule, share: float) -> Rule:
    """The same at another place of a client's life that is as much shorter."""
    trigger = rule.get("trigger", {})
    changed = {key: int(trigger[key] * share) for key in ("skip", "after_ms") if trigger.get(key)}
    return _with(rule, **changed) if changed else rule


def _smaller_rules(recipe: Recipe) -> Iterator[Recipe]:
    return (replace(recipe, rules=rules) for rules in steps(recipe.rules))


def steps(rules: Rules) -> Iterator[Rules]:
    """Every rule set that is one step smaller, the largest steps first."""
    if len(rules) > 1:
        yield from without_one(rules)
        skips = {rule.get("trigger", {}).get("skip", 0) for rule in rules}
        if len(skips) == 1 and (skip := skips.pop()):
            # An exchange and the one after it, earlier in the client's life.
            for fewer in dict.fromkeys((0, skip // 2)):
                yield [_with(rule, skip=fewer) for rule in rules]
    for index, rule in enumerate(rules):
        for smaller in _smaller(rule):
            yield [*rules[:index], smaller, *rules[index + 1 :]]


def without_one(rules: Rules) -> Iterator[Rules]:
    """Of several rules all but one, in every way."""
    for index in range(len(rules) if len(rules) > 1 else 0):
        yield _alone([*rules[:index], *rules[index + 1 :]])


def _smaller(rule: Rule) -> Iterator[Rule]:
    trigger = rule.get("trigger", {})
    times = trigger.get("times", 1)
    if times == "forever":
        for fewer in (1, 8):
            yield _with(rule, times=fewer)
    elif times > 1:
        for fewer in dict.fromkeys((1, times // 2, times - 1)):
            yield _with(rule, times=fewer)
    usual = RETRIABLE.get(str(rule.get("match", {}).get("api_key")), ("",))[0]
    if rule["kind"] == "error" and "phase" not in rule and usual not in ("", rule["error_code"]):
        yield {**rule, "error_code": usual}
    for kind in _SIMPLER.get(rule["kind"], ()):
        kept: Rule = {key: rule[key] for key in ("name", "match", "trigger", "phase") if key in rule}
        if kind["kind"] not in ("close",):
            kept.pop("phase", None)
        yield {**kind, **kept}
    if trigger.get("skip"):
        for fewer in dict.fromkeys((0, trigger["skip"] // 2)):
            yield _with(rule, skip=fewer)
    for key in ("partition_index", "topic", "client_id", "group_id"):
        if key in rule.get("match", {}):
            match = {name: value for name, value in rule["match"].items() if name != key}
            yield {**rule, "match": match}
    for key in _WINDOWS:
        if (rule.get(key) or 0) > _SHORTEST_MS:
            yield {**rule, key: _half(rule[key])}
    for key in ("for_ms", "after_ms"):
        if (trigger.get(key) or 0) > _SHORTEST_MS:
            yield _with(rule, **{key: _half(trigger[key])})


def _alone(rules: Rules) -> Rules:
    """Without waiting for a rule that is gone: what waited for it is there from the start."""
    names = {rule.get("name") for rule in rules}
    return [
        rule if (waits := rule.get("trigger", {}).get("after_fault")) is None or waits in names else _at_once(rule)
        for rule in rules
    ]


def _at_once(rule: Rule) -> Rule:
    return {**rule, "trigger": {key: value for key, value in rule["trigger"].items() if key != "after_fault"}}


def _half(value_ms: float) -> int:
    return max(round(value_ms / 2), _SHORTEST_MS)


def _with(rule: Rule, **changed: float) -> Rule:
    trigger = {**rule.get("trigger", {}), **changed}
    if not trigger.get("skip", 1):
        del trigger["skip"]
    return {**rule, "trigger": trigger}
