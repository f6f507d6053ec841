"""What a broker tolerates the proxy tolerates: bytes behind a body, and bodies that it can not read."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import Conversation, request, response
from tests.tools.corpus import EVERY_ANSWERED

ELSEWHERE: dict[str, dict[str, Any]] = {
    "error": {"kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "match": {"topic": "other"}},
    "after": {"kind": "error", "error_code": 6, "phase": "after_broker", "match": {"topic": "other"}},
    "election": {"kind": "leader_election", "match": {"topic": "other", "partition_index": 0}, "for_ms": 60000},
    "group": {"kind": "drop_response", "match": {"group_id": "nobody"}},
}


def with_surplus(whole: bytes, surplus: bytes) -> bytes:
    """A whole request with bytes behind its body."""
    return pack(">i", len(whole) - 4 + len(surplus)) + whole[4:] + surplus


@pytest.mark.parametrize("surplus", [b"\0", b"\0\0\0", b"\xff" * 8])
@pytest.mark.parametrize("rule", ELSEWHERE.values(), ids=ELSEWHERE)
def test_every_recorded_request_passes_a_rule_for_elsewhere_with_what_follows_its_body(
    rule: dict[str, Any], surplus: bytes
) -> None:
    for name, whole in EVERY_ANSWERED:
        talk = Conversation(rule)
        sent = with_surplus(whole, surplus)
        passed = b"".join(command[1] for command in talk.client(sent) if command[0] == "to_broker")
        assert passed == sent, name
        assert talk.events == [], name


def test_librdkafkas_question_for_all_topics_passes() -> None:
    """All of its versions from 2.3 on put three bytes behind it; Kafka 3.9 to 4.3 ignore them."""
    talk = Conversation(ELSEWHERE["election"])
    asked = with_surplus(request(ApiKey.Metadata, 12, 1, {"topics": None}), b"\0\0\0")
    assert talk.client(asked) == [("to_broker", asked)]
    answer = response(ApiKey.Metadata, 12, 1, {"brokers": [], "topics": []})
    assert [command[0] for command in talk.broker(answer)] == ["to_client"]


def test_what_follows_the_body_follows_the_altered_one_too() -> None:
    rule = {"kind": "error", "error_code": 6, "match": {"topic": "hit"}}
    talk = Conversation(rule)
    topics = [{"name": name, "partition_data": [{"index": 0, "records": None}]} for name in ("hit", "other")]
    asked = request(ApiKey.Produce, 9, 1, {"acks": -1, "topic_data": topics})
    (command,) = (c for c in talk.client(with_surplus(asked, b"xyz")) if c[0] == "to_broker")
    alone = request(ApiKey.Produce, 9, 1, {"acks": -1, "topic_data": topics[1:]})
    assert command[1] == with_surplus(alone, b"xyz")


def test_a_body_that_can_not_be_read_is_the_brokers_to_judge() -> None:
    """Rules that would have to read it are not applicable, and told so; those that need not still act."""
    reads = {
        "name": "reads",
        "kind": "error",
        "error_code": 6,
        "match": {"topic": "t"},
        "trigger": {"times": "forever"},
    }
    delays = {"name": "delays", "kind": "delay", "delay_ms": 5, "match": {"api_key": "Produce"}}
    talk = Conversation(reads, delays)
    whole = request(ApiKey.Produce, 9, 1, {"acks": -1, "topic_data": [{"name": "t", "partition_data": []}]})
    torn = pack(">i", len(whole) - 6) + whole[4:-2]
    talk.client(torn)
    assert ("to_broker", torn) in talk.at(10)
    assert talk.events == []
    assert (talk.plan.get("reads").hits, talk.plan.get("reads").refused) == (0, 1)
    assert "can't be read" in (talk.plan.get("reads").last_refusal or "")
    assert talk.plan.get("delays").hits == 1


@pytest.mark.parametrize(("api_key", "lowest"), [(-5, 0), (-5, -3), (0, -3), (9999, -1)])
def test_versions_that_no_broker_has_are_passed_on(api_key: int, lowest: int) -> None:
    talk = Conversation()
    talk.client(request(ApiKey.ApiVersions, 3, 1))
    keys = [{"api_key": api_key, "min_version": lowest, "max_version": 3}]
    answer = response(ApiKey.ApiVersions, 3, 1, {"api_keys": keys})
    assert ("to_client", answer) in talk.broker(answer)
    assert talk.events == []


@pytest.mark.parametrize("side", ["client", "broker"])
def test_a_mistake_of_our_own_closes_one_connection_and_says_so(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"kind": "error", "error_code": 6, "phase": "after_broker", "match": {"topic": "t"}}
    talk = Conversation(rule, {**rule, "phase": "before_broker"})
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": None}]}]
    asked = request(ApiKey.Produce, 9, 1, {"acks": -1, "topic_data": topics})
    if side == "broker":
        talk.plan.remove(talk.plan.rules()[1].name)
        talk.client(asked)

    def fails(*_: Any, **__: Any) -> None:
        raise KeyError("no such thing")

    monkeypatch.setattr(talk.plan, "on_request" if side == "client" else "on_response", fails)
    commands = talk.client(asked) if side == "client" else talk.broker(response(ApiKey.Produce, 9, 1))
    assert [command[0] for command in commands] == ["wire_error", "close"]
    assert talk.events[0] == ("wire_error", f"{side}: notleader failed at this: KeyError: 'no such thing'")
