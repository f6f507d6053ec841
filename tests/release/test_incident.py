"""An incident from an installed wheel: file, client program and locks come with it. `make test-incidents`."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from pathlib import Path

import pytest

from notleader.proxy.lab.paths import cache_folder
from tests.tools.programs import need

pytestmark = [pytest.mark.incidents, pytest.mark.kafka, pytest.mark.spark]


def test_an_incident_runs_without_the_source_tree(installed: Path, tmp_path: Path) -> None:
    """Spark is borrowed from these tests' environment: 450 MB need not be installed twice."""
    need("javac")
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        [str(installed / "notleader"), "incident", "run", "java-send-blocks", "--client", "java@4.4.0", "--json"],
        cwd=tmp_path,
        env=env | {"PYTHONPATH": str(Path(pyspark.origin).parents[1]), "XDG_CACHE_HOME": str(cache_folder().parent)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    assert [run["name"] for run in document["runs"]] == ["newest", "control"]
    assert (tmp_path / document["report"]).is_file()
    where = subprocess.run(
        [str(installed / "python"), "-c", "import notleader; print(notleader.__file__)"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(where.strip()).is_relative_to(installed.parent), "the wheel's own code ran"
