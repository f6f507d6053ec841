"""What several processes have counted is added up, each thing once."""

from __future__ import annotations

import copy
import pickle

from notleader.proxy.session.metrics import MAX_RULE_SERIES, OTHER_RULES, Counters


def counted(times: int) -> Counters:
    counters = Counters()
    for _ in range(times):
        counters.traffic.answered(0, 100)
        counters.error(0, 6)
        counters.hit("rule", "error", "before_broker")
        counters.traffic.unanswered[1] += 1
        counters.connections_opened["bootstrap"] += 1
        counters.traffic.client_bytes += 10
    counters.loop_lag_max_us = times
    return counters


def test_only_what_is_new_is_added() -> None:
    total, one, other = Counters(), counted(2), counted(3)
    total.absorb(one, None)
    total.absorb(other, None)
    before = copy.deepcopy(one)
    one.traffic.answered(0, 100)
    one.error(0, 6)
    one.connections_closed["bootstrap"] += 1
    total.absorb(one, before)
    total.absorb(other, other)
    assert total.traffic.latency_us[0][(100).bit_length()] == 6
    assert total.traffic.latency_sum_us[0] == 600
    assert (total.errors[0, 6], total.traffic.unanswered[1]) == (6, 5)
    assert total.injected == {("rule", "error", "before_broker"): 5}
    assert (total.connections_opened["bootstrap"], total.connections_closed["bootstrap"]) == (5, 1)
    assert (total.traffic.client_bytes, total.loop_lag_max_us) == (50, 3)


def test_the_rules_told_apart_are_bounded_over_all() -> None:
    total, one = Counters(), Counters()
    for number in range(MAX_RULE_SERIES):
        total.hit(f"r{number}", "error", "before_broker")
    one.hit("late", "error", "before_broker")
    total.absorb(one, None)
    assert total.injected[OTHER_RULES, "error", "before_broker"] == 1
    assert len(total.injected) == MAX_RULE_SERIES + 1


def test_counters_can_be_sent() -> None:
    sent = pickle.loads(pickle.dumps(counted(2)))
    assert sent.traffic.latency_us == counted(2).traffic.latency_us
    sent.traffic.answered(3, 1)
