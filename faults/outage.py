"""What one broker's absence does to the others' answers: who leads in its place, and who is said to be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from notleader.faults.actions import Body
from notleader.faults.cluster import Cluster
from notleader.faults.coordinators import Coordinators
from notleader.faults.election import Elections
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey

if TYPE_CHECKING:
    from notleader.proxy.wire.view import Request

FOR_EVER_MS = 1e12


def depose(
    cluster: Cluster,
    elections: Elections,
    node_id: int,
    now_us: int,
    started_by: str,
    kind: str,
    election_ms: Callable[[], float] | None,
) -> frozenset[tuple[str | None, int]]:
    """Take from this broker what it is shown to lead and coordinates; the partitions that this left without a leader.

    After `election_ms()`, drawn for each partition, the next replica in sync leads; None, or no other broker: nobody.
    Drawn once more, it is how long nobody coordinates in its place.
    """
    elections.leave(node_id, started_by)
    deposed: list[tuple[str | None, int]] = []
    for topic, partition_index in sorted(cluster.leaders):
        if elections.leader(topic, partition_index) != node_id:
            continue
        successor = None if election_ms is None else elections.other_leader(topic, partition_index, node_id)
        for_ms = FOR_EVER_MS if election_ms is None or successor is None else election_ms()
        elections.start(topic, partition_index, for_ms, now_us, started_by, kind, successor)
        deposed.append((topic, partition_index))
    elections.coordinators.leave(
        node_id, started_by, None if election_ms is None else lambda: now_us + election_ms() * 1000
    )
    return frozenset(deposed)


def restore(elections: Elections, started_by: str) -> None:
    """End the elections that this rule began, and let the true leaders lead again."""
    elections.come_back(started_by)
    elections.end_all(started_by)


NAMES_BROKERS: Final = frozenset(
    (ApiKey.Metadata, ApiKey.DescribeTopicPartitions, ApiKey.DescribeCluster, ApiKey.FindCoordinator)
)
"""The APIs whose answers list brokers, replicas or coordinators; who leads is the elections' to tell."""
_CONTROLLERS: Final = 2  # endpoint type: the quorum of controllers speaks on other listeners, and lives on


def answer_without(
    request: Request, answer: Body, node_id: int, coordinators: Coordinators, started_by: str, now_us: int
) -> Body:
    """An answer of one of `NAMES_BROKERS` as the other brokers give it while this rule keeps the broker away."""
    match request.header.api_key:
        case ApiKey.FindCoordinator:
            return coordinators.told(request, answer, started_by, now_us)
        case ApiKey.DescribeCluster:
            return _cluster_without(request, answer, node_id)
        case _:
            return _topics_without(answer, node_id)


def _topics_without(answer: Body, node_id: int) -> Body:
    """A Metadata or DescribeTopicPartitions answer: this broker is neither alive nor a replica in sync."""
    topics = [
        {**topic, "partitions": [_partition_without(partition, node_id) for partition in topic["partitions"]]}
        for topic in answer["topics"] or ()
    ]
    return _brokers_without({**answer, "topics": topics}, node_id, "node_id")


def _cluster_without(request: Request, answer: Body, node_id: int) -> Body:
    """A DescribeCluster answer: not listed, or as fenced where fenced brokers are asked for (KIP-1073)."""
    if answer.get("endpoint_type") == _CONTROLLERS:
        return answer
    told = _brokers_without(answer, node_id, "broker_id")
    if _asks_for_fenced(request):
        told["brokers"] = [
            {**broker, "is_fenced": True} if broker["broker_id"] == node_id else broker for broker in answer["brokers"]
        ]
    return told


def _asks_for_fenced(request: Request) -> bool:
    try:
        return bool(request.body.get("include_fenced_brokers"))
    except WireError:
        return False


def _brokers_without(answer: Body, node_id: int, id_key: str) -> Body:
    """The list of brokers without this one; another one is the controller."""
    if "brokers" not in answer:
        return answer
    brokers = [broker for broker in answer["brokers"] if broker[id_key] != node_id]
    told = {**answer, "brokers": brokers}
    if answer.get("controller_id") == node_id:
        told["controller_id"] = min((broker[id_key] for broker in brokers), default=-1)
    return told


def _partition_without(partition: Body, node_id: int) -> Body:
    if node_id not in partition["replica_nodes"]:
        return partition
    changed = {**partition, "isr_nodes": [node for node in partition["isr_nodes"] if node != node_id]}
    if "offline_replicas" in partition:
        changed["offline_replicas"] = sorted({*partition["offline_replicas"], node_id})
    if eligible := partition.get("eligible_leader_replicas"):
        changed["eligible_leader_replicas"] = [node for node in eligible if node != node_id]
    return changed
