"""Two workers ask one plan: what the scripts of the faults say holds through both (`make test-workers` runs all)."""

from __future__ import annotations

from collections import Counter

import pytest

from notleader.faults.plan import Plan
from notleader.proxy.wire.names import ErrorCode
from tests.faults import script, test_election, test_moves
from tests.faults.script import connection, exchange, fault, fetch, fetched, produce, produced
from tests.faults.workers import seen_by_a_worker


@pytest.fixture(autouse=True)
def _two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "seen", seen_by_a_worker)


def refusals(plan: Plan, connections: int) -> Counter[int]:
    """One Fetch over each connection; how often each error came back."""
    answers = (exchange(plan, fetch(("orders", 0)), fetched(), on=connection(nth)).answer for nth in range(connections))
    return Counter(answer["responses"][0]["partitions"][0]["error_code"] for answer in answers if answer)


def test_times_are_counted_once_for_both() -> None:
    plan = Plan(faults=[fault(name="e", kind="error", error_code=6, match={"topic": "orders"}, trigger={"times": 7})])
    assert refusals(plan, 40) == {0: 33, ErrorCode.NOT_LEADER_OR_FOLLOWER: 7}
    assert plan.get("e").hits == 7


def test_a_rule_added_later_is_seen_at_the_next_request() -> None:
    plan = Plan()
    assert refusals(plan, 4) == {0: 4}
    plan.add(fault(name="e", kind="error", error_code=6, match={"topic": "orders"}, trigger={"times": "forever"}))
    assert refusals(plan, 4) == {6: 4}
    plan.switch("e", False)
    assert refusals(plan, 4) == {0: 4}
    plan.switch("e", True)
    plan.remove("e")
    assert refusals(plan, 4) == {0: 4}


def test_what_no_rule_means_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty rules of other topics: the control plane is asked what they mean, and never what to do."""
    from notleader.proxy.control.workers.answers import Answers

    asked: Counter[str] = Counter()
    answer = Answers.__call__

    def count(self: Answers, what: str, *arguments: object) -> object:
        asked[what] += 1
        return answer(self, what, *arguments)

    monkeypatch.setattr(Answers, "__call__", count)
    rules = [
        fault(name=f"e{number}", kind="error", error_code=6, match={"api_key": "Produce", "topic": f"other-{number}"})
        for number in range(20)
    ]
    plan = Plan(faults=rules)
    for nth in range(10):
        assert exchange(plan, produce(("orders", 0)), produced, on=connection(nth)).hits == ()
    assert asked["on_request"] == asked["on_response"] == 0
    assert asked["meant"] == asked["interest"] == 2, "once for each worker"
    exchange(plan, produce(("other-3", 0)), produced)
    assert plan.get("e3").hits == asked["on_request"] == 1


def test_a_rule_of_one_client_is_asked_about_for_that_client_only() -> None:
    plan = Plan(faults=[fault(name="e", kind="error", error_code=6, match={"client_id": "else*"})])
    assert refusals(plan, 2) == {0: 2}
    assert plan.get("e").hits == 0


def test_scripts_whose_decisions_cannot_be_sent_as_they_are() -> None:
    test_moves.test_the_new_leader_takes_a_produce_and_the_true_one_gets_it()
    test_moves.test_a_fetch_keeps_its_session_with_the_broker_that_it_goes_to()
    test_election.test_the_shown_epoch_of_a_refusal_is_not_raised_twice()
