"""A session leaves the caller's stdout to the caller."""

import subprocess
import sys

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
