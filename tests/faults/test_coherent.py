"""Whatever an answer tells of brokers, leaders, replicas in sync and epochs agrees with what Metadata tells.

Which answers tell of any is read off Kafka's definitions: a new field is judged here, or has a reason why not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from notleader.faults.plan import Plan
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.view import Request
from tests.faults.script import ORDERS_ID, Body, connection, exchange, fault, metadata, produce, produced, request

EPOCH: Final = 5
END: Final = 42
LEADERS: Final = {0: 1, 1: 2, 2: 3}
BROKERS: Final = {node_id: {"host": f"b{node_id}", "port": 9092} for node_id in (1, 2, 3)}

_QUORUM = "the quorum of controllers, which speaks on listeners of its own and lives on"
_LOG = "the epoch of a record in the log, which the proxy doesn't rewrite"
_SHARE = "the state of a share group, which its coordinator keeps"
EXCLUDED: Final[dict[tuple[ApiKey, str], str]] = {
    **{
        (api_key, ""): _QUORUM
        for api_key in (
            ApiKey.Vote,
            ApiKey.BeginQuorumEpoch,
            ApiKey.EndQuorumEpoch,
            ApiKey.DescribeQuorum,
            ApiKey.FetchSnapshot,
            ApiKey.UpdateRaftVoter,
            ApiKey.AlterPartition,
        )
    },
    (ApiKey.ListOffsets, "leader_epoch"): _LOG,
    (ApiKey.OffsetFetch, "committed_leader_epoch"): _LOG,
    (ApiKey.OffsetForLeaderEpoch, "leader_epoch"): "what is asked for; see the test below",
    (ApiKey.ReadShareGroupStateSummary, "leader_epoch"): _SHARE,
    (ApiKey.DescribeShareGroupOffsets, "leader_epoch"): _SHARE,
    (ApiKey.ListPartitionReassignments, ""): "replicas as they are assigned, which no lie changes",
}


def tells(field: Field) -> bool:
    return field.entity == "brokerId" or field.name in ("leader_id", "isr_nodes") or field.name.endswith("leader_epoch")


def telling(fields: tuple[Field, ...]) -> Iterator[str]:
    """The names of all fields of a message that tell of brokers, leaders or epochs."""
    for field in fields:
        if tells(field):
            yield field.name
        yield from telling(field.fields)


def is_judged(api_key: ApiKey, version: int) -> bool:
    names = set(telling(response_codec(api_key, version).fields))
    return any((api_key, name) not in EXCLUDED and (api_key, "") not in EXCLUDED for name in names)


ANSWERS: Final = [(api_key, version) for api_key in ApiKey for version in known_versions(api_key)]
JUDGED: Final = [each for each in ANSWERS if is_judged(*each)]


def test_what_is_judged_is_what_the_definitions_have() -> None:
    assert {api_key.name for api_key, _ in JUDGED} == {
        *("Metadata", "DescribeTopicPartitions", "DescribeCluster", "FindCoordinator"),
        *("Produce", "Fetch", "ShareFetch", "ShareAcknowledge"),
    }
    said = {
        (api_key, name) for each in ANSWERS for api_key in each[:1] for name in telling(response_codec(*each).fields)
    }
    for api_key, name in EXCLUDED:
        assert (api_key, name) in said or not name, "an exclusion that excludes nothing"


# ---- a truthful cluster --------------------------------------------------------------------------

_INDEXES = ("partition_index", "partition", "index")
_REFUSING = (ApiKey.Produce, ApiKey.Fetch, ApiKey.ShareFetch, ApiKey.ShareAcknowledge)  # who names leaders then
_GIVEN: Final[Body] = {
    "acks": -1,
    "session_epoch": -1,
    "replica_id": -1,
    "key": "g",
    "coordinator_keys": ["g"],
    "cluster_id": "c",
    "controller_id": 1,
    "current_leader_epoch": -1,
    "preferred_read_replica": 1,
    "endpoint_type": 1,
    "response_partition_limit": 100,
    "member_id": "m",
    "group_id": "g",
}


def filled(fields: tuple[Field, ...], api_key: ApiKey, index: int = 0) -> Body:
    """A message that tells the truth of the cluster in every field, of this partition where it speaks of one."""
    names = {field.name for field in fields}
    return {field.name: _value(field, names, api_key, index) for field in fields}


def _value(field: Field, names: set[str], api_key: ApiKey, index: int) -> Any:
    if field.is_array and field.kind == "struct":
        inner = {each.name for each in field.fields}
        if {"host", "port"} <= inner:
            ids = next(each.name for each in field.fields if each.entity == "brokerId")
            nodes = [1] if "key" in inner else sorted(BROKERS)
            return [{**filled(field.fields, api_key), ids: node_id, **BROKERS[node_id]} for node_id in nodes]
        if inner.intersection(_INDEXES):
            return [filled(field.fields, api_key, each) for each in LEADERS]
        if {"topic", "name", "topic_id"} & inner:
            return [filled(field.fields, api_key)]
        return []
    if field.is_array and field.entity == "brokerId":
        return sorted(BROKERS) if field.name in ("replica_nodes", "isr_nodes") else []
    if field.is_array:
        return _GIVEN.get(field.name, [])
    if field.kind == "struct":
        return filled(field.fields, api_key, index) if field.name == "current_leader" else {}
    if field.name in _INDEXES:
        return index
    if field.name in ("name", "topic") and field.kind == "string":
        return "orders"
    if field.name == "topic_id":
        return ORDERS_ID
    if field.name == "leader_id":
        return LEADERS[index]
    if field.name == "leader_epoch":
        return EPOCH
    if field.name == "node_id" and "host" in names:
        return 1
    if field.name in ("host", "port") and "node_id" in names:
        return BROKERS[1][field.name]
    if field.name == "error_code" and api_key in _REFUSING and names.intersection(_INDEXES):
        return int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if field.kind == "records":
        return None if field.nullable else b""
    return _GIVEN.get(field.name, field.default)


def truth(asked: Request) -> Body:
    """What a broker answers that knows all, and leads nothing of what it is asked."""
    api_key, version, *_ = asked.header
    return filled(response_codec(api_key, version).fields, ApiKey(api_key))


def question(api_key: ApiKey, version: int) -> Request:
    return request(api_key, version, filled(request_codec(api_key, version).fields, api_key))


# ---- the lies ------------------------------------------------------------------------------------

ORDERS_0: Final = {"topic": "orders", "partition_index": 0}


def told_plan(*rules: Body) -> Plan:
    """A plan with these rules from second 0 on, begun by a Produce; it knows the cluster."""
    plan = Plan()
    plan.cluster.observe_metadata(truth(metadata("orders", version=12)))
    for rule in rules:
        plan.add(fault(**rule), 0)
    plan.link(connection(1), 0)
    exchange(plan, produce(("orders", 0)), produced)
    return plan


def gone_again(plan: Plan) -> Plan:
    plan.remove(plan.rules()[0].name)
    plan.link(connection(1), 1_000_000)
    return plan


ELECTION: Final = {"kind": "leader_election", "match": ORDERS_0, "for_ms": 500}
DOWN: Final = {"kind": "broker_down", "node_id": 1}
LIES: Final[dict[str, tuple[Callable[[], Plan], int]]] = {
    "nothing": (lambda: told_plan(), 10),
    "an election": (lambda: told_plan(ELECTION), 10),
    "an election that is over": (lambda: told_plan(ELECTION), 2000),
    "another leader elected": (lambda: told_plan({**ELECTION, "new_leader": "other"}), 2000),
    "two elections": (lambda: told_plan({**ELECTION, "name": "a"}, {**ELECTION, "match": {"topic": "orders"}}), 10),
    "a move": (lambda: told_plan({"kind": "leader_move", "match": ORDERS_0}), 10),
    "a move to the next but one": (lambda: told_plan({"kind": "leader_move", "leader_id": 3, "match": ORDERS_0}), 10),
    "a move that is over": (lambda: gone_again(told_plan({"kind": "leader_move", "match": ORDERS_0})), 2000),
    "a broker down": (lambda: told_plan(DOWN), 10),
    "a broker down, and nobody elected yet": (lambda: told_plan({**DOWN, "election_ms": 500}), 10),
    "a broker down, and others elected": (lambda: told_plan({**DOWN, "election_ms": 500}), 2000),
    "a broker powered off": (lambda: told_plan({**DOWN, "how": "powered_off", "election_ms": 0}), 10),
    "a broker back again": (lambda: gone_again(told_plan({**DOWN, "election_ms": 0})), 2000),
    "a rolling restart": (lambda: told_plan({"kind": "rolling_restart", "election_ms": 500}), 10),
    "a rolling restart, and others elected": (lambda: told_plan({"kind": "rolling_restart", "election_ms": 5}), 2000),
    "a coordinator moved": (lambda: told_plan({"kind": "coordinator_move", "trigger": {"times": "forever"}}), 10),
    "a move and a broker down": (lambda: told_plan(DOWN, {"kind": "leader_move", "match": {"topic": "orders"}}), 10),
}
OTHER: Final = connection(7, listener="broker-2", node_id=2)  # who lives through all of them


def told(plan: Plan, api_key: ApiKey, version: int, now_ms: int, answer: Callable[[Request], Body] = truth) -> Body:
    done = exchange(plan, question(api_key, version), answer, now_ms=now_ms, on=OTHER)
    assert done.answer is not None
    return done.answer


@pytest.mark.parametrize("lie", LIES)
def test_every_answer_agrees_with_metadata(lie: str) -> None:
    made, now_ms = LIES[lie]
    plan = made()
    metadata_told = told(plan, ApiKey.Metadata, 13, now_ms)
    wrong = [
        f"{api_key.name} v{version}: {problem}"
        for api_key, version in JUDGED
        for problem in disagreements(api_key, version, told(plan, api_key, version, now_ms), metadata_told)
    ]
    assert wrong == []


def test_what_is_told_first_is_told_the_same() -> None:
    """A client that asks DescribeTopicPartitions alone, of a topic that no Metadata has named."""
    plan = Plan()
    plan.cluster.observe_metadata({**truth(metadata("orders", version=12)), "topics": []})
    plan.add(fault(**DOWN), 0)
    plan.link(connection(1), 0)
    first = told(plan, ApiKey.DescribeTopicPartitions, 0, 10)
    assert not list(disagreements(ApiKey.DescribeTopicPartitions, 0, first, told(plan, ApiKey.Metadata, 13, 20)))
    assert first["topics"][0]["partitions"][0]["leader_id"] == -1


def test_the_lies_are_lies() -> None:
    """Held against the truth they are found out, each of them."""
    honest = truth(metadata("orders", version=12))
    for lie, (made, now_ms) in LIES.items():
        plan = made()
        seen = [
            problem
            for each in JUDGED
            for problem in disagreements(*each, told(plan, *each, now_ms), honest, strict=True)
        ]
        assert bool(seen) == (lie != "nothing"), lie


# ---- the judge -----------------------------------------------------------------------------------


def disagreements(
    api_key: ApiKey, version: int, answer: Body, metadata_told: Body, *, strict: bool = False
) -> Iterator[str]:
    """Where an answer tells something else of the cluster than Metadata (version 13) does."""
    alive = {broker["node_id"] for broker in metadata_told["brokers"]}
    partitions = {each["partition_index"]: each for each in metadata_told["topics"][0]["partitions"]}
    if "brokers" in answer:
        ids = {broker.get("node_id", broker.get("broker_id")) for broker in answer["brokers"]}
        if ids != alive:
            yield f"the brokers are {ids}, not {alive}"
        if answer.get("controller_id", metadata_told["controller_id"]) != metadata_told["controller_id"]:
            yield f"the controller is {answer['controller_id']}"
    for coordinator in answer.get("coordinators", [answer] if api_key == ApiKey.FindCoordinator else []):
        # Who coordinates is FindCoordinator's alone to say: that it lives is Metadata's.
        if coordinator["node_id"] not in {*alive, -1} or (strict and coordinator["node_id"] != 1):
            yield f"{coordinator['node_id']} coordinates"
    yield from _walk(response_codec(api_key, version).fields, answer, partitions, alive, None)


def _walk(
    fields: tuple[Field, ...], struct: Body, partitions: dict[int, Body], alive: set[int], index: int | None
) -> Iterator[str]:
    index = next((struct[name] for name in _INDEXES if isinstance(struct.get(name), int)), index)
    if "leader_id" in struct and index is not None and (struct["leader_id"], struct.get("leader_epoch", 0)) != (-1, -1):
        wanted = partitions[index]
        names = [name for name in ("leader_id", "leader_epoch") if name in struct]
        if any(struct[name] != wanted[name] for name in names):
            seen, there = ([each[name] for name in names] for each in (struct, wanted))
            yield f"partition {index}: {names} are {seen}, not {there}"
    for field in fields:
        value = struct.get(field.name)
        if field.entity == "brokerId" and field.is_array and index is not None:
            if field.name in partitions[index] and sorted(value or ()) != sorted(partitions[index][field.name]):
                yield f"partition {index}: {field.name} {value}, not {partitions[index][field.name]}"
        elif field.entity == "brokerId" and not field.is_array and value not in {*alive, -1}:
            yield f"{field.name} {value} is not there"
        elif field.kind == "struct":
            for inner in value if isinstance(value, list) else [value] if value else ():
                yield from _walk(field.fields, inner, partitions, alive, index)


# ---- epochs that are asked for -------------------------------------------------------------------


@pytest.mark.parametrize("version", known_versions(ApiKey.OffsetForLeaderEpoch))
@pytest.mark.parametrize("lie", [lie for lie in LIES if "down" not in lie and "powered" not in lie])
def test_who_asks_for_the_epoch_that_metadata_shows_is_told_the_end_of_the_log(lie: str, version: int) -> None:
    made, now_ms = LIES[lie]
    plan = made()
    shown = {
        each["partition_index"]: each for each in told(plan, ApiKey.Metadata, 13, now_ms)["topics"][0]["partitions"]
    }

    def broker(asked: Request) -> Body:
        """Kafka's `LeaderEpochFileCache.endOffsetFor`, of a log with one epoch."""
        topics = []
        for topic in asked.body["topics"]:
            answers = []
            for partition in topic["partitions"]:
                assert partition.get("current_leader_epoch", -1) in (-1, EPOCH), "brokers fence others"
                known = partition["leader_epoch"] == EPOCH
                end = {"leader_epoch": EPOCH, "end_offset": END} if known else {"leader_epoch": -1, "end_offset": -1}
                answers.append({"partition": partition["partition"], **end})
            topics.append({"topic": topic["topic"], "partitions": answers})
        return {"topics": topics}

    for by, current in ((0, True), (0, False), (1, False)):
        asked = [
            {
                "partition": index,
                "leader_epoch": each["leader_epoch"] + by,
                "current_leader_epoch": each["leader_epoch"] if current else -1,
            }
            for index, each in shown.items()
        ]
        for index, node_id in ((each["partition_index"], each["leader_id"]) for each in shown.values()):
            if node_id < 0:
                continue
            body = {"replica_id": -1, "topics": [{"topic": "orders", "partitions": [asked[index]]}]}
            on = connection(8 + node_id, listener=f"broker-{node_id}", node_id=node_id)
            question = request(ApiKey.OffsetForLeaderEpoch, version, body)
            done = exchange(plan, question, broker, now_ms=now_ms, on=on)
            assert done.answer is not None
            (answer,) = done.answer["topics"][0]["partitions"]
            wanted = (shown[index]["leader_epoch"], END) if by == 0 else (-1, -1)
            said = answer.get("leader_epoch", wanted[0]), answer["end_offset"]
            assert (answer["error_code"], said) == (0, wanted), (index, asked[index])
