"""A session leaves the caller's stdout to the caller."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import java_gateway

from notleader.spark_analysis.session import starting_java

PROGRAM = """
from notleader.spark_analysis.session import build_session

spark = build_session("local[1]")
spark._jvm.System.out.println("a word of Java's")
print("the answer")
spark.stop()
"""


def test_what_java_prints_is_not_in_the_answer() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout == "the answer\n"
    assert "a word of Java's" in ran.stderr


def test_an_interrupt_while_spark_starts_ends_its_java() -> None:
    with pytest.raises(KeyboardInterrupt), starting_java():
        process = java_gateway.Popen(["sleep", "600"])
        raise KeyboardInterrupt
    assert process.wait(30) == -signal.SIGKILL
    assert java_gateway.Popen is subprocess.Popen


WORKS = """
from notleader.spark_analysis.session import build_session

print(build_session("local[1]").sparkContext.parallelize([1], 1).map(str).collect())
"""


def test_no_file_in_the_working_folder_is_run_by_sparks_python_workers(tmp_path: Path) -> None:
    for name in ("importlib", "grp", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    command = [sys.executable, "-P", "-c", WORKS]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "['1']\n", ran.stderr[-2000:]
