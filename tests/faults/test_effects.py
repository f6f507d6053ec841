"""What each hit did is said with the hit: blame is read from it."""

from __future__ import annotations

from typing import Any

import pytest

from notleader.faults.effects import Effect, altered
from notleader.faults.plan import Plan
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey

from .script import exchange, fault, knowing_plan, metadata, metadata_answer, produce, produced

NOT_LEADER, NO_LEADER = 6, 5


def did(rule: dict[str, Any], **at: Any) -> tuple[Effect, ...]:
    """The effects on a Produce for orders-0 and orders-1."""
    done = exchange(knowing_plan(fault(name="r", **rule)), produce(("orders", 0), ("orders", 1)), produced, **at)
    (hit,) = done.hits
    assert hit.rule_name == "r"
    return hit.effects


ONE = {"match": {"topic": "orders", "partition_index": 1}}
ONLY = frozenset({("orders", 1)})


@pytest.mark.parametrize(
    ("rule", "effects"),
    [
        ({"kind": "error", "error_code": 6}, (Effect("answered", 6),)),
        ({"kind": "error", "error_code": 6, **ONE}, (Effect("answered", 6, ONLY),)),
        (
            {"kind": "error", "error_code": 6, "phase": "after_broker", **ONE},
            (Effect("altered_answer", 6, ONLY),),
        ),
        ({"kind": "delay", "delay_ms": 5}, (Effect("held_request", held_us=5000),)),
        ({"kind": "delay", "delay_ms": 5, "phase": "after_broker"}, (Effect("held_answer", held_us=5000),)),
        ({"kind": "stall", "phase": "before_broker", **ONE}, (Effect("held_request"),)),
        ({"kind": "drop_request"}, (Effect("swallowed_request"),)),
        ({"kind": "drop_response"}, (Effect("swallowed_answer"),)),
        ({"kind": "close"}, (Effect("cut"),)),
        ({"kind": "reset"}, (Effect("cut"),)),
        ({"kind": "duplicate"}, (Effect("repeated"),)),
        ({"kind": "throttle", "throttle_time_ms": 10}, (Effect("altered_answer"),)),
        ({"kind": "throttle", "throttle_time_ms": 10, "muted": True}, (Effect("altered_answer"), Effect("muted"))),
    ],
)
def test_a_hit_says_what_it_did_and_to_which_partitions(rule: dict[str, Any], effects: tuple[Effect, ...]) -> None:
    assert did(rule) == effects


def test_an_election_says_whom_it_left_without_a_leader() -> None:
    lost = fault(name="lost", kind="leader_election", for_ms=5000, match={"topic": "orders", "partition_index": 0})
    plan = knowing_plan(lost)
    for _ in range(2):  # the one that begins it, and one that meets it
        done = exchange(plan, produce(("orders", 0), ("orders", 1)), produced, now_ms=1)
        assert [hit.effects for hit in done.hits] == [(Effect("answered", NOT_LEADER, frozenset({("orders", 0)})),)]
    told = exchange(plan, metadata(), lambda _: metadata_answer(), now_ms=2)
    only = frozenset({("orders", 0)})
    assert [hit.effects for hit in told.hits] == [(Effect("altered_answer", NO_LEADER, only),)]


def test_an_error_that_the_broker_gave_itself_is_no_effect() -> None:
    of_broker = {"topics": [{"error_code": 6}], "throttle_time_ms": 0}
    codec = response_codec(ApiKey.CreateTopics, 2)
    assert altered(codec, of_broker, {**of_broker, "throttle_time_ms": 9}).error_code is None
    assert altered(codec, of_broker, {"topics": [{"error_code": 6}, {"error_code": 6}]}).error_code == NOT_LEADER


def test_a_changed_answer_says_of_which_partitions_also_where_the_request_named_only_the_topic() -> None:
    # Nobody has asked for this topic before: which partitions it has is in the answer alone.
    plan = Plan(faults=[fault(name="wrong", kind="wrong_leader", **ONE)])
    done = exchange(plan, metadata("orders"), lambda _: metadata_answer())
    assert [hit.effects for hit in done.hits] == [(Effect("altered_answer", None, ONLY),)]
