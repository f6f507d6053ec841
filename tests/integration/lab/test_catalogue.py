"""The whole catalogue, really run: every run of every incident does what its file says. Minutes, and Spark once."""

from __future__ import annotations

from pathlib import Path

import pytest

from notleader.proxy.lab.incident import incident_names, load_incident
from notleader.proxy.lab.incident_run import hold
from notleader.proxy.lab.stages import Stages
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.incidents]

# Run at their full length, and often, by test_long_incidents.
THE_FIVE = {"sarama-hang", "sarama-two-minutes", "java-callback-deadlock", "java-send-blocks", "scala-refresh-stall"}


def test_every_incident_of_the_catalogue_does_what_its_file_says(tmp_path: Path) -> None:
    for tool in ("go", "javac", "npm"):
        need(tool)
    names = [name for name in incident_names() if name not in THE_FIVE and name != "leader-lost"]
    held = hold([load_incident(name) for name in names], tmp_path, Stages())
    assert {run.incident for run in held} == set(names)
    wrong = [f"{run.incident}, {run.judged.run.name}: {run.judged.problems}" for run in held if not run.as_expected]
    assert not wrong, "\n".join(wrong)
