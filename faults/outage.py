"""What one broker's absence does to the others' answers: who leads in its place, and what Metadata tells of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from notleader.faults.actions import Body
from notleader.faults.cluster import Cluster
from notleader.faults.election import Elections
from notleader.proxy.wire.names import ErrorCode

FOR_EVER_MS = 1e12
_NO_COORDINATOR = {"node_id": -1, "host": "", "port": -1, "error_code": int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}


def depose(
    cluster: Cluster,
    elections: Elections,
    node_id: int,
    now_us: int,
    started_by: str,
    kind: str,
    election_ms: Callable[[], float] | None,
) -> frozenset[tuple[str | None, int]]:
    """Take from this broker what it is shown to lead; the partitions that this left without a leader.

    After `election_ms()`, drawn for each partition, the next replica in sync leads; None, or no other broker: nobody.
    """
    elections.leave(node_id, started_by)
    deposed: list[tuple[str | None, int]] = []
    for topic, partition_index in sorted(cluster.leaders):
        if elections.leader(topic, partition_index) != node_id:
            continue
        successor = None if election_ms is None else cluster.other_leader(topic, partition_index, node_id)
        for_ms = FOR_EVER_MS if election_ms is None or successor is None else election_ms()
        elections.start(topic, partition_index, for_ms, now_us, started_by, kind, successor)
        deposed.append((topic, partition_index))
    return frozenset(deposed)


def restore(elections: Elections, started_by: str, now_us: int) -> None:
    """End the elections that this rule began, and let the true leaders lead again."""
    elections.come_back(started_by)
    for election in elections.list(now_us):
        if election.started_by == started_by:
            elections.end(election.topic, election.partition_index)
    elections.move_all_back(started_by)


def metadata_without(answer: Body, node_id: int) -> Body:
    """A Metadata answer that doesn't list this broker, neither as alive nor as a replica in sync."""
    topics = [
        {**topic, "partitions": [_partition_without(partition, node_id) for partition in topic["partitions"]]}
        for topic in answer["topics"] or ()
    ]
    brokers = [broker for broker in answer["brokers"] if broker["node_id"] != node_id]
    told = {**answer, "brokers": brokers, "topics": topics}
    if answer.get("controller_id") == node_id:
        told["controller_id"] = brokers[0]["node_id"] if brokers else -1
    return told


def _partition_without(partition: Body, node_id: int) -> Body:
    if node_id not in partition["replica_nodes"]:
        return partition
    changed = {**partition, "isr_nodes": [node for node in partition["isr_nodes"] if node != node_id]}
    if "offline_replicas" in partition:
        changed["offline_replicas"] = sorted({*partition["offline_replicas"], node_id})
    return changed


def coordinators_without(answer: Body, node_id: int) -> Body:
    """A FindCoordinator answer in which this broker coordinates nothing (COORDINATOR_NOT_AVAILABLE)."""

    def told(entry: dict[str, Any]) -> dict[str, Any]:
        return {**entry, **_NO_COORDINATOR} if entry["node_id"] == node_id else entry

    if "coordinators" in answer:
        return {**answer, "coordinators": [told(entry) for entry in answer["coordinators"]]}
    return told(answer)
