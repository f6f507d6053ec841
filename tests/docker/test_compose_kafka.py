"""A real Kafka with the settings that compose.yaml gives to its container."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
import yaml

from notleader.proxy.lab import kafka as lab
from notleader.proxy.lab.node import Node
from tests.docker.image import PROJECT

pytestmark = pytest.mark.kafka


def test_kafka_starts_with_these_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, hands out producer ids and has a coordinator for groups: the cluster waits for all of it."""
    service = yaml.safe_load((PROJECT / "docker/compose.yaml").read_text())["services"]["kafka"]
    used = []

    def properties(node: Node, nodes: Iterable[Node], auto_create_topics: bool) -> dict[str, str]:
        ports = {"9092": node.client_port, "19092": node.internal_port, "9093": node.controller_port}
        # KAFKA_NODE_ID becomes node.id: what the image does with its environment.
        given = {
            name.removeprefix("KAFKA_").lower().replace("_", "."): re.sub(
                r"\b(?:kafka|0\.0\.0\.0):(\d+)", lambda found: f"127.0.0.1:{ports[found[1]]}", value
            )
            for name, value in service["environment"].items()
        }
        used.append(given)
        return {**given, "log.dirs": str(node.folder / "data")}

    monkeypatch.setattr(lab, "node_properties", properties)
    version = service["image"].rpartition(":")[2]
    with lab.KafkaCluster(version.rpartition(".")[0]) as cluster:
        cluster.create_topic("orders", partitions=1)
        assert cluster.leader("orders", 0) == 1
    assert used[0]["process.roles"] == "broker,controller"
