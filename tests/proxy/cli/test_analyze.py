"""`notleader analyze` hands over to the analysis without waiting for what the other commands need."""

import subprocess
import sys

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
    assert ran.stdout == f"{['-m', 'notleader.spark_analysis', 'analyze', '--help', '--out', 'o']} notleader []\n", ran
