"""Partitions shown under another leader: every answer agrees, and the true leader gets what the new one is asked."""

from __future__ import annotations

import pytest

from notleader.faults.plan import Plan
from notleader.faults.schema import FaultDocumentError
from notleader.proxy.wire.codec import known_versions
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.records import crc_is_valid, iter_batches
from notleader.proxy.wire.view import Request
from tests.faults.script import (
    Body,
    Exchange,
    batch,
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
OLD = connection(1)  # to broker 1, the true leader of orders
NEW = connection(2, listener="broker-2", node_id=2)


def moved_plan(**match: int) -> Plan:
    """Partition 0 of orders, or what the match says, is shown under broker 2."""
    plan = knowing_plan()
    plan.add(fault(name="move", kind="leader_move", match={"topic": "orders", **(match or {"partition_index": 0})}), 0)
    plan.link(OLD, 0)
    return plan


def told(done: Exchange) -> Body:
    assert done.answer is not None
    return done.answer


@pytest.mark.parametrize("version", known_versions(ApiKey.Metadata))
def test_metadata_names_the_new_leader_in_a_higher_epoch_and_the_old_one_again_later(version: int) -> None:
    plan = moved_plan()
    shown = []
    for _ in range(2):
        done = exchange(plan, metadata("orders", version=version), lambda _: metadata_answer())
        first, second, _ = told(done)["topics"][0]["partitions"]
        assert (second["leader_id"], second.get("leader_epoch", 5)) == (1, 5)
        shown.append((first["leader_id"], first.get("leader_epoch"), first["error_code"], done.hit_names))
        if plan.rules():
            plan.remove("move")
    has_epochs = version >= 7
    assert shown == [(2, 6 if has_epochs else None, 0, ["move"]), (1, 7 if has_epochs else None, 0, [])]


@pytest.mark.parametrize("version", [3, 9, 10, 13])
def test_the_old_leader_refuses_and_says_who_leads_and_where(version: int) -> None:
    done = exchange(moved_plan(), produce(("orders", 0), ("orders", 1), version=version), produced, on=OLD)
    assert done.sent is not None
    assert [data["index"] for data in done.sent["topic_data"][0]["partition_data"]] == [1]
    answer = told(done)
    assert [code for _, _, code in entries(answer, partitions="partition_responses")] == [NOT_LEADER, 0]
    assert done.hit_names == ["move"]
    if version >= 10:
        leader = answer["responses"][0]["partition_responses"][0]["current_leader"]
        assert leader == {"leader_id": 2, "leader_epoch": 6}
        assert answer["node_endpoints"] == [{"node_id": 2, "host": "b2", "port": 9092, "rack": None}]


def test_a_refusal_in_full_says_where_the_leader_is_too() -> None:
    answer = told(exchange(moved_plan(), produce(("orders", 0), version=10), on=OLD))
    assert [node["node_id"] for node in answer["node_endpoints"]] == [2]


def test_the_new_leader_takes_a_produce_and_the_true_one_gets_it() -> None:
    done = exchange(moved_plan(), produce(("payments", 0), ("orders", 0), ("orders", 1)), produced, on=NEW)
    assert done.sent is not None
    # Partition 1 wasn't moved: broker 2, who is asked for it in error, is let say so itself.
    assert [topic["name"] for topic in done.sent["topic_data"]] == ["payments", "orders"]
    assert [data["index"] for data in done.sent["topic_data"][1]["partition_data"]] == [1]
    assert [topic["name"] for topic in done.relayed[1]["topic_data"]] == ["orders"]
    assert [data["index"] for data in done.relayed[1]["topic_data"][0]["partition_data"]] == [0]
    assert entries(told(done), partitions="partition_responses")[:2] == [("payments", 0, 0), ("orders", 0, 0)]
    assert done.hits == (), "the client can't tell"


def test_a_produce_without_acks_is_relayed_and_not_answered() -> None:
    done = exchange(moved_plan(), produce(("orders", 0), acks=0), produced, on=NEW)
    assert (done.sent, list(done.relayed), done.answer, done.cut) == (None, [1], None, None)


def test_a_fetch_keeps_its_session_with_the_broker_that_it_goes_to() -> None:
    plan = moved_plan()
    opening = exchange(plan, fetch(("orders", 0), ("payments", 0), session=(0, 0)), fetched(9), on=NEW)
    assert opening.sent is not None
    assert [topic["topic"] for topic in opening.sent["topics"]] == ["orders", "payments"], "the session has all of it"
    assert opening.relayed[1]["session_epoch"] == -1
    assert [topic["topic"] for topic in opening.relayed[1]["topics"]] == ["orders"]
    assert opening.sent["max_wait_ms"] == opening.relayed[1]["max_wait_ms"] == 50
    assert told(opening)["session_id"] == 9

    def nothing_new(sent: object) -> Body:
        body = sent.body  # type: ignore[attr-defined]
        return fetched(0)(sent) if body["session_epoch"] == -1 else {"session_id": 9, "responses": []}  # type: ignore[arg-type]

    unnamed = exchange(plan, fetch(session=(9, 1)), nothing_new, on=NEW)
    assert unnamed.relayed[1]["topics"][0]["partitions"][0]["fetch_offset"] == 7
    assert entries(told(unnamed)) == [("orders", 0, 0)]
    plan.remove("move")
    after = exchange(plan, fetch(session=(9, 2)), nothing_new, on=NEW)
    assert entries(told(after)) == [("orders", 0, NOT_LEADER)], "the partition in the session has to move back"


def test_a_fetch_of_nothing_else_lets_the_true_leader_wait() -> None:
    done = exchange(moved_plan(), fetch(("orders", 0)), fetched(), on=NEW)
    assert done.sent is None
    assert done.relayed[1]["max_wait_ms"] == 500


def test_brokers_get_the_epochs_that_they_know() -> None:
    done = exchange(moved_plan(), fetch(("orders", 0), epoch=6), fetched(), on=NEW)
    assert done.relayed[1]["topics"][0]["partitions"][0]["current_leader_epoch"] == 5
    partition = {"partition_index": 0, "current_leader_epoch": 6, "timestamp": -1}
    body = {"replica_id": -1, "topics": [{"name": "orders", "partitions": [partition]}]}
    asked = exchange(moved_plan(), request(ApiKey.ListOffsets, 6, body), on=NEW)
    assert asked.relayed[1]["topics"][0]["partitions"][0]["current_leader_epoch"] == 5


def test_an_election_ends_with_the_leader_that_it_names() -> None:
    match = {"topic": "orders", "partition_index": 0}
    plan = knowing_plan(fault(name="lost", kind="leader_election", for_ms=100, new_leader="other", match=match))
    exchange(plan, produce(("orders", 0)), produced, now_ms=10)
    assert plan.elections.leader("orders", 0) is None
    plan.elections.advance(200_000)
    assert plan.elections.leader("orders", 0) == 2
    assert exchange(plan, produce(("orders", 0)), produced, now_ms=200, on=NEW).relayed.keys() == {1}
    plan.replace("lost", plan.get("lost").fault)
    assert (plan.elections.leader("orders", 0), plan.elections.bump("orders", 0)) == (1, 2)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"kind": "leader_election", "new_leader": "other"}, "there is no other broker"),
        ({"kind": "leader_election", "new_leader": 2}, "broker 2 is down"),
        ({"kind": "leader_move", "leader_id": 2, "match": {"topic": "orders"}}, "broker 2 is down"),
    ],
)
def test_nobody_who_is_down_is_elected(rule: Body, reason: str) -> None:
    plan = knowing_plan(fault(name="down", kind="broker_down", node_id=2))
    exchange(plan, metadata(), lambda _: metadata_answer())
    plan.add(fault(name="lost", **rule), 0)
    exchange(plan, produce(("orders", 0)), produced)
    exchange(plan, metadata(), lambda _: metadata_answer())
    assert plan.get("lost").last_refusal == reason
    assert plan.elections.leader("orders", 0) == 1


def shown_leader(plan: Plan) -> tuple[int, int]:
    """Who leads partition 0 of orders as Metadata tells it, and in which epoch."""
    done = exchange(plan, metadata("orders", version=9), lambda _: metadata_answer())
    first = told(done)["topics"][0]["partitions"][0]
    return first["leader_id"], first["leader_epoch"]


def test_the_leader_that_another_rule_shows_leads_again_once_its_broker_is_back() -> None:
    plan = moved_plan()
    assert shown_leader(plan) == (2, 6)
    plan.add(fault(name="down", kind="broker_down", node_id=2, election_ms=0), 0)
    plan.standing.advance(0)
    assert shown_leader(plan) == (1, 7), "of the two replicas in sync the other"
    plan.remove("down")
    assert shown_leader(plan) == (2, 8)
    plan.remove("move")
    assert shown_leader(plan) == (1, 9)


def test_a_move_that_goes_while_its_leader_is_away_changes_nothing_then_nor_later() -> None:
    plan = moved_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=2, election_ms=0), 0)
    plan.standing.advance(0)
    shown = [shown_leader(plan)]
    for rule in ("move", "down"):
        plan.remove(rule)
        shown.append(shown_leader(plan))
    assert shown == [(1, 7)] * 3


def test_a_client_with_sasl_ends_the_move_and_the_rule_says_why() -> None:
    plan = moved_plan()
    said: list[str] = []
    plan.on_refusal = lambda rule, reason: said.append(f"{rule.name}: {reason}")
    on = connection(3, listener="broker-2", node_id=2, uses_sasl=True)
    done = exchange(plan, produce(("orders", 0)), produced, on=on)
    assert done.relayed == {}
    assert entries(told(done), partitions="partition_responses") == [("orders", 0, NOT_LEADER)]
    assert plan.elections.leader("orders", 0) == 1
    assert said == [
        "move: clients with SASL are relayed with the proxy's own credentials only (--relay-sasl-mechanism)"
    ]
    plan = moved_plan()
    plan.can_log_in = True
    assert list(exchange(plan, produce(("orders", 0)), produced, on=on).relayed) == [1]


def test_a_move_to_a_broker_that_does_not_exist_says_so() -> None:
    plan = knowing_plan(fault(name="move", kind="leader_move", leader_id=9))
    exchange(plan, metadata(), lambda _: metadata_answer())
    assert plan.get("move").last_refusal == "the cluster has no broker 9"


def test_what_is_learned_later_moves_with_the_answer_that_tells_it() -> None:
    plan = Plan(faults=[fault(name="move", kind="leader_move", match={"topic": "orders"})])

    def learned(_: object) -> Body:
        plan.cluster.observe_metadata(metadata_answer())
        return metadata_answer()

    done = exchange(plan, metadata(), learned)
    leaders = [(entry["leader_id"], entry["leader_epoch"]) for entry in told(done)["topics"][0]["partitions"]]
    assert leaders == [(2, 6)] * 3
    assert done.hit_names == ["move"]


def test_a_move_can_only_be_matched_by_partitions() -> None:
    with pytest.raises(FaultDocumentError) as refused:
        fault(kind="leader_move", match={"client_id": "me", "node_id": 1})
    assert [problem.path for problem in refused.value.problems] == ["match.client_id", "match.node_id"]


def test_a_rolling_restart_takes_each_broker_down_in_turn() -> None:
    plan = knowing_plan()
    plan.add(fault(name="roll", kind="rolling_restart", down_ms=100, pause_ms=50, election_ms=20), 0)
    fates: list[list[str]] = []
    now_us = 0
    while (next_us := plan.next_change_us(now_us)) is not None or not fates:
        fates.append([plan.listener(f"broker-{node}", node, now_us).fate for node in (1, 2)])
        leaders = [plan.elections.leader("orders", 0), plan.elections.leader("payments", 0)]
        assert leaders == [None if fate == "refusing" else node for node, fate in zip((1, 2), fates[-1], strict=True)]
        plan.elections.advance(now_us + 30_000)
        assert plan.elections.leader("orders", 0) == (2 if fates[-1][0] == "refusing" else 1)
        now_us = max(now_us, plan.next_change_us(now_us) or next_us or 0)
        if len(fates) > 9:
            break
    assert fates[:4] == [["refusing", "open"], ["open", "open"], ["open", "refusing"], ["open", "open"]]


FIND = {"node_id": 1, "host": "b1", "port": 9092, "error_code": 0, "error_message": None}


def coordinator(plan: Plan, key: str, *, key_type: int = 0, version: int = 4, now_ms: float = 0) -> Body:
    """What broker 2 says of who coordinates, while by broker 2 itself it is broker 1."""
    body = {"key_type": key_type, "coordinator_keys": [key]} if version >= 4 else {"key_type": key_type, "key": key}
    answer = {"coordinators": [{"key": key, **FIND}]} if version >= 4 else FIND
    done = exchange(plan, request(ApiKey.FindCoordinator, version, body), lambda _: answer, on=NEW, now_ms=now_ms)
    told_answer = told(done)
    found: Body = told_answer["coordinators"][0] if version >= 4 else told_answer
    return found


def end_txn(name: str = "billing") -> Request:
    return request(ApiKey.EndTxn, 3, {"transactional_id": name, "producer_id": 1, "producer_epoch": 0})


def test_a_broker_that_is_down_for_good_coordinates_nothing_and_nobody_does_in_its_place() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1), 0)
    plan.link(OLD, 0)
    found = coordinator(plan, "g", now_ms=1e6)
    assert (found["error_code"], found["node_id"]) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    done = exchange(plan, end_txn(), lambda _: {"error_code": 16}, on=NEW)
    assert done.sent is not None


def test_metadata_does_not_list_a_broker_that_is_down() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=0), 0)
    plan.link(OLD, 0)
    shown = told(exchange(plan, metadata(), lambda _: metadata_answer(), on=NEW))
    assert [broker["node_id"] for broker in shown["brokers"]] == [2]
    assert shown["controller_id"] == 2
    assert {entry["leader_id"] for topic in shown["topics"] for entry in topic["partitions"]} == {2}


@pytest.mark.parametrize("version", known_versions(ApiKey.FindCoordinator)[1:6])
def test_after_the_election_another_broker_coordinates_and_gets_what_the_true_one_is_to_do(version: int) -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=500), 0)
    plan.link(OLD, 0)
    asked = lambda now_ms: coordinator(plan, "billing", key_type=1, version=version, now_ms=now_ms)  # noqa: E731
    assert asked(499)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert exchange(plan, end_txn(), lambda _: {"error_code": 16}, on=NEW, now_ms=499).relayed == {}
    assert [asked(500)[key] for key in ("node_id", "host", "error_code")] == [2, "b2", 0]
    done = exchange(plan, end_txn(), lambda sent: {"throttle_time_ms": 7, "error_code": 0}, on=NEW, now_ms=501)
    assert (done.sent, list(done.relayed), told(done)["throttle_time_ms"]) == (None, [1], 7)
    assert done.relayed[1]["transactional_id"] == "billing"
    # Of another name it says itself whether it coordinates it; and once the broker is back, of this one, too.
    assert exchange(plan, end_txn("other"), lambda _: {"error_code": 0}, on=NEW, now_ms=501).sent is not None
    plan.remove("down")
    assert asked(600)["node_id"] == 1
    assert exchange(plan, end_txn(), lambda _: {"error_code": 16}, on=NEW, now_ms=601).sent is not None


def test_the_group_of_a_name_is_not_the_transaction_of_it() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=0), 0)
    plan.link(OLD, 0)
    coordinator(plan, "billing", key_type=0)
    assert exchange(plan, end_txn(), lambda _: {"error_code": 0}, on=NEW).sent is not None
    commit = request(ApiKey.OffsetCommit, 8, {"group_id": "billing", "topics": []})
    assert list(exchange(plan, commit, lambda _: {"topics": []}, on=NEW).relayed) == [1]
    offsets = request(ApiKey.OffsetFetch, 8, {"groups": [{"group_id": "billing"}]})
    assert list(exchange(plan, offsets, lambda _: {"groups": []}, on=NEW).relayed) == [1]


def test_what_is_refused_in_part_is_relayed_in_part_to_the_true_coordinator() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=0), 0)
    plan.add(fault(name="e", kind="error", error_code=27, match={"api_key": "OffsetCommit", "partition_index": 0}), 0)
    plan.link(OLD, 0)
    coordinator(plan, "g")
    asked = [{"partition_index": index, "committed_offset": 5} for index in (0, 1)]
    commit = request(ApiKey.OffsetCommit, 8, {"group_id": "g", "topics": [{"name": "orders", "partitions": asked}]})
    answer = {"topics": [{"name": "orders", "partitions": [{"partition_index": 1, "error_code": 0}]}]}
    done = exchange(plan, commit, lambda _: answer, on=NEW)
    assert [each["partition_index"] for each in done.relayed[1]["topics"][0]["partitions"]] == [1]
    (topic,) = told(done)["topics"]
    assert {each["partition_index"]: each["error_code"] for each in topic["partitions"]} == {0: 27, 1: 0}


def test_who_cannot_be_relayed_for_is_told_that_nobody_coordinates() -> None:
    plan = knowing_plan()
    plan.add(fault(name="down", kind="broker_down", node_id=1, election_ms=0), 0)
    plan.link(OLD, 0)
    coordinator(plan, "billing", key_type=1)
    secured = connection(4, listener="broker-2", node_id=2, uses_sasl=True)
    assert exchange(plan, end_txn(), lambda _: {"error_code": 16}, on=secured).sent is not None
    assert coordinator(plan, "billing", key_type=1)["error_code"] == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_broker_that_goes_down_may_be_the_one_whose_exchange_was_struck() -> None:
    plan = knowing_plan()
    plan.add(fault(name="gone", kind="reset", match={"api_key": "EndTxn"}), 0)
    plan.add(
        fault(name="down", kind="broker_down", node_id="struck", election_ms=0, trigger={"after_fault": "gone"}), 0
    )
    assert plan.listener("broker-2", 2, 0).fate == "open"
    exchange(plan, end_txn(), on=NEW, now_ms=1)
    assert [plan.listener(f"broker-{node}", node, 2000).fate for node in (1, 2)] == ["open", "refusing"]
    lonely = knowing_plan(fault(name="down", kind="broker_down", node_id="struck", election_ms=0))
    lonely.link(OLD, 0)
    told(exchange(lonely, metadata(), lambda _: metadata_answer(), on=NEW))
    assert (lonely.get("down").hits, lonely.get("down").refused) == (0, 1)


def rack_fetch(epoch: int, version: int = 12, session: tuple[int, int] = (0, -1)) -> Request:
    """A consumer that says where it stands, and of which epoch it was told."""
    asked = fetch(("orders", 0), version=version, epoch=epoch, session=session)
    return Request(asked.encode({**asked.body, "rack_id": "r3"}))


FOLLOWER = connection(3, listener="broker-3", node_id=3)


def test_while_a_leader_is_moved_followers_are_not_read_and_the_true_leader_serves_all() -> None:
    plan = moved_plan()
    at_follower = exchange(plan, rack_fetch(6), fetched(), on=FOLLOWER)
    assert (at_follower.sent, entries(told(at_follower))) == (None, [("orders", 0, NOT_LEADER)])
    at_leader = exchange(plan, rack_fetch(6), fetched(), on=NEW)
    assert at_leader.relayed[1]["rack_id"] == "", "else it would name the follower next to the consumer, and no record"
    elsewhere = fetch(("payments", 0))
    unmoved = exchange(plan, Request(elsewhere.encode({**elsewhere.body, "rack_id": "r3"})), fetched(), on=NEW)
    assert unmoved.sent is not None
    assert unmoved.sent["rack_id"] == "r3"


def test_once_the_true_leader_leads_again_followers_serve_as_before() -> None:
    plan = moved_plan()
    plan.remove("move")
    at_follower = exchange(plan, rack_fetch(7), fetched(), on=FOLLOWER)
    assert at_follower.sent is not None
    assert at_follower.sent["topics"][0]["partitions"][0]["current_leader_epoch"] == 5
    at_leader = exchange(plan, rack_fetch(7), fetched(), on=OLD)
    assert at_leader.sent is not None
    assert at_leader.sent["rack_id"] == "r3"
    assert exchange(plan, rack_fetch(7), fetched(), on=NEW).sent is not None, "a follower, to which its rack leads"
    unaware = exchange(plan, fetch(("orders", 0)), fetched(), on=NEW)
    assert entries(told(unaware)) == [("orders", 0, NOT_LEADER)]
    assert entries(told(exchange(plan, rack_fetch(-1, version=10), fetched(), on=FOLLOWER))) == [
        ("orders", 0, NOT_LEADER)
    ]


def test_no_leader_sends_consumers_to_a_broker_that_is_away() -> None:
    plan = knowing_plan()
    known = metadata_answer()
    known["brokers"].append({"node_id": 3, "host": "b3", "port": 9092, "rack": "r3"})
    plan.cluster.observe_metadata(known)
    plan.add(fault(name="down", kind="broker_down", node_id=3), 0)
    plan.link(OLD, 0)
    racks = []
    for _ in range(2):
        done = exchange(plan, rack_fetch(5), fetched(), on=OLD)
        assert done.sent is not None
        racks.append(done.sent["rack_id"])
        if plan.rules():
            plan.remove("down")
    assert racks == ["", "r3"]


def batch_of(body: Body) -> bytes:
    return bytes(body["topic_data"][0]["partition_data"][0]["records"])


def test_a_damaged_batch_is_damaged_at_the_true_leader_too() -> None:
    plan = moved_plan()
    plan.add(fault(name="c", kind="corrupt", phase="before_broker", match={"topic": "orders"}))
    whole = batch()
    done = exchange(plan, produce(("orders", 0), records=whole), produced, on=NEW)
    assert (done.sent, list(done.relayed)) == (None, [1])
    assert batch_of(done.relayed[1]) != whole
    assert done.hit_names == ["c"]
    assert entries(told(done), partitions="partition_responses") == [("orders", 0, 0)]


def test_a_damaged_batch_is_refused_where_nobody_leads() -> None:
    plan = moved_plan()
    plan.add(fault(name="c", kind="corrupt", phase="before_broker", trigger={"times": 2}))
    refused = exchange(plan, produce(("orders", 0), records=batch()), produced, on=OLD)
    assert (refused.sent, entries(told(refused), partitions="partition_responses")) == (
        None,
        [("orders", 0, NOT_LEADER)],
    )
    plan.add(fault(name="e", kind="error", error_code=7, match={"topic": "payments"}))
    both = exchange(plan, produce(("orders", 1), ("payments", 0), records=batch()), produced, on=OLD)
    assert both.sent is not None
    assert [topic["name"] for topic in both.sent["topic_data"]] == ["orders"]
    assert batch_of(both.sent) != batch()
    assert entries(told(both), partitions="partition_responses") == [("orders", 1, 0), ("payments", 0, 7)]


def test_a_batch_can_be_damaged_twice() -> None:
    rules = [fault(kind="corrupt", phase="before_broker", part=part) for part in ("crc", "compression")]
    done = exchange(knowing_plan(*rules), produce(("orders", 0), records=batch()), produced)
    assert done.sent is not None
    damaged, whole = batch_of(done.sent), batch()
    assert damaged[22] & 7 == 7, "the codec"
    assert crc_is_valid(damaged, next(iter_batches(damaged))), "the second has put right what the first did"
    assert damaged[23:] == whole[23:]
