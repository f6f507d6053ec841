"""What decides whether a try is a failure is said again wherever a failure is told."""

from __future__ import annotations

import contextlib
import json
import runpy
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from notleader.proxy.cli.app import app
from notleader.proxy.lab.explore import cli, search, tries
from notleader.proxy.lab.explore.asked import NOT_DECIDING
from notleader.proxy.lab.explore.candidates import Rule
from notleader.proxy.lab.explore.tries import Bench, Tried
from notleader.proxy.lab.incident import load_incident
from tests.proxy.lab.explore.script import ended, row

COMMAND = ["true", "{bootstrap}", "{topic}"]
DECIDING = {
    "--allow": "hang",
    "--check": "sh 'the check.sh' {topic} `",
    "--check-sql": "select 1 where '{topic}' = '<b>'",
    "--brokers": "3",
    "--partitions": "2",
    "--limit": "6.5",
    "--patience": "7.0",
    "--strict": None,
}
OPTIONS = [word for pair in DECIDING.items() for word in pair if word is not None]


def test_each_option_is_said_again_or_known_not_to_decide() -> None:
    explore = typer.main.get_command(app).commands["explore"]  # type: ignore[attr-defined]
    options = {each.name: each.opts[0] for each in explore.params if each.param_type_name == "option"}
    assert set(DECIDING) == {option for name, option in options.items() if name not in NOT_DECIDING}
    assert options.keys() >= NOT_DECIDING


class Kafka:
    """Nobody's: the command doubles its message where there are rules, and what it was judged by is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, brokers: int = 1) -> None:
        self.brokers = brokers
        self.benches: list[Bench] = []
        self.limits: list[search.Limits] = []
        monkeypatch.setattr(cli, "kafka_of", self.started)
        monkeypatch.setattr(tries, "brokers_of", lambda _: self.brokers)
        monkeypatch.setattr(Bench, "run", lambda bench, rules, limit_s, messages=None: self.run(bench, rules))

    @contextlib.contextmanager
    def started(self, given: str, stages: Any, brokers: int = 1) -> Iterator[str]:
        self.brokers = self.brokers if given else brokers
        yield given or "localhost:9092"

    def run(self, bench: Bench, rules: Sequence[Rule]) -> Tried:
        self.benches.append(bench)
        return Tried(ended(*"aa" if rules else "a"), [1] * len(rules), [row("Produce", 0)], bench.folder / "try")

    @property
    def judged_by(self) -> tuple[Any, ...]:
        bench = self.benches[-1]
        return bench.partitions, bench.check, bench.check_sql, self.brokers


def explore(*words: str) -> int:
    return CliRunner().invoke(app, ["explore", *words]).exit_code


def test_whatever_decides_goes_along_wherever_a_failure_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kafka = Kafka(monkeypatch)
    made: list[search.Limits] = []
    monkeypatch.setattr(search, "Limits", lambda *given: made.append(limits := Limits(*given)) or limits)
    assert explore("--failures", "1", *OPTIONS, "--", *COMMAND) == 1
    judged_by = kafka.judged_by
    assert judged_by == (2, DECIDING["--check"], DECIDING["--check-sql"], 3)

    out = tmp_path / "out" / "explore"
    said = shlex.join(OPTIONS)
    assert said in (out / "failure-1.yaml").read_text()
    assert f"    notleader explore --replay failure-1.yaml {said} -- COMMAND …" in (out / "report.md").read_text()
    assert "--check-sql &#x27;select 1" in (out / "report.html").read_text()
    (told,) = json.loads((out / "report.json").read_text())["failures"]
    assert told["again"] == ["notleader", "explore", "--replay", "failure-1.yaml", *OPTIONS, "--", *COMMAND]
    incident = load_incident(str(out / "incident-1.yaml"))
    assert (incident.kafka.nodes, incident.topics[0].partitions) == (3, 2)

    codes: list[int] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        codes.append(explore(*argv[argv.index("explore") + 1 :]))
        return subprocess.CompletedProcess(argv, codes[-1], stderr="broken")

    monkeypatch.setattr(subprocess, "run", run)
    named = runpy.run_path(str(out / "test_failure_1.py"))
    (test,) = (value for name, value in named.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match="broken"):
        test()
    assert codes == [1]
    assert kafka.judged_by == judged_by
    searched, replayed = made
    assert [getattr(replayed, name) for name in DECIDED] == [getattr(searched, name) for name in DECIDED]


Limits = search.Limits
DECIDED = ("allow", "limit_s", "patience_s", "strict")


def test_a_kafka_of_ones_own_is_told_by_how_many_brokers_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Kafka(monkeypatch, brokers=3)
    assert explore("--kafka", "shop:9092", "--failures", "1", "--out", str(tmp_path), "--", *COMMAND) == 1
    (told,) = json.loads((tmp_path / "report.json").read_text())["failures"]
    assert told["again"] == ["notleader", "explore", "--replay", "failure-1.yaml", "--brokers", "3", "--", *COMMAND]
