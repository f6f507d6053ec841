"""The JSON Schema says what the parser says: of every field of every kind, over values of all forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from notleader.faults.base import Fault
from notleader.faults.match import Match
from notleader.faults.schema import FaultDocumentError, fault_json_schema, parse_fault_document
from notleader.faults.timeline import parse_timeline, step_json_schema
from notleader.faults.trigger import Trigger

# What no schema can say: ranges without an element, patterns that mean no API, keys that contradict each other.
_BEYOND_SCHEMA = re.compile(
    r"the range .*is empty|^no API |^no API's |^name connections either"
    r"|means nothing here|is not known yet|stands: only|acts on .* only|: this can never match$"
)
_NUMBERS: list[Any] = [0, 1, 4, -1, 2**31 - 1, 2**31, 2**63, -(2**64), 0.5, 4.0, 4.5, -0.5, 1e306]
_TEXTS = [
    "",
    "!",
    "4",
    "!4",
    "-1",
    "3-9",
    "9-3",
    "! 4",
    ">=9",
    ">= 9",
    "<  4",
    "=4",
    "4 ",
    "٤",
    "a",
    "!a*",
    "forever",
    "once",
    "Produce",
    "produce",
    "PRODUCE",
    "PrOdUcE",
    "!Fetch",
    "Off*",
    "[x",
    "Off* ",
    "Prod uce",
    "NOT_LEADER_OR_FOLLOWER",
    "not_leader_or_follower",
    "NOT_LEADER_FOR_PARTITION",
    "Not_Leader_Or_Follower",
    "6",
    "999",
    "true",
    "rule",
    "client",
    "other",
    "hold",
    "both",
    "crc",
    "before_broker",
    "after_broker",
    "connection",
    "discard",
    "10.0.0.1:4*",
]
_OTHERS: list[Any] = [None, True, False, {}, {"a": 1}, [], [4], ["a"], [4, "3-9"], [True], [[4]], [""], [4.0], [4.5]]
_OTHERS += [["Produce", "!F*"], ["!4"]]
_DURATIONS: list[Any] = [
    {"distribution": "uniform", "min_ms": 1, "max_ms": 2},
    {"distribution": "uniform", "min_ms": 2, "max_ms": 1},
    {"distribution": "uniform", "min_ms": "1", "max_ms": 2},
    {"distribution": "uniform", "min_ms": 1, "max_ms": 1e12},
    {"distribution": "uniform", "min_ms": 1},
    {"distribution": "normal", "mean_ms": 5, "deviation_ms": 1.5},
    {"distribution": "pareto", "min_ms": 5, "shape": 0},
    {"distribution": "pareto", "min_ms": 5},
    {"distribution": "other"},
]
_VERSIONS: list[Any] = [{"Produce": 7}, {"Produce": "3-7", "0": "4"}, {"Produce": "7-3"}, {"Prduce": 7}, {"Fetch": -1}]
_POOL: list[Any] = [
    *_NUMBERS,
    *_TEXTS,
    *_OTHERS,
    *_DURATIONS,
    *_VERSIONS,
    {"Fetch": True},
    {"fetch": 4.0},
    {"Fetch": " 4"},
]
_LEAST: dict[str, dict[str, Any]] = {
    "bandwidth": {"rate_bytes_per_s": 1},
    "broker_down": {"node_id": 1},
    "cap_versions": {"versions": {"Produce": 7}},
    "delay": {"delay_ms": 1},
    "error": {"error_code": 6},
    "limit": {"limit_bytes": 1},
    "slow_close": {"delay_ms": 1},
    "throttle": {"throttle_time_ms": 1},
}
_FAULT = {key: value for key, value in fault_json_schema().items() if key != "$defs"}
_VALIDATOR = jsonschema_rs.validator_for(fault_json_schema())


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each field with each value of the pool: its own ones of every kind, match and trigger once."""
    for kind, model in Fault.kinds.items():
        least = {"kind": kind, **_LEAST.get(kind, {})}
        yield kind, least
        for name in [*model.model_fields, "unknown"]:
            yield f"{kind}.{name}", {key: value for key, value in least.items() if key != name}
            yield from ((f"{kind}.{name}", {**least, name: value}) for value in _POOL)
    for part, keys in (("match", Match.model_fields), ("trigger", Trigger.model_fields)):
        yield from ((f"{part}.{key}", {"kind": "close", part: {key: value}}) for key in keys for value in _POOL)


def parses(document: dict[str, Any]) -> bool:
    """Whether the parser takes a document, or refuses it for what no schema can say."""
    try:
        parse_fault_document(document)
    except FaultDocumentError as error:
        return all(_BEYOND_SCHEMA.search(problem.message) for problem in error.problems)
    return True


def test_the_schema_takes_what_the_parser_takes_and_nothing_else() -> None:
    taken = {True: 0, False: 0}
    wrong = []
    for field, document in documents():
        by_schema = _VALIDATOR.is_valid(document)
        taken[by_schema] += 1
        if by_schema != parses(document):
            wrong.append(f"{field}: schema {'takes' if by_schema else 'refuses'} {document}")
    assert not wrong, "\n".join(wrong)
    assert min(taken.values()) > 300, "both answers were seen often"


def test_a_bottomless_document_is_refused_as_any_other() -> None:
    deep: Any = 4.0
    for _ in range(900):
        deep = [deep]
    with pytest.raises(FaultDocumentError):
        parse_fault_document({"kind": "close", "match": {"topic": deep}})
    with pytest.raises(FaultDocumentError):
        parse_timeline([{"at": deep, "clear": True}])


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"kind": "close", "trigger": {"after_ms": False}}, "trigger.after_ms"),
        ({"kind": "close", "trigger": {"skip": "4"}}, "trigger.skip"),
        ({"kind": "delay", "delay_ms": "4"}, "delay_ms"),
        ({"kind": "delay", "delay_ms": float("inf")}, "delay_ms"),
        ({"kind": "throttle", "throttle_time_ms": 4.5}, "throttle_time_ms"),
        ({"kind": "throttle", "throttle_time_ms": 4, "muted": "yes"}, "muted"),
    ],
)
def test_a_value_of_another_type_is_not_taken_for_one(document: dict[str, Any], path: str) -> None:
    with pytest.raises(FaultDocumentError) as refused:
        parse_fault_document(document)
    assert [problem.path for problem in refused.value.problems] == [path]


_STEP = jsonschema_rs.validator_for(
    step_json_schema({"$ref": "#/$defs/Fault"}) | {"$defs": {**fault_json_schema()["$defs"], "Fault": _FAULT}}
)
_CLOSE = {"kind": "close"}
_STEPS: list[Any] = [
    *(
        {"at": at, "clear": True}
        for at in (*_NUMBERS, "1.5s", "200 ms", "200  ms", " 1s", "1.s", "1", "5min", "1d", None, True)
    ),
    *({"after": after, "clear": True} for after in ("a", {}, {"fault": ""}, {"fault": "a"}, {"fault": "a", "hits": 2})),
    *({"after": {"fault": "a", "hits": hits}, "clear": True} for hits in (0, 1.5, 2.0, True, "2", None)),
    *({"at": 1, "clear": clear} for clear in (False, 1, None, "true")),
    *({"at": 1, "remove": names} for names in ("a", "", 7, None, [], ["a", "b"], ["a", 7])),
    *({"at": 1, "add": faults} for faults in (_CLOSE, [_CLOSE], [], {}, None, [{}], [{"kind": "clse"}], "close")),
    {"at": 1},
    {"clear": True},
    {"at": 1, "after": {"fault": "a"}, "clear": True},
    {"at": 1, "clear": True, "adds": 1},
    {"at": 1, "clear": True, "add": _CLOSE, "remove": "b"},
]


@pytest.mark.parametrize("step", _STEPS, ids=str)
def test_a_step_of_a_timeline_too(step: Any) -> None:
    try:
        parse_timeline([step])
        problems = []
    except FaultDocumentError as error:
        problems = error.problems
    assert _STEP.is_valid(step) == (not problems), problems
