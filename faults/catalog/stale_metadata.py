"""`stale_metadata`: a broker that hasn't heard of the change yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from notleader.faults.actions import Action, RewriteResponse
from notleader.faults.base import BeginContext, Context, Fault
from notleader.proxy.wire.names import ApiKey

_SNAPSHOT = "leaders"
_KEPT = ("leader_id", "leader_epoch")


class StaleMetadata(Fault):
    """Metadata answers name the leaders and epochs that were known when the rule was added.

    A partition that wasn't known then is frozen at what its first answer says. The other answers of the brokers tell
    the truth, so a client is sent to a broker that refuses it, and back to the stale answer.
    """

    kind: Literal["stale_metadata"] = "stale_metadata"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.Metadata,))

    def begin(self, context: BeginContext) -> None:
        context.state[_SNAPSHOT] = {
            key: {
                "leader_id": leader.leader_id,
                "leader_epoch": leader.leader_epoch
                if leader.leader_epoch < 0
                else leader.leader_epoch + context.elections.bump(*key),
            }
            for key, leader in context.cluster.leaders.items()
        }

    def on_response(self, context: Context) -> Iterable[Action]:
        snapshot: dict[tuple[str, int], dict[str, Any]] = context.state[_SNAPSHOT]
        topics = []
        for topic in context.answer["topics"] or ():
            name = topic.get("name") or ""
            partitions = []
            for partition in topic["partitions"]:
                index = partition["partition_index"]
                if self.match.partition(name, index):
                    told = {key: partition[key] for key in _KEPT if key in partition}
                    frozen = snapshot.setdefault((name, index), told)
                    known = {key: value for key, value in frozen.items() if key in partition}
                    partition = {**partition, **known, "error_code": 0}
                partitions.append(partition)
            topics.append({**topic, "partitions": partitions})
        yield RewriteResponse({**context.answer, "topics": topics})
