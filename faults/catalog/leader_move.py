"""`leader_move`: another broker leads, and clients go there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, RewriteResponse
from notleader.faults.base import BeginContext, Context, NotApplicableError, StandingFault
from notleader.faults.document import NodeId
from notleader.proxy.wire.names import ApiKey

_DONE = "done"


class LeaderMove(StandingFault):
    """The matching partitions are led by another broker while the rule stands, one leader epoch higher.

    Every answer says so: Metadata, and the current leader and node endpoints that Produce and Fetch name. The true
    leader's listener refuses what it is asked for them (NOT_LEADER_OR_FOLLOWER); the new one's takes it, and the
    proxy relays it to the true leader over a connection of its own (Produce, Fetch, ListOffsets, OffsetForLeaderEpoch,
    DeleteRecords, DescribeProducers). If that is gone the rule refuses it, a Produce with REQUEST_TIMED_OUT. When the
    rule goes the true leader leads again, another epoch higher.

    What clients prove by SASL can't be repeated: the proxy relays for them in its own name (`--relay-sasl-mechanism`,
    `--relay-sasl-username`, `--relay-sasl-password-file`); without one the first that tries ends the move, and the rule
    says why. It begins with the first answer that tells where the partitions are. Share groups aren't relayed.
    Consumers are served by the shown leader alone, also those that would fetch from a follower (KIP-392).
    """

    kind: Literal["leader_move"] = "leader_move"
    watches = frozenset((ApiKey.Metadata, ApiKey.DescribeTopicPartitions))
    selects_partitions = True
    told_alike = frozenset({"topic", "partition_index"})

    leader_id: NodeId | Literal["other"] = Field(
        "other", description="The broker that leads; `other` is the next replica in sync, else the next broker."
    )

    def begin(self, context: BeginContext) -> None:
        context.state.clear()
        self._move(context)

    def end(self, context: BeginContext) -> None:
        context.elections.move_all_back(context.rule_name)

    def on_response(self, context: Context) -> Iterable[Action]:
        if isinstance(self.leader_id, int) and (reason := context.elections.refuses_to_lead(self.leader_id)):
            raise NotApplicableError(reason)
        if self.leader_id == "other" and len(context.cluster.brokers) < 2:
            raise NotApplicableError("there is no other broker")
        # What the moves before had to say of this answer is in it already.
        if moved := self._move(context):
            yield RewriteResponse(context.elections.told_now(context.answer, moved))

    def _move(self, context: BeginContext | Context) -> frozenset[tuple[str | None, int]]:
        """Move what is known and wasn't moved before."""
        done: set[tuple[str, int]] = context.state.setdefault(_DONE, set())
        moved: list[tuple[str | None, int]] = []
        for topic, partition_index in sorted(context.cluster.leaders):
            leader_id = context.elections.leader(topic, partition_index)
            if (topic, partition_index) in done or leader_id is None:
                continue
            if not self.match.partition(topic, partition_index):
                continue
            new_leader = self._new_leader(context, topic, partition_index, leader_id)
            if new_leader is None or new_leader == leader_id:
                continue
            done.add((topic, partition_index))
            context.elections.move(topic, partition_index, new_leader, context.rule_name, self.kind)
            moved.append((topic, partition_index))
        return frozenset(moved)

    def _new_leader(
        self, context: BeginContext | Context, topic: str, partition_index: int, leader_id: int
    ) -> int | None:
        if self.leader_id == "other":
            return context.elections.other_leader(topic, partition_index, leader_id)
        return None if context.elections.refuses_to_lead(self.leader_id) else self.leader_id
