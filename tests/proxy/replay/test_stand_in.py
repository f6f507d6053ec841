"""What is offered, what every request gets, and what becomes of what was not recorded."""

from __future__ import annotations

from uuid import UUID

import pytest

from notleader.proxy.replay.exchange import Ending
from notleader.proxy.replay.reply import Source
from notleader.proxy.wire.codec import Body, request_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.header import encode_request_header
from notleader.proxy.wire.view import Response
from tests.proxy.replay.made import Client, Row, batch, fetched, metadata, produced, row


def api_versions(at_ms: int, **spoken: tuple[int, int]) -> Row:
    entries = [
        {"api_key": ApiKey[name], "min_version": low, "max_version": high} for name, (low, high) in spoken.items()
    ]
    return row(at_ms, ApiKey.ApiVersions, 0, {}, {"error_code": 0, "api_keys": entries})


def offered(client: Client, version: int = 3) -> dict[str, tuple[int, int]]:
    body: Body = {"client_software_name": "a", "client_software_version": "1"}
    told = client.ask(ApiKey.ApiVersions, version, body)["api_keys"]
    return {ApiKey(one["api_key"]).name: (one["min_version"], one["max_version"]) for one in told}


def heartbeat(at_ms: int, error_code: int = 0, group: str = "g", **columns: object) -> Row:
    return row(at_ms, ApiKey.Heartbeat, 0, {"group_id": group}, {"error_code": error_code}, **columns)


def init(at_ms: int, producer_id: int) -> Row:
    asked = {"transactional_id": None, "transaction_timeout_ms": 1}
    return row(at_ms, ApiKey.InitProducerId, 0, asked, {"error_code": 0, "producer_id": producer_id})


def test_what_was_recorded_is_offered_as_far_as_the_brokers_spoke_it() -> None:
    client = Client(api_versions(0, Heartbeat=(0, 3), Produce=(0, 2)), heartbeat(1))
    told = offered(client)
    assert told["Heartbeat"] == (0, 3)
    assert told.keys() == {"ApiVersions", "Metadata", "Heartbeat"}


def test_what_goes_with_what_was_recorded_is_offered_too() -> None:
    """librdkafka wants Produce and Fetch to speak of batches of v2 at all."""
    for recorded in (fetched(0, 0, b""), produced(0, batch(b"a"), 0)):
        assert {"Fetch", "ListOffsets", "Produce"} <= offered(Client(recorded)).keys()


def test_fetch_is_offered_from_where_its_records_can_be_read() -> None:
    assert offered(Client(fetched(0, 0, batch(b"a"))))["Fetch"][0] == 4


def test_an_unknown_version_of_api_versions_is_told_which_are_known() -> None:
    client = Client(heartbeat(0))
    frame = encode_request_header(ApiKey.ApiVersions, 99, 1, "me")
    reply = client.stand_in.reply(None, frame, lambda *_: ("", 0))
    assert reply.frame is not None
    assert reply.frame[4:6] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def test_an_api_that_was_not_recorded_closes_the_connection_and_is_told_once() -> None:
    client = Client(heartbeat(0))
    replies = [client.reply(ApiKey.CreateTopics, 5, {"topics": [], "timeout_ms": 1})[1] for _ in range(2)]
    assert [reply.ending for reply in replies] == [Ending.CLOSED] * 2
    assert client.said == ["CreateTopics v5 is not offered, for it was not recorded: the connection is closed"]
    assert client.stand_in.counts == {Source.NOTHING: 2}


def test_answers_come_in_recorded_order_with_their_latencies() -> None:
    client = Client(heartbeat(0, 0, response_at_us=250_000), heartbeat(300, 27))
    asked: Body = {"group_id": "g", "member_id": "m"}
    first = client.reply(ApiKey.Heartbeat, 4, asked)[1]
    assert first.after_us == 250_000
    assert [client.ask(ApiKey.Heartbeat, 4, asked)["error_code"] for _ in range(2)] == [27, 27]
    hurried = Client(heartbeat(0, 0, response_at_us=250_000), at_once=True)
    assert hurried.reply(ApiKey.Heartbeat, 4, asked)[1].after_us == 0


def test_a_second_producer_gets_an_id_of_its_own() -> None:
    client = Client(init(0, 41), init(1, 42))
    asked: Body = {"transactional_id": None, "transaction_timeout_ms": 1}
    assert [client.ask(ApiKey.InitProducerId, 4, asked)["producer_id"] for _ in range(4)] == [41, 42, 43, 44]


def test_shared_records_are_handed_out_once() -> None:
    """KIP-932: what was acquired is nobody else's. Later there is nothing, for as long as one waits."""
    topic = UUID(int=1)
    asked = {
        "group_id": "workers",
        "member_id": "m",
        "share_session_epoch": 0,
        "max_wait_ms": 300,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "topics": [{"topic_id": topic, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}],
        "forgotten_topics_data": [],
    }
    told = {"partition_index": 0, "records": batch(b"a"), "acquired_records": [], "current_leader": {}}
    answer = {"responses": [{"topic_id": topic, "partitions": [told]}], "node_endpoints": []}
    client = Client(row(0, ApiKey.ShareFetch, 1, asked, answer))
    got, waited_us = [], []
    for _ in range(3):
        request, reply = client.reply(ApiKey.ShareFetch, 1, asked)
        assert reply.frame is not None
        got.append(len(Response(reply.frame, request).body["responses"]))
        waited_us.append(reply.after_us)
    assert (got, waited_us[1:]) == ([1, 0, 0], [300_000, 300_000])


def test_what_has_no_alike_is_refused_by_kafkas_own_means() -> None:
    configs = {"resources": [{"resource_type": 2, "resource_name": "orders", "configuration_keys": None}]}
    told = {"results": [{"error_code": 0, "error_message": None, "resource_type": 2, "resource_name": "orders"}]}
    client = Client(row(0, ApiKey.DescribeConfigs, 1, configs, told))
    asked = {"resources": [{"resource_type": 2, "resource_name": "none", "configuration_keys": None}]}
    (refused,) = client.ask(ApiKey.DescribeConfigs, 4, asked)["results"]
    assert (refused["resource_name"], refused["error_code"]) == ("none", ErrorCode.UNSUPPORTED_VERSION)
    assert "DescribeConfigs" in client.said[0]


def test_a_commit_of_more_partitions_than_were_recorded_is_taken() -> None:
    def commit(*indexes: int) -> Body:
        partitions = [{"partition_index": one, "committed_offset": 1, "committed_metadata": None} for one in indexes]
        return {"group_id": "g", "topics": [{"name": "orders", "partitions": partitions}]}

    told = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 25}]}]}
    client = Client(metadata(0, "orders"), row(1, ApiKey.OffsetCommit, 3, commit(0), told))
    (topic,) = client.ask(ApiKey.OffsetCommit, 8, commit(1, 0))["topics"]
    assert topic["partitions"] == [{"partition_index": 1, "error_code": 0}, {"partition_index": 0, "error_code": 25}]


@pytest.mark.parametrize(("mechanism", "code"), [("PLAIN", 0), ("SCRAM-SHA-256", ErrorCode.UNSUPPORTED_SASL_MECHANISM)])
def test_everybody_is_let_in_by_mechanisms_that_prove_nothing_back(mechanism: str, code: int) -> None:
    client = Client(row(0, ApiKey.SaslHandshake, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]}), heartbeat(1))
    client.recording.apis.add(ApiKey.SaslAuthenticate)
    answer = client.ask(ApiKey.SaslHandshake, 1, {"mechanism": mechanism})
    assert (answer["error_code"], answer["mechanisms"]) == (code, ["PLAIN", "OAUTHBEARER"])


def test_the_recorded_features_are_told_again() -> None:
    recorded = {
        "error_code": 0,
        "api_keys": [],
        "supported_features": [{"name": "f", "min_version": 0, "max_version": 2}],
    }
    asked = {"client_software_name": "a", "client_software_version": "1"}
    client = Client(row(0, ApiKey.ApiVersions, 3, asked, recorded), produced(1, batch(b"a"), 0))
    assert client.ask(ApiKey.ApiVersions, 3, asked)["supported_features"][0]["name"] == "f"


def test_what_is_no_request_is_an_error_of_the_client() -> None:
    codec = request_codec(ApiKey.Heartbeat, 0)
    client = Client(heartbeat(0))
    frame = encode_request_header(ApiKey.Heartbeat, 0, 1, "me") + codec.encode({"group_id": "g"})
    with pytest.raises(Exception, match="ends too early"):
        client.stand_in.reply(1, frame[:-1], lambda *_: ("", 0))
