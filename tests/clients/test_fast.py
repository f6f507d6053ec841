"""The proxy is invisible to a few of the clients; `make test-clients` has all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.catalog import BY_NAME
from tests.clients.comparison import check
from tests.clients.tap import TappedCluster

pytestmark = pytest.mark.kafka


FEW = ["aiokafka-0.14.0", "confluent-kafka-2.16.1", "kafka-python-3.0.12", "java-4.4.0", "sarama-1.37.2-uncommitted"]


@pytest.mark.parametrize("name", FEW)
def test_the_same_directly_and_through_the_proxy(name: str, newest: TappedCluster, tmp_path: Path) -> None:
    check(BY_NAME[name], newest, tmp_path)
