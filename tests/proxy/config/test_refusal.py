"""Every command that is asked for JSON and can't do what it was asked says so in one JSON document."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

REFUSED = [
    "run --kafka nowhere --listen 127.0.0.1:0",
    "toxiproxy --config missing.json",
    "replay missing --listen 127.0.0.1:0",
    "capture to-requests missing requests.jsonl",
    "fault ls --admin 127.0.0.1:1",
    "fault add missing.json",
    "capture stats missing",
    "capture show missing",
    "analyze --capture missing --outcomes missing --out out",
    "analyze --capture missing --outcomes missing --out out --kafka 127.0.0.1:1",
    "log read --kafka 127.0.0.1:1 --topic orders --out out",
    "log read --kafka nowhere --topic orders --out out",
    "incident show missing",
    "incident run missing",
    "matrix --incidents missing --out out",
    "bisect missing --client kafka-python",
    "kafka up --version 0.7",
    "explore --kafka 127.0.0.1:1 --replay missing.yaml -- true",
]


@pytest.mark.parametrize("command", REFUSED)
def test_a_refusal_is_one_document(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)
    at = words.index("--") if "--" in words else len(words)
    ran = subprocess.run(
        [sys.executable, "-m", "notleader", *words[:at], "--json", *words[at:]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 2, ran.stderr
    message = json.loads(ran.stdout)["error"]
    assert message
    assert message in ran.stderr, "people are told the same"


@pytest.mark.parametrize("command", REFUSED[:3])
def test_without_json_nothing_is_on_stdout(command: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "notleader", *shlex.split(command)]
    ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr
