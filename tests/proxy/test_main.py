"""The entry point: Ctrl-C while it starts, however far it is."""

from __future__ import annotations

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
