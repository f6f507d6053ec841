"""Each kind that rewrites answers or requests, as a script: what the client reads, what the broker gets."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.faults.actions import AnswerRaw, Close, Drop, Duplicate, Mute, RewriteResponse
from notleader.faults.plan import Decision, Plan
from notleader.faults.schema import parse_fault_document
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.records import crc_is_valid, iter_batches
from notleader.proxy.wire.view import Request
from tests.faults.script import (
    Body,
    batch,
    connection,
    exchange,
    fault,
    fetch,
    knowing_plan,
    metadata,
    metadata_answer,
    produce,
    produced,
    request,
    response,
)

FOREVER = {"times": "forever"}
HEARTBEAT = request(ApiKey.Heartbeat, 4, {"group_id": "g"})


def said(plan: Plan, asked: Request, body: Body) -> Decision:
    """What the plan says about the answer to a request."""
    return plan.on_response(connection(), asked, response(asked, body), plan.on_request(connection(), asked, 0), 0)


def test_throttle_is_named_and_mutes_when_asked() -> None:
    plan = Plan(
        faults=[fault(kind="throttle", throttle_time_ms=700), fault(kind="throttle", throttle_time_ms=9, muted=True)]
    )
    actions = said(plan, HEARTBEAT, {}).actions
    assert actions[1:] == (Mute(9000),)
    assert isinstance(actions[0], RewriteResponse)
    assert actions[0].body["throttle_time_ms"] == 9


def test_a_version_without_throttle_time_says_so() -> None:
    plan = Plan(faults=[fault(name="t", kind="throttle", throttle_time_ms=700)])
    assert said(plan, request(ApiKey.Heartbeat, 0, {"group_id": "g"}), {}).actions == ()
    assert plan.get("t").last_refusal == "this version of the answer has no throttle_time_ms"


def leaders(answer: Body | None) -> list[tuple[int, int]]:
    """(leader_id, leader_epoch) of the partitions of orders."""
    assert answer is not None
    return [(partition["leader_id"], partition["leader_epoch"]) for partition in answer["topics"][0]["partitions"]]


def test_stale_metadata_keeps_to_what_was_known_when_it_was_added() -> None:
    plan = knowing_plan(epoch=5)
    plan.add(fault(kind="stale_metadata", match={"topic": "orders", "partition_index": 0}, trigger=FOREVER))

    def moved(sent: Request) -> Body:
        answer = metadata_answer(epoch=8)
        for partition in answer["topics"][0]["partitions"]:
            partition["leader_id"] = 2
        return answer

    plan.cluster.observe_metadata(moved(HEARTBEAT))
    assert leaders(exchange(plan, metadata(), moved).answer) == [(1, 5), (2, 8), (2, 8)]


def test_stale_metadata_freezes_what_it_did_not_know_at_its_first_sight() -> None:
    plan = Plan(faults=[fault(kind="stale_metadata", trigger=FOREVER)])
    assert leaders(exchange(plan, metadata(), lambda _: metadata_answer(epoch=3)).answer)[0] == (1, 3)
    assert leaders(exchange(plan, metadata(), lambda _: metadata_answer(epoch=9)).answer)[0] == (1, 3)


def test_wrong_leader_names_another_broker_for_the_matching_partitions() -> None:
    match = {"topic": "orders", "partition_index": 1}
    plan = knowing_plan(
        fault(kind="wrong_leader", match=match), fault(kind="wrong_leader", leader_id=7, leader_epoch=20)
    )
    answer = exchange(plan, metadata(), lambda _: metadata_answer()).answer
    assert leaders(answer) == [(7, 20), (7, 20), (7, 20)]
    plan.clear()
    plan.add(fault(kind="wrong_leader", match=match))
    assert leaders(exchange(plan, metadata(), lambda _: metadata_answer()).answer) == [(1, 5), (2, 5), (1, 5)]


def test_wrong_leader_needs_another_broker() -> None:
    plan = knowing_plan(fault(name="w", kind="wrong_leader"))

    def single(sent: Request) -> Body:
        return metadata_answer() | {"brokers": metadata_answer()["brokers"][:1]}

    assert leaders(exchange(plan, metadata(), single).answer)[0] == (1, 5)
    assert plan.get("w").last_refusal == "there is no other broker to name"


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_coordinator_move_names_another_broker(version: int) -> None:
    plan = knowing_plan(fault(kind="coordinator_move", match={"group_id": "g"}))
    asked = request(
        ApiKey.FindCoordinator,
        version,
        {"coordinator_keys": ["h", "g"]} if version >= 4 else {"key": "g", "key_type": 0},
    )
    found = {"node_id": 1, "host": "b1", "port": 9092, "error_code": 0}
    body = {"coordinators": [{"key": key, **found} for key in ("h", "g")]} if version >= 4 else found
    answer = exchange(plan, asked, lambda _: body).answer
    assert answer is not None
    moved = answer["coordinators"][1] if version >= 4 else answer
    assert (moved["node_id"], moved["host"], moved["port"]) == (2, "b2", 9092)
    if version >= 4:
        assert answer["coordinators"][0]["node_id"] == 1


def test_cap_versions_offers_less_and_never_more() -> None:
    rule = fault(kind="cap_versions", versions={"Produce": "3-7", "Fetch": 4, "Metadata": "0-99", "Heartbeat": "9-12"})
    offered = {"api_keys": [{"api_key": key, "min_version": 2, "max_version": 8} for key in (0, 1, 3, 12, 18)]}
    asked = request(ApiKey.ApiVersions, 2, {})
    answer = exchange(Plan(faults=[rule]), asked, lambda _: offered).answer
    assert answer is not None
    assert [(each["api_key"], each["min_version"], each["max_version"]) for each in answer["api_keys"]] == [
        (0, 3, 7),
        (1, 2, 4),
        (3, 2, 8),
        (18, 2, 8),
    ]
    assert parse_fault_document(rule.model_dump(mode="json", exclude_unset=True)) == rule


def test_session_expiry_shortens_the_lifetime() -> None:
    plan = Plan(faults=[fault(kind="session_expiry", session_lifetime_ms=500)])
    asked = request(ApiKey.SaslAuthenticate, 1, {"auth_bytes": b""})
    answer = exchange(plan, asked, lambda _: {"auth_bytes": b"", "session_lifetime_ms": 3_600_000}).answer
    assert answer is not None
    assert answer["session_lifetime_ms"] == 500


@pytest.mark.parametrize(("part", "crc_holds"), [("crc", False), ("records", False), ("compression", True)])
def test_a_corrupt_batch_fails_its_check_where_it_matches(part: str, crc_holds: bool) -> None:
    plan = knowing_plan(fault(kind="corrupt", part=part, match={"topic": "orders", "partition_index": 0}))
    data = batch()

    def broker(sent: Request) -> Body:
        partitions = [{"partition_index": index, "records": data} for index in (0, 1)]
        return {"responses": [{"topic": "orders", "partitions": partitions}]}

    answer = exchange(plan, fetch(("orders", 0), ("orders", 1)), broker).answer
    assert answer is not None
    damaged, whole = (bytes(partition["records"]) for partition in answer["responses"][0]["partitions"])
    assert whole == data
    assert len(damaged) == len(data)
    assert crc_is_valid(damaged, next(iter_batches(damaged))) is crc_holds


def test_a_corrupt_length_claims_a_byte_too_much() -> None:
    plan = knowing_plan(fault(kind="corrupt", part="length", phase="before_broker"))
    sent = exchange(plan, produce(("orders", 0), records=batch()), produced).sent
    assert sent is not None
    damaged = bytes(sent["topic_data"][0]["partition_data"][0]["records"])
    assert int.from_bytes(damaged[8:12], "big") == len(damaged) - 12 + 1


def test_a_fetch_without_records_cannot_be_damaged() -> None:
    plan = knowing_plan(fault(name="c", kind="corrupt"))
    empty: dict[str, Any] = {"responses": [{"topic": "orders", "partitions": [{"partition_index": 0, "records": b""}]}]}
    exchange(plan, fetch(("orders", 0)), lambda _: empty)
    assert plan.get("c").last_refusal == "there are no records to damage"


def test_the_kinds_of_raw_bytes() -> None:
    for document, action in (
        ({"kind": "duplicate"}, Duplicate(1)),
        ({"kind": "truncate", "phase": "before_broker", "after_bytes": 5}, Close(5)),
        ({"kind": "oversized_frame"}, AnswerRaw(b"\x15\x03\x03\x00")),
        ({"kind": "oversized_frame", "length": -1, "close": True}, AnswerRaw(b"\xff\xff\xff\xff", True)),
    ):
        decision = Plan(faults=[fault(**document)]).on_request(connection(), produce(("orders", 0)), 0)
        assert decision.actions == (action,)
    assert said(Plan(faults=[fault(kind="truncate")]), HEARTBEAT, {}).actions == (Close(8),)


def test_broker_down_is_gone_from_what_the_others_tell() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, trigger={"for_ms": 1000}), now_us=0)
    done = exchange(plan, metadata(), lambda _: metadata_answer(), now_ms=10)
    assert [hit[:3] for hit in done.hits] == [("down", "broker_down", "after_broker")]
    during = done.answer
    assert during is not None
    assert [broker["node_id"] for broker in during["brokers"]] == [2]
    assert leaders(during) == [(-1, 6)] * 3
    orders, payments = (topic["partitions"][0] for topic in during["topics"])
    assert (orders["error_code"], orders["isr_nodes"], orders["offline_replicas"]) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        [2],
        [1],
    )
    assert (payments["leader_id"], payments["leader_epoch"], payments["error_code"]) == (2, 5, 0)
    after = exchange(plan, metadata(), lambda _: metadata_answer(), now_ms=1000).answer
    assert after is not None
    assert leaders(after) == [(1, 6)] * 3
    assert len(after["brokers"]) == 2


def test_broker_down_before_anything_is_known_is_told_from_the_first_answer() -> None:
    plan = Plan(faults=[fault(kind="broker_down", node_id=1)])
    asked = metadata()
    plan.elections.start("orders", 0, 1, 0)
    plan.elections.advance(5000)
    decision = plan.on_request(connection(), asked, 10_000)
    plan.cluster.observe_metadata(metadata_answer())
    actions = plan.on_response(connection(), asked, response(asked, metadata_answer()), decision, 10_000).actions
    assert isinstance(actions[0], RewriteResponse)
    assert leaders(actions[0].body) == [(-1, 7), (-1, 6), (-1, 6)]
    again = exchange(plan, asked, lambda _: metadata_answer(), now_ms=20).answer
    assert leaders(again) == [(-1, 7), (-1, 6), (-1, 6)]


@pytest.mark.parametrize("way", ["its time is over", "it was removed", "it was switched off"])
def test_an_answer_that_comes_after_the_end_of_broker_down_brings_nothing_of_it_back(way: str) -> None:
    plan = knowing_plan(fault(name="down", kind="broker_down", node_id=1, trigger={"for_ms": 1000}))
    asked = metadata()
    decision = plan.on_request(connection(), asked, 0)
    assert plan.elections.leader("orders", 0) is None
    if way == "it was removed":
        plan.remove("down")
    elif way == "it was switched off":
        plan.switch("down", False)
    late = plan.on_response(connection(), asked, response(asked, metadata_answer()), decision, 1_000_000)
    for action in late.actions:
        assert isinstance(action, RewriteResponse)
        assert leaders(action.body) == [(1, 6)] * 3
    assert plan.elections.leader("orders", 0) == 1
    assert plan.elections.list(1_000_000) == ()


@pytest.mark.parametrize("later", ["hold", "pass"])
def test_a_lost_answer_holds_back_the_later_ones_or_not(later: str) -> None:
    for document in ({"kind": "drop_response", "later": later}, {"kind": "drop_request", "later": later}):
        done = exchange(Plan(faults=[fault(**document)]), produce(("orders", 0)), produced)
        assert done.cut == Drop(hold_later=later == "hold")


@pytest.mark.parametrize(("asked", "offsets"), [("earliest", [2, 100]), ("latest", [5, 97]), ("any", [2, 97])])
def test_an_offset_lie_is_about_what_was_asked(asked: str, offsets: list[int]) -> None:
    plan = Plan(faults=[fault(kind="offset_lie", add=-3, asked=asked)])
    partitions = [{"partition_index": index, "timestamp": -2 + index} for index in (0, 1)]
    question = request(
        ApiKey.ListOffsets, 6, {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions}]}
    )
    told = [{"partition_index": index, "offset": offset} for index, offset in ((0, 5), (1, 100))]
    answer = exchange(plan, question, lambda _: {"topics": [{"name": "orders", "partitions": told}]}).answer
    assert answer is not None
    assert [partition["offset"] for partition in answer["topics"][0]["partitions"]] == offsets


def test_an_absurd_length_after_the_broker_has_done_its_work() -> None:
    plan = Plan(faults=[fault(kind="oversized_frame", phase="after_broker", length=2**31 - 1)])
    assert said(plan, HEARTBEAT, {}).actions == (AnswerRaw(b"\x7f\xff\xff\xff"),)


def test_an_offset_lie_stays_a_64_bit_number() -> None:
    plan = Plan(faults=[fault(kind="offset_lie", add=2**63 - 1)])
    partition = {"partition_index": 0, "timestamp": -1}
    question = request(
        ApiKey.ListOffsets, 6, {"replica_id": -1, "topics": [{"name": "orders", "partitions": [partition]}]}
    )
    told = {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 100}]}]}
    answer = exchange(plan, question, lambda _: told).answer
    assert answer is not None
    assert answer["topics"][0]["partitions"][0]["offset"] == 2**63 - 1
