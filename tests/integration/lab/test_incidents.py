"""The incidents in their fast form: the affected version suffers, the control doesn't."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.lab.incident import load_incident
from proxy.lab.incident_run import Done, run_incident
from proxy.lab.stages import Stages
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def ran(name: str, folder: Path, *runs: str) -> Done:
    """Some of an incident's runs."""
    incident = load_incident(name)
    chosen = [run for run in incident.runs if run.name in runs]
    return run_incident(incident.model_copy(update={"runs": chosen}), folder / name, Stages(quiet=True))


def test_sarama_hangs_before_1_38(tmp_path: Path) -> None:
    need("go")
    done = ran("sarama-hang", tmp_path, "affected", "control")
    affected, control = done.runs
    assert done.as_expected, done.told()
    assert (affected.hits, control.hits) == ({"not-leader": 4}, {"not-leader": 4})
    assert affected.judged.found["hang"] == 2
    stacks = (done.folder / "logs" / "sarama-1.37.2.log").read_text()
    assert "(*syncProducer).SendMessages" in stacks


def test_a_java_callback_that_waits_stops_its_producer(tmp_path: Path) -> None:
    need("javac")
    done = ran("java-callback-deadlock", tmp_path, "newest", "control")
    newest, _ = done.runs
    assert done.as_expected, done.told()
    assert newest.hits == {"not-leader": 4}
    stacks = (done.folder / "logs" / "java-4.4.0-newest.log").read_text()
    network_thread = re.search(r'^"kafka-producer-network-thread.*?(?=^"|\Z)', stacks, re.DOTALL | re.MULTILINE)
    assert network_thread is not None
    assert "FutureRecordMetadata.get" in network_thread[0]
