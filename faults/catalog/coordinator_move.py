"""`coordinator_move`: another broker is said to coordinate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from notleader.faults.actions import Action, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.document import NodeId
from notleader.proxy.wire.names import ApiKey


class CoordinatorMove(Fault):
    """FindCoordinator answers name another broker for the group or transactional id.

    That broker doesn't coordinate, so it refuses (NOT_COORDINATOR) and the client looks again, until the rule is
    exhausted: together with an `error` NOT_COORDINATOR on the group's requests, a move that takes its time.
    """

    kind: Literal["coordinator_move"] = "coordinator_move"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.FindCoordinator,))

    node_id: NodeId | None = Field(None, description="The broker to name; else the next one that is known.")

    def on_response(self, context: Context) -> Iterable[Action]:
        answer = context.answer
        if "coordinators" in answer:
            moved = [self._moved(context, each, each["key"]) for each in answer["coordinators"]]
            yield RewriteResponse({**answer, "coordinators": moved})
        else:
            yield RewriteResponse(self._moved(context, answer, context.request.body["key"]))

    def _moved(self, context: Context, entry: dict[str, Any], key: str) -> dict[str, Any]:
        for wanted in (self.match.group_id, self.match.transactional_id):
            if wanted is not None and not wanted(key):
                return entry
        if entry["error_code"]:
            return entry
        brokers = context.cluster.brokers
        others = sorted(node_id for node_id in brokers if node_id != entry["node_id"])
        chosen = self.node_id
        if chosen is None:
            chosen = next((node for node in others if node > entry["node_id"]), others[0] if others else None)
        if chosen is None or chosen not in brokers:
            raise NotApplicableError("no other broker is known, from Metadata, that could be named")
        return {**entry, "node_id": chosen, "host": brokers[chosen].host, "port": brokers[chosen].port}
