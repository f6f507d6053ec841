"""The proxy is invisible to a few of the clients; `make test-clients` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.catalog import BY_NAME
from tests.clients.comparison import armed, check
from tests.clients.tap import TappedCluster

pytestmark = pytest.mark.kafka


FEW = [
    ("aiokafka-0.14.0", "payload", "armed"),
    ("confluent-kafka-2.16.1", "record", "armed"),
    ("confluent-kafka-2.16.1", "partition", ""),
    ("kafka-python-3.0.12", "partition", ""),
    ("java-4.4.0", "header", "armed"),
    ("sarama-1.37.2-uncommitted", "partition", ""),
]


@pytest.mark.parametrize(("name", "level", "rules"), FEW)
def test_the_same_directly_and_through_the_proxy(
    name: str, level: str, rules: str, newest: TappedCluster, tmp_path: Path
) -> None:
    """With rules of every kind where it says so, none of which can hit."""
    check(BY_NAME[name], newest, tmp_path, level, *(armed(tmp_path) if rules else ()))
