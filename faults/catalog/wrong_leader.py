"""`wrong_leader`: Metadata points at the wrong broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Body, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.document import LARGEST_INT32, NodeId
from notleader.proxy.wire.names import ApiKey


class WrongLeader(Fault):
    """Metadata answers name another broker as leader, which then refuses, for it is none (NOT_LEADER_OR_FOLLOWER).

    With `leader_epoch` the answer names that epoch besides: a higher one makes clients ignore the truth until the
    cluster has caught up, -1 says that there is none.
    """

    kind: Literal["wrong_leader"] = "wrong_leader"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.Metadata,))

    leader_id: NodeId | None = Field(None, description="The broker to name; else the next one in the answer.")
    leader_epoch: int | None = Field(None, ge=-1, le=LARGEST_INT32, description="The epoch to name; else the true one.")

    def on_response(self, context: Context) -> Iterable[Action]:
        node_ids = sorted(broker["node_id"] for broker in context.answer["brokers"])
        if self.leader_id is None and len(node_ids) < 2:
            raise NotApplicableError("there is no other broker to name")
        topics = [
            {
                **topic,
                "partitions": [
                    self._misled(partition, node_ids)
                    if self.match.partition(topic.get("name"), partition["partition_index"])
                    else partition
                    for partition in topic["partitions"]
                ],
            }
            for topic in context.answer["topics"] or ()
        ]
        yield RewriteResponse({**context.answer, "topics": topics})

    def _misled(self, partition: Body, node_ids: list[int]) -> Body:
        if partition["leader_id"] < 0:
            return partition
        leader_id = self.leader_id
        if leader_id is None:
            leader_id = next((node for node in node_ids if node > partition["leader_id"]), node_ids[0])
        misled = {**partition, "leader_id": leader_id}
        if self.leader_epoch is not None and "leader_epoch" in partition:
            misled["leader_epoch"] = self.leader_epoch
        return misled
