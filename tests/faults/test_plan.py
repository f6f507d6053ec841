"""The plan: rules in order, what they cost, how they count, and that a seed repeats them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from notleader.faults.actions import Answer, Close, Drop, Hold, Reset
from notleader.faults.effects import error_codes
from notleader.faults.needs import REQUEST, REQUEST_BODY, RESPONSE_BODY
from notleader.faults.plan import NOTHING, Plan
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request
from tests.faults.script import (
    batch,
    connection,
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

FOREVER = {"times": "forever"}
_FETCHED = {"responses": [{"topic": "orders", "partitions": [{"partition_index": 0, "records": batch()}]}]}
HEARTBEAT = request(ApiKey.Heartbeat, 4, {"group_id": "g", "member_id": "m"})


def test_an_empty_plan_has_no_interest_and_says_nothing() -> None:
    plan = Plan()
    assert plan.interest(ApiKey.Produce, 9) == 0
    assert plan.on_request(connection(), produce(("orders", 0)), 0) is NOTHING
    assert plan.on_connect(connection(), 0) is NOTHING


def test_interest_says_how_much_has_to_be_seen() -> None:
    plan = Plan(
        faults=[
            fault(kind="delay", delay_ms=1, match={"api_key": "Heartbeat"}),
            fault(kind="drop_request", match={"api_key": "Fetch", "topic": "orders"}),
            fault(kind="drop_response", match={"api_key": "Metadata"}),
            fault(kind="close", phase="connection"),
        ]
    )
    assert plan.interest(ApiKey.Heartbeat, 4) == REQUEST
    assert plan.interest(ApiKey.Fetch, 12) == REQUEST | REQUEST_BODY
    assert plan.interest(ApiKey.Metadata, 12) == REQUEST | RESPONSE_BODY
    assert plan.interest(ApiKey.Produce, 9) == 0


def test_a_rule_for_every_api_is_asked_of_unknown_ones_too() -> None:
    plan = Plan(faults=[fault(kind="delay", delay_ms=1)])
    assert plan.interest(32_000, 0) == REQUEST


def test_a_header_rule_decodes_no_body() -> None:
    class NoBody(Request):
        @property
        def body(self) -> dict[str, object]:
            raise AssertionError("the body was decoded")

    plan = Plan(faults=[fault(kind="delay", delay_ms=1, match={"api_key": "Produce", "client_id": "me"})])
    decision = plan.on_request(connection(), NoBody(produce(("orders", 0)).frame), 0)
    assert len(decision.actions) == 1


def test_delays_add_up_and_the_first_terminal_action_wins() -> None:
    plan = Plan(
        faults=[
            fault(name="a", kind="delay", delay_ms=1.5, trigger=FOREVER),
            fault(name="b", kind="delay", delay_ms=2, trigger=FOREVER),
            fault(name="c", kind="close", trigger=FOREVER),
            fault(name="d", kind="drop_request", trigger=FOREVER),
        ]
    )
    done = exchange(plan, HEARTBEAT)
    assert done.delays_us == [1500, 2000]
    assert done.cut == Close()
    assert done.hit_names == ["a", "b", "c"]
    assert plan.get("d").hits == 0


def test_what_never_reaches_the_broker_is_no_hit_after_it() -> None:
    plan = Plan(
        faults=[
            fault(name="late", kind="delay", delay_ms=1, phase="after_broker", trigger=FOREVER),
            fault(name="lost", kind="drop_request", trigger={"skip": 1}),
        ]
    )
    exchange(plan, HEARTBEAT, lambda _: {})
    exchange(plan, HEARTBEAT, lambda _: {})
    assert (plan.get("late").hits, plan.get("lost").hits) == (1, 1)


def test_every_kind_of_the_first_hour_does_what_it_says() -> None:
    for document, cut in (
        ({"kind": "drop_request"}, Drop(True)),
        ({"kind": "drop_request", "later": "pass"}, Drop(False)),
        ({"kind": "drop_response"}, Drop(True)),
        ({"kind": "close"}, Close()),
        ({"kind": "close", "phase": "after_broker"}, Close()),
        ({"kind": "reset"}, Reset(None)),
        ({"kind": "reset", "phase": "after_broker", "after_bytes": 7}, Reset(7)),
    ):
        done = exchange(Plan(faults=[fault(**document)]), HEARTBEAT, lambda _: {})
        assert done.cut == cut, document
        assert done.answer is None
    assert exchange(Plan(faults=[fault(kind="reset", phase="after_broker")]), HEARTBEAT, lambda _: {}).sent is not None


def test_a_stall_holds_until_it_is_released_or_removed() -> None:
    plan = Plan(faults=[fault(name="s", kind="stall", phase="before_broker")])
    done = exchange(plan, HEARTBEAT, now_ms=5)
    assert done.held == [Hold("s", None)]
    assert plan.is_held("s")
    plan.release("s")
    assert not plan.is_held("s")
    plan.replace("s", fault(kind="stall"))
    assert plan.is_held("s")
    plan.remove("s")
    assert not plan.is_held("s")


def test_a_stall_for_a_time_names_its_end() -> None:
    plan = Plan(faults=[fault(name="s", kind="stall", for_ms=20)])
    assert exchange(plan, HEARTBEAT, lambda _: {}, now_ms=5, answered_ms=7).held == [Hold("s", 27_000)]


def test_a_rule_that_replaces_another_holds_nothing_of_what_that_one_held() -> None:
    plan = Plan(faults=[fault(name="s", kind="stall", phase="before_broker")])
    (first,) = exchange(plan, HEARTBEAT).held
    assert plan.is_held(first.rule_name, first.number)
    plan.replace("s", fault(kind="stall", phase="before_broker"))
    (second,) = exchange(plan, HEARTBEAT).held
    assert not plan.is_held(first.rule_name, first.number)
    assert plan.is_held(second.rule_name, second.number)


def test_a_rule_that_was_released_strikes_no_more() -> None:
    plan = Plan(faults=[fault(name="s", kind="stall", phase="before_broker", trigger=FOREVER)])
    exchange(plan, HEARTBEAT)
    plan.release("s")
    assert exchange(plan, HEARTBEAT).held == []
    assert (plan.get("s").hits, plan.get("s").is_exhausted) == (1, True)


@pytest.mark.parametrize(
    ("document", "spoilt", "meant", "broker"),
    [
        (
            {"kind": "corrupt"},
            fetch(("orders", 0)),
            fetch(("orders", 0)),
            [lambda _: {"responses": []}, lambda _: _FETCHED],
        ),
        (
            {"kind": "throttle", "throttle_time_ms": 5, "match": {"api_key": "Produce"}},
            produce(("orders", 0), version=9, acks=0),
            produce(("orders", 0), version=9),
            [produced, produced],
        ),
    ],
)
def test_a_rule_that_could_do_nothing_has_not_struck(
    document: dict[str, object], spoilt: Request, meant: Request, broker: list[Callable[[Request], dict[str, object]]]
) -> None:
    plan = Plan(faults=[fault(name="r", **document)])
    before = exchange(plan, spoilt, broker[0])
    assert before.hits == ()
    rule = plan.get("r")
    assert (rule.hits, rule.refused, rule.is_exhausted) == (0, 1, False)
    after = exchange(plan, meant, broker[1])
    assert after.hit_names == ["r"]
    assert after.hits[0].effects
    assert (rule.hits, rule.is_exhausted) == (1, True)


def test_a_metadata_request_that_names_no_topic_is_not_refused_for_one() -> None:
    plan = knowing_plan(fault(name="r", kind="error", error_code=5, match={"api_key": "Metadata"}))
    exchange(plan, request(ApiKey.Metadata, 12, {"topics": []}), lambda _: {**metadata_answer(), "topics": []})
    assert plan.get("r").hits == 0
    refused = exchange(plan, metadata("orders"), lambda _: metadata_answer())
    assert refused.answer is not None
    assert [topic["error_code"] for topic in refused.answer["topics"]] == [5, 5]


@pytest.mark.parametrize("phase", ["before_broker", "after_broker"])
@pytest.mark.parametrize(
    ("asked", "broker", "match"),
    [
        (produce(("orders", 0), ("payments", 0)), produced, {"api_key": "Produce"}),
        (produce(("orders", 0), ("payments", 0)), produced, {"api_key": "Produce", "topic": "orders"}),
        (fetch(("orders", 0)), fetched(), {"api_key": "Fetch"}),
        (fetch(("orders", 0)), fetched(), {"api_key": "Fetch", "topic": "orders"}),
        (metadata("orders"), lambda _: metadata_answer(), {"api_key": "Metadata"}),
        (metadata("orders"), lambda _: metadata_answer(), {"api_key": "Metadata", "topic": "orders"}),
        (
            metadata("orders"),
            lambda _: metadata_answer(),
            {"api_key": "Metadata", "topic": "orders", "partition_index": 0},
        ),
    ],
)
def test_two_rules_for_the_same_strike_one_exchange_each(
    phase: str, asked: Request, broker: Callable[[Request], dict[str, object]], match: dict[str, object]
) -> None:
    plan = knowing_plan(
        *[fault(name=str(code), kind="error", error_code=code, phase=phase, match=match) for code in (5, 29)]
    )
    told = []
    for _ in range(3):
        done = exchange(plan, asked, broker)
        told.append((done.hit_names, sorted(set(error_codes(done.answer)))))
    assert told == [(["5"], [5]), (["29"], [29]), ([], [])]


def test_behind_a_lost_answer_no_rule_is_asked() -> None:
    plan = Plan(
        faults=[
            fault(name="first", kind="drop_response", match={"api_key": "Produce", "topic": "orders"}),
            fault(name="second", kind="error", error_code=6, phase="after_broker", match={"api_key": "Produce"}),
        ]
    )
    assert exchange(plan, produce(("orders", 0), ("payments", 0)), produced).hit_names == ["first"]
    assert exchange(plan, produce(("orders", 0), ("payments", 0)), produced).hit_names == ["second"]


def test_a_partition_that_one_rule_refuses_is_left_out_of_what_the_next_means() -> None:
    plan = Plan(
        faults=[
            fault(name="first", kind="error", error_code=5, match={"api_key": "Produce", "topic": "orders"}),
            fault(name="second", kind="error", error_code=29, match={"api_key": "Produce", "topic": "*"}),
        ]
    )
    done = exchange(plan, produce(("orders", 0), ("payments", 0)), produced)
    assert done.hit_names == ["first", "second"]
    assert done.answer is not None
    answered = {topic["name"]: topic["partition_responses"][0]["error_code"] for topic in done.answer["responses"]}
    assert answered == {"orders": 5, "payments": 29}


def test_an_exhausted_rule_costs_nothing_and_is_still_listed() -> None:
    plan = Plan(faults=[fault(name="once", kind="close", match={"api_key": "Heartbeat"})])
    exchange(plan, HEARTBEAT)
    assert plan.interest(ApiKey.Heartbeat, 4) == 0
    assert [(rule.name, rule.hits, rule.is_exhausted) for rule in plan.rules()] == [("once", 1, True)]


def test_a_thousand_rules_for_other_apis_are_not_looked_at() -> None:
    plan = Plan(faults=[fault(kind="close", match={"api_key": "Fetch"}) for _ in range(1000)])
    assert plan.interest(ApiKey.Heartbeat, 4) == 0
    assert plan.rules_for(ApiKey.Heartbeat) == ()


def test_names_are_given_where_there_are_none_and_taken_once() -> None:
    plan = Plan(faults=[fault(kind="close"), fault(kind="close"), fault(kind="delay", delay_ms=1)])
    assert [rule.name for rule in plan.rules()] == ["close-1", "close-2", "delay-1"]
    with pytest.raises(ValueError, match="already in force"):
        plan.add(fault(name="close-1", kind="reset"))


def test_replacing_keeps_the_place_and_starts_anew() -> None:
    plan = Plan(faults=[fault(name="a", kind="close"), fault(name="b", kind="close")])
    exchange(plan, HEARTBEAT)
    rule = plan.replace("a", fault(kind="drop_request"))
    assert (rule.name, rule.hits, rule.fault.name) == ("a", 0, "a")
    assert [each.fault.kind for each in plan.rules()] == ["drop_request", "close"]


def test_every_change_is_a_new_generation() -> None:
    plan = Plan()
    generations = [plan.generation]
    for change in (
        lambda: plan.add(fault(name="a", kind="stall")),
        lambda: plan.replace("a", fault(kind="stall")),
        lambda: plan.release("a"),
        lambda: plan.remove("a"),
        lambda: plan.elections.start("orders", 0, 1, 0),
        plan.clear,
    ):
        change()
        generations.append(plan.generation)
    assert generations == sorted(set(generations))


def test_rules_of_connections_count_connections() -> None:
    plan = Plan(
        faults=[
            fault(name="second", kind="reset", phase="connection", match={"connection": 2}, trigger=FOREVER),
            fault(name="bootstrap", kind="close", phase="connection", match={"listener": "bootstrap"}),
        ]
    )
    assert plan.on_connect(connection(1), 0) is NOTHING
    assert plan.on_connect(connection(2), 0).actions == (Reset(),)
    decision = plan.on_connect(connection(3, listener="bootstrap", node_id=None), 0)
    assert (decision.actions, decision.hits[0][:3]) == ((Close(),), ("bootstrap", "close", "connection"))
    assert plan.on_connect(connection(4, listener="bootstrap", node_id=None), 0) is NOTHING


def test_counts_for_each_partition_on_its_own() -> None:
    plan = knowing_plan(fault(kind="error", error_code=6, match={"topic": "orders"}, trigger={"per": "partition"}))
    both = exchange(plan, produce(("orders", 0), ("orders", 1)), produced)
    assert both.sent is None
    third = exchange(plan, produce(("orders", 0), ("orders", 2)), produced)
    assert third.sent is not None
    assert [data["index"] for data in third.sent["topic_data"][0]["partition_data"]] == [0]


def test_a_partition_is_the_same_by_name_and_by_id() -> None:
    plan = knowing_plan(fault(kind="error", error_code=6, match={"topic": "orders"}, trigger={"per": "partition"}))
    assert exchange(plan, produce(("orders", 0), version=12), produced).hits
    assert not exchange(plan, produce(("orders", 0), version=13), produced).hits
    assert exchange(plan, produce(("orders", 1), version=13), produced).hits
    assert not exchange(plan, produce(("orders", 1), version=12), produced).hits


def test_counts_for_each_connection_and_each_client_on_its_own() -> None:
    for per, second_is_hit in (("connection", True), ("client", False)):
        plan = Plan(faults=[fault(kind="close", trigger={"per": per})])
        first, second = connection(1, client_id="me"), connection(2, client_id="me")
        assert exchange(plan, HEARTBEAT, on=first).hits
        assert not exchange(plan, HEARTBEAT, on=first).hits
        assert bool(exchange(plan, HEARTBEAT, on=second).hits) is second_is_hit


def test_a_version_that_nobody_can_decode_says_so() -> None:
    plan = Plan(faults=[fault(name="e", kind="error", error_code=6, match={"api_key": "Produce", "topic": "orders"})])
    frame = produce(("orders", 0)).frame
    unknown = Request(frame[:2] + (99).to_bytes(2, "big") + frame[4:])
    assert plan.on_request(connection(), unknown, 0) is NOTHING
    assert (plan.get("e").hits, plan.get("e").refused) == (0, 1)
    assert "v99" in plan.get("e").last_refusal


def test_a_version_without_a_place_for_the_error_says_so() -> None:
    plan = Plan(faults=[fault(name="e", kind="error", error_code=41, match={"api_key": "DescribeLogDirs"})])
    done = exchange(plan, request(ApiKey.DescribeLogDirs, 1, {"topics": None}))
    assert done.sent is not None
    assert "no entry to carry" in plan.get("e").last_refusal


def test_the_same_seed_and_traffic_give_the_same_decisions() -> None:
    def run(seed: int) -> list[object]:
        plan = knowing_plan(
            fault(name="a", kind="delay", delay_ms={"distribution": "pareto", "min_ms": 1}, trigger=FOREVER),
            fault(name="b", kind="error", error_code=6, trigger={"times": "forever", "probability": 0.4}),
            seed=seed,
        )
        seen: list[object] = []
        for now_ms in range(40):
            asked = produce(("orders", now_ms % 3)) if now_ms % 2 else fetch(("orders", now_ms % 3))
            done = exchange(plan, asked, produced if now_ms % 2 else fetched(), now_ms=now_ms)
            seen.append((done.delays_us, done.hits, done.sent))
        return seen

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_a_local_answer_is_encodable_in_the_version_of_the_request() -> None:
    plan = Plan(faults=[fault(kind="error", error_code="REBALANCE_IN_PROGRESS")])
    decision = plan.on_request(connection(), HEARTBEAT, 0)
    assert isinstance(decision.actions[-1], Answer)
    assert exchange(Plan(faults=[fault(kind="error", error_code=27)]), HEARTBEAT).answer == {
        "throttle_time_ms": 0,
        "error_code": 27,
    }


def test_a_rule_that_is_switched_off_rests_with_its_counters_and_its_place() -> None:
    plan = Plan(
        faults=[
            fault(name="first", kind="close", trigger={"times": 2}),
            fault(name="second", kind="reset", trigger=FOREVER),
            fault(name="stands", kind="refuse"),
        ]
    )
    assert plan.on_request(connection(), HEARTBEAT, 0).hits[0].rule_name == "first"
    for name in ("first", "stands"):
        plan.switch(name, False)
    assert plan.on_request(connection(), HEARTBEAT, 0).hits[0].rule_name == "second"
    assert plan.listener("bootstrap", None, 0).fate == "open"
    assert [rule.name for rule in plan.rules()] == ["first", "second", "stands"]
    for name in ("first", "stands"):
        plan.switch(name, True)
    assert plan.on_request(connection(), HEARTBEAT, 0).hits[0].rule_name == "first"
    assert plan.get("first").hits == 2
    assert plan.listener("bootstrap", None, 0).fate == "refusing"


def test_what_a_switched_off_rule_holds_is_let_go() -> None:
    plan = Plan(faults=[fault(name="held", kind="stall")])
    assert plan.is_held("held")
    plan.switch("held", False)
    assert not plan.is_held("held")


def test_what_never_hit_is_known_also_when_it_is_gone() -> None:
    plan = Plan(faults=[fault(name=name, kind="close", match={"client_id": name}) for name in ("me", "a", "b", "c")])
    exchange(plan, HEARTBEAT)
    assert list(plan.unhit()) == ["a", "b", "c"]
    plan.remove("me")
    plan.remove("a")
    plan.replace("b", fault(kind="stall", match={"client_id": "me"}))
    exchange(plan, HEARTBEAT)
    plan.clear()
    assert plan.unhit() == {"a": "close", "c": "close"}
    plan.add(fault(name="me", kind="close", match={"client_id": "you"}))
    assert plan.unhit() == {"a": "close", "c": "close"}, "it has hit before"
    plan.add(fault(name="c", kind="stall", match={"client_id": "you"}))
    assert plan.unhit() == {"a": "close", "c": "stall"}, "what it is now"
    plan.clear()
    assert plan.unhit() == {"a": "close", "c": "stall"}


def test_changes_together_are_one_for_whoever_is_told() -> None:
    plan = Plan(faults=[fault(name="old", kind="close")])
    generation = plan.generation
    with plan.together():
        plan.add(fault(name="a", kind="reset", match={"api_key": "Heartbeat"}))
        plan.add(fault(name="b", kind="refuse"))
        plan.remove("old")
    assert plan.generation == generation + 1
    assert [hit.rule_name for hit in plan.on_request(connection(), HEARTBEAT, 0).hits] == ["a"]
    assert plan.listener("bootstrap", None, 0).fate == "refusing"


def test_what_was_changed_together_before_an_error_holds() -> None:
    plan = Plan()
    with pytest.raises(ValueError, match="already in force"), plan.together():
        plan.add(fault(name="a", kind="reset"))
        plan.add(fault(name="a", kind="reset"))
    assert [hit.rule_name for hit in plan.on_request(connection(), HEARTBEAT, 0).hits] == ["a"]
