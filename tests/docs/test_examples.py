"""The examples run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from proxy.lab.kafka import KafkaCluster
from tests.docker.image import PROJECT

pytestmark = pytest.mark.kafka
EXAMPLES = PROJECT / "examples"


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("4") as cluster:
        yield cluster


def run(*words: str, kafka: KafkaCluster) -> str:
    env = {**os.environ, "KAFKA": kafka.bootstrap, "PYTHONPATH": str(PROJECT)}
    ran = subprocess.run([sys.executable, *words], env=env, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_embedding(kafka: KafkaCluster) -> None:
    out = run(str(EXAMPLES / "embedding.py"), kafka.bootstrap, kafka=kafka)
    assert out == "offsets 0, 1, 2\nhits 4\n"


def test_the_pytest_module_to_copy(kafka: KafkaCluster) -> None:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "-o", "addopts="]
    out = run(*words, str(EXAMPLES / "test_leader_election.py"), kafka=kafka)
    assert re.search(r"\b1 passed\b", out)
