"""A row has a value for each column, of the column's type, at every level."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from notleader.proxy.capture.stats import Statistics
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.recorder.schema import EXCHANGE
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import Conversation, request, response


def row_of(entry: Any, level: Level) -> dict[str, Any]:
    """The row, after Parquet's types have been through it."""
    row = Rows("run", "proxy", 7, level).of(entry)
    table = pa.table(
        [pa.array([value], field.type) for value, field in zip(row, EXCHANGE, strict=True)], schema=EXCHANGE
    )
    (found,) = table.to_pylist()
    return dict(found)


@pytest.mark.parametrize("level", list(Level))
def test_an_offset_commit_at_each_level(level: Level) -> None:
    talk = Conversation(level=level)
    partition = {"partition_index": 3, "committed_offset": 42}
    body = {"group_id": "g", "topics": [{"name": "orders", "partitions": [partition]}]}
    talk.client(request(ApiKey.OffsetCommit, 7, 1, body))
    answer = {"topics": [{"name": "orders", "partitions": [{"partition_index": 3, "error_code": 27}]}]}
    talk.now_ms = 5
    talk.broker(response(ApiKey.OffsetCommit, 7, 1, answer))
    row = row_of(talk.exchanges[0], level)
    assert (row["event"], row["api_name"], row["outcome"]) == ("exchange", "OffsetCommit", "answered")
    assert row["response_at_us"] - row["request_at_us"] == 5000
    if level is Level.HEADER:
        assert row["partitions"] is row["group_id"] is None
        return
    (part,) = row["partitions"]
    assert (part["topic"], part["partition_index"], part["base_offset"], part["error_code"]) == ("orders", 3, 42, 27)
    assert (row["group_id"], row["error_code"]) == ("g", 27)
    assert (row["request_frame"] is not None) == (level is Level.PAYLOAD)


@pytest.mark.parametrize(
    ("api_key", "version", "body", "ids"),
    [
        (ApiKey.OffsetFetch, 7, {"group_id": "g"}, ("g", None)),
        (ApiKey.OffsetFetch, 8, {"groups": [{"group_id": "g"}]}, ("g", None)),
        (ApiKey.OffsetFetch, 10, {"groups": [{"group_id": "g"}, {"group_id": "h"}]}, (None, None)),
        (ApiKey.DescribeShareGroupOffsets, 0, {"groups": [{"group_id": "g"}]}, ("g", None)),
        (ApiKey.DescribeGroups, 5, {"groups": ["g"]}, ("g", None)),
        (ApiKey.DescribeGroups, 5, {"groups": ["g", "h"]}, (None, None)),
        (ApiKey.DeleteGroups, 2, {"groups_names": ["g"]}, ("g", None)),
        (ApiKey.ConsumerGroupDescribe, 0, {"group_ids": ["g"]}, ("g", None)),
        (ApiKey.FindCoordinator, 0, {"key": "g"}, ("g", None)),
        (ApiKey.FindCoordinator, 3, {"key": "g", "key_type": 0}, ("g", None)),
        (ApiKey.FindCoordinator, 3, {"key": "t", "key_type": 1}, (None, "t")),
        (ApiKey.FindCoordinator, 4, {"key_type": 1, "coordinator_keys": ["t"]}, (None, "t")),
        (ApiKey.FindCoordinator, 6, {"key_type": 2, "coordinator_keys": ["g:id:0"]}, (None, None)),
        (ApiKey.AddPartitionsToTxn, 3, {"v3_and_below_transactional_id": "t"}, (None, "t")),
        (ApiKey.AddPartitionsToTxn, 4, {"transactions": [{"transactional_id": "t"}]}, (None, "t")),
        (ApiKey.AddPartitionsToTxn, 4, {"transactions": [{"transactional_id": one} for one in "tu"]}, (None, None)),
        (ApiKey.DescribeTransactions, 0, {"transactional_ids": ["t"]}, (None, "t")),
        (ApiKey.TxnOffsetCommit, 3, {"group_id": "g", "transactional_id": "t"}, ("g", "t")),
        (ApiKey.Heartbeat, 4, {"group_id": "g"}, ("g", None)),
        (ApiKey.ListGroups, 4, {}, (None, None)),
    ],
)
def test_the_only_group_and_transaction_that_a_request_names_are_in_its_row(
    api_key: ApiKey, version: int, body: dict[str, Any], ids: tuple[str | None, str | None]
) -> None:
    talk = Conversation(level=Level.PARTITION)
    talk.client(request(api_key, version, 1, body))
    talk.broker(response(api_key, version, 1))
    row = row_of(talk.exchanges[0], Level.PARTITION)
    assert (row["group_id"], row["transactional_id"]) == ids


@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_a_partition_that_a_transaction_did_not_get_has_its_error(version: int) -> None:
    partitions = [{"partition_index": 0}, {"partition_index": 1, "partition_error_code": 48}]
    results = [{"name": "orders", "results_by_partition": partitions}]
    old, new = {"results_by_topic_v3_and_below": results}, {"results_by_transaction": [{"topic_results": results}]}
    talk = Conversation(level=Level.PARTITION)
    talk.client(request(ApiKey.AddPartitionsToTxn, version, 1))
    talk.broker(response(ApiKey.AddPartitionsToTxn, version, 1, old if version < 4 else new))
    row = row_of(talk.exchanges[0], Level.PARTITION)
    assert row["error_code"] == 48
    assert [part["error_code"] for part in row["partitions"]] == [0, 48]


@pytest.mark.parametrize("version", [1, 5, 12])
def test_a_topic_that_metadata_refuses_as_a_whole_is_a_row_without_a_number(version: int) -> None:
    refused = {"name": "no", "kind": "error", "error_code": "LEADER_NOT_AVAILABLE"}
    talk = Conversation(refused | {"match": {"api_key": "Metadata", "topic": "orders"}}, level=Level.PARTITION)
    talk.client(request(ApiKey.Metadata, version, 1, {"topics": [{"name": "orders"}, {"name": "fine"}]}))
    whole = {"partitions": [{"partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]}
    topics = [{"name": "orders"} | whole, {"name": "fine"} | whole, {"name": "new", "error_code": 5}]
    talk.broker(response(ApiKey.Metadata, version, 1, {"brokers": [], "controller_id": 1, "topics": topics}))
    row = row_of(talk.exchanges[0], Level.PARTITION)
    told = [(part["topic"], part["partition_index"], part["error_code"]) for part in row["partitions"]]
    assert sorted(told, key=repr) == [("fine", 0, 0), ("new", None, 5), ("orders", None, 5)]
    (effect,) = row["effects"]
    assert [told[place] for place in effect["partitions"]] == [("orders", None, 5)]


def test_an_acknowledgement_that_failed_is_an_error_of_its_share_fetch() -> None:
    partitions = [{"partition_index": 0, "acknowledge_error_code": 121, "records": b""}]
    talk = Conversation(level=Level.PARTITION)
    talk.client(request(ApiKey.ShareFetch, 1, 1, {"group_id": "g"}))
    talk.broker(response(ApiKey.ShareFetch, 1, 1, {"responses": [{"partitions": partitions}]}))
    row = row_of(talk.exchanges[0], Level.PARTITION)
    assert row["error_code"] == 121
    assert [part["error_code"] for part in row["partitions"]] == [0]


@pytest.mark.parametrize(("codec", "count"), [(0, 3), (1, None)], ids=["plain", "gzip"])
@pytest.mark.parametrize("magic", [0, 1])
def test_how_many_records_a_compressed_message_set_has_is_not_known(magic: int, codec: int, count: int | None) -> None:
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for offset in range(3):
        builder.append(offset, timestamp=1000, key=b"k", value=b"v")
    records = bytes(builder.build())
    talk = Conversation(level=Level.PARTITION)
    body = {"acks": 1, "topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]}
    talk.client(request(ApiKey.Produce, 2, 1, body))
    talk.broker(response(ApiKey.Produce, 2, 1))
    row = row_of(talk.exchanges[0], Level.PARTITION)
    (part,) = row["partitions"]
    assert (part["record_count"], part["batch_bytes"]) == (count, len(records))
    statistics = Statistics()
    statistics.add_all([row])
    assert statistics.document()["producers"][0]["records"] == (count or 0)


def test_a_body_that_cannot_be_read_is_said_and_kept_as_a_row() -> None:
    talk = Conversation(level=Level.PARTITION)
    whole = request(ApiKey.OffsetCommit, 3, 1, {"group_id": "g"})
    talk.client(whole[:3] + bytes([whole[3] - 2]) + whole[4:-2])
    talk.session.gone(talk.now_us, "over")
    talk.commands()
    row = row_of(talk.exchanges[0], Level.PARTITION)
    assert "ends too early" in row["detail"]
    assert row["outcome"] == "no_response"


def test_what_was_asked_is_kept_where_the_answer_cannot_be_read() -> None:
    talk = Conversation(level=Level.PARTITION)
    partition = {"partition_index": 3, "committed_offset": 42}
    body = {"group_id": "g", "topics": [{"name": "orders", "partitions": [partition]}]}
    talk.client(request(ApiKey.OffsetCommit, 7, 1, body))
    answer = {"topics": [{"name": "orders", "partitions": [{"partition_index": 3, "error_code": 27}]}]}
    whole = response(ApiKey.OffsetCommit, 7, 1, answer)
    talk.broker(whole[:3] + bytes([whole[3] - 2]) + whole[4:-2])
    row = row_of(talk.exchanges[0], Level.PARTITION)
    assert row["detail"].startswith("body not read: response")
    (part,) = row["partitions"]
    assert (part["topic"], part["partition_index"]) == ("orders", 3)


def test_sasl_tokens_are_kept_at_no_level() -> None:
    talk = Conversation(level=Level.PAYLOAD)
    talk.client(request(ApiKey.SaslAuthenticate, 1, 1, {"auth_bytes": b"\0alice\0secret"}))
    talk.broker(response(ApiKey.SaslAuthenticate, 1, 1))
    row = row_of(talk.exchanges[0], Level.PAYLOAD)
    assert b"secret" not in repr(row).encode()


def test_events_have_rows_too() -> None:
    talk = Conversation()
    event = ConnectionEvent("wire_error", talk.session.connection, 99, "client: nonsense")
    row = row_of(event, Level.PARTITION)
    assert (row["event"], row["request_at_us"], row["detail"]) == ("wire_error", 99, "client: nonsense")
    assert (row["client_addr"], row["seed"]) == ("127.0.0.1:5", 7)
    mark = row_of(ConnectionEvent("mark", None, 99, "here"), Level.PARTITION)
    assert (mark["connection_id"], mark["detail"]) == (None, "here")


def test_exchanges_of_the_same_bytes_share_what_was_read_and_others_do_not() -> None:
    rows = Rows("run", "proxy", 7, Level.PARTITION)
    talk = Conversation(level=Level.PARTITION)
    asked = [("g", 0), ("g", 27), ("h", 0), ("g", 0)]
    for number, (group, error) in enumerate(asked):
        talk.client(request(ApiKey.Heartbeat, 4, number, {"group_id": group}))
        talk.broker(response(ApiKey.Heartbeat, 4, number, {"error_code": error, "throttle_time_ms": number % 3}))
    made = [dict(zip(COLUMNS, rows.of(entry), strict=True)) for entry in talk.exchanges]
    assert [(row["group_id"], row["error_code"]) for row in made] == asked
    assert [row["throttle_time_ms"] for row in made] == [0, 1, 2, 0]
    assert [row["correlation_id"] for row in made] == [0, 1, 2, 3]
