"""A service with a planted bug is found out, and the same service without it survives what found it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiokafka.admin import AIOKafkaAdminClient
from typer.testing import CliRunner, Result

from notleader.proxy.cli.app import app
from notleader.proxy.lab.kafka import KafkaCluster

pytestmark = pytest.mark.kafka

SERVICE = Path(__file__).with_name("order_service.py")
BUDGET = ["--tries", "8", "--minutes", "2"]


def explore(kafka: KafkaCluster, out: Path, bug: str, *options: str) -> Result:
    command = [sys.executable, str(SERVICE), "{bootstrap}", "{topic}", bug, "{messages}"]
    given = ["explore", "--messages", "4", "--kafka", kafka.bootstrap, "--out", str(out), "--json", *options]
    return CliRunner().invoke(app, [*given, "--", *command])


def report(result: Result, exit_code: int) -> dict[str, Any]:
    assert result.exit_code == exit_code, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def test_what_sends_again_without_idempotence_is_found_and_shrunk(kafka: KafkaCluster, tmp_path: Path) -> None:
    found = report(explore(kafka, tmp_path, "resends", *BUDGET), 1)
    (failure,) = found["failures"]
    assert failure["kind"] == "duplicate"
    assert failure["broke"] == failure["repeated"] == 3
    assert failure["survives_without"]
    assert (found["messages"], failure["messages"]) == (4, 1)
    (rule,) = failure["rules"]
    assert rule["match"] == {"api_key": "Produce"}
    assert rule["trigger"] == {"times": 1}
    # The broker has it, and the client doesn't know: which of the ways to lose an answer it was is chance.
    assert rule["kind"] in ("drop_response", "stall") or rule["phase"] == "after_broker"
    file = tmp_path / "failure-1.yaml"
    assert yaml.safe_load(file.read_text()) == {"faults": failure["rules"]}
    assert CliRunner().invoke(app, ["check", str(file)]).exit_code == 0
    compile((tmp_path / "test_failure_1.py").read_text(), "test_failure_1.py", "exec")
    assert "Produce" in (tmp_path / "report.md").read_text()

    # With and without the rule, and Spark's word for it: of the command, under whatever name it goes.
    run = ["incident", "run", str(tmp_path / "incident-1.yaml"), "--out", str(tmp_path / "incident"), "--json"]
    shown = CliRunner().invoke(app, run)
    assert shown.exit_code == 0, shown.output

    again = report(explore(kafka, tmp_path / "replay", "resends", "--replay", str(file)), 1)
    assert [each["kind"] for each in again["verdicts"]] == ["duplicate"]
    assert (again["hits"], again["messages"]) == ([1], 4)
    mended = report(explore(kafka, tmp_path / "replay", "correct", "--replay", str(file)), 0)
    assert mended["hits"] == [1]


def test_a_service_without_the_bug_survives_the_same_and_the_next_search_goes_on(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    found = report(explore(kafka, tmp_path, "correct", *BUDGET), 0)
    assert found["failures"] == []
    assert found["tries"] == 8
    assert found["points_struck"] > 0
    assert found["learned"]["ids_are_unique"]
    assert found["learned"]["outcome_lines_name_ids"]
    tried = json.loads((tmp_path / "corpus.json").read_text())["tried"]
    assert len(tried) == 8
    report(explore(kafka, tmp_path, "correct", "--tries", "2"), 0)
    assert len(json.loads((tmp_path / "corpus.json").read_text())["tried"]) == 10


def test_a_command_that_does_not_end_well_by_itself_is_no_finding(kafka: KafkaCluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no such shop')", "{bootstrap}"]
    result = CliRunner().invoke(
        app, ["explore", "--kafka", kafka.bootstrap, "--out", str(tmp_path), "--", *command], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 2
    assert "without any fault: no such shop" in result.output


def test_an_interrupted_search_leaves_no_topic(kafka: KafkaCluster, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)", "{bootstrap}", "{topic}"]
    given = ["--kafka", kafka.bootstrap, "--out", str(tmp_path), "--limit", "50"]
    _until(lambda: _topics(kafka) == set())  # of the searches before
    search = subprocess.Popen([sys.executable, "-m", "notleader", "explore", *given, "--", *command])
    try:
        _until(lambda: _topics(kafka) != set())
        search.send_signal(signal.SIGINT)
        assert search.wait(60) != 0
    finally:
        search.kill()
        search.wait()
    _until(lambda: _topics(kafka) == set())


def _topics(kafka: KafkaCluster) -> set[str]:
    async def listed() -> set[str]:
        client = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        await client.start()
        try:
            return {name for name in await client.list_topics() if name.startswith("explore-")}
        finally:
            await client.close()

    return asyncio.run(listed())


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_an_invariant_in_sql_is_asked_of_each_try(kafka: KafkaCluster, tmp_path: Path) -> None:
    query = "select message_id from log where topic = '{topic}' and event = 'record' group by all having count(*) > 1"
    options = ["--check-sql", query, "--allow", "duplicate", "--tries", "12", "--failures", "1"]
    found = report(explore(kafka, tmp_path, "resends", *options), 1)
    assert "--check-sql answered 1 row: message_id=order-" in found["failures"][0]["title"]


def test_bisect_finds_the_release_of_a_service_that_mended_it(kafka: KafkaCluster, tmp_path: Path) -> None:
    """The service's bug stands for its release: `{version}` may be anything that the command understands."""
    rules = {"faults": [{"kind": "drop_response", "match": {"api_key": "Produce"}, "trigger": {"times": 1}}]}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    given = ["bisect", str(tmp_path / "rules.yaml"), "--kafka", kafka.bootstrap, "--out", str(tmp_path), "--json"]
    command = [sys.executable, str(SERVICE), "{bootstrap}", "{topic}", "{version}"]
    found = CliRunner().invoke(app, [*given, "--versions", "no-such-bug,resends,correct", "--", *command])
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["changes"] == [{"last": "resends", "first": "correct", "result": "good"}]
    results = {each["release"]: each["result"] for each in document["trials"]}
    assert results == {"no-such-bug": "skipped", "resends": "bad", "correct": "good"}


@pytest.mark.parametrize(("bug", "kinds"), [("hasty", ["skipped"]), ("correct", [])])
def test_an_order_that_is_never_packed_is_told_by_the_consumers_own_lines(
    kafka: KafkaCluster, tmp_path: Path, bug: str, kinds: list[str]
) -> None:
    rule = {"kind": "error", "error_code": "UNKNOWN_MEMBER_ID", "match": {"api_key": "OffsetCommit"}}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"faults": [rule | {"trigger": {"times": 1}}]}))
    command = [sys.executable, str(SERVICE.with_name("packing_service.py")), "{bootstrap}", "{topic}", "{group}", bug]
    given = ["explore", "--kafka", kafka.bootstrap, "--out", str(tmp_path), "--json", "--allow", "read-twice"]
    found = CliRunner().invoke(app, [*given, "--replay", str(tmp_path / "rules.yaml"), "--", *command])
    document = report(found, 1 if kinds else 0)
    assert [each["kind"] for each in document["verdicts"]] == kinds
    assert document["hits"] == [1]
