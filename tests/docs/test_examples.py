"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.docker.image import PROJECT

pytestmark = pytest.mark.kafka
EXAMPLES = PROJECT / "examples"


def run(*words: str, kafka: KafkaCluster) -> str:
    env = {**os.environ, "KAFKA": kafka.bootstrap, "PYTHONPATH": str(PROJECT / "src")}
    ran = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_embedding(kafka: KafkaCluster) -> None:
    out = run(str(EXAMPLES / "embedding.py"), kafka.bootstrap, kafka=kafka)
    said = re.fullmatch(r"offsets (\d+), (\d+), (\d+)\nhits 4\n", out)
    assert said, out
    first = int(said[1])
    assert said.groups() == (str(first), str(first + 1), str(first + 2))


def test_the_pytest_module_to_copy(kafka: KafkaCluster) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=strict", "-o", "addopts="]
    out = run(*words, str(EXAMPLES / "test_leader_election.py"), kafka=kafka)
    assert re.search(r"\b1 passed\b", out)
