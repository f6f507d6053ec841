"""Tab in a real bash, in front of a real proxy: names with colons, values behind `=`, filters in quotes."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.image import PROJECT
from tests.tools.programs import need

BIN = Path(sys.executable).parent
RULES = [{"name": name, "kind": "delay", "delay_ms": 1} for name in ("team:lost", "team:a=b", "plain")]


@pytest.fixture(scope="module")
def admin() -> Iterator[str]:
    words = ["run", "--json", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    env = {**os.environ, "PYTHONPATH": str(PROJECT / "src")}
    command = [sys.executable, "-m", "notleader", *words]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            address = json.loads(process.stdout.readline())["admin"]
            add = [BIN / "notleader", "fault", "add", json.dumps(RULES), "--admin", address]
            subprocess.run(add, env=env, check=True, capture_output=True, timeout=60)
            yield address
        finally:
            process.terminate()


def words_after(typed: str, admin: str, home: Path) -> list[str]:
    """The words that bash would run once `typed`, Tabs included, stands on its line."""
    env = {
        "HOME": str(home),
        "TERM": "dumb",
        "PATH": f"{BIN}:/usr/bin:/bin",
        "PYTHONPATH": str(PROJECT / "src"),
        "NOTLEADER_ADMIN": admin,
    }
    (home / "rc").write_text(
        'eval "$(_NOTLEADER_COMPLETE=source_bash notleader)"\nPS1=\nbind "set enable-bracketed-paste off"\n'
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(need("bash"), ["bash", "--noprofile", "--rcfile", str(home / "rc"), "-i"], env)
    try:
        # Ctrl-A: to the line's beginning. What is printed tells the words apart as bash does.
        os.write(terminal, f"{typed}\x01printf '<%s>' \n".encode())
        told, until = "", time.monotonic() + 120
        while "<notleader>" not in told or not told.endswith(">"):
            assert time.monotonic() < until, told
            if select.select([terminal], [], [], 1)[0]:
                told += os.read(terminal, 65536).decode()
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return re.findall(r"<([^>]*)>", told[told.index("<notleader>") :])


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("notleader fault rm team:l\t", ["notleader", "fault", "rm", "team:lost"]),
        ("notleader fault rm te\tl\t", ["notleader", "fault", "rm", "team:lost"]),
        ("notleader fault rm team:\tl\t", ["notleader", "fault", "rm", "team:lost"]),
        ("notleader fault rm team:a=\t", ["notleader", "fault", "rm", "team:a=b"]),
        ("notleader fault rm 'team:l\t", ["notleader", "fault", "rm", "team:lost"]),
        ("notleader fault rm pl\t", ["notleader", "fault", "rm", "plain"]),
        ("notleader fault rm --admin=127.0.0.1:1 unk\t", ["notleader", "fault", "rm", "--admin=127.0.0.1:1", "unk"]),
        ("notleader fau\tshow broker_\t", ["notleader", "fault", "show", "broker_down"]),
    ],
)
def test_tab(typed: str, words: list[str], admin: str, tmp_path: Path) -> None:
    assert words_after(typed, admin, tmp_path) == words
