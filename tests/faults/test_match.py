"""Which exchanges a rule means: every key, its forms, and how they combine."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from notleader.faults.match import Match
from notleader.faults.plan import Plan
from notleader.faults.selectors import Names
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request
from tests.faults.script import connection, exchange, fault, fetch, knowing_plan, metadata, produce, request


def hit(asked: Request, on: Any = None, **match: Any) -> bool:
    """Whether a rule with this match hits the request."""
    plan = knowing_plan(fault(kind="drop_request", match=match))
    return exchange(plan, asked, on=on).hit_names != []


PRODUCE = produce(("orders", 0), version=9)


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("Produce", True),
        (0, True),
        ("0", True),
        ("prod*", True),
        (["Fetch", "Produce"], True),
        ("!Produce", False),
        ("!Fetch", True),
        (["*", "!Produce"], False),
        ("Fetch", False),
    ],
)
def test_api_key(pattern: Any, meant: bool) -> None:
    assert hit(PRODUCE, api_key=pattern) is meant


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (9, True),
        ("9", True),
        ("3-9", True),
        (">=9", True),
        ("<=4", False),
        (">9", False),
        ("<10", True),
        ("!9", False),
        (["!9", "3-9"], False),
        ([1, "8-9"], True),
    ],
)
def test_api_version(pattern: Any, meant: bool) -> None:
    assert hit(PRODUCE, api_version=pattern) is meant


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [("orders", True), ("ord*", True), ("Orders", False), ("!orders", False), ("!pay*", True), (["a", "orders"], True)],
)
def test_topic(pattern: Any, meant: bool) -> None:
    assert hit(PRODUCE, topic=pattern) is meant


def test_topic_and_partition_have_to_agree_on_one_entry() -> None:
    asked = produce(("orders", 0), ("payments", 1))
    assert hit(asked, topic="orders", partition_index=0)
    assert not hit(asked, topic="orders", partition_index=1)
    assert hit(asked, partition_index="0-3")


def test_a_topic_is_matched_by_its_id_once_metadata_has_named_it() -> None:
    asked = produce(("orders", 0), version=13)
    assert hit(asked, topic="orders")
    assert hit(fetch(("orders", 0), version=16), topic="orders")
    plan = Plan(faults=[fault(kind="drop_request", match={"topic": "orders"})])
    assert exchange(plan, asked).hits == ()


def test_requests_about_topics_alone_are_meant_as_a_whole() -> None:
    asked = request(ApiKey.CreateTopics, 5, {"topics": [{"name": "orders", "num_partitions": 1}]})
    assert hit(asked, topic="orders")
    assert not hit(asked, topic="payments")
    assert hit(metadata("orders"), topic="orders")
    assert hit(metadata(), topic="orders")
    assert not hit(metadata(), topic="unheard-of")
    assert not hit(request(ApiKey.Metadata, 4, {"topics": []}), topic="orders")


def test_client_id() -> None:
    assert hit(PRODUCE, client_id="me")
    assert not hit(PRODUCE, client_id="you")
    nameless = request(ApiKey.Heartbeat, 0, {"group_id": "g"}, client_id=None)
    assert hit(nameless, client_id="!me")
    assert not hit(nameless, client_id="me")


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.JoinGroup, 5, {"group_id": "g"}),
        (ApiKey.OffsetCommit, 8, {"group_id": "g", "topics": []}),
        (ApiKey.OffsetFetch, 8, {"groups": [{"group_id": "x", "topics": []}, {"group_id": "g", "topics": []}]}),
        (ApiKey.FindCoordinator, 0, {"key": "g"}),
        (ApiKey.FindCoordinator, 4, {"key_type": 0, "coordinator_keys": ["g"]}),
        (ApiKey.DescribeGroups, 0, {"groups": ["g"]}),
        (ApiKey.DeleteGroups, 0, {"groups_names": ["g"]}),
        (ApiKey.ConsumerGroupHeartbeat, 0, {"group_id": "g"}),
        (ApiKey.TxnOffsetCommit, 3, {"group_id": "g", "transactional_id": "t", "topics": []}),
    ],
)
def test_group_id(key: ApiKey, version: int, body: dict[str, Any]) -> None:
    asked = request(key, version, body)
    assert hit(asked, group_id="g")
    assert not hit(asked, group_id="other")


@pytest.mark.parametrize(
    ("key", "version", "body"),
    [
        (ApiKey.InitProducerId, 2, {"transactional_id": "t"}),
        (ApiKey.AddPartitionsToTxn, 3, {"v3_and_below_transactional_id": "t"}),
        (ApiKey.AddPartitionsToTxn, 4, {"transactions": [{"transactional_id": "t"}]}),
        (ApiKey.EndTxn, 3, {"transactional_id": "t"}),
        (ApiKey.FindCoordinator, 3, {"key": "t", "key_type": 1}),
        (ApiKey.Produce, 9, {"transactional_id": "t", "acks": -1}),
    ],
)
def test_transactional_id(key: ApiKey, version: int, body: dict[str, Any]) -> None:
    asked = request(key, version, body)
    assert hit(asked, transactional_id="t*")
    assert not hit(asked, transactional_id="other")


def test_a_coordinator_of_transactions_is_no_groups() -> None:
    assert not hit(request(ApiKey.FindCoordinator, 3, {"key": "g", "key_type": 1}), group_id="g")


def test_a_request_that_names_no_group_matches_no_group() -> None:
    assert not hit(PRODUCE, group_id="*")


def test_node_listener_principal_and_connection() -> None:
    first, bootstrap = connection(1, principal="User:ann"), connection(2, listener="bootstrap", node_id=None)
    assert hit(PRODUCE, first, node_id=1)
    assert not hit(PRODUCE, bootstrap, node_id=1)
    assert hit(PRODUCE, bootstrap, listener="bootstrap")
    assert hit(PRODUCE, first, listener="broker-*")
    assert hit(PRODUCE, first, connection=1)
    assert not hit(PRODUCE, bootstrap, connection=1)
    assert hit(PRODUCE, bootstrap, connection="2-9")
    assert hit(PRODUCE, first, connection="10.0.0.1:4000")
    assert hit(PRODUCE, first, connection="10.0.0.1")
    assert hit(PRODUCE, first, connection="10.0.*")
    assert not hit(PRODUCE, bootstrap, connection="!10.0.0.2")
    assert hit(PRODUCE, first, principal="User:ann")


@pytest.mark.parametrize(
    ("match", "said"),
    [
        ({"api_key": "Prduce"}, "did you mean 'Produce'"),
        ({"api_key": []}, "an empty list matches nothing"),
        ({"api_key": "Zz*"}, "no API's name matches"),
        ({"api_key": ["Produce", "!Produce"]}, "no API is left"),
        ({"api_version": "9-3"}, "the range '9-3' is empty"),
        ({"api_version": "v3"}, "neither a number nor a range"),
        ({"partition_index": [3, -1]}, "counted from 0, got -1"),
        ({"partition_index": "-1"}, "neither a number nor a range"),
        ({"topic": ""}, "got an empty one"),
        ({"topic": {"a": 1}}, "expected"),
        ({"partition_index": True}, "expected"),
        ({"connection": [1, "10.*"]}, "either by number or by address"),
        ({"tpic": "orders"}, "Extra inputs"),
    ],
)
def test_what_is_no_match_is_refused(match: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Match.model_validate(match)


def test_a_match_is_written_back_as_it_was() -> None:
    written = {"api_key": ["Produce", 1], "topic": "!orders", "partition_index": "0-3", "connection": 2}
    assert Match.model_validate(written).model_dump(mode="json", exclude_unset=True) == written


# Of every key: what is meant, what isn't, and the forms of a glob or a range, a list, "all but", and both in one.
_ME = connection(2, listener="broker-3", node_id=3, client_addr="10.0.0.2:4000", principal="alice")
_COMMIT = request(
    ApiKey.TxnOffsetCommit, 3, {"transactional_id": "tx-1", "group_id": "billing-1", "producer_id": 1}, client_id="me-1"
)
_FORMS: dict[str, tuple[Request, list[Any], list[Any]]] = {
    "api_key": (PRODUCE, ["Produce", 0, "pro*", ["Fetch", 0], "!Fetch", ["P*", "!Fetch"]], ["Fetch", 1, "!Pro*"]),
    "api_version": (PRODUCE, [9, "9", "3-9", ">8", "<=9", [1, ">= 9"], "!8", [">3", "!8"]], [8, "<9", "!3-9"]),
    "topic": (PRODUCE, ["orders", "ord*", "[no]rders", ["x", "o?ders"], "!x", ["o*", "!x*"]], ["Orders", "!o*"]),
    "partition_index": (PRODUCE, [0, "0", "0-3", "<1", [4, 0], "!1", ["<5", "!1-3"]], [1, ">0", "!0", ["0-3", "!0"]]),
    "client_id": (PRODUCE, ["me", "m*", ["x", "me"], "!x", ["m*", "!mine"]], ["x", "!me", ["m*", "!me"]]),
    "group_id": (_COMMIT, ["billing-1", "billing-*", ["x", "b*"], "!x", ["b*", "!x"]], ["billing", "!billing-?"]),
    "transactional_id": (_COMMIT, ["tx-1", "tx*", ["x", "tx-?"], "!x", ["tx*", "!x"]], ["tx", "!tx-*"]),
    "node_id": (PRODUCE, [3, "3", "2-4", ">=3", [1, 3], "!1", ["1-5", "!4"]], [1, "!3", ["1-5", "!3"]]),
    "listener": (PRODUCE, ["broker-3", "broker-*", ["bootstrap", "b*3"], "!bootstrap"], ["!b*-?", ["b*", "!b*"]]),
    "connection": (
        PRODUCE,
        [2, "2", "1-3", ">1", [7, 2], "!3", "10.0.0.2", "10.0.0.2:4*", "10.0.*", "!10.0.0.3", ["x", "10*", "!10.1*"]],
        [3, "!2", "<2", "10.0.0.3", "!10.0.0.2", ["10*", "!10.0*"]],
    ),
    "principal": (PRODUCE, ["alice", "al*", ["bob", "alice"], "!bob", ["a*", "!bob"]], ["!alice", ["a*", "!al*"]]),
}  # fmt: skip


def test_every_key_of_a_match_has_its_forms_below() -> None:
    assert _FORMS.keys() == Match.model_fields.keys()


@pytest.mark.parametrize(
    ("key", "asked", "pattern", "meant"),
    [
        (key, asked, pattern, meant)
        for key, (asked, *sides) in _FORMS.items()
        for meant, side in zip((True, False), sides, strict=True)
        for pattern in side
    ],
)
def test_every_form_of_every_key(key: str, asked: Request, pattern: Any, meant: bool) -> None:
    assert hit(asked, on=_ME, **{key: pattern}) is meant


@pytest.mark.parametrize("key", ["topic", "client_id", "group_id", "transactional_id", "listener", "principal"])
def test_a_name_does_not_mean_what_has_none(key: str) -> None:
    nobody = connection(4, listener="", node_id=None)
    assert not hit(request(ApiKey.Heartbeat, 4, {"group_id": ""}, client_id=None), on=nobody, **{key: "a*"})


@pytest.mark.parametrize("glob", ["*a" * 200 + "b", "*[ab]" * 200 + "c", "*?*a" * 200 + "b"])
def test_a_glob_never_goes_back_in_a_long_name(glob: str) -> None:
    """One that did would try more ways than there is time for."""
    assert not Names(glob)("a" * 32_767)
    assert Names(glob)("ab" * 1000 + "a" * 200 + glob[-1])
