"""Client programs that can't be had: their runs are left out and told, the others go on."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from notleader.proxy.lab import clients, run
from notleader.proxy.lab.clients import ClientError, run_builder
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Program, load_incident
from notleader.proxy.lab.stages import Stages


def only_these(monkeypatch: pytest.MonkeyPatch, *versions: str) -> list[str]:
    asked: list[str] = []

    def command(program: Program, stages: Stages) -> list[str]:
        asked.append(program.version)
        if program.version not in versions:
            raise ClientError(f"there is no 'go' on PATH for {program.version}")
        return ["program"]

    monkeypatch.setattr(run, "command", command)
    return asked


def test_a_version_that_cannot_be_built_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = only_these(monkeypatch, "1.37.2", "1.38.0")
    found = run.build(load_incident("sarama-hang").repeated(2), Stages(quiet=True))
    assert asked == ["1.37.2", "1.38.0", "1.61.1"], "each is built once, however many rounds there are"
    assert found["sarama-1.38.0-r2"] == ["program"]
    assert found["sarama-1.61.1-r1"] == "there is no 'go' on PATH for 1.61.1"


def test_when_nothing_can_be_built_it_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    only_these(monkeypatch)
    with pytest.raises(LabError, match=r"there is no 'go' on PATH for 1\.37\.2; .*1\.38\.0; .*1\.61\.1"):
        run.build(load_incident("sarama-hang"), Stages(quiet=True))


def test_a_java_program_has_the_heap_that_its_file_or_its_run_asks_for() -> None:
    incident = load_incident("tls-alert-as-length")
    (plain,) = incident.clients
    assert plain.at(incident.runs[0]).heap_mb is None
    (cure,) = (run for run in incident.runs if run.name == "cure")
    assert plain.at(cure).heap_mb == 1024
    assert plain.model_copy(update={"version": "2.8.2"}).at(cure).heap_mb is None, "it only serves the others"


@pytest.mark.parametrize(("heap_mb", "last"), [(None, "-Xmx256m"), (1024, "-Xmx1024m")])
def test_the_last_heap_of_a_java_command_is_the_one_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, heap_mb: int | None, last: str
) -> None:
    monkeypatch.setattr(clients.jars, "kept", lambda lock: [])
    monkeypatch.setattr(clients, "_built", lambda *_: Path("classes"))
    monkeypatch.setattr(clients, "find_java", lambda: SimpleNamespace(executable="java"))
    program = Program(name="app", program="java/Producer.java", version="4.4.0", role="sends", heap_mb=heap_mb)
    argv = clients.command(program, Stages(quiet=True))
    assert [word for word in argv if word.startswith("-Xmx")][-1] == last


def test_an_interrupted_build_ends_with_its_compilers_and_leaves_no_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    begun = tmp_path / "begun"

    def interrupt() -> None:
        while not begun.exists() or not begun.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    builder = f'touch "$TMPDIR/left"; sleep 60 & echo $! > {begun}; wait'
    with pytest.raises(KeyboardInterrupt):
        run_builder(["/bin/sh", "-c", builder], tmp_path, "it")
    assert list(temporary.iterdir()) == []
    deadline = time.monotonic() + 10
    while Path(f"/proc/{begun.read_text().strip()}/stat").exists():
        stat = Path(f"/proc/{begun.read_text().strip()}/stat").read_text()
        if stat.rpartition(") ")[2].startswith("Z"):
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
