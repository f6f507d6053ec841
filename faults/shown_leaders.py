"""Answers of brokers, told so that they agree with the elections: who leads, since which epoch, and where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from notleader.faults.actions import Body, PartitionKey
from notleader.faults.answers import top_key
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ErrorCode

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.faults.election_state import State, Touch

StateOf = Callable[[Body, int], "State | None"]


def with_shown_leaders(
    answer: Body, state_of: StateOf, only: frozenset[tuple[str | None, int]] | None = None
) -> tuple[Body, tuple[Touch, ...]]:
    """A Metadata or DescribeTopicPartitions answer with the shown leaders and epochs, and the rules seen in it.

    With `only`, of those topics' partitions (by name) alone, whose answer was told before their last change.
    """
    hits: dict[Touch, None] = {}
    topics = []
    changed = False
    for topic in answer["topics"] or ():
        partitions = []
        for partition in topic["partitions"]:
            index = partition["partition_index"]
            state = state_of(topic, index)
            if state is not None and (only is None or (topic.get("name"), index) in only):
                changed = True
                partition = _told_leader(partition, state, state.bump if only is None else 1)
                if state.election is not None:
                    hits[state.election.hit] = None
                elif state.leader_id is not None and state.moved_by is not None:
                    hits[state.moved_by] = None
            partitions.append(partition)
        topics.append({**topic, "partitions": partitions})
    return ({**answer, "topics": topics} if changed else answer), tuple(hits)


def _told_leader(partition: Body, state: State, raised_by: int) -> Body:
    """A partition in the shown epoch, under the shown leader, or without one while the election lasts."""
    told = dict(partition)
    if told.get("leader_epoch", -1) >= 0:
        told["leader_epoch"] += raised_by
    if state.election is not None:
        told["leader_id"] = -1
        told["error_code"] = int(ErrorCode.LEADER_NOT_AVAILABLE)
    elif state.leader_id is not None and told["leader_id"] >= 0:
        told["leader_id"] = state.leader_id
        for replicas in ("replica_nodes", "isr_nodes"):
            if state.leader_id not in told[replicas]:
                told[replicas] = [*told[replicas], state.leader_id]  # a leader is a replica in sync
    return told


def raised(
    api_key: int,
    api_version: int,
    answer: Body,
    state_of: StateOf,
    refused: frozenset[PartitionKey],
    cluster: Cluster,
    away: frozenset[int],
) -> Body:
    """An answer whose `current_leader` fields (KIP-951) name the shown leaders in the shown epochs.

    It sends nobody to brokers that are `away`, nor tells where these are.
    """
    changed = False
    topics = []
    for topic in answer["responses"]:
        above = top_key(topic.get("topic") or topic.get("name"), topic.get("topic_id"))
        array = "partition_responses" if "partition_responses" in topic else "partitions"
        partitions = []
        for partition in topic[array]:
            index = partition["index"] if "index" in partition else partition["partition_index"]
            told = partition
            if (above, index) not in refused:
                told = _with_shown_leader(partition, state_of(topic, index), away)
            if told.get("preferred_read_replica") in away:
                told = {**told, "preferred_read_replica": -1}
            changed |= told is not partition
            partitions.append(told)
        topics.append({**topic, array: partitions})
    told_answer = {**answer, "responses": topics} if changed else answer
    endpoints = told_answer.get("node_endpoints") or ()
    if any(endpoint["node_id"] in away for endpoint in endpoints):
        kept = [endpoint for endpoint in endpoints if endpoint["node_id"] not in away]
        told_answer = {**told_answer, "node_endpoints": kept}
    return with_endpoints(api_key, api_version, told_answer, cluster)


def _with_shown_leader(partition: Body, state: State | None, away: frozenset[int]) -> Body:
    leader: dict[str, Any] = partition.get("current_leader") or {}
    if leader.get("leader_epoch", -1) < 0:
        return partition
    shown = dict(leader)
    if state is not None:
        shown["leader_epoch"] += state.bump
        if state.election is not None:
            shown["leader_id"] = -1
        elif state.leader_id is not None and shown["leader_id"] >= 0:
            shown["leader_id"] = state.leader_id
    if shown["leader_id"] in away:
        shown["leader_id"] = -1  # the election that its absence began is not over, or not begun
    return partition if shown == leader else {**partition, "current_leader": shown}


def with_endpoints(api_key: int, api_version: int, answer: Body, cluster: Cluster) -> Body:
    """An answer that says where the leaders are that it names, in versions that can (KIP-951)."""
    if all(found.name != "node_endpoints" for found in response_codec(api_key, api_version).fields):
        return answer
    known = {endpoint["node_id"] for endpoint in answer.get("node_endpoints") or ()}
    named = {
        leader["leader_id"]
        for topic in answer["responses"]
        for partition in topic.get("partition_responses") or topic.get("partitions") or ()
        if (leader := _leader(partition)) is not None
    }
    missing = [cluster.brokers[node_id] for node_id in sorted(named - known) if node_id in cluster.brokers]
    if not missing:
        return answer
    return {**answer, "node_endpoints": [*(answer.get("node_endpoints") or ()), *(node._asdict() for node in missing)]}


def _leader(partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
    leader: Mapping[str, Any] | None = partition.get("current_leader")
    return leader if leader and leader.get("leader_id", -1) >= 0 else None
