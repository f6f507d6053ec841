"""Whether a failure is the known bug is said by the incident's own file, not by the benchmark."""

from __future__ import annotations

from typing import Any

from benchmarks.explore.cases import CASES, OfIncident, Service
from benchmarks.explore.page import table

BY_NAME = {case.name: case for case in CASES}


def rule(api: str | list[str], kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "match": {"api_key": api}, **fields}


def failure(kind: str, *rules: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "rules": list(rules), "tries_to_find": 4, "seconds_to_find": 30.2, "tries_to_shrink": 9}


REFUSED = rule("Produce", "error", error_code="NOT_LEADER_OR_FOLLOWER", trigger={"times": 4})


def test_the_same_rules_are_the_recipe() -> None:
    sarama = BY_NAME["sarama-hang"]
    assert sarama.is_known(failure("hang", REFUSED)) == "yes"
    assert sarama.is_known(failure("hang", {**REFUSED, "trigger": {"times": 5}})) == "part"
    assert sarama.is_known(failure("hang", rule("Produce", "close"))) == "no"
    assert sarama.is_known(failure("duplicate", REFUSED)) == "no"


def test_one_of_two_rules_is_a_part_of_it() -> None:
    librdkafka = BY_NAME["librdkafka-fatal-sequence"]
    alone = rule("Produce", "error", error_code="OUT_OF_ORDER_SEQUENCE_NUMBER", trigger={"times": 1})
    assert librdkafka.is_known(failure("stuck", alone)) == "part"


def test_every_case_names_runs_that_its_incident_has() -> None:
    from notleader.proxy.lab.incident import load_incident

    for case in CASES:
        if isinstance(case, OfIncident):
            names = {run.name for run in load_incident(case.name).runs}
            assert {case.affected, case.mended} <= names


def test_the_table_has_a_row_for_what_was_searched() -> None:
    case = BY_NAME["sarama-hang"]
    said = {
        "failures": [failure("exit", rule("Metadata", "close")), failure("hang", REFUSED)],
        "tries": 12,
        "minutes": 1.5,
    }
    rows = table(
        CASES, {(case.name, "bug"): said, (case.name, "sound"): {"failures": [], "tries": 20, "minutes": 2}}
    ).splitlines()
    assert len(rows) == 3
    assert "its recipe" in rows[2]
    assert "times=4" in rows[2]
    assert "nothing in 20 tries, 2 min" in rows[2]
    assert all(isinstance(each, Service | OfIncident) for each in CASES)
