"""What the proxy has seen of the cluster: topic ids, brokers, leaders and epochs, learned from Metadata answers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from notleader.proxy.wire.partitions import PartitionEntry

_NO_TOPIC_ID = UUID(int=0)
_MOST_KNOWN: Final = 256
_MOST_KNOWN_BYTES: Final = 4 << 20


class Broker(NamedTuple):
    """One broker with the address it really advertises."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Leadership(NamedTuple):
    """Who really leads a partition, and since which epoch (-1 where no answer has named one: from version 7 on)."""

    leader_id: int
    leader_epoch: int
    isr_nodes: tuple[int, ...] = ()


class Cluster:
    """The last known truth; nothing here is ever a lie that the proxy told."""

    __slots__ = (
        "_ids",
        "_known",
        "_names",
        "brokers",
        "cluster_id",
        "controller_id",
        "leaders",
    )

    def __init__(self) -> None:
        self._names: dict[UUID, str] = {}
        self._ids: dict[str, UUID] = {}
        self._known: dict[tuple[int, int], list[bytes]] = {}  # version, length → answers that hold nothing new
        self.brokers: dict[int, Broker] = {}
        self.leaders: dict[tuple[str, int], Leadership] = {}
        self.cluster_id: str | None = None
        self.controller_id: int = -1

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of a topic id that some Metadata answer has named, else None."""
        return None if topic_id is None else self._names.get(topic_id)

    def topic_names(self) -> Mapping[UUID, str]:
        """The names of all topic ids that some Metadata answer has named; only grows, in order."""
        return self._names

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

    def may_be_read_from(self, topic: str, partition_index: int, node_id: int | None) -> bool:
        """Whether clients of this broker (None: whoever bootstraps) may fetch the partition from it.

        It leads it or is in sync with who does; and maybe where nothing is known of the partition.
        """
        known = self.leaders.get((topic, partition_index))
        return node_id is None or known is None or node_id == known.leader_id or node_id in known.isr_nodes

    def other_leader(self, topic: str, partition_index: int, without: int, away: Collection[int] = ()) -> int | None:
        """Who would lead the partition if not `without`: the next replica in sync, else the next broker, else None.

        Nobody who is `away` would.
        """
        known = self.leaders.get((topic, partition_index))
        there = self.brokers.keys() - {*away, without}
        for nodes in (known.isr_nodes if known is not None else (), self.brokers):
            others = sorted(there.intersection(nodes))
            if others:
                return next((node_id for node_id in others if node_id > without), others[0])
        return None

    def is_news(self, api_version: int, frame: bytes, offset: int = 0) -> bool:
        """Whether there may be something to learn from the Metadata answer encoded from there on; decoding takes long.

        There is not where it was learned from, or passed over, since anything last changed. Clients ask for different
        topics in different versions, so there are many such answers.
        """
        for known in self._known.get((api_version, len(frame) - offset), ()):
            if frame.startswith(known, offset):
                return False
        return True

    def pass_over(self, api_version: int, answer: bytes) -> None:
        """There is nothing more to learn from this encoded answer until something changes."""
        count = sum(map(len, self._known.values()))
        size = sum(length * len(answers) for (_, length), answers in self._known.items())
        if count >= _MOST_KNOWN or size + len(answer) > _MOST_KNOWN_BYTES:
            self._known.clear()
        self._known.setdefault((api_version, len(answer)), []).append(answer)

    def observe_metadata(self, body: dict[str, Any], encoded: tuple[int, bytes] | None = None) -> None:
        """Learn from a broker's Metadata answer, before anything in it is rewritten.

        ``encoded``: its version and bytes, where `is_news` may be asked of them again.
        """
        if self._learn(body):
            self._known.clear()
        if encoded is not None:
            self.pass_over(*encoded)

    def _learn(self, body: dict[str, Any]) -> bool:
        """Whether anything is not as it was."""
        before = self.brokers, self.cluster_id, self.controller_id
        if body.get("brokers"):
            self.brokers = {
                broker["node_id"]: Broker(broker["node_id"], broker["host"], broker["port"], broker.get("rack"))
                for broker in body["brokers"]
            }
        self.cluster_id = body.get("cluster_id") or self.cluster_id
        self.controller_id = body.get("controller_id", self.controller_id)
        changed = before != (self.brokers, self.cluster_id, self.controller_id)
        for topic in body.get("topics") or ():
            name, topic_id = topic.get("name"), topic.get("topic_id", _NO_TOPIC_ID)
            if name is None or topic["error_code"]:
                continue
            if topic_id != _NO_TOPIC_ID and self._ids.get(name) != topic_id:
                if name in self._ids:
                    self._forget_leaders(name)  # deleted and made anew: its epochs begin anew too
                self._names[topic_id] = name
                self._ids[name] = topic_id
                changed = True
            for partition in topic["partitions"]:
                changed |= self._learn_partition(name, partition)
        return changed

    def _learn_partition(self, topic: str, partition: dict[str, Any]) -> bool:
        key = (topic, partition["partition_index"])
        leader_id, epoch = partition["leader_id"], partition.get("leader_epoch", -1)
        known = self.leaders.get(key)
        if known is not None and epoch < 0 and leader_id == known.leader_id:
            epoch = known.leader_epoch  # an old version can't name it
        # Brokers learn of elections one after the other: an older epoch is an older truth.
        if known is not None and 0 <= epoch < known.leader_epoch:
            return False
        found = self.leaders[key] = Leadership(leader_id, epoch, tuple(partition["isr_nodes"]))
        return found != known

    def _forget_leaders(self, topic: str) -> None:
        for key in [key for key in self.leaders if key[0] == topic]:
            del self.leaders[key]
