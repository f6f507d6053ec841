"""The demo from end to end, held against what README says of it, and what an interrupted one leaves behind."""

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

import pyarrow.dataset
import pyarrow.parquet
import pytest

from notleader.proxy.lab.incident import load_incident

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))
from readme_demo import missing
from readme_demo import shown as readme_block

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
SHORT = Path(__file__).with_name("short.yaml")
NOTLEADER = [sys.executable, "-m", "notleader"]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a demo that ran to its end, once for this module."""
    out = tmp_path_factory.mktemp("demo")
    ran = subprocess.run([*NOTLEADER, "demo", "--out", str(out)], capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr
    folder = out / "latest"
    assert (folder / "verdict.txt").read_text().strip() in ran.stdout
    return folder


def findings(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pyarrow.parquet.read_table(folder / "analysis" / "findings").to_pylist()
    return found


def test_it_shows_what_the_readme_says(shown: Path) -> None:
    assert missing(readme_block(), (shown / "verdict.txt").read_text()) == []


def test_every_fault_struck(shown: Path) -> None:
    captured = pyarrow.dataset.dataset(shown / "capture", format="parquet").to_table(columns=["fault_names"])
    struck = {name for names in captured["fault_names"].to_pylist() for name in names or ()}
    assert struck == {step["add"]["name"] for step in load_incident("leader-lost").steps if "add" in step}


def test_only_the_plain_producer_duplicates(shown: Path) -> None:
    told = findings(shown)
    assert "invalid" in {finding["verdict"] for finding in told}
    assert {f["client"] for f in told if f["check"] == "duplicate" and f["count"]} == {"orders-plain"}


def test_nothing_that_was_acknowledged_is_lost(shown: Path) -> None:
    assert [finding["count"] for finding in findings(shown) if finding["check"] == "lost"] == [0]
    said = [json.loads(line) for line in (shown / "outcomes" / "orders-reader.jsonl").read_text().splitlines()]
    assert {f"orders-{client}-{number}" for client in ("plain", "idempotent") for number in range(400)} <= {
        line["message_id"] for line in said
    }


def test_the_report_is_one_file_that_works_offline(shown: Path) -> None:
    report = (shown / "analysis" / "report.html").read_text()
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
