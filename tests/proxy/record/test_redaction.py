"""What must not be told is in no row, whichever way the row was made, and in no frame."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.faults.base import Connection
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.redaction import Redaction, hashed, parse
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.batches import batch, built
from tests.proxy.record.blocks import rows_of
from tests.proxy.session.conversation import Conversation, request, response

SECRET = "payroll"


def rows(level: Level, *rules: str) -> Rows:
    return Rows("run", "proxy", 7, level, redaction=Redaction(rules))


def produced(level: Level, records: bytes, topic: str = SECRET) -> Any:
    talk = Conversation(level=level)
    parts = [{"index": 0, "records": records}]
    body = {"transactional_id": "tx-1", "acks": -1, "topic_data": [{"name": topic, "partition_data": parts}]}
    talk.client(request(ApiKey.Produce, 9, 1, body, client_id="hr-app"))
    told = {"responses": [{"name": topic, "partition_responses": [{"index": 0}]}]}
    talk.broker(response(ApiKey.Produce, 9, 1, told))
    (exchange,) = talk.exchanges
    return exchange


def told(made: Rows, entry: Any) -> dict[str, Any]:
    return dict(zip(COLUMNS, made.of(entry), strict=True))


@pytest.mark.parametrize("how", ["hash", "drop"])
def test_fields_and_topics_are_hidden_both_ways_a_row_is_made(how: str) -> None:
    entry = produced(Level.PARTITION, batch(b"abc"))
    made = rows(Level.PARTITION, f"topic:pay*={how}", f"field:client_id={how}", f"field:transactional_id={how}")
    full = told(made, entry)
    blocks = Blocks(Level.PARTITION, made.topics, redaction=made.redaction)
    assert blocks.writer.take(entry)
    (taken,) = rows_of(blocks.swap(), "run", "proxy", 7)
    assert dict(zip(COLUMNS, taken, strict=True)) == full
    for secret in (SECRET, "hr-app", "tx-1"):
        assert secret not in repr(full)
    expected = None if how == "drop" else hashed(SECRET)
    assert full["partitions"][0]["topic"] == expected
    assert full["client_id"] == (None if how == "drop" else hashed("hr-app"))


def test_a_topic_that_no_rule_means_is_told() -> None:
    full = told(rows(Level.PARTITION, "topic:pay*=drop"), produced(Level.PARTITION, batch(b"abc"), "orders"))
    assert full["partitions"][0]["topic"] == "orders"


def test_ids_and_keys_of_a_hidden_topic_are_not_kept() -> None:
    records = built([(b"key", b"value", [("notleader-id", b"m-1")])])
    assert told(rows(Level.RECORD), produced(Level.RECORD, records))["partitions"][0]["message_ids"] == ["m-1"]
    (part,) = told(rows(Level.RECORD, "topic:pay*=hash"), produced(Level.RECORD, records))["partitions"]
    assert part["message_ids"] is part["key_hashes"] is None
    (part,) = told(rows(Level.RECORD, "header:notleader-id=hash"), produced(Level.RECORD, records))["partitions"]
    assert part["message_ids"] == [hashed("m-1")]


def test_frames_of_a_hidden_topic_or_header_are_not_kept_and_fields_are_blotted_out() -> None:
    entry = produced(Level.PAYLOAD, built([(b"key", b"value", [("authorization", b"Bearer x")])]))
    whole = told(rows(Level.PAYLOAD), entry)
    assert b"Bearer x" in whole["request_frame"]
    for rule in ("topic:pay*=hash", "header:authorization=drop", "field:topic=hash"):
        hidden = told(rows(Level.PAYLOAD, rule), entry)
        assert hidden["request_frame"] is hidden["response_frame"] is None
    kept = told(rows(Level.PAYLOAD, "topic:other=drop", "header:x=drop", "field:client_id=hash"), entry)
    assert len(kept["request_frame"]) == len(whole["request_frame"])
    assert kept["request_frame"] == whole["request_frame"].replace(b"hr-app", b"******")
    assert kept["response_frame"] == whole["response_frame"]


@pytest.mark.parametrize(
    ("api_key", "version", "body", "answer"),
    [
        (ApiKey.FindCoordinator, 3, {"key": "hr", "key_type": 0}, {}),
        (ApiKey.FindCoordinator, 3, {"key": "tx-1", "key_type": 1}, {}),
        (ApiKey.FindCoordinator, 4, {"coordinator_keys": ["hr"]}, {"coordinators": [{"key": "hr"}]}),
        (ApiKey.OffsetFetch, 8, {"groups": [{"group_id": "hr"}]}, {"groups": [{"group_id": "hr"}]}),
        (ApiKey.AddPartitionsToTxn, 3, {"v3_and_below_transactional_id": "tx-1"}, {}),
        (
            ApiKey.AddPartitionsToTxn,
            4,
            {"transactions": [{"transactional_id": "tx-1"}]},
            {"results_by_transaction": [{"transactional_id": "tx-1"}]},
        ),
    ],
)
def test_a_group_or_transaction_is_blotted_out_wherever_a_request_has_its_only_one(
    api_key: ApiKey, version: int, body: dict[str, Any], answer: dict[str, Any]
) -> None:
    talk = Conversation(level=Level.PAYLOAD)
    talk.client(request(api_key, version, 1, body))
    talk.broker(response(api_key, version, 1, answer))
    hidden = told(rows(Level.PAYLOAD, "field:group_id=drop", "field:transactional_id=hash"), talk.exchanges[0])
    for frame in (hidden["request_frame"], hidden["response_frame"]):
        assert frame
        assert b"hr" not in frame
        assert b"tx-1" not in frame
    assert b"**" in hidden["request_frame"]


def test_a_frame_that_may_name_a_hidden_topic_somewhere_is_not_kept() -> None:
    talk = Conversation(level=Level.PAYLOAD)
    talk.client(request(ApiKey.DeleteTopics, 4, 1, {"topic_names": [SECRET]}))
    talk.broker(response(ApiKey.DeleteTopics, 4, 1, {"responses": [{"name": SECRET}]}))
    assert SECRET not in repr(told(rows(Level.PAYLOAD, "topic:pay*=drop"), talk.exchanges[0]))


def test_events_are_hidden_too() -> None:
    event = ConnectionEvent("connect", Connection(1, 1, "bootstrap", None, "10.0.0.9:5", principal="alice"), 9, "")
    made = told(rows(Level.HEADER, "field:client_addr=hash", "field:principal=drop"), event)
    assert made["client_addr"] == hashed("10.0.0.9:5")
    assert made["principal"] is None


@pytest.mark.parametrize("text", ["client_id", "field:nope=hash", "topic:=drop", "header:x=burn", "topic:x"])
def test_what_is_no_rule_is_refused_with_a_word_on_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"is expected|there are"):
        parse(text)
