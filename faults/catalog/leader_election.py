"""`leader_election`: a partition loses its leader for a while."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.document import NodeId, SomeMilliseconds
from notleader.proxy.wire.names import ApiKey


class LeaderElection(Fault):
    """The matching partitions have no leader for `for_ms`, and then one with a higher epoch, for every client.

    The first matching Produce, Fetch or Metadata request starts it, for all clients at once and for every known
    partition that the match means (a match that names neither topic nor partition means those of that request). A
    partition whose election still lasts isn't deposed again. Meanwhile Metadata names no leader
    (LEADER_NOT_AVAILABLE), and what needs one is refused with NOT_LEADER_OR_FOLLOWER and not forwarded. Afterwards
    the same broker leads, one leader epoch higher, or with `new_leader` another one, until the rule is removed: the
    proxy relays to the true leader what that one is asked, as with `leader_move`. Removing the rule ends its
    elections.
    """

    kind: Literal["leader_election"] = "leader_election"
    phase: Literal["before_broker"] = "before_broker"
    reads_request = True
    default_api_keys = frozenset((ApiKey.Produce, ApiKey.Fetch, ApiKey.Metadata))

    for_ms: SomeMilliseconds = Field(2000, description="How long the partitions have no leader.")
    new_leader: NodeId | Literal["other"] | None = Field(
        None, description="Who leads afterwards: a node id, or `other` for the next replica in sync."
    )

    def applies(self, context: Context) -> bool:
        return bool(self._deposable(context))

    def on_request(self, context: Context) -> Iterable[Action]:
        if isinstance(self.new_leader, int) and (reason := context.elections.refuses_to_lead(self.new_leader)):
            raise NotApplicableError(reason)
        for topic, partition_index in self._deposable(context):
            new_leader = self.new_leader
            if new_leader == "other":
                leader_id = context.elections.leader(topic, partition_index)
                if leader_id is not None:
                    new_leader = context.elections.other_leader(topic, partition_index, leader_id)
                if not isinstance(new_leader, int):
                    raise NotApplicableError("there is no other broker")
            context.elections.start(
                topic,
                partition_index,
                self.for_ms,
                context.now_us,
                context.rule_name,
                self.kind,
                new_leader,
            )
        return ()

    def _deposable(self, context: Context) -> list[tuple[str, int]]:
        """The partitions that are meant, known by name, and have a leader now."""
        if self.match.selects_partitions:
            entries = [
                entry
                for entry in context.cluster.partitions()
                if self.match.partition(entry.topic, entry.partition_index)
            ]
            entries += context.partitions or ()
        else:
            entries = context.asked
        topics = (entry.topic or context.cluster.topic_name(entry.topic_id) for entry in entries)
        named = {(topic, entry.partition_index) for topic, entry in zip(topics, entries, strict=True) if topic}
        return sorted(name for name in named if not context.elections.lasts(*name))
