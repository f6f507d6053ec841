"""The demo from end to end in its shortest form, and what an interrupted one leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
SHORT = Path(__file__).with_name("short.yaml")
NOTLEADER = [sys.executable, "-m", "notleader"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `notleader demo --json` printed, once for this module."""
    out = tmp_path_factory.mktemp("demo")
    ran = subprocess.run(
        [*NOTLEADER, "demo", str(SHORT), "--out", str(out), "--json"], capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_every_fault_struck(shown: dict[str, Any]) -> None:
    assert set(shown["hits"]) == {"leader-lost", "lost-plain", "lost-idempotent"}
    assert all(hits > 0 for hits in shown["hits"].values())


def test_only_the_plain_producer_duplicates(shown: dict[str, Any]) -> None:
    findings = shown["analysis"]["findings"]
    duplicates = {finding["client"] for finding in findings if finding["check"] == "duplicate" and finding["count"]}
    assert shown["negative"]
    assert duplicates == {"plain"}


def test_nothing_that_was_acknowledged_is_lost(shown: dict[str, Any]) -> None:
    lost = [finding for finding in shown["analysis"]["findings"] if finding["check"] == "lost"]
    assert [finding["count"] for finding in lost] == [0]
    said = [json.loads(line) for line in (Path(shown["folder"]) / "outcomes" / "reader.jsonl").read_text().splitlines()]
    assert {f"{client}-{number}" for client in ("plain", "idempotent") for number in range(120)} <= {
        line["message_id"] for line in said
    }


def test_the_report_is_one_file_that_works_offline(shown: dict[str, Any]) -> None:
    report = (Path(shown["folder"]) / "analysis" / "report.html").read_text()
    assert "plotly" in report.lower()
    assert 'src="http' not in report


@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGINT, 0.5), (signal.SIGKILL, 6)])
def test_an_interrupted_demo_leaves_no_process(tmp_path: Path, number: signal.Signals, after_s: float) -> None:
    mark = f"demo-{uuid.uuid4().hex}"
    demo = subprocess.Popen(
        [*NOTLEADER, "demo", str(SHORT), "--out", str(tmp_path)],
        env={**os.environ, "NOTLEADER_TEST_MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 30
    while len(marked(mark)) < 2:
        assert time.monotonic() < deadline, "the demo started nothing"
        time.sleep(0.05)
    time.sleep(after_s)
    demo.send_signal(number)
    _, errors = demo.communicate(timeout=20)
    assert demo.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in errors
    # After a SIGKILL only the watchdog is left to end the others; it gives them 2 s.
    deadline = time.monotonic() + (0.5 if number == signal.SIGINT else 6)
    while marked(mark):
        assert time.monotonic() < deadline, marked(mark)
        time.sleep(0.1)


def marked(mark: str) -> list[str]:
    """Command lines of all processes that inherited the mark in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_text().replace("\0", " ")[-120:])
        except OSError:
            continue
    return found
