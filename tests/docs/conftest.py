"""A Kafka for the commands and examples that don't start one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from notleader.proxy.lab.kafka import KafkaCluster


@pytest.fixture(scope="package")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster("4") as cluster:
        yield cluster
