"""Fault documents: what is accepted, and that every problem is told with its path."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.faults.base import Fault
from notleader.faults.schema import FaultDocumentError, fault_json_schema, parse_fault_document, parse_faults
from notleader.proxy.wire.names import ErrorCode


def problems(*documents: Any) -> dict[str, str]:
    """Path → message of everything that is wrong with these documents."""
    with pytest.raises(FaultDocumentError) as caught:
        parse_faults(list(documents))
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert len(found) == len(caught.value.problems)
    return found


def test_the_rule_of_the_contract_is_read() -> None:
    rule = parse_fault_document(
        {
            "name": "slow-election",
            "kind": "error",
            "error_code": "NOT_LEADER_FOR_PARTITION",
            "phase": "before_broker",
            "match": {"api_key": "Produce", "topic": "orders", "partition_index": 0},
            "trigger": {"times": 4},
        }
    )
    assert (rule.name, rule.kind, rule.trigger.times) == ("slow-election", "error", 4)
    assert rule.model_dump(mode="json", exclude_unset=True)["error_code"] == ErrorCode.NOT_LEADER_OR_FOLLOWER.name


@pytest.mark.parametrize("code", [6, "6", "NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower"])
def test_error_codes_go_by_name_or_number(code: Any) -> None:
    rule = parse_fault_document({"kind": "error", "error_code": code})
    assert rule.model_dump()["error_code"] == "NOT_LEADER_OR_FOLLOWER"


def test_all_problems_of_all_faults_are_told_at_once() -> None:
    assert problems(
        {"kind": "eror", "match": {"topc": "x"}, "trigger": {"skip": -1}},
        {"kind": "error", "error_code": "NOT_LEDER", "match": {"api_key": "Prduce", "topc": "x"}},
        {"name": "twice", "kind": "stall", "trigger": {"times": 0, "evry": 2}},
        {"name": "twice", "kind": "delay"},
        "close",
        {},
    ) == {
        "faults[0].kind": "there is no kind 'eror'; did you mean 'error'?",
        "faults[0].match.topc": "unknown key; did you mean 'topic'?",
        "faults[0].trigger.skip": "Input should be greater than or equal to 0",
        "faults[1].error_code": "'NOT_LEDER' is no error code; did you mean 'NOT_LEADER_OR_FOLLOWER'?",
        "faults[1].match.api_key": "'Prduce' is no API key; did you mean 'Produce'?",
        "faults[1].match.topc": "unknown key; did you mean 'topic'?",
        "faults[2].trigger.times": "Input should be greater than or equal to 1, or 0 is not 'forever'",
        "faults[2].trigger.evry": "unknown key; did you mean 'every'?",
        "faults[3].delay_ms": "missing: How long: a number, or a distribution to draw each delay from",
        "faults[3].name": "the name 'twice' is taken by faults[2]",
        "faults[4]": "a mapping expected, got str",
        "faults[5].kind": f"missing; one of {', '.join(sorted(Fault.kinds))}",
    }


def test_a_key_at_the_wrong_place_is_sent_where_it_belongs() -> None:
    assert problems({"kind": "broker_down", "node_id": 2, "for_ms": 3000, "topic": "orders"}) == {
        "faults[0].for_ms": "unknown key; trigger takes it: trigger: {for_ms: …}",
        "faults[0].topic": "unknown key; match takes it: match: {topic: …}",
    }


def test_problems_inside_a_distribution_have_its_path() -> None:
    found = problems({"kind": "delay", "delay_ms": {"distribution": "uniform", "min_ms": 1, "mx_ms": 2}})
    assert found == {
        "faults[0].delay_ms.max_ms": "missing: Longest delay",
        "faults[0].delay_ms.mx_ms": "unknown key; did you mean 'max_ms'?",
    }


def test_a_match_that_can_never_hit_is_a_problem() -> None:
    assert problems(
        {"kind": "close", "phase": "connection", "match": {"topic": "orders"}},
        {"kind": "leader_election", "match": {"api_key": "Heartbeat"}},
        {"kind": "stall", "match": {"api_key": "Produce", "topic": "orders", "group_id": "billing"}},
        {
            "kind": "stall",
            "match": {"api_key": ["Heartbeat", "CreateTopics"], "topic": "orders", "group_id": "billing"},
        },
        {"kind": "offset_lie", "match": {"transactional_id": "t"}},
    ) == {
        "faults[0].match.topic": "is not known yet when a connection is accepted",
        "faults[1].match.api_key": "leader_election acts on Fetch, Metadata, Produce only",
        "faults[2].match.group_id": "a request of Produce names none: this can never match",
        "faults[3].match": "no request of CreateTopics, Heartbeat names all of group_id, topic: this can never match",
        "faults[4].match.transactional_id": "a request of ListOffsets names none: this can never match",
    }


def test_a_match_of_what_some_request_names_is_none() -> None:
    parse_faults(
        [
            {"kind": "stall", "match": {"api_key": ["Heartbeat", "OffsetCommit"], "topic": "a", "group_id": "b"}},
            {"kind": "stall", "match": {"api_key": "FindCoordinator", "transactional_id": "t"}},
            {"kind": "stall", "match": {"api_key": "DeleteTopics", "topic": "a"}},
            {"kind": "stall", "match": {"api_key": "!Produce", "group_id": "b", "partition_index": 1}},
        ]
    )


@pytest.mark.parametrize(
    ("phase", "api_key", "only"),
    [
        ("before_broker", "Fetch", "Produce only, in phase before_broker; with `phase: after_broker` on Fetch"),
        ("after_broker", "Produce", "Fetch only, in phase after_broker; with `phase: before_broker` on Produce"),
        ("after_broker", "Metadata", "Fetch only"),
    ],
)
def test_an_api_that_a_phase_of_corrupt_does_not_damage_is_a_problem(phase: str, api_key: str, only: str) -> None:
    found = problems({"kind": "corrupt", "phase": phase, "match": {"api_key": api_key}})
    assert found == {"faults[0].match.api_key": f"corrupt acts on {only}"}


def test_every_version_that_is_wrong_is_told() -> None:
    versions = {"Nope": 3, "Produce": "x", "Fetch": 4}
    (said,) = problems({"kind": "cap_versions", "versions": versions}).values()
    assert "Nope" in said
    assert "Produce: 'x' is neither" in said


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(FaultDocumentError, match="faults: a list of faults expected, got dict"):
        parse_faults({"kind": "close"})


def test_one_document_has_paths_without_a_list() -> None:
    with pytest.raises(FaultDocumentError) as caught:
        parse_fault_document({"kind": "close", "phase": "during"})
    assert caught.value.problems[0].path == "phase"


def test_the_json_schema_knows_every_kind_and_describes_every_field() -> None:
    schema = fault_json_schema()
    assert set(schema["discriminator"]["mapping"]) == set(Fault.kinds)
    for name, model in schema["$defs"].items():
        for key, field in model["properties"].items():
            assert "description" in field or key in ("kind", "phase", "distribution"), (name, key)


@pytest.mark.parametrize("match", [{"listener": "bootstrap"}, {"connection": 1}, {"node_id": 2}, {"principal": "me"}])
def test_a_broker_is_down_for_every_client(match: dict[str, object]) -> None:
    with pytest.raises(FaultDocumentError, match="every client is told the same"):
        parse_fault_document({"kind": "broker_down", "node_id": 3, "match": match})


@pytest.mark.parametrize(
    "document", [{"kind": "bandwidth", "rate_bytes_per_s": 0}, {"kind": "slice", "average_bytes": 0}]
)
def test_nothing_passes_at_no_bytes_at_all(document: dict[str, object]) -> None:
    with pytest.raises(FaultDocumentError, match="greater than or equal to 1"):
        parse_fault_document(document)
