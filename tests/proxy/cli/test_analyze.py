"""`notleader analyze` hands over to the analysis without waiting for what the other commands need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASKED = """
import os, sys
sys.argv = ["notleader", "analyze", "--help", "--out", "o"]
slow = {"typer", "httpx"}
os.execve = lambda program, argv, env: print(argv[1:], env["NOTLEADER_PROG"], sorted(slow & set(sys.modules)))
from notleader.proxy.__main__ import main
main()
"""


def test_the_analysis_takes_the_place_of_the_command() -> None:
    ran = subprocess.run([sys.executable, "-c", _ASKED], capture_output=True, text=True, timeout=60)
    become = ["-P", "-m", "notleader.spark_analysis", "analyze", "--help", "--out", "o"]
    assert ran.stdout == f"{become} notleader []\n", ran


@pytest.mark.parametrize("words", [["analyze", "--help"], ["help", "analyze"]], ids=" ".join)
def test_the_help_needs_no_spark(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text('import sys\nsys.modules["pyspark"] = None\n')
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    told = subprocess.run([sys.executable, "-m", "notleader", *words], env=environment, capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert "--outcomes" in told.stdout
    without = [sys.executable, "-m", "notleader", "analyze", "--capture", "c", "--out", "o"]
    refused = subprocess.run(without, env=environment, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "notleader analyze needs Spark: pip install 'notleader[analysis]'" in refused.stderr
