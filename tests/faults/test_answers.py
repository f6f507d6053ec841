"""What a broker answers when it refuses: every API, every version."""

from __future__ import annotations

from random import Random

import pytest

from notleader.faults.answers import NoPlaceForError, refusal, unsupported_version
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import iter_partitions
from tests.faults.script import Body, exchange, fault, knowing_plan, metadata, produce, random_body, request

# One entry per log directory, and no code above them: only the broker could say which directories.
NO_PLACE = {(ApiKey.DescribeLogDirs, 0), (ApiKey.DescribeLogDirs, 1), (ApiKey.DescribeLogDirs, 2)}
EVERY_VERSION = [(key, version) for key in ApiKey for version in known_versions(key)]


def codes(body: object) -> set[int]:
    """Every error code in a body."""
    if isinstance(body, list):
        return {code for element in body for code in codes(element)}
    if not isinstance(body, dict):
        return set()
    own = {body[key] for key in ("error_code", "partition_error_code") if key in body}
    return own.union(*map(codes, body.values()))


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_every_version_has_a_refusal_that_names_what_was_asked(key: ApiKey) -> None:
    random = Random(key)
    for version in known_versions(key):
        asked = request(key, version, random_body(request_codec(key, version).fields, random))
        if (key, version) in NO_PLACE:
            with pytest.raises(NoPlaceForError):
                refusal(asked, 41)
            continue
        body = refusal(asked, 41)
        codec = response_codec(key, version)
        decoded = codec.decode(codec.encode(body))
        assert 41 in codes(decoded), (key.name, version)
        assert codes(decoded) <= {0, 41}
        answered = [entry[:3] for entry in iter_partitions(codec, decoded)]
        if answered and key != ApiKey.Metadata:
            assert answered == [entry[:3] for entry in asked.partitions], (key.name, version)


@pytest.mark.parametrize("version", range(4))
def test_metadata_of_a_whole_cluster_keeps_its_brokers(version: int) -> None:
    plan = knowing_plan(fault(kind="error", error_code=5, match={"api_key": "Metadata"}))
    done = exchange(
        plan,
        metadata(version=version),
        lambda _: {
            "brokers": [{"node_id": 1, "host": "h", "port": 1}],
            "topics": [{"name": "orders", "error_code": 0, "partitions": []}],
        },
    )
    assert done.answer is not None
    assert [topic["error_code"] for topic in done.answer["topics"]] == [5]
    assert len(done.answer["brokers"]) == 1


def answered(key: ApiKey, version: int, asked: Body, code: ErrorCode) -> Body:
    codec = response_codec(key, version)
    return codec.decode(codec.encode(refusal(request(key, version, asked), code)))


def test_join_group_is_refused_as_brokers_do() -> None:
    asked = {"group_id": "g", "member_id": "m", "protocol_type": "consumer", "protocols": []}
    old = answered(ApiKey.JoinGroup, 6, asked, ErrorCode.UNKNOWN_MEMBER_ID)
    assert (old["generation_id"], old["protocol_name"], old["leader"], old["member_id"]) == (-1, "", "", "m")
    assert answered(ApiKey.JoinGroup, 9, asked, ErrorCode.UNKNOWN_MEMBER_ID)["protocol_name"] is None


def test_what_a_broker_leaves_out_of_a_refusal_is_null() -> None:
    beat = request(ApiKey.ConsumerGroupHeartbeat, 0, {"group_id": "g", "member_id": "m"})
    refused = refusal(beat, ErrorCode.UNKNOWN_MEMBER_ID)
    assert (refused["member_id"], refused["assignment"]) == (None, None)
    described = request(ApiKey.DescribeTopicPartitions, 0, {"topics": [{"name": "a"}], "cursor": None})
    assert refusal(described, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)["next_cursor"] is None


def test_find_coordinator_is_refused_with_no_node_old_and_batched() -> None:
    old = answered(ApiKey.FindCoordinator, 3, {"key": "g", "key_type": 0}, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (old["error_code"], old["node_id"], old["host"], old["port"]) == (15, -1, "", -1)
    batched = answered(ApiKey.FindCoordinator, 4, {"coordinator_keys": ["a", "b"]}, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [(each["key"], each["error_code"], each["node_id"]) for each in batched["coordinators"]] == [
        ("a", 15, -1),
        ("b", 15, -1),
    ]


def test_a_transaction_step_is_refused_partition_by_partition() -> None:
    asked = {
        "v3_and_below_transactional_id": "t",
        "v3_and_below_topics": [{"name": "orders", "partitions": [0, 1]}],
    }
    body = answered(ApiKey.AddPartitionsToTxn, 3, asked, ErrorCode.CONCURRENT_TRANSACTIONS)
    results = body["results_by_topic_v3_and_below"]
    assert [result["partition_error_code"] for result in results[0]["results_by_partition"]] == [51, 51]


def test_init_producer_id_and_end_txn_are_refused_without_an_id() -> None:
    body = answered(ApiKey.InitProducerId, 4, {"transactional_id": "t"}, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert (body["error_code"], body["producer_id"], body["producer_epoch"]) == (14, -1, -1)
    assert answered(ApiKey.EndTxn, 3, {"transactional_id": "t"}, ErrorCode.INVALID_PRODUCER_EPOCH)["error_code"] == 47


def test_a_fetch_session_is_refused_above_the_partitions() -> None:
    asked = {"session_id": 7, "session_epoch": 3, "topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}
    body = answered(ApiKey.Fetch, 11, asked, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
    assert (body["error_code"], body["session_id"], body["responses"]) == (71, 0, [])
    per_partition = answered(ApiKey.Fetch, 11, asked, ErrorCode.OFFSET_OUT_OF_RANGE)
    assert per_partition["error_code"] == 0
    assert per_partition["responses"][0]["partitions"][0]["error_code"] == 1


@pytest.mark.parametrize(("version", "by_partition"), [(1, True), (7, False)])
def test_a_group_error_of_offset_fetch_stands_where_the_version_puts_it(version: int, by_partition: bool) -> None:
    asked = {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    body = answered(ApiKey.OffsetFetch, version, asked, ErrorCode.NOT_COORDINATOR)
    if by_partition:
        assert body["topics"][0]["partitions"][0]["error_code"] == 16
    else:
        assert (body["error_code"], body["topics"]) == (16, [])


def test_a_group_error_of_a_batched_offset_fetch_stands_at_each_group() -> None:
    asked = {"groups": [{"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0]}]}]}
    body = answered(ApiKey.OffsetFetch, 8, asked, ErrorCode.NOT_COORDINATOR)
    assert [(group["error_code"], group["topics"]) for group in body["groups"]] == [(16, [])]


def test_a_member_error_of_leave_group_stands_at_the_member() -> None:
    asked = {"group_id": "g", "members": [{"member_id": "m", "group_instance_id": "i"}]}
    body = answered(ApiKey.LeaveGroup, 4, asked, ErrorCode.FENCED_INSTANCE_ID)
    assert (body["error_code"], body["members"][0]["error_code"], body["members"][0]["member_id"]) == (0, 82, "m")
    whole = answered(ApiKey.LeaveGroup, 4, asked, ErrorCode.NOT_COORDINATOR)
    assert (whole["error_code"], whole["members"]) == (16, [])


def test_an_unknown_api_versions_request_is_answered_in_version_0() -> None:
    body = response_codec(ApiKey.ApiVersions, 0).encode(unsupported_version(range(5)))
    decoded = response_codec(ApiKey.ApiVersions, 0).decode(body)
    assert decoded == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}
    plan = knowing_plan(fault(kind="error", error_code="UNSUPPORTED_VERSION", match={"api_key": "ApiVersions"}))
    asked = request(ApiKey.ApiVersions, 3, {"client_software_name": "a", "client_software_version": "1"})
    assert exchange(plan, asked).answer == response_codec(18, 0).decode(
        response_codec(18, 0).encode(unsupported_version())
    )


def test_a_produce_of_every_version_is_refused_in_the_order_of_its_partitions() -> None:
    for version in known_versions(ApiKey.Produce):
        asked = produce(("orders", 2), ("payments", 0), ("orders", 1), version=version)
        body = refusal(asked, 6)
        codec = response_codec(ApiKey.Produce, version)
        assert [entry[:3] for entry in iter_partitions(codec, codec.decode(codec.encode(body)))] == [
            entry[:3] for entry in asked.partitions
        ]
