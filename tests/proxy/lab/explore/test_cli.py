"""A replay that strikes nothing has tested nothing, and says so."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from notleader.proxy.cli.app import app
from notleader.proxy.lab.explore.candidates import Rule
from notleader.proxy.lab.explore.findings import Failure
from notleader.proxy.lab.explore.telling import pytest_test
from notleader.proxy.lab.explore.tries import Bench, Tried
from tests.proxy.lab.explore.script import ended, row
from tests.proxy.lab.explore.test_asked import COMMAND, Kafka
from tests.proxy.lab.explore.test_findings import ASKED, failure, on_produce

RULE = on_produce("close") | {"match": {"api_key": "Produce", "partition_index": 1}}
NOTHING = "none of the rules was hit, so nothing was tested: close on Produce of partition 1. "


class Spared(Kafka):
    """No rule strikes; with one the command ends with this code."""

    code = 0

    def run(self, bench: Bench, rules: Sequence[Rule]) -> Tried:
        self.benches.append(bench)
        rows = [row("Metadata", 0), row("Produce", 1), row("Produce", 2)]
        return Tried(ended("a", code=self.code if rules else 0), [0] * len(rules), rows, bench.folder / "try")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Spared:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "failure-1.yaml").write_text(yaml.safe_dump({"faults": [RULE]}))
    return Spared(monkeypatch)


def replay(*options: str) -> Result:
    return CliRunner().invoke(app, ["explore", *options, "--replay", "failure-1.yaml", "--", *COMMAND])


def test_where_no_rule_was_hit_nothing_was_tested(kafka: Spared) -> None:
    said = replay("--json")
    assert said.exit_code == 2
    error = json.loads(said.stdout)["error"]
    assert error.startswith(f"notleader: {NOTHING}The command's requests: 2 x Produce, 1 x Metadata. Say all options")
    assert "--partitions" in error
    said = replay()
    assert said.exit_code == 2
    assert NOTHING in said.stderr


def test_what_breaks_is_told_though_no_rule_was_hit(kafka: Spared) -> None:
    kafka.code = 1
    said = replay("--strict")
    assert said.exit_code == 1
    assert "none of its rules was hit" in said.stderr


def test_a_written_test_that_strikes_nothing_fails(
    kafka: Spared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: Failure = failure(RULE)
    (tmp_path / "test_failure_1.py").write_text(pytest_test(1, found, ASKED, tmp_path))

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran = replay()
        return subprocess.CompletedProcess(argv, ran.exit_code, stderr=ran.stderr)

    monkeypatch.setattr(subprocess, "run", run)
    named = runpy.run_path(str(tmp_path / "test_failure_1.py"))
    (test,) = (value for name, value in named.items() if name.startswith("test_"))
    with pytest.raises(AssertionError, match="none of the rules was hit"):
        test()


def test_a_release_that_no_rule_strikes_is_neither_good_nor_bad(kafka: Spared) -> None:
    options = ["--kafka", "shop:9092", "--versions", "1,2", "--partitions", "2", "--json"]
    said = CliRunner().invoke(app, ["bisect", "failure-1.yaml", *options, "--", *COMMAND, "{version}"])
    assert said.exit_code == 2, said.output
    trials = json.loads(said.stdout)["trials"]
    assert [each["result"] for each in trials] == ["skipped", "skipped"]
    assert all(each["words"].startswith(NOTHING) for each in trials)
    assert {bench.partitions for bench in kafka.benches} == {2}


def test_no_release_is_looked_for_without_a_rule(kafka: Spared, tmp_path: Path) -> None:
    """What `explore` writes of a failure that needed none."""
    file = tmp_path / "none.yaml"
    file.write_text("faults: []\n")
    said = CliRunner().invoke(app, ["bisect", str(file), "--versions", "1,2", "--", *COMMAND, "{version}"])
    assert said.exit_code == 2
    assert f"{file} has no rules below `faults`" in said.output
    assert not kafka.benches
