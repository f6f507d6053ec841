"""Metadata: recorded answers in their order, with the topics that are asked for."""

from __future__ import annotations

from notleader.proxy.replay.reply import Source
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from tests.proxy.replay.made import Client, metadata, row


def ask(client: Client, *topics: str, version: int = 12, node_id: int | None = None) -> Body:
    asked = {"topics": [{"name": name} for name in topics] or None, "allow_auto_topic_creation": False}
    return client.ask(ApiKey.Metadata, version, asked, node_id=node_id)


def leaders(body: Body) -> dict[str, int]:
    return {one["name"]: one["partitions"][0]["leader_id"] for one in body["topics"] if one["partitions"]}


def test_brokers_are_where_we_listen_for_them() -> None:
    brokers = ask(Client(metadata(0, "orders", nodes=(1, 2))), "orders")["brokers"]
    assert [(one["node_id"], one["host"], one["port"]) for one in brokers] == [(1, "here", 101), (2, "here", 102)]


def test_a_new_leader_is_told_in_its_turn_whichever_broker_is_asked() -> None:
    client = Client(metadata(0, "orders", leader=1), metadata(1, "orders", leader=2, nodes=(1, 2)))
    told = [leaders(ask(client, "orders", node_id=node))["orders"] for node in (None, 2, 1)]
    assert told == [1, 2, 2]
    assert client.stand_in.counts == {Source.RECORDED: 2, Source.REPEATED: 1}


def test_topics_of_several_answers_are_put_together_and_unknown_ones_are_told() -> None:
    client = Client(metadata(0, "orders"), metadata(1, "payments", leader=2))
    body = ask(client, "payments", "orders", "none")
    assert leaders(body) == {"payments": 2, "orders": 1}
    assert [one["error_code"] for one in body["topics"]] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert leaders(ask(client)) == {"orders": 1, "payments": 2}


def test_topics_get_an_id_that_they_keep() -> None:
    client = Client(metadata(0, "orders"))
    (first,), (second,) = ask(client, "orders")["topics"], ask(client, "orders")["topics"]
    assert first["topic_id"] == second["topic_id"] == client.recording.names.topic_id("orders")
    by_id = client.ask(ApiKey.Metadata, 12, {"topics": [{"topic_id": first["topic_id"], "name": None}]})
    assert by_id["topics"][0]["name"] == "orders"


def test_every_version_is_answered() -> None:
    client = Client(metadata(0, "orders"))
    for version in client.stand_in.offer[ApiKey.Metadata]:
        asked = {"topics": [{"name": "orders"}], "allow_auto_topic_creation": False}
        assert leaders(client.ask(ApiKey.Metadata, version, asked)) == {"orders": 1}, version


def test_without_any_metadata_the_brokers_are_known_by_who_answered() -> None:
    client = Client(row(0, ApiKey.Heartbeat, 0, {"group_id": "g"}, {"error_code": 0}, node_id=3))
    body = ask(client, "orders")
    assert [one["node_id"] for one in body["brokers"]] == [3]
    assert body["topics"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
