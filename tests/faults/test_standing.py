"""Rules that stand: listeners and connections, and when they change."""

from __future__ import annotations

import pytest

from notleader.faults.actions import Reset, Shape, Silence
from notleader.faults.plan import Plan
from notleader.faults.schema import FaultDocumentError
from notleader.faults.standing import UNTOUCHED
from tests.faults.script import connection, fault, knowing_plan, produce

BOOTSTRAP = connection(2, listener="bootstrap", node_id=None)


def test_refuse_is_of_listeners_and_leaves_connections_alone() -> None:
    plan = Plan(faults=[fault(name="r", kind="refuse", match={"node_id": 1})])
    state = plan.listener("broker-1", 1, 0)
    assert (state.fate, [hit.rule_name for hit in state.hits]) == ("refusing", ["r"])
    assert plan.listener("broker-1", 1, 1).hits == ()
    assert plan.listener("broker-2", 2, 0).fate == "open"
    assert plan.listener("bootstrap", None, 0).fate == "open"
    assert plan.link(connection(), 0) == UNTOUCHED
    assert plan.get("r").hits == 1


def test_a_black_hole_swallows_new_and_open_connections() -> None:
    plan = Plan(faults=[fault(kind="blackhole", match={"listener": "bootstrap"}, release="delayed")])
    assert plan.listener("bootstrap", None, 0).fate == "silent"
    assert plan.link(BOOTSTRAP, 0).silence == Silence(True, "delayed", 3_000_000)
    assert plan.link(connection(), 0).silence is None
    only_new = Plan(faults=[fault(kind="blackhole", established=False)])
    assert only_new.listener("bootstrap", None, 0).fate == "silent"
    assert only_new.link(BOOTSTRAP, 0).silence is None


def test_a_rule_for_some_connections_does_not_touch_the_listener() -> None:
    plan = Plan(faults=[fault(kind="blackhole", match={"connection": 1})])
    assert plan.listener("broker-1", 1, 0).fate == "open"
    assert plan.link(connection(1), 0).silence is not None
    assert plan.link(connection(3), 0).silence is None


def test_silence_wins_over_refusal() -> None:
    plan = Plan(faults=[fault(kind="refuse"), fault(kind="blackhole")])
    assert plan.listener("bootstrap", None, 0).fate == "silent"


def test_shapes_add_up_in_the_order_of_the_rules() -> None:
    plan = Plan(
        faults=[
            fault(kind="bandwidth", rate_bytes_per_s=1000, direction="response"),
            fault(kind="slice", average_bytes=10, variation_bytes=50, delay_us=5),
        ]
    )
    assert plan.link(connection(), 0).shapes == (
        Shape("response", bytes_per_s=1000),
        Shape("request", slice_bytes=10, slice_variation_bytes=9, slice_delay_us=5),
        Shape("response", slice_bytes=10, slice_variation_bytes=9, slice_delay_us=5),
    )


def test_a_window_opens_and_closes_and_names_its_next_change() -> None:
    plan = Plan()
    plan.add(fault(name="r", kind="refuse", trigger={"after_ms": 10, "for_ms": 5}), now_us=1_000_000)
    times = (1_000_000, 1_009_999, 1_010_000, 1_014_999, 1_015_000)
    story = [(plan.listener("bootstrap", None, now_us).fate, plan.next_change_us(now_us)) for now_us in times]
    assert story == [
        ("open", 1_010_000),
        ("open", 1_010_000),
        ("refusing", 1_015_000),
        ("refusing", 1_015_000),
        ("open", None),
    ]
    assert plan.get("r").is_exhausted


def test_without_a_window_it_stands_until_it_is_removed() -> None:
    plan = Plan(faults=[fault(name="r", kind="refuse")])
    assert plan.listener("bootstrap", None, 0).fate == "refusing"
    assert plan.next_change_us(0) is None
    plan.remove("r")
    assert plan.listener("bootstrap", None, 1).fate == "open"


@pytest.mark.parametrize(("how", "fate"), [("killed", "refusing"), ("powered_off", "silent")])
def test_broker_down_takes_its_listener_and_its_connections(how: str, fate: str) -> None:
    plan = Plan(faults=[fault(name="down", kind="broker_down", node_id=1, how=how)])
    assert plan.listener("broker-1", 1, 0).fate == fate
    assert plan.listener("broker-2", 2, 0).fate == "open"
    state = plan.link(connection(), 0)
    assert (state.cut, state.silence) == ((Reset(), None) if how == "killed" else (None, Silence(release="discard")))
    assert plan.link(BOOTSTRAP, 0).cut is None
    assert plan.get("down").hits == 2


def test_where_no_broker_is_left_nobody_can_bootstrap() -> None:
    plan = knowing_plan()
    brokers = sorted(plan.cluster.brokers)
    for node_id in brokers:
        assert plan.listener("bootstrap", None, 0).fate == "open"
        assert plan.link(BOOTSTRAP, 0).cut is None
        plan.add(fault(name=f"down-{node_id}", kind="broker_down", node_id=node_id), 0)
    assert plan.listener("bootstrap", None, 0).fate == "refusing"
    assert plan.link(BOOTSTRAP, 0).cut == Reset()
    plan.add(fault(name="stranger", kind="broker_down", node_id=99, how="powered_off"), 0)
    assert plan.listener("bootstrap", None, 0).fate == "refusing", "who isn't there has nothing to do with it"
    plan.remove(f"down-{brokers[0]}")
    assert plan.listener("bootstrap", None, 1).fate == "open"
    assert plan.link(BOOTSTRAP, 1).cut is None


def test_removing_broker_down_ends_its_elections() -> None:
    plan = Plan(faults=[fault(name="down", kind="broker_down", node_id=1)])
    plan.standing.advance(0)
    plan.elections.start("orders", 0, 1e9, 0, "down")
    plan.elections.start("orders", 1, 1e9, 0, "someone-else")
    plan.remove("down")
    assert [election.partition_index for election in plan.elections.list(1)] == [1]


def test_removing_broker_down_moves_every_partition_back_whose_election_is_over() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=10), 0)
    plan.standing.advance(0)
    plan.elections.advance(20_000)
    assert len(plan.elections.moves()) == 3
    plan.remove("down")
    assert plan.elections.moves() == ()


def test_a_standing_rule_says_which_keys_mean_nothing_to_it() -> None:
    with pytest.raises(FaultDocumentError) as caught:
        fault(kind="refuse", match={"topic": "orders"}, trigger={"times": 3, "skip": 1, "for_ms": 5})
    assert [problem.path for problem in caught.value.problems] == ["match.topic", "trigger.skip", "trigger.times"]
    fault(kind="refuse", trigger={"times": "forever", "for_ms": 5})


@pytest.mark.parametrize(
    ("direction", "ways"),
    [("request", ("request",)), ("response", ("response",)), ("both", ("request", "response"))],
)
def test_a_shape_is_of_the_ways_it_names(direction: str, ways: tuple[str, ...]) -> None:
    made = {
        "bandwidth": fault(kind="bandwidth", rate_bytes_per_s=1000, direction=direction),
        "limit": fault(kind="limit", limit_bytes=7, direction=direction),
        "slice": fault(kind="slice", direction=direction),
    }
    for kind, rule in made.items():
        shapes = Plan(faults=[rule]).link(connection(), 0).shapes
        assert tuple(shape.direction for shape in shapes) == ways, kind


def test_a_black_hole_can_end_as_a_host_that_was_started_again() -> None:
    plan = Plan(faults=[fault(kind="blackhole", release="discard")])
    assert plan.link(connection(), 0).silence == Silence(True, "discard", 0)


def test_a_rolling_restart_can_be_one_of_power_cuts() -> None:
    plan = knowing_plan()
    plan.add(fault(kind="rolling_restart", how="powered_off", down_ms=100, match={"node_id": 2}), 0)
    assert [plan.listener(f"broker-{node}", node, 0).fate for node in (1, 2)] == ["open", "silent"]
    on = connection(2, listener="broker-2", node_id=2)
    assert plan.link(on, 0).silence == Silence(release="discard")
    assert plan.listener("broker-2", 2, 100_000).fate == "open"


def test_what_waits_for_another_rule_stands_from_that_ones_first_strike_on() -> None:
    cut = fault(name="cut", kind="close", match={"api_key": "Produce"}, trigger={"skip": 1})
    gone = fault(kind="refuse", trigger={"after_fault": "cut", "for_ms": 5})
    plan = Plan(faults=[gone, cut])
    told: list[int] = []
    plan.on_start = lambda: told.append(1)
    plan.on_request(connection(), produce(("orders", 0)), 1000)
    assert plan.listener("bootstrap", None, 1000).fate == "open"
    assert plan.next_change_us(1000) is None
    plan.on_request(connection(), produce(("orders", 0)), 2000)
    assert told == [1]
    assert plan.listener("bootstrap", None, 2000).fate == "refusing"
    assert plan.next_change_us(2000) == 7000
    assert plan.listener("bootstrap", None, 7000).fate == "open"


def test_what_waits_counts_nothing_before() -> None:
    cut = fault(name="cut", kind="error", error_code=6, match={"api_key": "Produce"}, trigger={"skip": 1})
    then = fault(name="then", kind="close", match={"api_key": "Produce"}, trigger={"after_fault": "cut"})
    plan = Plan(faults=[then, cut])
    hit = [
        [each.rule_name for each in plan.on_request(connection(), produce(("orders", 0)), at).hits]
        for at in (1, 2, 3, 4)
    ]
    assert hit == [[], ["cut"], ["then"], []]


def test_what_is_added_after_the_strike_it_waits_for_begins_at_once() -> None:
    plan = Plan(faults=[fault(name="cut", kind="close", match={"api_key": "Produce"})])
    plan.on_request(connection(), produce(("orders", 0)), 1000)
    plan.add(fault(kind="refuse", trigger={"after_fault": "cut"}), 9000)
    assert plan.listener("bootstrap", None, 9000).fate == "refusing"
