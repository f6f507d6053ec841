"""`notleader run` reads its configuration again, on SIGHUP or when the file changes: whole, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

DEADLINE_S = 120


class Running(NamedTuple):
    process: subprocess.Popen[str]
    config: Path
    log: Path
    api: httpx.Client

    def rules(self) -> dict[str, int]:
        """The rules in force: name → milliseconds."""
        return {rule["name"]: rule["delay_ms"] for rule in self.api.get("/v1/faults").json()}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    config, log = tmp_path / "notleader.yaml", tmp_path / "log"
    config.write_text("faults: [{name: kept, kind: delay, delay_ms: 1}, {name: gone, kind: delay, delay_ms: 2}]\n")
    command = ["run", "--json", "--kafka=127.0.0.1:1", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0"]
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "notleader", *command, "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    try:
        assert process.stdout is not None
        admin = json.loads(process.stdout.readline())["admin"]
        with httpx.Client(base_url=f"http://{admin}", trust_env=False) as api:
            yield Running(process, config, log, api)
    finally:
        process.terminate()
        process.communicate(timeout=DEADLINE_S)


def until(holds: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


def hang_up(running: Running) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.process.pid, signal.SIGHUP)


def test_a_changed_file_is_taken_over_by_itself(running: Running) -> None:
    assert running.rules() == {"kept": 1, "gone": 2}
    running.config.write_text("faults: [{name: kept, kind: delay, delay_ms: 1}, {name: new, kind: delay, delay_ms: 3}]")
    until(lambda: running.rules() == {"kept": 1, "new": 3}, running.log)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("faults: [{name: new, kind: delay, delay_ms: 3}, {name: bad, kind: dleay}]", "faults[1].kind"),
        ("faults: [{name: new, kind: delay, delay_ms: 3}]\nno_such_setting: 1", "no_such_setting"),
        ("faults: [{name: new", "not valid YAML"),
        ("faults: [{name: new, kind: delay, delay_ms: 3}]\nsteps: [{at: soon}]", "steps[0]"),
    ],
)
def test_of_a_broken_file_nothing_is_taken_over(running: Running, broken: str, said: str) -> None:
    running.config.write_text(broken)
    hang_up(running)
    until(lambda: "the configuration stays as it was" in running.log.read_text(), running.log)
    assert said in running.log.read_text()
    assert running.rules() == {"kept": 1, "gone": 2}


def test_sighup_reads_it_at_once_and_names_what_needs_a_restart(running: Running) -> None:
    before = running.config.stat()
    running.config.write_text("faults: [{name: kept, kind: delay, delay_ms: 9}]\nadvertise: elsewhere\n")
    # As old as before: only the signal can be what makes it look.
    os.utime(running.config, ns=(before.st_atime_ns, before.st_mtime_ns))
    hang_up(running)
    until(lambda: running.rules() == {"kept": 9}, running.log)
    assert "changing advertise needs a restart" in running.log.read_text()
