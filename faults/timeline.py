"""Steps that change the plan over time, or once an earlier rule has hit often enough: a pure state machine."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from notleader.faults.base import Fault
from notleader.faults.document import YEAR_MS, whole
from notleader.faults.schema import FaultDocumentError, Problem, parse_fault_document
from notleader.faults.selectors import pattern_schema
from notleader.proxy.wire.names import did_you_mean

if TYPE_CHECKING:
    from notleader.faults.plan import Plan

_DURATION = re.compile(r"(?P<number>[0-9]{1,12}([.][0-9]{1,9})?) ?(?P<unit>us|ms|s|m|min|h)")
_UNIT_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "min": 60_000.0, "h": 3_600_000.0}
_MOST_S = YEAR_MS // 1000
_WHEN = ("at", "after")
_WHAT = ("add", "remove", "clear")


def step_json_schema(fault: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of one step; `fault` is that of a fault, or a reference to it."""
    name = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "description": "When (`at` or `after`), and what (`add`, `remove` or `clear`).",
        "additionalProperties": False,
        "oneOf": [{"required": [key]} for key in _WHEN],
        "anyOf": [{"required": [key]} for key in _WHAT],
        "properties": {
            "at": {
                "description": "How long after the start: seconds, or a text such as `1.5s`, `200ms`.",
                "anyOf": [{"type": "number", "minimum": 0, "maximum": _MOST_S}, pattern_schema(_DURATION)],
            },
            "after": {
                "type": "object",
                "required": ["fault"],
                "additionalProperties": False,
                "properties": {"fault": name, "hits": {"type": "integer", "minimum": 1}},
            },
            "add": {"anyOf": [fault, {"type": "array", "minItems": 1, "items": fault}]},
            "remove": {"anyOf": [name, {"type": "array", "minItems": 1, "items": name}]},
            "clear": {"const": True},
        },
    }


@dataclass(frozen=True, slots=True)
class Add:
    """Put this fault in force (in place of a rule of the same name)."""

    fault: Fault


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the rule of that name out."""

    name: str


@dataclass(frozen=True, slots=True)
class Clear:
    """Take all rules out."""


Operation = Add | Remove | Clear


@dataclass(frozen=True, slots=True)
class Step:
    """Due `at_ms` after the start, or once the rule `after_fault` has `hits` hits; then `operations` in order.

    Of one step what it clears comes first, then what it removes, then what it adds.
    """

    operations: tuple[Operation, ...]
    at_ms: float | None = None
    after_fault: str | None = None
    hits: int = 1


class Timeline:
    """Which steps are still to come. A step that waits for hits doesn't hold back the others."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self._left = list(steps)

    @property
    def finished(self) -> bool:
        """Whether every step was due."""
        return not self._left

    @property
    def left(self) -> list[Step]:
        """The steps that are still to come."""
        return list(self._left)

    def due(self, plan: Plan, elapsed_ms: float) -> list[Operation]:
        """What has to be done now, in the order of the steps; each step is handed out once."""
        operations: list[Operation] = []
        left = []
        for step in self._left:
            if _is_due(step, plan, elapsed_ms):
                operations += step.operations
            else:
                left.append(step)
        self._left = left
        return operations

    def next_wake_ms(self, elapsed_ms: float) -> float | None:
        """When the next timed step is due, since the start; None when only hits can bring one."""
        times = [step.at_ms for step in self._left if step.at_ms is not None]
        return min(times, default=None)

    def run_due(self, plan: Plan, elapsed_ms: float, now_us: int) -> bool:
        """Carry out what is due; whether that changed the plan."""
        operations = self.due(plan, elapsed_ms)
        for operation in operations:
            apply(operation, plan, now_us)
        return bool(operations)


def apply(operation: Operation, plan: Plan, now_us: int) -> None:
    """Carry one operation out; removing a rule that is gone already is no error."""
    if isinstance(operation, Add):
        if operation.fault.name:
            plan.replace(operation.fault.name, operation.fault, now_us)
        else:
            plan.add(operation.fault, now_us)
    elif isinstance(operation, Remove):
        if any(rule.name == operation.name for rule in plan.rules()):
            plan.remove(operation.name)
    else:
        plan.clear()


def _is_due(step: Step, plan: Plan, elapsed_ms: float) -> bool:
    if step.at_ms is not None:
        return elapsed_ms >= step.at_ms
    rule = next((rule for rule in plan.rules() if rule.name == step.after_fault), None)
    return rule is not None and rule.hits >= step.hits


def parse_duration_ms(value: Any) -> float:
    """Milliseconds of `1.5s`, `200ms`, `2m`, `1h`, or of a number of seconds; ValueError otherwise."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if not 0 <= value <= _MOST_S:
            raise ValueError(f"a time is between 0 and {_MOST_S} seconds: {value}")
        return float(value) * 1000
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r} is no time such as '1.5s' or '200ms'")
    return float(found["number"]) * _UNIT_MS[found["unit"]]


def parse_timeline(document: Any, path: str = "steps") -> Timeline:
    """The timeline of a list of steps; FaultDocumentError with every problem of all of them."""
    if not isinstance(document, list):
        raise FaultDocumentError([Problem(path, "a list of steps expected")])
    steps: list[Step] = []
    problems: list[Problem] = []
    for position, item in enumerate(whole(document)):
        try:
            steps.append(_parse_step(item, f"{path}[{position}]"))
        except FaultDocumentError as error:
            problems += error.problems
    if problems:
        raise FaultDocumentError(problems)
    return Timeline(steps)


def _parse_step(item: Any, path: str) -> Step:
    if not isinstance(item, dict):
        raise FaultDocumentError([Problem(path, "a mapping expected")])
    known = (*_WHEN, *_WHAT)
    problems = [
        Problem(f"{path}.{key}", f"unknown key{did_you_mean(str(key), known)}") for key in item if key not in known
    ]
    if len([key for key in _WHEN if key in item]) != 1:
        problems.append(Problem(path, "says when by one of: at, after"))
    if not any(key in item for key in _WHAT):
        problems.append(Problem(path, "says what by one of: add, remove, clear"))
    at_ms, after_fault, hits = _parse_when(item, path, problems)
    operations = _parse_what(item, path, problems)
    if problems:
        raise FaultDocumentError(problems)
    return Step(tuple(operations), at_ms, after_fault, hits)


def _parse_when(item: dict[str, Any], path: str, problems: list[Problem]) -> tuple[float | None, str | None, int]:
    at_ms = None
    if "at" in item:
        try:
            at_ms = parse_duration_ms(item["at"])
        except ValueError as error:
            problems.append(Problem(f"{path}.at", str(error)))
    if "after" not in item:
        return at_ms, None, 1
    after = item["after"]
    if not isinstance(after, dict):
        problems.append(Problem(f"{path}.after", "a mapping such as {fault: NAME, hits: 3} expected"))
        return at_ms, None, 1
    for key in after:
        if key not in ("fault", "hits"):
            hint = did_you_mean(str(key), ("fault", "hits"))
            problems.append(Problem(f"{path}.after.{key}", f"unknown key{hint}"))
    fault, hits = after.get("fault"), after.get("hits", 1)
    if not isinstance(fault, str) or not fault:
        problems.append(Problem(f"{path}.after.fault", "the name of a rule expected"))
    if isinstance(hits, bool) or not isinstance(hits, int) or hits < 1:
        problems.append(Problem(f"{path}.after.hits", f"a number of hits from 1 on expected, got {hits!r}"))
    return at_ms, fault, hits


def _parse_what(item: dict[str, Any], path: str, problems: list[Problem]) -> list[Operation]:
    operations: list[Operation] = []
    if "clear" in item:
        if item["clear"] is not True:
            problems.append(Problem(f"{path}.clear", f"only true makes sense here, got {item['clear']!r}"))
        operations.append(Clear())
    if "remove" in item:
        names = item["remove"] if isinstance(item["remove"], list) and item["remove"] else [item["remove"]]
        for name in names:
            if isinstance(name, str) and name:
                operations.append(Remove(name))
            else:
                problems.append(Problem(f"{path}.remove", f"the name of a rule expected, got {name!r}"))
    if "add" in item:
        several = isinstance(item["add"], list) and bool(item["add"])
        for position, document in enumerate(item["add"] if several else [item["add"]]):
            place = f"{path}.add[{position}]" if several else f"{path}.add"
            try:
                operations.append(Add(parse_fault_document(document, place)))
            except FaultDocumentError as error:
                problems += error.problems
    return operations
