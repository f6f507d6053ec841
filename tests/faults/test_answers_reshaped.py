"""`reorder`, `offset_lie` and the shapes `limit` and `slow_close`: what a client reads, what a connection becomes."""

from __future__ import annotations

import pytest

from notleader.faults.actions import Shape
from notleader.faults.plan import Plan
from notleader.proxy.wire.codec import known_versions
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request
from tests.faults.script import Body, connection, entries, exchange, fault, produce, produced, request


def test_the_partitions_of_an_answer_come_in_reverse() -> None:
    plan = Plan(faults=[fault(kind="reorder", match={"api_key": "Produce"})])
    answer = exchange(plan, produce(("orders", 0), ("orders", 1), ("payments", 0)), produced).answer
    assert answer is not None
    assert entries(answer, partitions="partition_responses") == [("payments", 0, 0), ("orders", 1, 0), ("orders", 0, 0)]


def test_an_answer_about_one_partition_has_no_order() -> None:
    plan = Plan(faults=[fault(name="r", kind="reorder")])
    exchange(plan, produce(("orders", 0)), produced)
    assert plan.get("r").last_refusal == "the answer has nothing to reorder"


def list_offsets(version: int, *asked: tuple[int, int]) -> Request:
    """ListOffsets of (partition, timestamp) of orders."""
    partitions = [
        {"partition_index": index, "timestamp": timestamp, "max_num_offsets": 1} for index, timestamp in asked
    ]
    body = {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions}]}
    return request(ApiKey.ListOffsets, version, body)


def at_100(sent: Request) -> Body:
    partitions = [
        {"partition_index": entry.partition_index, "error_code": 0, "offset": 100, "old_style_offsets": [100]}
        for entry in sent.partitions
    ]
    return {"topics": [{"name": "orders", "partitions": partitions}]}


@pytest.mark.parametrize("version", known_versions(ApiKey.ListOffsets))
def test_the_end_of_the_log_is_told_too_low_and_its_begin_right(version: int) -> None:
    plan = Plan(faults=[fault(kind="offset_lie", add=-30, match={"topic": "orders", "partition_index": [0, 1]})])
    answer = exchange(plan, list_offsets(version, (0, -1), (1, -2), (2, -1)), at_100).answer
    assert answer is not None
    told = [entry.get("offset") or entry["old_style_offsets"][0] for entry in answer["topics"][0]["partitions"]]
    assert told == [70, 100, 100]


def test_an_offset_can_be_named_outright_and_never_falls_below_zero() -> None:
    plan = Plan(faults=[fault(kind="offset_lie", offset=7, asked="any"), fault(kind="offset_lie", add=-1000)])
    answer = exchange(plan, list_offsets(6, (0, -1), (1, -2)), at_100).answer
    assert answer is not None
    assert [entry["offset"] for entry in answer["topics"][0]["partitions"]] == [0, 7]


def test_an_offset_lie_says_what_was_named_before() -> None:
    plan = Plan(faults=[fault(kind="offset_lie", add=-30), fault(kind="offset_lie", offset=100, asked="any")])
    done = exchange(plan, list_offsets(6, (0, -1), (1, -2)), at_100)
    first, second = (hit.effects[0] for hit in done.hits)
    assert first.offsets_before == ((("orders", 0), 100),)
    # What it leaves as it was is no lie, whatever a rule before it had said.
    assert second.offsets_before == ((("orders", 0), 70),)


def test_what_no_question_means_is_said() -> None:
    plan = Plan(faults=[fault(name="lie", kind="offset_lie", add=-1)])
    exchange(plan, list_offsets(6, (0, -2)), at_100)
    assert plan.get("lie").last_refusal == "the answer names no offset that is meant"


def test_limit_and_slow_close_are_shapes_of_the_connection() -> None:
    plan = Plan(
        faults=[fault(kind="limit", limit_bytes=9, direction="request"), fault(kind="slow_close", delay_ms=1.5)]
    )
    assert plan.link(connection(), 0).shapes == (
        Shape("request", limit_bytes=9),
        Shape("response", close_delay_us=1500),
    )


def test_a_rule_that_can_not_be_applied_is_told_of_once_for_each_reason_in_a_row() -> None:
    plan = Plan(faults=[fault(name="r", kind="reorder", trigger={"times": "forever"})])
    said: list[tuple[str, str]] = []
    plan.on_refusal = lambda rule, reason: said.append((rule.name, reason))
    for _ in range(3):
        exchange(plan, produce(("orders", 0)), produced)
    exchange(plan, produce(("orders", 0), acks=0))
    assert said == [("r", "the answer has nothing to reorder"), ("r", "a Produce with acks=0 has no answer")]
    assert plan.get("r").refused == 4
