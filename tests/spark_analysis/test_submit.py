"""The page's `spark-submit` runs the very same job: its commands as they stand, with a master and paths of here."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from benchmarks.analysis.cluster import standalone

from .synthetic import incident

pytestmark = pytest.mark.spark

_PROJECT = Path(__file__).resolve().parents[2]
# A short run never earns back the optimising compiler.
_SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def _command(words: str, places: dict[str, str]) -> str:
    """The page's command with those words in it, and what is here in the places of what it names."""
    page = (_PROJECT / "docs" / "analysis-at-scale.md").read_text()
    block = next(text for text in re.findall(r"```sh\n(spark-submit .*?)```", page, re.DOTALL) if words in text)
    for there, here in places.items():
        assert there in block
        block = block.replace(there, here)
    return str(block)


def _submitted(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    tools = Path(pyspark.__file__).parent / "bin"
    path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    environment["JDK_JAVA_OPTIONS"] = _SHORT_RUN
    return subprocess.run(command, shell=True, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_entry_starts_where_notleader_is_installed(tmp_path: Path) -> None:
    """What is beside the job itself: that the next test runs."""
    places = {"spark://host:7077": "local[1]", "s3a://bucket/capture": f"{tmp_path / 'nowhere'}"}
    ran = _submitted(_command("spark://host:7077", places), tmp_path)
    # spark-submit has a driver's words of either kind on its own output.
    assert ran.returncode == 2, ran.stderr[-2000:]
    assert ran.stdout == f"notleader analyze: capture folder {tmp_path / 'nowhere'} does not exist\n"


def test_the_archive_and_the_entry_alone_judge_an_incident_on_two_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JDK_JAVA_OPTIONS", _SHORT_RUN)
    capture, outcomes = incident().write(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    notleader = Path(sys.executable).with_name("notleader")
    packed = subprocess.run(
        [notleader, "spark", "entry", "--zip", "notleader.zip"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    shutil.copy(packed.stdout.strip(), tmp_path)
    with standalone(tmp_path / "cluster", port, memory="1g") as master:
        places = {
            "--master yarn --deploy-mode cluster": f"--master {master} --conf spark.driver.host=127.0.0.1",
            '"$(notleader spark entry --zip notleader.zip)"': "notleader_analyze.py",
            "hdfs:///capture": f"{capture}",
            "hdfs:///said": f"{outcomes}",
            "hdfs:///verdict": f"{tmp_path / 'verdict'}",
        }
        # The archive comes first on the driver's path: what it lacks is not found in what is installed here, either.
        ran = _submitted(_command("--master yarn", places), tmp_path)
    assert ran.returncode == 1, ran.stderr[-2000:]
    assert "verdict NEGATIVE" in ran.stdout
    assert json.loads((tmp_path / "verdict" / "findings.json").read_text())["verdict"] == "invalid"
    assert (tmp_path / "verdict" / "report.html").stat().st_size > 1_000_000
    told = (tmp_path / "cluster" / "master.log").read_text()
    assert len(set(re.findall(r"Launching executor \S+ on worker (\S+)", told))) == 2
    with zipfile.ZipFile(tmp_path / "notleader.zip") as archive:
        assert not [name for name in archive.namelist() if not name.startswith("notleader/")]
