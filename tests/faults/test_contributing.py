"""CONTRIBUTING.md: its "add a fault in five minutes" does work, step by step, as it stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FILE = re.compile(r"Put this into\s`(?P<path>[^`]+)`:\n\n```python\n(?P<text>.*?)```", re.DOTALL)
_COMMANDS = re.compile(r"```sh\n(?P<lines>.*?)```", re.DOTALL)


@pytest.mark.kafka
def test_the_page_can_be_followed_literally(tmp_path: Path) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    without = shutil.ignore_patterns("__pycache__", "incidents", "node_modules", "programs", "golden")
    for part in ("faults", "proxy", "tests"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=without)
    shutil.copytree(ROOT / "src", tmp_path / "src", symlinks=True)
    (tmp_path / "docs").mkdir()
    for name in ("pyproject.toml", "docs/faults.md"):
        shutil.copy(ROOT / name, tmp_path / name)

    files = _FILE.findall(page)
    assert [path for path, _ in files] == [
        "faults/catalog/empty_fetch.py",
        "tests/faults/test_empty_fetch.py",
        "tests/integration/faults/test_empty_fetch.py",
    ]
    for path, text in files:
        assert not (ROOT / path).exists()
        (tmp_path / path).write_text(text, "utf-8")

    commands = [line for block in _COMMANDS.findall(page) for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        arguments = shlex.split(command)
        assert arguments[0] == ".venv/bin/python"
        done = subprocess.run(
            [sys.executable, *arguments[1:]],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{tmp_path / 'src'}{os.pathsep}{tmp_path}"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    assert "### empty_fetch" in (tmp_path / "docs" / "faults.md").read_text("utf-8")

    lint = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--quiet", *(path for path, _ in files)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert lint.returncode == 0, lint.stdout
