"""Groups: one member goes through what was recorded, whatever its version and its assignor."""

from __future__ import annotations

from typing import Any

from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from tests.proxy.replay.made import Client, Row, row

RANGE = [{"name": "range", "metadata": b"mine"}]


def join(member_id: str, group: str = "readers", protocols: Any = RANGE) -> Body:
    return {
        "group_id": group,
        "session_timeout_ms": 1,
        "rebalance_timeout_ms": 1,
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": protocols,
    }


def joined(at_ms: int, asked: str, got: str, error_code: int = 0, protocol: str = "range", *others: str) -> Row:
    ids = () if error_code else (got, *others)
    members = [{"member_id": one, "group_instance_id": None, "metadata": b"recorded"} for one in ids]
    answer = {"error_code": error_code, "generation_id": 1, "protocol_name": protocol, "leader": got}
    return row(at_ms, ApiKey.JoinGroup, 5, join(asked), {**answer, "member_id": got, "members": members})


def two_steps() -> tuple[Row, Row]:
    """A member gets its id first, and joins with it then (KIP-394)."""
    return joined(0, "", "m1", ErrorCode.MEMBER_ID_REQUIRED), joined(1, "m1", "m1")


def test_a_member_joins_as_it_was_recorded_and_again() -> None:
    client = Client(*two_steps())
    for _ in range(2):
        first = client.ask(ApiKey.JoinGroup, 9, join(""))
        assert (first["error_code"], first["member_id"]) == (ErrorCode.MEMBER_ID_REQUIRED, "m1")
        second = client.ask(ApiKey.JoinGroup, 9, join("m1"))
        assert (second["error_code"], second["leader"]) == (0, "m1")


def test_a_client_that_knows_no_such_step_is_let_in_at_once() -> None:
    answer = Client(*two_steps()).ask(ApiKey.JoinGroup, 2, join(""))
    assert (answer["error_code"], answer["member_id"]) == (0, "m1")


def test_two_members_are_told_apart_by_the_ids_that_they_got() -> None:
    client = Client(*two_steps(), joined(2, "", "m2", ErrorCode.MEMBER_ID_REQUIRED), joined(3, "m2", "m2"))
    ids = [client.ask(ApiKey.JoinGroup, 5, join(""))["member_id"] for _ in range(2)]
    assert ids == ["m1", "m2"]
    assert client.ask(ApiKey.JoinGroup, 5, join("m2"))["member_id"] == "m2"
    assert client.ask(ApiKey.JoinGroup, 5, join("m1"))["member_id"] == "m1"


def test_the_protocol_is_one_that_the_member_knows() -> None:
    client = Client(joined(0, "", "m1", 0, "sticky", "m2"))
    answer = client.ask(ApiKey.JoinGroup, 7, join(""))
    assert answer["protocol_name"] == "range"
    assert [(one["member_id"], bytes(one["metadata"])) for one in answer["members"]] == [("m1", b"mine")]


def test_of_the_same_protocol_the_other_members_stay() -> None:
    answer = Client(joined(0, "", "m1", 0, "range", "m2")).ask(ApiKey.JoinGroup, 7, join(""))
    told = [(one["member_id"], bytes(one["metadata"])) for one in answer["members"]]
    assert told == [("m1", b"mine"), ("m2", b"recorded")]


def test_an_assignment_is_handed_out_under_the_members_protocol() -> None:
    asked = {"group_id": "readers", "generation_id": 1, "member_id": "m1", "group_instance_id": None, "assignments": []}
    recorded = row(0, ApiKey.SyncGroup, 3, asked, {"error_code": 0, "assignment": b"orders-0"})
    named = {**asked, "protocol_type": "consumer", "protocol_name": "range"}
    answer = Client(recorded).ask(ApiKey.SyncGroup, 5, named)
    assert (bytes(answer["assignment"]), answer["protocol_name"]) == (b"orders-0", "range")


def test_a_leader_gets_what_it_assigns_itself() -> None:
    """kafka-python assigns nothing at first, and joins once more; librdkafka and Java assign all at once."""
    asked = {"group_id": "readers", "generation_id": 1, "member_id": "m1", "group_instance_id": None}
    first = {**asked, "assignments": [{"member_id": "m1", "assignment": b"nothing"}]}
    then = {
        **asked,
        "assignments": [{"member_id": "m2", "assignment": b"orders-1"}, {"member_id": "m1", "assignment": b"orders-0"}],
    }
    recorded = [
        row(at, ApiKey.SyncGroup, 3, of, {"error_code": 0, "assignment": own})
        for at, of, own in ((0, first, b"nothing"), (1, then, b"orders-0"))
    ]
    assert bytes(Client(*recorded).ask(ApiKey.SyncGroup, 3, then)["assignment"]) == b"orders-0"


def test_heartbeats_and_commits_that_a_short_recording_lacks_are_taken_for_granted() -> None:
    client = Client(*two_steps())
    assert client.ask(ApiKey.Heartbeat, 4, {"group_id": "readers", "member_id": "m1"})["error_code"] == 0
    partition = {"partition_index": 0, "committed_offset": 3, "committed_metadata": None}
    commit = {"group_id": "readers", "topics": [{"name": "orders", "partitions": [partition]}]}
    (topic,) = client.ask(ApiKey.OffsetCommit, 8, commit)["topics"]
    assert topic["partitions"] == [{"partition_index": 0, "error_code": 0}]
    assert len(client.said) == 2


def test_another_groups_name_gets_the_answers_of_the_recorded_one() -> None:
    client = Client(*two_steps())
    assert client.ask(ApiKey.JoinGroup, 5, join("", "made-up"))["member_id"] == "m1"
    assert client.said == ["no group made-up was recorded: it gets the answers of readers"]


def test_a_hidden_name_is_that_of_any_group_as_long() -> None:
    hidden = joined(1, "", "m1")
    hidden["request_frame"] = hidden["request_frame"].replace(b"readers", b"*******")
    other = joined(0, "", "m2")
    other["request_frame"] = other["request_frame"].replace(b"readers", b"writers")
    client = Client(other, hidden)
    assert client.ask(ApiKey.JoinGroup, 5, join("", "readers"))["member_id"] == "m1"
    assert client.ask(ApiKey.JoinGroup, 5, join("", "writers"))["member_id"] == "m2"
    assert client.recording.names.hidden == {"*******"}
