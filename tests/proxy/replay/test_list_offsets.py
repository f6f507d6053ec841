"""ListOffsets: offsets from which Fetch goes on."""

from __future__ import annotations

import pytest

from notleader.proxy.replay.list_offsets import EARLIEST, LATEST, NEWEST
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from tests.proxy.replay.made import Client, Row, batch, fetched, metadata, row


def asked(timestamp: int, topic: str = "orders") -> Body:
    partition = {"partition_index": 0, "timestamp": timestamp, "max_num_offsets": 1}
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": [partition]}]}


def listed(at_ms: int, timestamp: int, offset: int, error_code: int = 0) -> Row:
    partition = {"partition_index": 0, "error_code": error_code, "timestamp": -1, "offset": offset}
    answer = {"topics": [{"name": "orders", "partitions": [partition]}]}
    return row(at_ms, ApiKey.ListOffsets, 3, asked(timestamp), answer)


def offset_of(client: Client, timestamp: int, *, version: int = 5, client_id: str = "shop") -> int:
    body = client.ask(ApiKey.ListOffsets, version, asked(timestamp), client_id=client_id)
    found: int = body["topics"][0]["partitions"][0]["offset"]
    return found


LOG = fetched(1, 4, batch(b"a", b"b", base_offset=4, timestamp=1000) + batch(b"c", base_offset=6, timestamp=900))


@pytest.mark.parametrize(
    ("timestamp", "offset"), [(LATEST, 7), (EARLIEST, 4), (NEWEST, 5), (0, 4), (1001, 5), (2000, -1)]
)
def test_what_nobody_asked_follows_from_the_records(timestamp: int, offset: int) -> None:
    assert offset_of(Client(LOG), timestamp, version=8) == offset


def test_who_asked_then_is_told_the_same_and_later_what_there_is() -> None:
    client = Client(LOG, listed(0, LATEST, 5))
    assert offset_of(client, LATEST, client_id="another") == 7
    assert [offset_of(client, LATEST) for _ in range(2)] == [5, 7]


def test_no_offset_is_told_from_which_nothing_can_be_fetched() -> None:
    client = Client(LOG, listed(0, EARLIEST, 0), listed(1, LATEST, 900))
    assert (offset_of(client, EARLIEST), offset_of(client, LATEST)) == (4, 7)


def test_an_error_is_met_once() -> None:
    client = Client(LOG, listed(0, LATEST, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    answers = [client.ask(ApiKey.ListOffsets, 5, asked(LATEST))["topics"][0]["partitions"][0] for _ in range(2)]
    assert [one["error_code"] for one in answers] == [ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]


def test_without_records_the_log_ends_where_it_was_said_to() -> None:
    client = Client(listed(0, LATEST, 40))
    assert [offset_of(client, when) for when in (LATEST, LATEST, EARLIEST)] == [40, 40, 40]


def test_the_oldest_version_gets_a_list() -> None:
    client = Client(metadata(0, "orders"), LOG)
    client.stand_in.offer[ApiKey.ListOffsets] = range(2)
    (topic,) = client.ask(ApiKey.ListOffsets, 0, asked(LATEST))["topics"]
    assert topic["partitions"][0]["old_style_offsets"] == [7]


def test_an_unknown_topic_is_told_as_that() -> None:
    (topic,) = Client(LOG).ask(ApiKey.ListOffsets, 5, asked(LATEST, "none"))["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
