"""The notebook of docs/notebooks answers its questions of a recorded run, from the first cell to the last."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.docker.image import PROJECT

pytestmark = pytest.mark.spark

_RECORDING = "wrong-leader-kafka-python"


_PAGE = PROJECT / "docs" / "see-what-your-client-does.md"
_BEFORE = (
    "import duckdb, pandas as pd\nfrom pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """What a truth scenario left: capture, outcomes and log."""
    with tarfile.open(PROJECT / "tests" / "truth" / "recordings.tar.xz") as recordings:
        mine = [member for member in recordings if member.name.startswith(f"{_RECORDING}/")]
        recordings.extractall(tmp_path, mine, filter="data")
    return tmp_path / _RECORDING


@pytest.fixture
def run(recording: Path) -> Path:
    """A recorded run as `notleader demo` leaves one."""
    run = recording
    judging = [sys.executable, "-m", "notleader.spark_analysis", "analyze", "--capture", run / "capture"]
    judging += ["--outcomes", run / "outcomes", "--log", run / "log", "--out", run / "analysis"]
    judged = subprocess.run(judging, capture_output=True, text=True)
    assert judged.returncode in (0, 1), judged.stderr
    return run


def test_the_one_liners_of_see_what_your_client_does_run(recording: Path) -> None:
    """In see-what-your-client-does.md."""
    (recording / "capture").rename(recording / "traffic")
    (lines,) = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [sys.executable, "-c", _BEFORE + lines], cwd=recording, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "Produce" in ran.stdout
    assert "error_code" in ran.stdout


def test_every_cell_runs_and_every_question_has_an_answer(run: Path, tmp_path: Path) -> None:
    notebook = Path(shutil.copy(PROJECT / "docs" / "notebooks" / "questions.ipynb", tmp_path))
    execute = Path(sys.executable).with_name("jupyter-execute")
    home = {"IPYTHONDIR": str(tmp_path / "ipython"), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    environment = {**os.environ, **home, "NOTLEADER_RUN": str(run), "SPARK_LOCAL_IP": "127.0.0.1"}
    ran = subprocess.run(
        [execute, "--inplace", "--timeout=300", notebook], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = [
        "".join(output["data"]["text/plain"])
        for cell in json.loads(notebook.read_text())["cells"]
        for output in cell.get("outputs", ())
        if output["output_type"] == "execute_result"
    ]
    assert len(told) == 6
    assert "Produce" in told[0]
    # Nothing was there twice in this run; all else has rows.
    assert ["Empty DataFrame" in answer for answer in told] == [False, False, False, False, True, False]
