"""The page's `spark-submit` runs the very same job: its commands as they stand, with a local master and local paths."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from notleader import spark_analysis

from .synthetic import incident

pytestmark = pytest.mark.spark

_PROJECT = Path(__file__).resolve().parents[2]


def test_the_commands_of_the_page_judge_an_incident(tmp_path: Path) -> None:
    page = (_PROJECT / "docs" / "analysis-at-scale.md").read_text()
    block = next(text for text in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "--master yarn" in text)
    told = re.search(r"`main\.py` is two lines,\s+`([^`]+)` and `([^`]+)`", page)
    assert told, "the page no longer says what main.py is"
    (tmp_path / "main.py").write_text(f"{told[1]}\n{told[2]}\n")
    capture, outcomes = incident().write(tmp_path)
    places = {
        "--master yarn": "--master local[1]",
        "hdfs:///capture": f"{capture}",
        "hdfs:///said": f"{outcomes}",
        "hdfs:///verdict": f"{tmp_path / 'verdict'}",
    }
    for there, here in places.items():
        assert there in block
        block = block.replace(there, here)
    package = tmp_path / "notleader"
    package.mkdir()
    (package / "__init__.py").touch()
    sources = Path(spark_analysis.__file__).parent
    shutil.copytree(sources, package / "spark_analysis", ignore=shutil.ignore_patterns("__pycache__"))
    tools = Path(pyspark.__file__).parent / "bin"
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # A short run never earns back the optimising compiler.
    environment["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    zipped, submit = block.strip().split("\n", 1)
    subprocess.run(zipped, shell=True, cwd=tmp_path, check=True)
    # A driver elsewhere has the archive and nothing else.
    shutil.rmtree(package)
    ran = subprocess.run(submit, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 1, ran.stderr[-2000:]
    assert "verdict NEGATIVE" in ran.stdout
    findings = json.loads((tmp_path / "verdict" / "findings.json").read_text())
    assert findings["verdict"] == "invalid"
    assert (tmp_path / "verdict" / "report.html").stat().st_size > 1_000_000
