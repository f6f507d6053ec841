"""Incident files: what ships is valid, what is wrong is named, and runs are told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.schema import parse_faults
from faults.timeline import parse_timeline
from proxy.lab.incident import CLIENTS, IncidentError, incident_names, load_incident
from proxy.lab.verdict import judge


@pytest.mark.parametrize("name", incident_names())
def test_every_shipped_incident_can_be_run(name: str) -> None:
    incident = load_incident(name)
    assert incident.name == name
    parse_faults(incident.faults)
    if incident.steps:
        parse_timeline(incident.steps)
    for run in incident.runs:
        for program in incident.programs(run):
            source = CLIENTS / program.program
            assert source.is_file()
            if run.version:
                assert (source.parent / "versions" / run.version).is_dir()


def test_every_problem_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntitle: t\nstory: s\ntopics: [{name: a, partitions: 0}]\nclients: [{nam: x}]\n")
    with pytest.raises(IncidentError, match=r"topics\.0\.partitions: .*clients\.0\.name: Field required"):
        load_incident(str(path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(IncidentError, match=r"no incident 'leader' \(there are: .*leader-lost"):
        load_incident("leader")


def test_the_version_is_part_of_the_client_id() -> None:
    incident = load_incident("sarama-hang").only("sarama@1.37.2")
    (program,) = incident.programs(incident.runs[0])
    assert program.name == "sarama-1.37.2"
    assert "client_id=sarama-1.37.2" in program.command_line("127.0.0.1:1")
    assert "idempotent=true" in program.command_line("127.0.0.1:1")


def test_a_version_without_a_run_has_nothing_expected_of_it() -> None:
    (run,) = load_incident("sarama-hang").only("sarama@1.27.2").runs
    assert (run.version, run.must, run.never) == ("1.27.2", [], [])


def test_a_client_that_has_no_part_is_refused() -> None:
    with pytest.raises(IncidentError, match="sarama-hang has no client 'java'"):
        load_incident("sarama-hang").only("java")


def finding(check: str, client: str, count: int = 1) -> dict[str, object]:
    return {"check": check, "client": client, "count": count, "sentence": f"{check} of {client}"}


def test_a_run_is_judged_by_the_findings_of_its_own_clients() -> None:
    findings = [finding("hang", "sarama-1.37.2", 2), finding("failed", "sarama-1.38.0"), finding("hang", "other")]
    affected, control, newest = judge(load_incident("sarama-hang"), findings)
    assert affected.as_expected
    assert affected.found == {"hang": 2}
    assert affected.evidence == ["hang of sarama-1.37.2"]
    assert control.as_expected
    assert newest.problems == ["failed was expected and not found"]


def test_what_should_not_be_is_a_problem_too() -> None:
    judged = judge(load_incident("sarama-hang"), [finding("hang", "sarama-1.38.0"), finding("failed", "sarama-1.38.0")])
    assert judged[1].problems == ["hang was found (1) and should not be"]
