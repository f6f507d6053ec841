"""Refusals in part: what still reaches the broker, and what the client reads as one answer."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.faults.actions import Answer, Close, Forward
from notleader.faults.answers import Failure, partition_key, refusal, refuses_by_entry
from notleader.faults.partial import is_altered, refuse_some
from notleader.faults.plan import Plan
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.view import Request
from tests.faults.script import (
    ORDERS_ID,
    PAYMENTS_ID,
    Body,
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
    random_body,
    request,
    response,
)

NO_SUCH_PARTITION = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def refuse_orders_0(api_key: str, times: object = "forever", **other: object) -> Plan:
    match = {"api_key": api_key, "topic": "orders", "partition_index": 0}
    return knowing_plan(fault(name="lost", kind="error", error_code=6, match=match, trigger={"times": times}, **other))


def test_only_the_matching_partition_of_a_produce_is_refused() -> None:
    plan = refuse_orders_0("Produce")
    done = exchange(plan, produce(("orders", 1), ("orders", 0), ("payments", 0)), produced)
    assert done.sent is not None
    assert done.answer is not None
    assert [
        (topic["name"], [data["index"] for data in topic["partition_data"]]) for topic in done.sent["topic_data"]
    ] == [
        ("orders", [1]),
        ("payments", [0]),
    ]
    assert entries(done.answer, partitions="partition_responses") == [
        ("orders", 1, 0),
        ("orders", 0, NOT_LEADER),
        ("payments", 0, 0),
    ]
    refused = done.answer["responses"][0]["partition_responses"][1]
    assert (refused["base_offset"], refused["log_append_time_ms"], refused["log_start_offset"]) == (-1, -1, -1)
    assert done.answer["responses"][0]["partition_responses"][0]["base_offset"] == 101
    assert done.hits[0][:3] == ("lost", "error", "before_broker")


def test_a_produce_by_topic_id_matches_the_name_that_metadata_gave() -> None:
    plan = refuse_orders_0("Produce")
    done = exchange(plan, produce(("payments", 0), ("orders", 0), version=13), produced)
    assert done.answer is not None
    assert entries(done.answer, partitions="partition_responses") == [(PAYMENTS_ID, 0, 0), (ORDERS_ID, 0, NOT_LEADER)]


def test_a_produce_of_nothing_but_refused_partitions_never_reaches_the_broker() -> None:
    done = exchange(refuse_orders_0("Produce"), produce(("orders", 0)), produced)
    assert done.sent is None
    assert done.answer is not None
    assert entries(done.answer, partitions="partition_responses") == [("orders", 0, NOT_LEADER)]


def test_without_acks_a_refusal_closes_the_connection_after_the_rest_was_forwarded() -> None:
    plan = refuse_orders_0("Produce")
    alone = exchange(plan, produce(("orders", 0), acks=0))
    assert (alone.sent, alone.cut) == (None, Close())
    mixed = exchange(plan, produce(("orders", 0), ("orders", 1), acks=0))
    assert mixed.sent is not None
    assert [data["index"] for data in mixed.sent["topic_data"][0]["partition_data"]] == [1]
    assert mixed.cut == Close()


def test_refused_after_the_broker_the_batch_is_appended_all_the_same() -> None:
    plan = refuse_orders_0("Produce", phase="after_broker")
    asked = produce(("orders", 0), ("orders", 1))
    done = exchange(plan, asked, produced)
    assert done.sent == asked.body
    assert done.answer is not None
    assert entries(done.answer, partitions="partition_responses") == [("orders", 0, NOT_LEADER), ("orders", 1, 0)]
    assert done.answer["responses"][0]["partition_responses"][0]["base_offset"] == -1
    assert done.hits[0].phase == "after_broker"


def test_a_rule_after_the_broker_says_that_it_cannot_act_without_acks() -> None:
    plan = refuse_orders_0("Produce", phase="after_broker")
    assert exchange(plan, produce(("orders", 0), acks=0)).hits == ()
    assert plan.get("lost").hits == 0
    assert plan.get("lost").last_refusal == "a Produce with acks=0 has no answer"


def test_outside_its_window_a_rule_means_nothing_that_it_could_not_do() -> None:
    for after_ms, refused in ((0, 1), (60_000, 0)):
        match, trigger = {"api_key": "Produce", "topic": "orders"}, {"after_ms": after_ms, "times": "forever"}
        plan = knowing_plan(fault(name="lost", kind="drop_response", match=match, trigger=trigger))
        assert exchange(plan, produce(("orders", 0), acks=0)).hits == ()
        assert plan.get("lost").refused == refused


def test_a_fetch_without_a_session_is_answered_here_when_all_of_it_is_refused() -> None:
    done = exchange(refuse_orders_0("Fetch"), fetch(("orders", 0)), fetched())
    assert done.sent is None
    assert done.answer is not None
    partition = done.answer["responses"][0]["partitions"][0]
    assert (partition["error_code"], partition["high_watermark"], bytes(partition["records"])) == (NOT_LEADER, -1, b"")
    assert done.answer["session_id"] == 0


@pytest.mark.parametrize("version", [4, 12, 13])
def test_a_fetch_refused_in_part_reaches_the_broker_whole_and_without_waiting(version: int) -> None:
    plan = refuse_orders_0("Fetch")
    asked = fetch(("orders", 1), ("orders", 0), ("payments", 0), version=version)
    done = exchange(plan, asked, fetched(77))
    assert done.sent is not None
    assert done.answer is not None
    assert done.sent["topics"] == asked.body["topics"]
    assert (done.sent["max_wait_ms"], done.sent["min_bytes"]) == (0, 0)
    assert [(index, code) for _, index, code in entries(done.answer)] == [(1, 0), (0, NOT_LEADER), (0, 0)]
    assert [bytes(partition["records"]) for partition in done.answer["responses"][0]["partitions"]] == [b"data", b""]
    assert done.hits[0].phase == "after_broker"


def test_an_incremental_fetch_is_refused_for_what_its_session_asks_for() -> None:
    plan = refuse_orders_0("Fetch", times=2)
    opening = exchange(plan, fetch(("payments", 0), session=(0, 0)), fetched(9))
    assert opening.hits == ()
    added = exchange(plan, fetch(("orders", 0), session=(9, 1)), fetched(9))
    assert added.sent is not None, "the broker has to hear of it, or the session's epochs part"
    assert added.answer is not None
    assert entries(added.answer) == [("orders", 0, NOT_LEADER)]
    unnamed = exchange(plan, fetch(session=(9, 2)), fetched(9))
    assert unnamed.answer is not None
    assert entries(unnamed.answer) == [("orders", 0, NOT_LEADER)]
    assert unnamed.answer["session_id"] == 9


def test_a_forgotten_partition_is_not_asked_for_any_more() -> None:
    plan = refuse_orders_0("Fetch")
    exchange(plan, fetch(("payments", 0), session=(0, 0)), fetched(9))
    exchange(plan, fetch(("orders", 0), session=(9, 1)), fetched(9))
    done = exchange(plan, fetch(session=(9, 2), forgotten=(("orders", 0),)), fetched(9))
    assert done.hits == ()


def share_fetch(*partitions: tuple[str, int], epoch: int = 0, forgotten: tuple[tuple[str, int], ...] = ()) -> Request:
    """A ShareFetch of one member of a share group; `epoch` is that of its session."""
    ids = {"orders": ORDERS_ID, "payments": PAYMENTS_ID}
    body = {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": epoch,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_records": 10,
        "topics": [{"topic_id": ids[name], "partitions": [{"partition_index": index}]} for name, index in partitions],
        "forgotten_topics_data": [{"topic_id": ids[name], "partitions": [index]} for name, index in forgotten],
    }
    return request(ApiKey.ShareFetch, 1, body)


def shared(sent: Request) -> Body:
    """The answer of a broker with nothing to hand out."""
    return {"responses": []}


def told_shared(plan: Plan, asked: Request) -> tuple[Body | None, list[tuple[object, int, int]]]:
    """What goes to the broker, and the partitions of which the client is told, with their error codes."""
    done = exchange(plan, asked, shared)
    assert done.answer is not None
    return done.sent, [
        (topic["topic_id"], partition["partition_index"], partition["error_code"])
        for topic in done.answer["responses"]
        for partition in topic["partitions"]
    ]


def test_a_share_fetch_is_refused_for_what_its_session_asks_for_and_the_broker_keeps_the_session() -> None:
    plan = refuse_orders_0("ShareFetch")
    refused = [(ORDERS_ID, 0, NOT_LEADER)]
    sent, told = told_shared(plan, share_fetch(("orders", 0)))
    assert sent is not None, "the session opens at the broker"
    assert (sent["max_wait_ms"], sent["max_records"], told) == (0, 0, refused)
    sent, told = told_shared(plan, share_fetch(("payments", 0), epoch=1))
    assert sent is not None
    assert (sent["max_records"], told) == (10, refused), "others may have records"
    sent, told = told_shared(plan, share_fetch(epoch=3))  # a ShareAcknowledge was the second
    assert told == refused
    sent, told = told_shared(plan, share_fetch(epoch=4, forgotten=(("orders", 0),)))
    assert told == []


def test_a_share_session_whose_begin_was_not_seen_is_opened_anew() -> None:
    plan = refuse_orders_0("ShareFetch")
    done = exchange(plan, share_fetch(epoch=7), shared)
    assert done.answer is not None
    assert (done.sent, done.answer["error_code"]) == (None, ErrorCode.SHARE_SESSION_NOT_FOUND)
    assert exchange(plan, share_fetch(("payments", 0)), shared).hit_names == []


def test_an_election_refuses_what_a_share_session_asks_for_without_saying_so() -> None:
    plan = knowing_plan()
    plan.elections.start("payments", 0, 1, 0)  # from here on sessions are followed
    plan.elections.advance(10_000)
    assert told_shared(plan, share_fetch(("orders", 0)))[1] == []
    plan.elections.start("orders", 0, 1000, 10_000)
    assert told_shared(plan, share_fetch(epoch=1))[1] == [(ORDERS_ID, 0, NOT_LEADER)]


def test_a_session_whose_begin_was_not_seen_is_opened_anew() -> None:
    plan = refuse_orders_0("Fetch")
    done = exchange(plan, fetch(session=(9, 40)), fetched(9))
    assert done.sent is None
    assert done.answer is not None
    assert (done.answer["error_code"], done.answer["session_id"]) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert plan.get("lost").hits == 0
    assert done.hits[0].note != ""


@pytest.mark.parametrize(
    "match",
    [
        {"topic": "nobody's"},
        {"topic": "payments"},  # broker 2 has these alone
        {"topic": "orders", "partition_index": 7},
        {"topic": "orders", "client_id": "another"},
    ],
)
def test_a_session_whose_begin_was_not_seen_stays_where_no_rule_can_mean_it(match: dict[str, object]) -> None:
    plan = Plan(faults=[fault(kind="error", error_code=NOT_LEADER, match={"api_key": "Fetch", **match})])
    told = metadata_answer()
    for topic, node_id in zip(told["topics"], (1, 2), strict=True):
        for partition in topic["partitions"]:
            partition["isr_nodes"] = [node_id]
    plan.cluster.observe_metadata(told)
    done = exchange(plan, fetch(session=(9, 40)), fetched(9))
    assert (done.sent is not None, done.hits) == (True, ())


def test_a_session_whose_begin_was_not_seen_stays_where_no_election_can_touch_it() -> None:
    for index, stays in ((0, False), (7, True)):
        plan = Plan()
        told = metadata_answer(partitions=8)
        for topic in told["topics"]:
            topic["partitions"][7] |= {"leader_id": 2, "isr_nodes": [2]}
        plan.cluster.observe_metadata(told)
        plan.elections.start("orders", index, 1000, 0)
        done = exchange(plan, fetch(session=(9, 40)), fetched(9))
        assert (done.sent is not None) == stays


def test_a_topic_that_nobody_has_named_is_not_meant_by_a_question_for_all() -> None:
    plan = Plan(faults=[fault(kind="error", error_code=5, match={"topic": "nobody's"})])
    done = exchange(plan, metadata(), lambda sent: metadata_answer())
    assert (done.hits, plan.rules()[0].hits, plan.rules()[0].is_exhausted) == ((), 0, False)


def test_a_session_of_which_a_request_was_missed_is_opened_anew() -> None:
    plan = refuse_orders_0("Fetch")
    exchange(plan, fetch(("payments", 0), session=(0, 0)), fetched(9))
    exchange(plan, fetch(session=(9, 1)), fetched(9))
    done = exchange(plan, fetch(session=(9, 3)), fetched(9))
    assert done.answer is not None
    assert done.answer["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    reopened = exchange(plan, fetch(("orders", 0), session=(9, 0)), fetched(10))
    assert reopened.answer is not None
    assert entries(reopened.answer) == [("orders", 0, NOT_LEADER)]


def test_metadata_is_refused_in_the_answer_of_the_broker() -> None:
    plan = knowing_plan(
        fault(name="gone", kind="error", error_code=5, match={"api_key": "Metadata", "topic": "orders"})
    )
    done = exchange(plan, metadata(), lambda sent: metadata_answer())
    assert done.answer is not None
    orders, payments = done.answer["topics"]
    assert (orders["error_code"], orders["partitions"]) == (5, [])
    assert [partition["error_code"] for partition in payments["partitions"]] == [0, 0, 0]
    assert len(done.answer["brokers"]) == 2
    assert done.hits[0].phase == "after_broker"


def test_metadata_of_a_single_partition_loses_its_leader_and_nothing_else() -> None:
    match = {"api_key": "Metadata", "topic": "orders", "partition_index": 1}
    plan = knowing_plan(fault(kind="error", error_code="LEADER_NOT_AVAILABLE", match=match))
    done = exchange(plan, metadata("orders"), lambda sent: metadata_answer())
    assert done.answer is not None
    partitions = done.answer["topics"][0]["partitions"]
    assert [(partition["leader_id"], partition["error_code"]) for partition in partitions] == [(1, 0), (-1, 5), (1, 0)]
    assert partitions[1]["isr_nodes"] == [1, 2]


def test_metadata_for_other_topics_is_no_hit() -> None:
    plan = knowing_plan(fault(name="gone", kind="error", error_code=5, match={"api_key": 3, "topic": "orders"}))
    assert exchange(plan, metadata("payments"), lambda sent: metadata_answer()).hits == ()


def test_two_rules_refuse_two_partitions_of_one_request() -> None:
    plan = Plan(
        faults=[
            fault(kind="error", error_code=6, match={"partition_index": 0}),
            fault(kind="error", error_code=7, match={"partition_index": [0, 2]}),
        ]
    )
    done = exchange(plan, produce(("orders", 2), ("orders", 1), ("orders", 0)), produced)
    assert done.answer is not None
    assert [(index, code) for _, index, code in entries(done.answer, partitions="partition_responses")] == [
        (2, 7),
        (1, 0),
        (0, 6),
    ]
    assert done.hit_names == ["error-1", "error-2"]


@pytest.mark.parametrize("phase", ["before_broker", "after_broker"])
@pytest.mark.parametrize("asked", [produce(("orders", 0), ("orders", 1)), fetch(("orders", 0), ("orders", 1))])
def test_a_rule_for_all_partitions_refuses_those_that_a_rule_before_it_left(asked: Request, phase: str) -> None:
    rest = fault(name="rest", kind="error", error_code=3, phase=phase, match={"api_key": asked.header.api_key})
    plan = knowing_plan(fault(name="one", kind="error", error_code=6, phase=phase, match={"partition_index": 0}), rest)
    is_produce = asked.header.api_key == ApiKey.Produce
    done = exchange(plan, asked, produced if is_produce else fetched())
    assert done.answer is not None
    found = entries(done.answer, partitions="partition_responses" if is_produce else "partitions")
    assert [(index, code) for _, index, code in found] == [(0, 6), (1, 3)]
    assert done.hit_names == ["one", "rest"]


def test_a_rule_for_all_partitions_is_kept_where_rules_before_it_left_none() -> None:
    rest = fault(name="rest", kind="error", error_code=3, match={"api_key": "Produce"})
    plan = knowing_plan(fault(name="one", kind="error", error_code=6, match={"partition_index": 0}), rest)
    assert exchange(plan, produce(("orders", 0)), produced).hit_names == ["one"]
    assert exchange(plan, produce(("orders", 0)), produced).hit_names == ["rest"]


def test_offset_fetch_of_several_groups_is_refused_by_partition() -> None:
    groups = [
        {"group_id": "a", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]},
        {"group_id": "b", "topics": [{"name": "payments", "partition_indexes": [0]}]},
    ]
    plan = Plan(faults=[fault(kind="error", error_code=3, match={"topic": "orders", "partition_index": 1})])

    def broker(sent: object) -> dict[str, object]:
        return {
            "groups": [
                {
                    "group_id": "b",
                    "topics": [{"name": "payments", "partitions": [{"partition_index": 0, "committed_offset": 4}]}],
                },
                {
                    "group_id": "a",
                    "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
                },
            ]
        }

    done = exchange(plan, request(ApiKey.OffsetFetch, 8, {"groups": groups}), broker)
    assert done.answer is not None
    assert [group["group_id"] for group in done.answer["groups"]] == ["a", "b"]
    kept, refused = done.answer["groups"][0]["topics"][0]["partitions"]
    assert (kept["committed_offset"], kept["error_code"]) == (5, 0)
    assert (refused["committed_offset"], refused["error_code"]) == (-1, 3)


def test_what_the_broker_refuses_as_a_whole_stays_refused_as_a_whole() -> None:
    asked = request(
        ApiKey.OffsetFetch, 7, {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [0, 1]}]}
    )
    plan = Plan(faults=[fault(kind="error", error_code=3, match={"topic": "orders", "partition_index": 1})])
    done = exchange(plan, asked, lambda sent: {"error_code": 16, "topics": []})
    assert done.answer is not None
    assert (done.answer["error_code"], done.answer["topics"]) == (16, [])


PARTITION_APIS = [
    (key, version)
    for key in ApiKey
    for version in known_versions(key)
    if refuses_by_entry(key, version, NO_SUCH_PARTITION)
    and not is_altered(key)
    and request(key, version, random_body(request_codec(key, version).fields, Random(0))).partitions
]


@pytest.mark.parametrize(("key", "version"), PARTITION_APIS, ids=lambda part: getattr(part, "name", part))
def test_every_api_with_partitions_is_refused_in_part(key: ApiKey, version: int) -> None:
    random = Random(version)
    for _ in range(5):
        asked = request(key, version, random_body(request_codec(key, version).fields, random))
        keys = [partition_key(entry) for entry in asked.partitions]
        refused = set(random.sample(keys, random.randrange(1, len(keys) + 1)))
        action = refuse_some(asked, dict.fromkeys(refused, Failure(ErrorCode.INVALID_REQUEST)), asked.partitions)
        codec = response_codec(key, version)
        if isinstance(action, Forward) and action.merge is None:
            assert key == ApiKey.Produce
            assert asked.body["acks"] == 0
            continue
        if isinstance(action, Forward):
            sent = Request(asked.encode(action.body))
            assert not refused & {partition_key(entry) for entry in sent.partitions}
            assert action.merge is not None
            body = action.merge(response(sent, refusal(sent, NO_SUCH_PARTITION)).body)
        else:
            assert isinstance(action, Answer)
            assert refused == set(keys)
            body = action.body
        merged = list(iter_partitions(codec, codec.decode(codec.encode(body))))
        assert [entry[:3] for entry in merged] == [entry[:3] for entry in asked.partitions]
        for entry, asked_key in zip(merged, keys, strict=True):
            code = entry.fields.get("error_code", entry.fields.get("partition_error_code"))
            assert code == (ErrorCode.INVALID_REQUEST if asked_key in refused else NO_SUCH_PARTITION)


partition_lists = st.lists(
    st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 5)), min_size=1, max_size=8, unique=True
)


@given(partition_lists, st.sets(st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 5))))
def test_merged_answers_have_the_partitions_of_the_request_in_its_order(
    partitions: list[tuple[str, int]], refused: set[tuple[str, int]]
) -> None:
    asked = produce(*partitions)
    failures = {
        partition_key(entry): Failure(NOT_LEADER)
        for entry in asked.partitions
        if (entry.topic, entry.partition_index) in refused
    }
    action = refuse_some(asked, failures, asked.partitions)
    if isinstance(action, Forward):
        sent = type(asked)(asked.encode(action.body))
        assert action.merge is not None
        answer = action.merge(response(sent, produced(sent)).body)
    else:
        assert len(failures) == len(asked.partitions)
        answer = action.body  # type: ignore[union-attr]
    assert entries(answer, partitions="partition_responses") == [
        (entry.topic, entry.partition_index, NOT_LEADER if partition_key(entry) in failures else 0)
        for entry in asked.partitions
    ]
