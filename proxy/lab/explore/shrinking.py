"""Make rules that break a client as small as they can be: each step is kept when the client still breaks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from notleader.proxy.lab.explore.candidates import Rule, frozen

Rules = list[Rule]

_SHORTEST_MS = 50
_WINDOWS = ("for_ms", "delay_ms", "release_delay_ms")
# What says the same with less: fewer messages, fewer sides that have to agree.
_SIMPLER: dict[str, list[Rule]] = {
    "leader_election": [{"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER"}],
    "reset": [{"kind": "close"}],
    "stall": [{"kind": "drop_response"}],
}


def shrink(rules: Rules, breaks: Callable[[Rules], bool], *, most: int = 60) -> Rules:
    """The smallest rules found, by at most `most` questions; `breaks` says whether the client breaks in the same way.

    Nothing of the result can be taken away by one step of those tried, unless the questions were used up.
    """
    smallest = copy.deepcopy(rules)
    asked: set[str] = {text(smallest)}
    left = most
    progress = True
    while progress:
        progress = False
        for smaller in steps(smallest):
            if text(smaller) in asked:
                continue
            if not left:
                return smallest
            asked.add(text(smaller))
            left -= 1
            if breaks(smaller):
                smallest, progress = smaller, True
                break
    return smallest


def text(rules: Rules) -> str:
    """Rules as one text, for comparing."""
    return "\n".join(sorted(map(frozen, rules)))


def steps(rules: Rules) -> Iterator[Rules]:
    """Every rule set that is one step smaller, the largest steps first."""
    if len(rules) > 1:
        for index in range(len(rules)):
            yield _alone([*rules[:index], *rules[index + 1 :]])
        skips = {rule.get("trigger", {}).get("skip", 0) for rule in rules}
        if len(skips) == 1 and (skip := skips.pop()):
            # An exchange and the one after it, earlier in the client's life.
            for fewer in dict.fromkeys((0, skip // 2)):
                yield [_with(rule, skip=fewer) for rule in rules]
    for index, rule in enumerate(rules):
        for smaller in _smaller(rule):
            yield [*rules[:index], smaller, *rules[index + 1 :]]


def _smaller(rule: Rule) -> Iterator[Rule]:
    trigger = rule.get("trigger", {})
    times = trigger.get("times", 1)
    if times == "forever":
        for fewer in (1, 8):
            yield _with(rule, times=fewer)
    elif times > 1:
        for fewer in dict.fromkeys((1, times // 2, times - 1)):
            yield _with(rule, times=fewer)
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
