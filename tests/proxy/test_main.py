"""The entry point: Ctrl-C while it starts, however far it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("typer.main.get_command", -signal.SIGINT),  # of which a shell says 130
        ("typer.core.TyperGroup._main_shell_completion", 130),
        ("typer.core.TyperGroup.invoke", 130),
    ],
)
def test_ctrl_c_in_the_middle_of_the_start_says_nothing(place: str, code: int) -> None:
    holder, _, name = place.rpartition(".")
    interrupted = f"""
import os, signal, sys, typer.core, typer.main
was = {place}
def pressed(*given, **named):
    os.kill(os.getpid(), signal.SIGINT)
    return was(*given, **named)
{holder}.{name} = pressed
sys.argv = ["notleader", "fault", "kinds"]
from notleader.proxy.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", interrupted], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("words", [["incident", "ls"], ["incident", "--help"], ["analyze", "--help"]])
def test_a_locale_without_the_letters_gets_question_marks(words: list[str]) -> None:
    poor = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "notleader.proxy", *words], capture_output=True, env=poor, encoding="ascii", timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) > 10
