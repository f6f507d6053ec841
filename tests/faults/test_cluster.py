"""What is learned from Metadata answers."""

from __future__ import annotations

from uuid import UUID

from faults.cluster import Cluster, Leadership
from tests.faults.script import ORDERS_ID, metadata_answer


def observed(*answers: dict[str, object]) -> Cluster:
    cluster = Cluster()
    for answer in answers:
        cluster.observe_metadata(answer)
    return cluster


def test_names_ids_brokers_and_leaders_are_learned() -> None:
    cluster = observed(metadata_answer(epoch=5))
    assert (cluster.topic_name(ORDERS_ID), cluster.topic_id("orders")) == ("orders", ORDERS_ID)
    assert cluster.topic_name(UUID(int=1)) is None
    assert {node_id: broker.host for node_id, broker in cluster.brokers.items()} == {1: "b1", 2: "b2"}
    assert cluster.leaders["payments", 2] == Leadership(2, 5, (1, 2))
    assert cluster.topics() == {"orders", "payments"}
    assert [entry.partition_index for entry in cluster.partitions([("orders", None)])] == [0, 1, 2]
    assert [entry.topic for entry in cluster.partitions([(None, ORDERS_ID)])] == ["orders"] * 3
    assert len(cluster.partitions()) == 6


def test_an_older_epoch_is_an_older_truth() -> None:
    cluster = observed(metadata_answer(epoch=5), metadata_answer(epoch=4))
    assert cluster.leaders["orders", 0].leader_epoch == 5
    cluster.observe_metadata(metadata_answer(epoch=6))
    assert cluster.leaders["orders", 0].leader_epoch == 6


def test_a_topic_made_anew_begins_anew() -> None:
    again = metadata_answer(epoch=0, partitions=1)
    again["topics"][0]["topic_id"] = UUID(int=77)
    cluster = observed(metadata_answer(epoch=5), again)
    assert cluster.leaders["orders", 0].leader_epoch == 0
    assert ("orders", 1) not in cluster.leaders
    assert cluster.topic_id("orders") == UUID(int=77)


def test_an_answer_without_brokers_or_with_a_refused_topic_teaches_nothing() -> None:
    cluster = observed(metadata_answer(), {"brokers": [], "topics": [{"name": "x", "error_code": 3, "partitions": []}]})
    assert len(cluster.brokers) == 2
    assert "x" not in cluster.topics()
