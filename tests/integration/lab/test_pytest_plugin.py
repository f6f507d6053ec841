"""The pytest plugin as users have it: pytest in a process of its own, the example project, a test that must fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.testing import NotLeader
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
PROJECT = Path(__file__).resolve().parents[3]


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """pytest in a folder that is no part of this project's tests; coverage and hypothesis of ours stay out."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", *options],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=400,
    )


def run_example(folder: Path, *options: str) -> str:
    """What pytest says of the example project, copied away from this one."""
    shutil.copytree(PROJECT / "examples" / "pytest", folder, ignore=shutil.ignore_patterns("__pycache__"))
    ran = run_pytest(folder, *options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_example_project_passes(tmp_path: Path) -> None:
    assert re.search(r"\b4 passed, 1 deselected in", run_example(tmp_path / "shop", "-m", "not incident"))


@pytest.mark.incidents
def test_the_examples_incident_passes_too(tmp_path: Path) -> None:
    need("go")
    assert re.search(r"\b1 passed, 4 deselected in", run_example(tmp_path / "shop", "-m", "incident"))


def test_a_rule_that_never_struck_fails_the_test(tmp_path: Path, kafka: KafkaCluster) -> None:
    """In front of brokers that are there already, as the command line or the configuration names them."""
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nasyncio_default_fixture_loop_scope = function\nnotleader_kafka = {kafka.bootstrap}\n"
    )
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n"
        "@pytest.fixture\n"
        "def notleader_settings():\n"
        "    return {'seed': 7}\n\n"
        "def test_missed(notleader):\n"
        f"    assert notleader.kafka == {kafka.bootstrap!r}\n"
        "    with notleader.fault(kind='close', name='cut', match={'api_key': 'Produce'}):\n"
        "        pass\n\n"
        "def test_missed_on_purpose(notleader):\n"
        "    with notleader.fault(kind='close', may_miss=True) as rule:\n"
        "        with pytest.raises(TimeoutError, match='hit 0 of 2 times in 0.1 s'):\n"
        "            rule.wait(hits=2, timeout_s=0.1)\n"
    )
    ran = run_pytest(tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 1 passed" in ran.stdout
    assert "NeverHitError: rule cut (close) was never hit; requests that passed: none." in ran.stdout


def test_a_verdict_where_nobody_connected_says_so(tmp_path: Path, kafka: KafkaCluster) -> None:
    with NotLeader(kafka.bootstrap, tmp_path) as notleader:
        said = f"there is nothing to judge: no client connected to {notleader.bootstrap}"
        with pytest.raises(LabError, match=re.escape(said)):
            notleader.verdict()


def test_who_does_not_use_it_pays_nothing() -> None:
    program = (
        "import sys, typing, pathlib, pytest; before = set(sys.modules); import notleader.proxy.pytest_plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=PROJECT)
    assert ran.stdout.split() == ["notleader", "notleader.proxy", "notleader.proxy.pytest_plugin"]
