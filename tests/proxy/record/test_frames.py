"""What crosses to the recorder makes the rows that the exchange itself would have made, and holds no more than that."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from notleader.faults.decision import Hit
from notleader.faults.effects import Effect
from notleader.proxy.pump import Exchange, passing
from notleader.proxy.record.frames import NO_BLOCK, pack_exchange, pack_topic, read_effect, unpack
from notleader.proxy.record.rows import COLUMNS, Level, Rows
from notleader.proxy.recorder.schema import batch_of
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.batches import batch
from tests.proxy.record.made import table_of_block
from tests.proxy.record.test_blocks import IDENTITY, exchange, frames, name_of
from tests.proxy.wire.frames import recorded as frames_of_real_clients

VALUE = b"what the customer said"
LIED = frozenset({("orders", 0), ("orders", 1)})
HITS = (
    Hit("one", "error", "before_broker", "", (Effect("answered", 6, frozenset({("orders", 0)})),)),
    Hit("two", "delay", "after_broker", "", (Effect("held_answer", None, None, 250_000),)),
    Hit("lie", "offset_lie", "after_broker", "", (Effect("altered_answer", None, LIED, None, ((("orders", 0), 3),)),)),
)


def real_ones() -> list[Exchange]:
    entries = []
    for number, one in enumerate(frames_of_real_clients()):
        api, version = int.from_bytes(one.request[:2], "big"), int.from_bytes(one.request[2:4], "big")
        hits = HITS if number % 3 == 0 else ()
        entries.append(exchange(number, api, version, one.request, getattr(one, "response", None), hits=hits))
    return entries


def same(level: Level, exchanges: list[Exchange]) -> list[dict[str, Any]]:
    """The rows by way of a journal, which are those made at once."""
    rows = [Rows(*IDENTITY, level, name_of).of(one) for one in exchanges]
    made = table_of_block(None, Rows(*IDENTITY, level, name_of), exchanges).to_pylist()
    assert made == batch_of(rows).to_pylist()
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows]


@pytest.mark.parametrize("level", list(Level))
def test_exchanges_of_real_clients_with_and_without_faults(level: Level) -> None:
    rows = same(level, real_ones())
    assert any(row["effects"] for row in rows)
    assert level is Level.HEADER or any(row["partitions"] for row in rows)


def test_what_an_offset_was_before_stands_beside_its_partition() -> None:
    asked = {"topics": [{"name": "orders", "partitions": [{"partition_index": index} for index in (2, 1, 0)]}]}
    named = [{"partition_index": index, "error_code": 0, "offset": 9} for index in (2, 1, 0)]
    told = {"topics": [{"name": "orders", "partitions": named}]}
    lied = exchange(1, ApiKey.ListOffsets, 6, *frames(ApiKey.ListOffsets, 6, 1, asked, told), hits=HITS[2:])
    (row,) = same(Level.PARTITION, [lied])
    assert [(e["partitions"], e["offsets_before"]) for e in row["effects"]] == [([1, 2], [None, 3])]


@pytest.mark.parametrize("effect", [["cut", None, None], ["cut", None, None, None]])
def test_an_effect_of_an_older_journal_is_read(effect: list[Any]) -> None:
    assert read_effect(effect) == Effect("cut")


def produce(number: int = 1) -> Exchange:
    asked = {"topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": batch(VALUE)}]}]}
    told = {"responses": [{"name": "orders", "partition_responses": [{"index": 0, "base_offset": 5}]}]}
    return exchange(number, ApiKey.Produce, 9, *frames(ApiKey.Produce, 9, number, asked, told), hits=HITS)


@pytest.mark.parametrize("level", list(Level))
def test_values_reach_the_journal_where_the_level_wants_them_alone(level: Level) -> None:
    one = produce()
    if level is Level.HEADER:
        one.request = one.response = None  # nothing is kept at all
    assert (VALUE in pack_exchange(one, level)) == level.reads_records
    same(level, [one])


@pytest.mark.parametrize("pieces", [True, False])
def test_frames_in_pieces_and_frames_that_only_passed(pieces: bool) -> None:
    one = produce()
    assert isinstance(one.request, bytes)
    if pieces:
        one.request = [one.request[:20], memoryview(one.request)[20:]]
    else:
        whole, passed = one.request, passing(ApiKey.Produce, 9, True, one.request[:7], len(one.request))
        for start in range(7, len(whole), 7):
            passed.feed(whole[start : start + 7])
        one.request = passed
    (row,) = same(Level.PARTITION, [one])
    assert row["partitions"][0]["topic"] == "orders"


def test_a_frame_that_passed_and_could_not_be_read_is_said() -> None:
    one = produce()
    passed = passing(ApiKey.Metadata, 9, True, b"", 1 << 20)
    one.request, one.api_key = passed, int(ApiKey.Metadata)
    (row,) = same(Level.PAYLOAD, [one])
    assert row["detail"] == "body not read: too large to be kept"


def test_names_of_topic_ids_come_along() -> None:
    topic_id = UUID(int=7)
    assert unpack(NO_BLOCK + pack_topic(topic_id, "orders\udcff")).topics == [(topic_id, "orders\udcff")]


@pytest.mark.parametrize("spoil", ["magic", "length"])
def test_what_a_broker_says_of_batches_that_can_not_be_read_is_told(spoil: str) -> None:
    records = bytearray(batch(VALUE))
    if spoil == "magic":
        records[16] = 9
    else:
        records[8:12] = bytes(4)
    asked = {"topic_data": [{"name": "orders", "partition_data": [{"index": 0, "records": bytes(records)}]}]}
    refused = {"index": 0, "base_offset": -1, "error_code": 2}
    told = {"responses": [{"name": "orders", "partition_responses": [refused]}]}
    (row,) = same(Level.PARTITION, [exchange(1, ApiKey.Produce, 9, *frames(ApiKey.Produce, 9, 1, asked, told))])
    (place,) = row["partitions"]
    assert (row["error_code"], place["error_code"], place["batch_bytes"]) == (2, 2, len(records))
    assert row["detail"].startswith("batches not read: ")
