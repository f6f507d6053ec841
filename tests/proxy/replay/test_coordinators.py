"""FindCoordinator and OffsetFetch, between the versions that name one thing and those that name several."""

from __future__ import annotations

from typing import Any

from notleader.proxy.replay.names import Names
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from tests.proxy.replay.made import Client, Row, row


def found(at_ms: int, key: str, node_id: int, error_code: int = 0, key_type: int = 0) -> Row:
    answer = {"error_code": error_code, "error_message": None, "node_id": node_id, "host": "kafka", "port": 9092}
    return row(at_ms, ApiKey.FindCoordinator, 1, {"key": key, "key_type": key_type}, answer)


def committed(*offsets: int) -> Row:
    partitions = [
        {"partition_index": index, "committed_offset": offset, "metadata": "", "error_code": 0}
        for index, offset in enumerate(offsets)
    ]
    indexes = {"partition_indexes": list(range(len(offsets)))}
    asked = {"group_id": "readers", "topics": [{"name": "orders", **indexes}]}
    return row(0, ApiKey.OffsetFetch, 3, asked, {"topics": [{"name": "orders", "partitions": partitions}]})


def test_a_key_is_answered_in_the_shape_of_either_version() -> None:
    client = Client(found(0, "readers", 1))
    one = client.ask(ApiKey.FindCoordinator, 2, {"key": "readers", "key_type": 0})
    assert (one["node_id"], one["host"], one["port"]) == (1, "here", 101)
    (several,) = client.ask(ApiKey.FindCoordinator, 4, {"key_type": 0, "coordinator_keys": ["readers"]})["coordinators"]
    assert (several["key"], several["node_id"], several["port"]) == ("readers", 1, 101)


def test_what_was_refused_is_refused_in_its_turn() -> None:
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    client = Client(found(0, "readers", -1, unavailable), found(1, "readers", 1))
    asked = {"key_type": 0, "coordinator_keys": ["readers"]}
    codes = [client.ask(ApiKey.FindCoordinator, 4, asked)["coordinators"][0]["error_code"] for _ in range(3)]
    assert codes == [unavailable, 0, 0]


def test_a_transactional_id_is_none_of_the_groups() -> None:
    client = Client(found(0, "readers", 1), found(1, "mover", 2, key_type=1))
    asked = {"key_type": 1, "coordinator_keys": ["another", "mover"]}
    told = client.ask(ApiKey.FindCoordinator, 4, asked)["coordinators"]
    assert [(one["key"], one["node_id"]) for one in told] == [("another", 2), ("mover", 2)]


def test_a_group_of_which_nothing_was_recorded_has_a_coordinator_that_was() -> None:
    """As with every broker; where there is none, the client is told at once, and not over and over."""
    asked = {"key": "readers", "key_type": 0}
    answer = Client(found(0, "mover", 2, key_type=1)).ask(ApiKey.FindCoordinator, 2, asked)
    assert (answer["error_code"], answer["node_id"]) == (0, 2)
    unavailable = found(0, "mover", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE, key_type=1)
    answer = Client(unavailable).ask(ApiKey.FindCoordinator, 2, asked)
    assert answer["error_code"] == ErrorCode.INVALID_GROUP_ID


def test_a_group_of_another_name_gets_the_answers_of_one_that_has_some() -> None:
    """Another that was only asked about does not do for one that is joined; share groups are another thing, too."""
    names = Names()
    for name, *apis in (
        ("monitoring", ApiKey.OffsetFetch),
        ("shared", ApiKey.ShareGroupHeartbeat),
        ("app", ApiKey.JoinGroup, ApiKey.OffsetFetch),
        ("late", ApiKey.JoinGroup, ApiKey.OffsetFetch),
    ):
        for api in apis:
            names.learn_who("group", name, api)
    assert names.recorded("group", "mine", ApiKey.JoinGroup) == "app"
    assert names.recorded("group", "mine", ApiKey.OffsetFetch) == "app"
    assert names.recorded("group", "yours", ApiKey.ShareGroupHeartbeat) == "shared"
    assert names.recorded("group", "late", ApiKey.OffsetFetch) == "late"
    assert names.recorded("transaction", "mover", ApiKey.EndTxn) == "mover"


def test_committed_offsets_are_those_of_the_partitions_asked_for() -> None:
    client = Client(committed(5, 6))
    asked = [{"name": "orders", "partition_indexes": [2, 1]}]
    older = client.ask(ApiKey.OffsetFetch, 5, {"group_id": "readers", "topics": asked})
    assert [one["committed_offset"] for one in older["topics"][0]["partitions"]] == [-1, 6]
    groups: list[dict[str, Any]] = [{"group_id": "readers", "topics": asked, "member_id": None}]
    (newer,) = client.ask(ApiKey.OffsetFetch, 9, {"groups": groups})["groups"]
    assert newer["group_id"] == "readers"
    assert [one["committed_offset"] for one in newer["topics"][0]["partitions"]] == [-1, 6]
    everything = [{"group_id": "readers", "topics": None, "member_id": None}]
    (whole,) = client.ask(ApiKey.OffsetFetch, 9, {"groups": everything})["groups"]
    assert [one["committed_offset"] for one in whole["topics"][0]["partitions"]] == [5, 6]
