"""What the proxy has seen of the cluster: topic ids, brokers, leaders and epochs, learned from Metadata answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from proxy.wire.partitions import PartitionEntry

_NO_TOPIC_ID = UUID(int=0)


class Broker(NamedTuple):
    """One broker with the address it really advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Leadership(NamedTuple):
    """Who really leads a partition, and since which epoch (-1 where the answer's version names none)."""

    leader_id: int
    leader_epoch: int
    isr_nodes: tuple[int, ...] = ()


class Cluster:
    """The last known truth; nothing here is ever a lie that the proxy told."""

    __slots__ = ("_ids", "_last_seen", "_names", "brokers", "cluster_id", "controller_id", "leaders")

    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._last_seen = (-1, b"")
        self.brokers: dict[int, Broker] = {}
        self.leaders: dict[tuple[str, int], Leadership] = {}
        self.cluster_id: str | None = None
        self.controller_id: int = -1

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of a topic id that some Metadata answer has named, else None."""
        return None if topic_id is None else self._names.get(topic_id)

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic, None while no Metadata answer with ids (version 10 on) has named it."""
        return self._ids.get(topic)

    def topics(self) -> set[str]:
        """The names of all topics of which a partition was seen."""
        return {topic for topic, _ in self.leaders}

    def partitions(
        self,
        asked: Iterable[tuple[str | None, UUID | None]] | None = None,
    ) -> list[PartitionEntry]:
        """The known partitions of these topics (None: of all), in order."""
        names = None
        if asked is not None:
            names = {name if name is not None else self.topic_name(topic_id) for name, topic_id in asked}
        return [
            PartitionEntry(topic, self.topic_id(topic), index, {}, {})
            for topic, index in sorted(self.leaders)
            if names is None or topic in names
        ]

    def other_leader(self, topic: str, partition_index: int, without: int) -> int | None:
        """Who would lead the partition if not `without`: the next replica in sync, else the next broker, else None."""
        known = self.leaders.get((topic, partition_index))
        for nodes in (known.isr_nodes if known is not None else (), self.brokers):
            others = sorted(node_id for node_id in nodes if node_id != without and node_id in self.brokers)
            if others:
                return next((node_id for node_id in others if node_id > without), others[0])
        return None

    def is_news(self, api_version: int, frame: bytes, offset: int = 0) -> bool:
        """Whether the Metadata answer encoded from there on differs from the one before; decoding takes long."""
        seen_version, seen = self._last_seen
        if api_version == seen_version and len(frame) - offset == len(seen) and frame.startswith(seen, offset):
            return False
        self._last_seen = api_version, frame[offset:]
        return True

    def observe_metadata(self, body: dict[str, Any]) -> None:
        """Learn from a broker's Metadata answer, before anything in it is rewritten."""
        if body.get("brokers"):
            self.brokers = {
                broker["node_id"]: Broker(broker["node_id"], broker["host"], broker["port"], broker.get("rack"))
                for broker in body["brokers"]
            }
        self.cluster_id = body.get("cluster_id") or self.cluster_id
        self.controller_id = body.get("controller_id", self.controller_id)
        for topic in body.get("topics") or ():
            name, topic_id = topic.get("name"), topic.get("topic_id", _NO_TOPIC_ID)
            if name is None or topic["error_code"]:
                continue
            if topic_id != _NO_TOPIC_ID and self._ids.get(name) != topic_id:
                if name in self._ids:
                    self._forget_leaders(name)  # deleted and made anew: its epochs begin anew too
                self._names[topic_id] = name
                self._ids[name] = topic_id
            for partition in topic["partitions"]:
                self._observe_partition(name, partition)

    def _observe_partition(self, topic: str, partition: dict[str, Any]) -> None:
        key = (topic, partition["partition_index"])
        epoch = partition.get("leader_epoch", -1)
        known = self.leaders.get(key)
        # Brokers learn of elections one after the other: an older epoch is an older truth.
        if known is None or epoch < 0 or epoch >= known.leader_epoch:
            self.leaders[key] = Leadership(partition["leader_id"], epoch, tuple(partition["isr_nodes"]))

    def _forget_leaders(self, topic: str) -> None:
        for key in [key for key in self.leaders if key[0] == topic]:
            del self.leaders[key]
