"""Virtual elections: every answer tells the same story, and no broker ever sees an epoch it doesn't know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from notleader.faults.cluster import Cluster
from notleader.faults.effects import Effect
from notleader.faults.election import EPOCH_IN_REQUEST, EPOCH_IN_RESPONSE, Elections
from notleader.faults.needs import REQUEST_BODY
from notleader.faults.plan import NOTHING, Plan
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.view import Request
from tests.faults.script import (
    Body,
    connection,
    entries,
    exchange,
    fault,
    fetch,
    fetched,
    knowing_plan,
    metadata,
    metadata_answer,
    produce,
    produced,
    request,
)

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
FENCED = ErrorCode.FENCED_LEADER_EPOCH


def plan_with_election(**other: Any) -> Plan:
    plan = knowing_plan(**other)
    plan.elections.start("orders", 0, 2000, now_us=0, started_by="lost")
    return plan


def shown(plan: Plan, now_ms: float, version: int = 12) -> Body:
    """Partition 0 of orders as Metadata shows it at this time."""
    answer = exchange(plan, metadata("orders", version=version), lambda _: metadata_answer(), now_ms=now_ms).answer
    assert answer is not None
    partition: Body = answer["topics"][0]["partitions"][0]
    return partition


def offsets_for_epoch(current: int, wanted: int = 3, version: int = 3) -> Request:
    partition = {"partition": 0, "current_leader_epoch": current, "leader_epoch": wanted}
    topics = [{"topic": "orders", "partitions": [partition]}]
    return request(ApiKey.OffsetForLeaderEpoch, version, {"replica_id": -1, "topics": topics})


def list_offsets(current: int) -> Request:
    partition = {"partition_index": 0, "current_leader_epoch": current, "timestamp": -1}
    return request(ApiKey.ListOffsets, 6, {"replica_id": -1, "topics": [{"name": "orders", "partitions": [partition]}]})


def test_nothing_is_asked_of_the_session_before_the_first_election() -> None:
    plan = knowing_plan()
    assert all(plan.interest(key, version) == 0 for key in ApiKey for version in known_versions(key))


@pytest.mark.parametrize("version", known_versions(ApiKey.Metadata))
def test_metadata_names_no_leader_while_it_lasts_and_a_higher_epoch_ever_after(version: int) -> None:
    plan = plan_with_election()
    before_end, after_end = shown(plan, 1999, version), shown(plan, 2000, version)
    assert (before_end["leader_id"], before_end["error_code"]) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert before_end["isr_nodes"] == before_end["replica_nodes"] == [1, 2]
    assert (after_end["leader_id"], after_end["error_code"]) == (1, 0)
    if version >= 7:
        assert before_end["leader_epoch"] == after_end["leader_epoch"] == 6


def test_other_partitions_keep_leader_and_epoch() -> None:
    plan = plan_with_election()
    answer = exchange(plan, metadata(), lambda _: metadata_answer()).answer
    assert answer is not None
    untouched = [*answer["topics"][0]["partitions"][1:], *answer["topics"][1]["partitions"]]
    assert {(partition["leader_epoch"], partition["error_code"]) for partition in untouched} == {(5, 0)}


def test_an_exchange_that_only_has_its_epochs_translated_is_no_hit() -> None:
    plan = plan_with_election()
    for asked, broker in ((metadata(), lambda _: metadata_answer()), (fetch(("orders", 0), epoch=6), fetched())):
        assert exchange(plan, asked, broker, now_ms=5000).hits == ()


@pytest.mark.parametrize("version", [3, 9, 10, 13])
def test_produce_is_refused_for_that_partition_only_and_told_the_shown_epoch(version: int) -> None:
    plan = plan_with_election()
    done = exchange(plan, produce(("orders", 0), ("orders", 1), version=version), produced, now_ms=500)
    assert done.sent is not None
    assert done.answer is not None
    assert [data["index"] for data in done.sent["topic_data"][0]["partition_data"]] == [1]
    assert [code for _, _, code in entries(done.answer, partitions="partition_responses")] == [NOT_LEADER, 0]
    if version >= 10:
        leader = done.answer["responses"][0]["partition_responses"][0]["current_leader"]
        assert leader == {"leader_id": -1, "leader_epoch": 6}
    assert [hit[:3] for hit in done.hits] == [("lost", "leader_election", "before_broker")]


def test_fetch_list_offsets_and_epoch_queries_are_refused_while_it_lasts() -> None:
    plan = plan_with_election()
    for asked, topics in (
        (fetch(("orders", 0)), "responses"),
        (list_offsets(6), "topics"),
        (offsets_for_epoch(6), "topics"),
    ):
        done = exchange(plan, asked, now_ms=500)
        assert done.sent is None
        assert done.answer is not None
        assert done.answer[topics][0]["partitions"][0]["error_code"] == NOT_LEADER


def test_an_incremental_fetch_is_refused_for_the_partition_in_its_session() -> None:
    plan = knowing_plan(fault(kind="stall", match={"api_key": "Fetch", "topic": "other"}, trigger={"times": "forever"}))
    exchange(plan, fetch(("orders", 0), ("orders", 1), session=(0, 0)), fetched(9))
    plan.elections.start("orders", 0, 2000, now_us=0)
    done = exchange(plan, fetch(session=(9, 1)), fetched(9))
    assert done.answer is not None
    assert entries(done.answer) == [("orders", 0, NOT_LEADER)]


def test_a_broker_gets_back_the_epoch_that_it_told() -> None:
    plan = plan_with_election()
    for asked, array in ((fetch(("orders", 0), epoch=6), "topics"), (list_offsets(6), "topics")):
        done = exchange(plan, asked, now_ms=3000)
        assert done.sent is not None
        assert done.sent[array][0]["partitions"][0]["current_leader_epoch"] == 5
        assert done.hits == ()
    sent = exchange(plan, offsets_for_epoch(6, wanted=3), now_ms=3000).sent
    assert sent is not None
    assert sent["topics"][0]["partitions"][0]["current_leader_epoch"] == 5
    assert sent["topics"][0]["partitions"][0]["leader_epoch"] == 3


def test_an_epoch_that_is_not_checked_stays_unchecked() -> None:
    sent = exchange(plan_with_election(), fetch(("orders", 0), epoch=-1), now_ms=3000).sent
    assert sent is not None
    assert sent["topics"][0]["partitions"][0]["current_leader_epoch"] == -1


def test_an_epoch_older_than_any_that_the_broker_had_is_fenced_here() -> None:
    plan = knowing_plan(epoch=0)
    plan.elections.start("orders", 0, 10, now_us=0)
    done = exchange(plan, offsets_for_epoch(0), now_ms=3000)
    assert done.sent is None
    assert done.answer is not None
    assert done.answer["topics"][0]["partitions"][0]["error_code"] == FENCED
    (hit,) = done.hits
    assert (hit.rule_name, hit.kind) == ("election", "leader_election")
    assert hit.effects == (Effect("answered", FENCED, frozenset({("orders", 0)})),)
    sent = exchange(plan, offsets_for_epoch(1), now_ms=3000).sent
    assert sent is not None
    assert sent["topics"][0]["partitions"][0]["current_leader_epoch"] == 0


def test_a_version_that_nobody_can_decode_passes_an_election_unseen() -> None:
    plan = plan_with_election()
    frame = fetch(("orders", 0)).frame
    unknown = Request(frame[:2] + (99).to_bytes(2, "big") + frame[4:])
    assert plan.interest(ApiKey.Fetch, 99) == 0
    assert plan.on_request(connection(), unknown, 0) is NOTHING


def test_epochs_only_rise() -> None:
    plan = knowing_plan()
    epochs = []
    for round_number in range(4):
        plan.elections.start("orders", 0, 100, now_us=round_number * 1_000_000)
        epochs += [shown(plan, round_number * 1000 + at)["leader_epoch"] for at in (0, 50, 100, 500)]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 9


def test_a_leader_that_a_broker_names_is_shown_in_the_shown_epoch() -> None:
    plan = plan_with_election()

    def moved(sent: Request) -> Body:
        answer = produced(sent)
        answer["responses"][0]["partition_responses"][0] |= {
            "error_code": int(NOT_LEADER),
            "current_leader": {"leader_id": 2, "leader_epoch": 7},
        }
        return answer

    answer = exchange(plan, produce(("orders", 0), version=10), moved, now_ms=3000).answer
    assert answer is not None
    assert answer["responses"][0]["partition_responses"][0]["current_leader"] == {"leader_id": 2, "leader_epoch": 8}


def test_the_shown_epoch_of_a_refusal_is_not_raised_twice() -> None:
    plan = plan_with_election()
    answer = exchange(plan, fetch(("orders", 0), ("orders", 1)), fetched(), now_ms=100).answer
    assert answer is not None
    leader = answer["responses"][0]["partitions"][0]["current_leader"]
    assert leader == {"leader_id": -1, "leader_epoch": 6}


def test_the_first_matching_request_starts_the_election_and_is_its_first_victim() -> None:
    plan = knowing_plan(fault(name="lost", kind="leader_election", match={"topic": "orders", "partition_index": 0}))
    assert exchange(plan, produce(("payments", 0)), produced, now_ms=1).hits == ()
    done = exchange(plan, produce(("orders", 0)), produced, now_ms=10)
    assert [hit[:3] for hit in done.hits] == [("lost", "leader_election", "before_broker")]
    assert done.sent is None
    assert [
        (election.topic, election.partition_index, election.until_us) for election in plan.elections.list(20_000)
    ] == [("orders", 0, 2_010_000)]
    assert exchange(plan, produce(("orders", 0)), produced, now_ms=2010).sent is not None
    assert plan.get("lost").hits == 1


def test_a_metadata_request_starts_it_only_once_its_partitions_are_known() -> None:
    plan = Plan(faults=[fault(name="lost", kind="leader_election", match={"topic": "orders"})])
    exchange(plan, metadata("orders"), lambda _: metadata_answer())
    assert plan.elections.list(0) == ()
    plan.cluster.observe_metadata(metadata_answer())
    done = exchange(plan, metadata("orders"), lambda _: metadata_answer(), now_ms=1)
    assert [election.partition_index for election in plan.elections.list(1000)] == [0, 1, 2]
    assert done.answer is not None
    assert {partition["leader_id"] for partition in done.answer["topics"][0]["partitions"]} == {-1}
    assert [hit[:3] for hit in done.hits] == [("lost", "leader_election", "after_broker")]
    again = exchange(plan, metadata("orders"), lambda _: metadata_answer(), now_ms=2)
    assert [hit[:3] for hit in again.hits] == [("lost", "leader_election", "after_broker")]


def test_a_partition_without_leader_is_not_deposed_again() -> None:
    plan = knowing_plan(
        fault(name="lost", kind="leader_election", match={"topic": "orders"}, trigger={"times": "forever"})
    )
    for now_ms in range(0, 2000, 500):
        exchange(plan, produce(("orders", 0)), now_ms=now_ms)
    assert plan.get("lost").hits == 1
    assert plan.elections.bump("orders", 0) == 1


@pytest.mark.parametrize("let_go", [Plan.remove, lambda plan, name: plan.switch(name, False)])
def test_a_rule_that_goes_ends_its_elections_and_no_other(let_go: Callable[[Plan, str], None]) -> None:
    plan = knowing_plan(fault(name="lost", kind="leader_election", match={"topic": "orders", "partition_index": 0}))
    plan.elections.start("orders", 1, 60_000, 0, "another")
    exchange(plan, produce(("orders", 0)), now_ms=10)
    let_go(plan, "lost")
    assert [election.partition_index for election in plan.elections.list(11_000)] == [1]
    assert exchange(plan, produce(("orders", 0)), produced, now_ms=12).sent is not None
    assert plan.elections.bump("orders", 0) == 1


def test_elections_end_when_told_to() -> None:
    elections = Elections(Cluster(), lambda: None)
    elections.start("orders", 0, 1000, 0)
    elections.start("orders", 1, 1000, 0)
    elections.end("orders", 0)
    assert [election.partition_index for election in elections.list(1)] == [1]
    with pytest.raises(KeyError):
        elections.end("orders", 0)
    elections.end_all()
    assert elections.list(1) == ()
    assert elections.bump("orders", 0) == 1
    assert elections.interest(ApiKey.Produce, 9) & REQUEST_BODY == 0


def has_field(fields: tuple[Field, ...], name: str) -> bool:
    return any(found.name == name or has_field(found.fields, name) for found in fields)


def test_the_tables_of_epoch_fields_agree_with_the_definitions() -> None:
    # FetchSnapshot and UpdateRaftVoter speak of the controllers' own log; share state is between brokers.
    elsewhere = {ApiKey.FetchSnapshot, ApiKey.UpdateRaftVoter, ApiKey.Vote, ApiKey.BeginQuorumEpoch}
    elsewhere |= {ApiKey.EndQuorumEpoch, ApiKey.DescribeQuorum, ApiKey.FetchSnapshot}
    for key in set(ApiKey) - elsewhere:
        in_request = [
            version
            for version in known_versions(key)
            if has_field(request_codec(key, version).fields, "current_leader_epoch")
        ]
        if key != ApiKey.OffsetForLeaderEpoch:  # which asks for an epoch in all of its versions
            assert EPOCH_IN_REQUEST.get(key) == (in_request[0] if in_request else None), key.name
        in_response = [
            version
            for version in known_versions(key)
            if has_field(response_codec(key, version).fields, "current_leader")
        ]
        if key not in (ApiKey.Metadata, ApiKey.DescribeTopicPartitions, ApiKey.OffsetForLeaderEpoch):
            assert EPOCH_IN_RESPONSE.get(key) == (in_response[0] if in_response else None), key.name
