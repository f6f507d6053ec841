"""Whether a failure is the known bug is said by the incident's own file, not by the benchmark."""

from __future__ import annotations

from typing import Any

from benchmarks.explore import cases
from benchmarks.explore.cases import CASES, OfIncident, Service
from benchmarks.explore.page import table
from notleader.proxy.lab.stages import Stages

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


def test_a_rule_is_the_same_in_whatever_order_its_fields_are_and_wherever_it_strikes() -> None:
    found = [
        {"trigger": {"times": 1, "skip": 1}, "match": {"api_key": "Produce"}, "kind": "close"},
        {
            "trigger": {"skip": 1},
            "error_code": "NOT_LEADER_OR_FOLLOWER",
            "match": {"api_key": "Produce"},
            "kind": "error",
        },
    ]
    assert BY_NAME["librdkafka-fatal-disconnect"].is_known(failure("stuck", *found)) == "yes"


def test_a_reader_that_comes_late_by_another_fault_shows_the_bug() -> None:
    kafka_go = BY_NAME["first-records-passed-over"]
    late = rule("JoinGroup", "error", error_code="NOT_COORDINATOR")
    told = {"verdicts": [{"told": "which was read from behind them on"}]}
    assert kafka_go.is_known(failure("skipped", late) | told) == "same"
    assert kafka_go.is_known(failure("skipped", rule("Metadata", "close")) | told) == "no"


def test_every_case_names_runs_that_its_incident_has() -> None:
    from notleader.proxy.lab.incident import load_incident

    for case in CASES:
        if isinstance(case, OfIncident):
            names = {run.name for run in load_incident(case.name).runs}
            assert {case.affected, case.mended} <= names


def test_the_table_has_a_row_for_what_was_searched() -> None:
    case = BY_NAME["sarama-hang"]
    said = {
        "failures": [failure("exit", rule("Metadata", "close")), {**failure("hang", REFUSED), "messages": 2}],
        "tries": 12,
        "minutes": 1.5,
    }
    rows = table(
        CASES, {(case.name, "bug"): said, (case.name, "sound"): {"failures": [], "tries": 20, "minutes": 2}}
    ).splitlines()
    assert len(rows) == 3
    assert "its recipe" in rows[2]
    assert "times=4, 2 messages; in 9 tries" in rows[2]
    assert "nothing in 20 tries, 2 min" in rows[2]
    assert all(isinstance(each, Service | OfIncident) for each in CASES)


def test_every_program_of_an_incident_that_is_told_the_same_number_is_told_another(monkeypatch: Any) -> None:
    monkeypatch.setattr(cases, "command", lambda program, stages: [program.program])
    start = BY_NAME["first-records-passed-over"].start(sound=False, kafka="localhost:9092", stages=Stages(quiet=True))
    assert start.messages == 50
    assert start.argv.count("messages={messages}") == 2
    assert not [word for word in start.argv if word == "messages=50"]
    start = BY_NAME["packing service, commits before it packs"].start(False, "localhost:9092", Stages(quiet=True))
    assert (start.argv[-2:], start.messages) == (["hasty", "{messages}"], 4)


def test_what_needs_no_fault_is_the_known_bug_and_said_so() -> None:
    case = BY_NAME["committed-backwards"]
    assert (case.is_known(failure("backwards")), case.is_known(failure("exit"))) == ("yes", "no")
    said = {"failures": [failure("backwards")], "tries": 1, "minutes": 1}
    assert "it needs no fault | `backwards`: no fault; in 9 tries" in table(CASES, {(case.name, "bug"): said})
