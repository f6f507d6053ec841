"""Looking rules up by what they name finds the same hits as asking each of them, and asks few."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from notleader.faults.plan import Plan
from notleader.faults.selectors import Names
from notleader.proxy.wire.names import ApiKey
from tests.faults.script import connection, fault, produce, request

TOPICS = ("orders", "payments", "audit", "o", "[x]")
GROUPS = ("billing", "shipping")
CLIENTS = ("me", "you")
NAMED = {"Produce": {"topic"}, "Metadata": {"topic"}, "Heartbeat": {"group_id"}, "OffsetCommit": {"topic", "group_id"}}


def rules(rng: Random) -> list[dict[str, Any]]:
    made = []
    for number in range(40):
        match: dict[str, Any] = {}
        if rng.random() < 0.6:
            match["topic"] = rng.choice((*TOPICS[:4], ["orders", "audit"], "o*", "!orders"))
        if rng.random() < 0.3:
            match["client_id"] = rng.choice((*CLIENTS, "m*"))
        if rng.random() < 0.3:
            match["group_id"] = rng.choice((*GROUPS, "*ing"))
        if rng.random() < 0.3:
            names = {"topic", "group_id"} & set(match)
            apis = [api for api in ("Produce", "Metadata", "Heartbeat", "OffsetCommit") if names <= NAMED[api]]
            match["api_key"] = rng.choice(apis)
        trigger = {"times": "forever"}
        made.append({"name": f"r{number}", "kind": "delay", "delay_ms": 1, "match": match, "trigger": trigger})
    return made


def requests(rng: Random) -> list[Any]:
    topic, client, group = rng.choice(TOPICS), rng.choice(CLIENTS), rng.choice(GROUPS)
    other = rng.choice(TOPICS)
    commit = {"group_id": group, "topics": [{"name": topic, "partitions": [{"partition_index": 0}]}]}
    return [
        produce((topic, 0), (other, 1)),
        request(ApiKey.Metadata, 9, {"topics": [{"name": topic}, {"name": other}]}, client),
        request(ApiKey.Metadata, 9, {"topics": None}, client),
        request(ApiKey.Heartbeat, 4, {"group_id": group}, client),
        request(ApiKey.OffsetCommit, 7, commit, client),
        request(ApiKey.DeleteTopics, 4, {"topic_names": [topic]}, client),
        request(ApiKey.FindCoordinator, 4, {"coordinator_keys": [group]}, client),
    ]


@pytest.mark.parametrize("seed", range(15))
def test_the_same_rules_are_hit(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = Random(seed)
    documents = rules(rng)
    indexed = Plan(seed=1, faults=[fault(**document) for document in documents])
    with monkeypatch.context() as patched:
        patched.setattr("notleader.faults.index._FEW", 10_000)
        plain = Plan(seed=1, faults=[fault(**document) for document in documents])
    for number in range(20):
        for one in requests(rng):
            first, second = (plan.on_request(connection(), one, number) for plan in (indexed, plain))
            assert (first.hits, first.actions) == (second.hits, second.actions)
    assert [rule.hits for rule in indexed.rules()] == [rule.hits for rule in plain.rules()]
    assert any(rule.hits for rule in indexed.rules())


def test_rules_for_other_topics_are_not_asked() -> None:
    documents = [
        {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"topic": f"t{n}"}} for n in range(99)
    ]
    plan = Plan(faults=[fault(name=f"r{number}", **document) for number, document in enumerate(documents)])
    index = plan._indexes[ApiKey.Produce]
    assert [rule.name for rule in index.meaning("me", lambda: (), lambda: ["t7", "t3", "none"])] == ["r3", "r7"]


def test_a_name_is_literal_without_patterns_and_exceptions() -> None:
    assert Names(["a", "b.c"]).literals == {"a", "b.c"}
    assert Names("a*").literals is Names(["a", "!b"]).literals is Names("[x]").literals is None
