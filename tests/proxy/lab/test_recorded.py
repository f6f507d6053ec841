"""What a run is called, and how it is told of."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from notleader.proxy.lab import run
from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.recorded import run_of_its_own
from notleader.proxy.lab.stages import Stages


@pytest.fixture
def two_runs() -> Incident:
    command = ["echo", "{client_id}", "{topic}", "echo", "{bootstrap}"]
    return Incident.model_validate(
        {
            "name": "own",
            "title": "A service of one's own",
            "story": "It is run twice.",
            "topics": [{"name": "orders"}],
            "clients": [{"name": "echo", "command": command, "role": "writes"}],
            "faults": [{"kind": "close", "match": {"client_id": "echo"}}],
            "runs": [{"name": "one"}, {"name": "two"}],
        }
    )


def test_a_command_is_told_the_client_id_that_its_rules_mean(two_runs: Incident, tmp_path: Path) -> None:
    for name in ("logs", "outcomes"):
        (tmp_path / name).mkdir()
    own = run_of_its_own(two_runs, two_runs.runs[1], "two")
    (program,) = own.clients
    assert own.faults[0]["match"]["client_id"] == program.name == "echo.two"
    # A program that is called as its client is stays the program.
    argv = run.build(own, Stages(quiet=True))[program.name]
    assert isinstance(argv, list)
    client = run._start(program, argv, "localhost:9092", own.topics, tmp_path, tmp_path)
    assert client.child.wait(60) == 0
    assert client.outcomes.read_text() == "echo.two orders.two echo.two localhost:9092\n"


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({}, "0 ok"),
        ({"ok": 3, "fail": 1, "info": 2}, "3 ok, 1 failed, 2 uncertain"),
        ({"info": 1}, "0 ok, 1 uncertain"),
    ],
)
def test_what_may_have_happened_is_not_called_failed(
    counts: dict[str, int], told: str, two_runs: Incident, tmp_path: Path
) -> None:
    child = Child(["true"], log=tmp_path / "log")
    child.wait(60)
    client = run.Client(two_runs.clients[0], child, tmp_path, tmp_path, said=Counter(counts))
    assert run.said_of([client]) == told
    assert run.said_of([client, replace(client, said=Counter(), hung=True)]) == f"{told}, ended at the limit"
