"""Incident files: what ships is valid, what is wrong is named, and runs are told apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pyarrow.parquet
import pytest
import yaml
from pydantic import ValidationError

from notleader.faults.schema import parse_faults
from notleader.faults.timeline import parse_timeline
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, CheckName, Incident, IncidentError, Run, incident_names, load_incident
from notleader.proxy.lab.incident_run import Done, Held
from notleader.proxy.lab.recorded import Recorded, run_of_its_own, stamp
from notleader.proxy.lab.run import build
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.verdict import Counts, Judged, judge, not_done
from notleader.spark_analysis.checks import all_checks


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
            if program.version not in ("", "installed"):
                assert (source.parent / "versions" / program.version).is_dir()


@pytest.mark.parametrize("name", incident_names())
def test_a_cure_is_held_to_what_the_affected_one_shows(name: str) -> None:
    incident = load_incident(name)
    assert incident.symptom or not incident.reproduces
    if incident.cure is None:
        return
    (cured,) = (run for run in incident.runs if run.name == incident.cure.run)
    (affected,) = (run for run in incident.runs if run.name == "affected")
    assert cured.faults != [] or cured.steps, "without the faults anything is cured"
    kept_out = set(affected.must) & set(cured.never)
    placed = cured.misplaced is not None and cured.misplaced.at_most == 0
    counted = {api for api, times in cured.requests.items() if times != affected.requests.get(api)}
    counted_otherwise = cured.records != affected.records or cured.cpu_ms != affected.cpu_ms
    says_so = "failed" in cured.must and "failed" not in affected.must
    assert kept_out or counted or says_so or placed or counted_otherwise


def test_a_cure_that_no_run_shows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\ntitle: t\nstory: s\ntopics: [{name: a}]\ncure: {told: pray}\n"
        "clients: [{name: x, program: java/Producer.java, role: r}]\n"
    )
    with pytest.raises(IncidentError, match=r"cure\.run: there is no run 'cure'"):
        load_incident(str(path))


def test_every_problem_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ntitle: t\nstory: s\ntopics: [{name: a, partitions: 0}]\nclients: [{nam: x}]\n")
    with pytest.raises(IncidentError, match=r"topics\.0\.partitions: .*clients\.0\.name: Field required"):
        load_incident(str(path))


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"name: mine\ntitle: K\xf6nig\n")
    with pytest.raises(IncidentError, match="not YAML: 'utf-8' codec can't decode byte 0xf6"):
        load_incident(str(path))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(IncidentError, match=r"no incident 'leader'; did you mean 'leader-lost'"):
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
    incident = load_incident("sarama-hang")
    affected, control, newest = (judge(incident, run, findings) for run in incident.runs)
    assert affected.as_expected
    assert affected.found == {"hang": 2}
    assert affected.evidence == ["hang of sarama-1.37.2"]
    assert control.as_expected
    assert newest.problems == ["failed was expected and not found"]


def test_what_had_nothing_to_be_judged_by_is_told_with_the_reason() -> None:
    incident = Incident.model_validate(COMMAND)
    nothing = "Not judged: no send was told of in the outcomes."
    unjudged = {"check": "duplicate", "client": None, "count": 0, "sentence": nothing}
    judged = judge(incident, incident.runs[0], [unjudged], Counts(ended="badly"))
    assert judged.problems == ["duplicate was expected and not judged: no send was told of in the outcomes"]
    clear = unjudged | {"sentence": "No message is in the log twice."}
    judged = judge(incident, incident.runs[0], [unjudged, clear], Counts(ended="badly"))
    assert judged.problems == ["duplicate was expected and not found"]


def test_a_check_is_one_of_the_analysis(tmp_path: Path) -> None:
    assert set(get_args(CheckName)) == {check.name for check in all_checks()}
    path = tmp_path / "mine.yaml"
    run = {"name": "affected", "must": ["duplicates"], "never": ["lost"]}
    path.write_text(yaml.safe_dump(COMMAND | {"runs": [run]}))
    with pytest.raises(IncidentError, match=r"runs\.0\.must\.0: .*'lost', 'duplicate', .*'metadata_storm'"):
        load_incident(str(path))


def test_requests_are_counted_where_the_file_says_how_many() -> None:
    incident = load_incident("zombie-member")
    affected, newest = incident.runs[:2]
    failed = [finding("failed", "franz-go-1.21.2-affected"), finding("failed", "franz-go-1.22.2")]
    assert judge(incident, affected, failed, Counts({"JoinGroup": 2})).as_expected
    too_many = judge(incident, affected, failed, Counts({"JoinGroup": 6}))
    assert too_many.problems == ["JoinGroup was seen 6 times, and 2 or fewer were expected"]
    too_few = judge(incident, newest, failed, Counts({"JoinGroup": 2}))
    assert too_few.problems == ["JoinGroup was seen 2 times, and 3 or more were expected"]


def test_a_record_that_lies_where_nobody_sent_it_is_counted(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "outcomes").mkdir()
    sends = [("a", "orders", 0), ("b", "invoices", 1), ("c", "orders", 0)]
    lines = [
        {"operation": "send", "message_id": name, "topic": topic, "partition": partition, "outcome": "ok"}
        for name, topic, partition in sends
    ]
    (tmp_path / "outcomes" / "java.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    # `b` lies twice, once among the orders; `c` in another partition; of `d` nobody said anything.
    log = [*sends[:2], ("b", "orders", 0), ("c", "orders", 1), ("d", "orders", 0)]
    rows = [dict(zip(("message_id", "topic", "partition"), place, strict=True), event="record") for place in log]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "log" / "part.parquet")
    incident = load_incident("wrong-topic")
    affected, newest, _ = incident.runs
    misplaced = Recorded(incident, affected, tmp_path, [], {}).misplaced()
    assert misplaced == 2
    failed = [finding("failed", "java-2.8.2-affected")]
    assert judge(incident, affected, failed, Counts(misplaced=misplaced)).as_expected
    assert judge(incident, newest, [], Counts(misplaced=misplaced)).problems == [
        "a record where nobody sent it was seen 2 times, and 0 or fewer were expected"
    ]


def test_the_log_of_a_topic_is_counted_without_what_was_aborted(tmp_path: Path) -> None:
    incident = load_incident("spring-skips-a-record")
    own = run_of_its_own(incident, incident.runs[0], "word")
    (run,) = own.runs
    assert set(run.records) == {"shipped.word"}, "the run's topics have names of their own, and so has what it counts"
    rows = [{"event": "record", "topic": "shipped.word", "transaction": state} for state in ["committed"] * 29]
    rows += [{"event": "record", "topic": "shipped.word", "transaction": state} for state in ("aborted", "open")]
    rows += [{"event": "control", "topic": "shipped.word", "transaction": None}]
    (tmp_path / "log").mkdir()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "log" / "part.parquet")
    records = Recorded(own, run, tmp_path, [], {}).records()
    assert records == {"shipped.word": 29}
    assert judge(own, run, [], Counts(records=records)).as_expected
    whole = judge(own, run, [], Counts(records={"shipped.word": 30}))
    assert whole.problems == ["the log of shipped.word holds 30 records, and 29 or fewer were expected"]


COMMAND = {
    "name": "explored",
    "title": "A service",
    "story": "It was found.",
    "topics": [{"name": "orders"}],
    "clients": [{"name": "service", "command": ["./shop", "{bootstrap}"], "role": "sends"}],
    "runs": [{"name": "affected", "ends": "badly", "must": ["duplicate"]}],
}


def test_a_command_of_ones_own_is_held_by_its_topics_and_how_it_ends() -> None:
    incident = Incident.model_validate(COMMAND)
    (run,) = incident.runs
    found = [finding("duplicate", "shop") | {"topic": "orders"}, finding("lost", "shop") | {"topic": "others"}]
    ended_badly = judge(incident, run, found, Counts(ended="badly"))
    assert ended_badly.as_expected
    assert ended_badly.found == {"duplicate": 1}
    assert judge(incident, run, found, Counts(ended="well")).problems == [
        "service ended well, and it should be: ended with another exit code than 0"
    ]


def test_a_command_that_ended_with_an_error_is_told_by_its_last_words() -> None:
    incident = Incident.model_validate(COMMAND)
    (run,) = incident.runs
    counts = Counts(ended="badly", told="ended with code 1: no such shop")
    judged = judge(incident, run, [], counts)
    assert judged.problems == ["duplicate was expected and not found"]
    assert judged.evidence == ["service ended with code 1: no such shop."]
    # Where nothing is asked of how it ends, it may be why what is asked was not found.
    silent = run.model_copy(update={"ends": None})
    expected = ["duplicate was expected and not found", "service ended with code 1: no such shop"]
    assert judge(incident, silent, [], counts).problems == expected
    assert judge(incident, silent, [finding("duplicate", "shop") | {"topic": "orders"}], counts).as_expected
    well = run.model_copy(update={"ends": "well", "must": []})
    assert judge(incident, well, [], counts).problems == [
        "service ended with code 1: no such shop, and it should be: ended well"
    ]


def test_what_is_missing_is_told_with_the_rules_that_were_never_hit() -> None:
    incident = Incident.model_validate(COMMAND)
    (run,) = incident.runs
    counts = Counts(ended="badly", hits={"lose": 0, "slow": 3})
    assert judge(incident, run, [], counts).problems == [
        "duplicate was expected and not found",
        "rule lose was never hit",
    ]
    assert judge(incident, run, [finding("duplicate", "shop") | {"topic": "orders"}], counts).as_expected


@pytest.mark.parametrize("client", [{"program": "java/P.java", "command": ["./shop"]}, {}])
def test_a_client_is_a_program_or_a_command(client: dict[str, Any]) -> None:
    document = COMMAND | {"clients": [{"name": "service", "role": "sends"} | client]}
    with pytest.raises(ValidationError, match="either program or command is needed"):
        Incident.model_validate(document)


def test_a_command_that_is_not_there_is_told_before_a_kafka_is_started() -> None:
    with pytest.raises(LabError, match=r"there is no program '\./shop' to run"):
        build(Incident.model_validate(COMMAND), Stages(quiet=True))


def test_what_a_command_printed_beside_its_outcome_lines_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "service.jsonl"
    file.write_text('{"operation": "send"}\nhello {}\nhello\n')
    stamp(file, "r1")
    assert file.read_text() == '{"operation": "send", "run_id": "r1"}\nhello {}\n'


def test_processor_time_is_held_against_its_bound_where_it_is_known() -> None:
    incident = load_incident("busy-without-a-coordinator")
    affected, _, control, *_ = incident.runs
    assert judge(incident, affected, [], Counts(cpu_ms=3800)).as_expected
    assert judge(incident, affected, [], Counts(cpu_ms=300)).problems == [
        "kafka-python-2.2.16-affected took 300 ms of processor time, and 1500 or more were expected"
    ]
    assert not judge(incident, control, [], Counts(cpu_ms=3800)).as_expected
    assert judge(incident, control, [], Counts(cpu_ms=None)).as_expected


def test_transactions_of_a_run_have_names_of_their_own() -> None:
    incident = load_incident("init-for-ever")
    own = run_of_its_own(incident, incident.runs[0], "word")
    assert own.clients[0].arguments["transactional_id"] == "billing.word"


def test_what_should_not_be_is_a_problem_too() -> None:
    incident = load_incident("sarama-hang")
    findings = [finding("hang", "sarama-1.38.0"), finding("failed", "sarama-1.38.0")]
    assert judge(incident, incident.runs[1], findings).problems == ["hang was found (1) and should not be"]


def test_rounds_are_told_apart_by_the_client_id() -> None:
    incident = load_incident("java-callback-deadlock").repeated(2)
    names = [program.name for run in incident.runs for program in incident.programs(run)]
    assert len(set(names)) == len(names) == 8
    assert names[1] == "java-4.4.0-newest-r1"
    assert [run.label for run in incident.runs[3:5]] == ["cure, round 1", "affected, round 2"]


def test_a_run_of_its_own_has_its_own_names_in_its_own_faults_too() -> None:
    incident = load_incident("librdkafka-fatal-sequence").repeated(2)
    (control,) = (run for run in incident.runs if (run.name, run.round) == ("control", 2))
    own = run_of_its_own(incident, control, "word")
    assert control.faults is not None
    assert own.runs[0].faults == [{**control.faults[0], "match": {"api_key": "Produce", "topic": "orders.word"}}]
    assert own.runs[0].label == "control, round 2"
    assert {topic.name for topic in own.topics} == {"orders.word"}


def test_a_form_changes_arguments_and_limit() -> None:
    incident = load_incident("sarama-two-minutes")
    reported = incident.in_form("report")
    assert reported.clients[0].arguments["dial_timeout_ms"] == 30_000
    assert reported.limit_s > 126
    assert incident.in_form(None) is incident
    with pytest.raises(IncidentError, match=r"sarama-two-minutes has no form 'long' .it has: measured, report"):
        incident.in_form("long")


def told(name: str, *, good: bool, done: bool = True, round_number: int = 0) -> Held:
    run = Run(name=name, round=round_number)
    judged = Judged(run, {}, [], []) if good else Judged(run, {}, [], ["problem"]) if done else not_done(run, "no go")
    return Held("sarama-hang", judged, {}, [], {}, Path())


def test_the_exit_code_tells_a_bad_run_from_one_that_was_not_done(tmp_path: Path) -> None:
    incident = load_incident("sarama-hang")
    good, bad, undone = told("a", good=True), told("b", good=False), told("c", good=False, done=False)
    assert Done(incident, tmp_path, [good, good]).exit_code == 0
    assert Done(incident, tmp_path, [good, undone]).exit_code == 2
    assert Done(incident, tmp_path, [undone, bad]).exit_code == 1


def test_of_several_rounds_the_first_and_the_bad_ones_are_told(tmp_path: Path) -> None:
    runs = [told("a", good=number != 2, round_number=number) for number in (1, 2, 3)]
    text = Done(load_incident("sarama-hang"), tmp_path, runs).told()
    assert "a, round 1" in text
    assert "✗ problem" in text
    assert "a, round 3" not in text
    assert "a: as expected in 2 of 3 rounds" in text
