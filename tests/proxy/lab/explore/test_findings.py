from __future__ import annotations

import runpy
import subprocess
from pathlib import Path
from typing import Any

import pytest

from notleader.faults.schema import parse_faults
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.candidates import Rule
from notleader.proxy.lab.explore.cli import messages_for
from notleader.proxy.lab.explore.findings import Corpus, Failure, described, group
from notleader.proxy.lab.explore.judging import KINDS, Learned, Verdict
from notleader.proxy.lab.explore.search import Explored, Limits
from notleader.proxy.lab.explore.shrinking import Recipe
from notleader.proxy.lab.explore.telling import (
    document,
    junit,
    markdown,
    messages_of,
    options_of,
    pytest_test,
    rule_file,
    write,
)
from notleader.proxy.lab.explore.words import unjudged
from notleader.proxy.lab.incident import load_incident
from notleader.proxy.lab.verdict import Counts, judge

COMMAND = ["./shop", "{bootstrap}", 'it "is"\\n']
ASKED = Asked(COMMAND)


def on_produce(kind: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, **fields, "match": {"api_key": "Produce"}, "trigger": {"times": 1}}


def failure(*rules: dict[str, Any], kind: str = "duplicate", sentence: str = "message 'a' is twice") -> Failure:
    given = list(rules)
    return Failure([Verdict(kind, sentence)], given, given, "Produce #1 of 4", 3, 3, True, 5, 9)


def with_messages(count: int, found: Failure) -> Failure:
    found.messages = count
    return found


def explored(*failures: Failure) -> Explored:
    return Explored(Learned(1.0, tells_ids=True), failures=list(failures))


def test_ways_to_lose_an_exchange_are_one_failure_and_errors_are_others() -> None:
    def groups(kind: str, *rules: dict[str, Any]) -> int:
        return len({group(Verdict(kind, ""), [rule]) for rule in rules})

    timed_out = on_produce("error", error_code="REQUEST_TIMED_OUT", phase="after_broker")
    moved = on_produce("error", error_code="NOT_LEADER_OR_FOLLOWER")
    assert groups("hang", on_produce("close"), on_produce("reset"), on_produce("drop_response")) == 1
    assert groups("hang", on_produce("close"), timed_out, moved) == 3
    assert groups("duplicate", on_produce("close", phase="after_broker"), timed_out) == 1
    assert groups("duplicate", timed_out, moved) == 2
    assert group(Verdict("hang", ""), [moved]) != group(Verdict("duplicate", ""), [moved])


def test_a_rule_file_is_a_config_file_and_says_what_it_does() -> None:
    import yaml

    text = rule_file(failure(on_produce("close"), sentence="x\nfaults: none"), ASKED)
    assert parse_faults(yaml.safe_load(text)["faults"])
    assert text.startswith("# duplicate: x faults: none\n")


@pytest.mark.parametrize("sentence", ["plain", 'quotes """ and \\ backslash', "\x1b[31mred\n# heading"])
def test_what_a_command_said_breaks_no_file(sentence: str, tmp_path: Path) -> None:
    found = explored(failure(on_produce("close"), sentence=sentence))
    write(found, ASKED, Limits(), tmp_path)
    compile((tmp_path / "test_failure_1.py").read_text(), "test", "exec")
    assert "\x1b" not in markdown(found, ASKED, Limits()) + junit(found)
    assert 'failures="1"' in junit(found)
    assert document(found, ASKED, Limits())["failures"][0]["file"] == "failure-1.yaml"
    assert load_incident(str(tmp_path / "incident-1.yaml")).clients[0].command == COMMAND
    write(explored(), ASKED, Limits(), tmp_path)
    assert not [*tmp_path.glob("*failure*"), *tmp_path.glob("incident*")]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_an_incident_can_show_becomes_one(kind: str, tmp_path: Path) -> None:
    found = explored(failure(on_produce("close"), kind=kind))
    write(found, Asked(COMMAND, partitions=3), Limits(limit_s=7), tmp_path)
    (told,) = document(found, ASKED, Limits())["failures"]
    if kind in ("missing", "check", "backwards"):
        assert told["incident"] is None
        assert not list(tmp_path.glob("incident*"))
        return
    incident = load_incident(str(tmp_path / told["incident"]))
    affected, control = incident.runs
    assert incident.faults == found.failures[0].rules
    assert (affected.faults, control.faults, control.ends) == (None, [], "well")
    assert affected.must == control.never
    assert affected.must or affected.ends in ("badly", "never")
    assert (incident.limit_s, incident.topics[0].partitions) == (7, 3)


@pytest.mark.parametrize(
    ("kind", "sent", "shrunk", "records"),
    [
        ("duplicate", None, None, 8),
        ("duplicate", 8, 2, 2),
        ("duplicate", 4, 2, None),  # two records a message, or half of them by chance
        ("lost", 8, 8, None),
        ("skipped", 8, 8, None),
    ],
)
def test_without_outcome_lines_an_incident_counts_the_records_of_the_log(
    kind: str, sent: int | None, shrunk: int | None, records: int | None, tmp_path: Path
) -> None:
    found = failure(on_produce("close"), kind=kind)
    found.messages = shrunk
    always = frozenset(("orders", str(each)) for each in range(8))
    write(Explored(Learned(1.0, always), sent, failures=[found]), Asked(COMMAND, partitions=3), Limits(), tmp_path)
    if records is None:
        assert not list(tmp_path.glob("incident*"))
        return
    incident = load_incident(str(tmp_path / "incident-1.yaml"))
    affected, control = incident.runs
    assert not affected.must
    for run, count, told in ((affected, records, 1), (affected, records + 1, 0), (control, records + 1, 1)):
        counts = Counts(records={incident.topics[0].name: count}, ended="well")
        assert len(judge(incident, run, [], counts).problems) == told


def test_the_test_to_paste_names_the_command_as_it_was_given() -> None:
    text = pytest_test(1, failure(on_produce("close")), ASKED, Path("out"))
    assert all(repr(word) in text for word in COMMAND)


def test_the_test_to_paste_runs_the_command_where_it_was_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    out = tmp_path / "reports" / "today"
    out.mkdir(parents=True)
    (out / "test_failure_1.py").write_text(
        pytest_test(1, failure(on_produce("close")), ASKED, Path("../reports/today"))
    )
    told: dict[str, Any] = {}

    def run(argv: list[str], *, cwd: Path, **others: Any) -> subprocess.CompletedProcess[str]:
        told.update(rules=Path(argv[argv.index("--replay") + 1]), cwd=cwd.resolve())
        return subprocess.CompletedProcess(argv, 0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.chdir(tmp_path)
    named = runpy.run_path(str(out / "test_failure_1.py"))
    (test,) = (value for name, value in named.items() if name.startswith("test_"))
    test()
    assert told == {"rules": out / "failure-1.yaml", "cwd": tmp_path / "work"}


def test_a_corpus_is_of_one_command(tmp_path: Path) -> None:
    file = tmp_path / "corpus.json"
    corpus = Corpus(COMMAND, None, {"rule": "hang"}, [Recipe([on_produce("close")])])
    corpus.save(file)
    assert Corpus.load(file, COMMAND) == corpus
    assert Corpus.load(file, ["other"]) == Corpus(["other"])
    # Other places to strike, and what failed has its own number.
    assert Corpus.load(file, COMMAND, 9) == Corpus(COMMAND, 9, {}, corpus.failing)
    file.write_text("{torn")
    assert Corpus.load(file, COMMAND) == Corpus(COMMAND)


def test_commits_that_go_back_without_faults_are_told_and_not_judged() -> None:
    found = explored()
    found.learned = Learned(1.0, goes_back="group g committed 4 of t-0 after 5")
    (told,) = [each for each in unjudged(found) if each.startswith("commits")]
    assert told == "commits that go back by a fault: they do without any (group g committed 4 of t-0 after 5)"
    assert not [each for each in unjudged(explored()) if each.startswith("commits")]


def test_what_one_error_of_several_rules_does_alone_is_the_same_and_what_it_takes_two_for_is_not() -> None:
    known = failure(on_produce("error", error_code="OUT_OF_ORDER_SEQUENCE_NUMBER"), kind="stuck")
    lost, moved = on_produce("reset"), on_produce("error", error_code="NOT_LEADER_OR_FOLLOWER")
    assert known.is_in(Verdict("stuck", ""), [lost, *known.rules])
    assert not known.is_in(Verdict("stuck", ""), [lost, moved])
    assert not known.is_in(Verdict("stuck", "", "fenced"), [lost, *known.rules])
    assert not known.is_in(Verdict("hang", ""), [lost, *known.rules])


def test_a_reader_that_began_too_late_is_one_failure_whatever_made_it_late() -> None:
    def by(told: str, api: str) -> tuple[str, ...]:
        return group(Verdict("skipped", "", told), [{"kind": "close", "match": {"api_key": api}}])

    assert by("from behind them", "JoinGroup") == by("from behind them", "SyncGroup")
    assert by("", "JoinGroup") != by("", "SyncGroup")


def test_stuck_by_whatever_error_is_one_failure_when_callers_are_told_the_same_ever_after() -> None:
    def by(told: str, **rule: str) -> tuple[str, ...]:
        return group(Verdict("stuck", "", told), [{"match": {"api_key": "Produce"}, **rule}])

    big = by("out of order", kind="error", error_code="MESSAGE_TOO_LARGE")
    assert big == by("out of order", kind="error", error_code="KAFKA_STORAGE_ERROR")
    assert big != by("fenced", kind="error", error_code="MESSAGE_TOO_LARGE")
    assert big != by("out of order", kind="reset")


def test_the_number_of_messages_that_is_left_is_in_everything_that_is_told(tmp_path: Path) -> None:
    command = ["./shop", "{bootstrap}", "--orders={messages}"]
    found = explored(with_messages(3, failure(on_produce("close"))))
    write(found, Asked(command), Limits(), tmp_path)
    replay = "--replay failure-1.yaml --messages 3"
    for name, words in {
        "report.html": (replay, "{messages} = 3"),
        "report.md": (replay, "{messages} = 3"),
        "report.json": ('"messages": 3',),
        "failure-1.yaml": ("\n# messages: 3\n",),
        "test_failure_1.py": ("'--messages',\n        '3',\n        '--',",),
        "incident-1.yaml": ("--orders=3",),
    }.items():
        assert all(word in (tmp_path / name).read_text() for word in words), name
    assert messages_of((tmp_path / "failure-1.yaml").read_text()) == 3


def test_a_rule_file_without_a_number_says_none() -> None:
    assert messages_of(rule_file(failure(on_produce("close")), ASKED)) is None
    assert messages_of(rule_file(failure(on_produce("close"), sentence="\n# messages: 7\n"), ASKED)) is None


def test_a_rule_file_says_with_which_options_it_was_found() -> None:
    options = ("--check-sql", "select * from 'said.jsonl' where n > 1", "--strict")
    assert options_of(rule_file(failure(on_produce("close")), Asked(["./shop"], options))) == [*options]
    assert options_of(rule_file(failure(on_produce("close"), sentence="\n# options: --strict\n"), ASKED)) == []


@pytest.mark.parametrize(("asked", "told", "is_"), [(None, None, 20), (None, 3, 3), (5, 3, 5)])
def test_what_was_asked_for_goes_before_what_the_rule_file_says(asked: int | None, told: int | None, is_: int) -> None:
    assert messages_for(["shop", "-n{messages}"], asked, told) == is_
    assert messages_for(["shop"], None, told) is None


def test_a_number_that_the_command_does_not_take_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LabError, match=r"--messages 5: write \{messages\} in the command where"):
        messages_for(["shop", "{bootstrap}"], 5, None)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"kind": "broker_down", "trigger": {"after_fault": "gone"}}, "broker_down from then on, for good"),
        (
            {"kind": "blackhole", "trigger": {"after_fault": "gone", "for_ms": 500}},
            "blackhole from then on, 500 ms long",
        ),
        (
            {"kind": "reset", "trigger": {"times": "forever", "after_ms": 20, "for_ms": 6000}},
            "reset 6000 ms long, after 20 ms",
        ),
        ({"kind": "close", "match": {"api_key": "Produce"}, "trigger": {"times": 4}}, "close on Produce, 4 times"),
    ],
)
def test_a_rule_is_told_with_how_long_it_lasts(rule: Rule, words: str) -> None:
    assert described(rule) == words
