"""Client programs that can't be had: their runs are left out and told, the others go on."""

from __future__ import annotations

import pytest

from notleader.proxy.lab import run
from notleader.proxy.lab.clients import ClientError, with_heap
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


def test_a_java_program_gets_the_heap_that_its_file_asks_for() -> None:
    java = ["/usr/bin/java", "-Xmx256m", "-cp", "x", "Producer"]
    plain = Program(name="app", program="java/Producer.java", version="4.4.0", role="sends")
    large = plain.model_copy(update={"arguments": {"heap_mb": 1024, "topic": "orders"}})
    assert with_heap(java, plain) == java
    assert with_heap(java, large) == ["/usr/bin/java", "-Xmx1024m", "-cp", "x", "Producer"]
    assert large.command_line("host:1") == ["bootstrap=host:1", "client_id=app", "topic=orders"]
