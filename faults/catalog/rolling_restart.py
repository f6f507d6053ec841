"""`rolling_restart`: every broker goes down once, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from notleader.faults.actions import Action, Refuse, Reset, RewriteResponse, Silence, Standing
from notleader.faults.base import BeginContext, Connection, Context, StandingFault
from notleader.faults.document import Milliseconds, SomeMilliseconds
from notleader.faults.durations import Duration, drawn_ms
from notleader.faults.outage import NAMES_BROKERS, answer_without, depose, restore

_NEXT_US = "next_us"
_DOWN = "down"
_LEFT = "left"
_LOOK_AGAIN_US = 200_000  # while no broker is known yet


class RollingRestart(StandingFault):
    """Each broker is down for `down_ms`, in the order of the node ids, with `pause_ms` between two of them.

    While it is down it is so as with `broker_down`: its connections end, no answer lists it, and each of its
    partitions has no leader for `election_ms`, drawn for each on its own, and then another one. `match: {node_id: …}`
    restarts only these brokers. It begins once the cluster is known.
    """

    kind: Literal["rolling_restart"] = "rolling_restart"
    watches = frozenset(map(int, NAMES_BROKERS))
    told_alike = frozenset({"node_id"})

    down_ms: SomeMilliseconds = Field(5000, description="How long each broker is down.")
    pause_ms: Milliseconds = Field(5000, description="How long all of them are up between two restarts.")
    how: Literal["killed", "powered_off"] = Field("killed", description="Whether its host answers for a broker.")
    election_ms: Duration = Field(default=200.0, description="How long each partition of a broker has no leader.")

    def means(
        self, listener: str, node_id: int | None, connection: Connection | None, state: Mapping[str, Any]
    ) -> bool:
        return (
            node_id is not None and node_id == state.get(_DOWN) and super().means(listener, node_id, connection, state)
        )

    def of_listener(self) -> Iterable[Standing]:
        yield Refuse() if self.how == "killed" else Silence(release="discard")

    def of_connection(self) -> Iterable[Standing]:
        yield Reset() if self.how == "killed" else Silence(release="discard")

    def begin(self, context: BeginContext) -> None:
        context.state.clear()
        self.change(context)

    def next_change_us(self, state: Mapping[str, Any]) -> int | None:
        next_us: int | None = state.get(_NEXT_US)
        return next_us

    def change(self, context: BeginContext) -> None:
        """A broker goes down, or the one that is down comes back."""
        state = context.state
        if not context.cluster.brokers:
            state[_NEXT_US] = context.now_us + _LOOK_AGAIN_US
            return
        if _LEFT not in state:
            nodes = sorted(context.cluster.brokers)
            state[_LEFT] = [node for node in nodes if self.match.node_id is None or self.match.node_id(node)]
        if state.get(_DOWN) is not None:
            state[_DOWN] = None
            restore(context.elections, context.rule_name)
            state[_NEXT_US] = context.now_us + round(self.pause_ms * 1000) if state[_LEFT] else None
        elif state[_LEFT]:
            state[_DOWN] = state[_LEFT].pop(0)
            state[_NEXT_US] = context.now_us + round(self.down_ms * 1000)
            self._depose(context)

    def end(self, context: BeginContext) -> None:
        restore(context.elections, context.rule_name)
        context.state.clear()

    def on_response(self, context: Context) -> Iterable[Action]:
        node_id: int | None = context.state.get(_DOWN)
        if node_id is None:
            return
        told = context.elections.told_now(context.answer, self._depose(context))
        yield RewriteResponse(
            answer_without(
                context.request, told, node_id, context.elections.coordinators, context.rule_name, context.now_us
            )
        )

    def _depose(self, context: BeginContext | Context) -> frozenset[tuple[str | None, int]]:
        return depose(
            context.cluster,
            context.elections,
            context.state[_DOWN],
            context.now_us,
            context.rule_name,
            self.kind,
            lambda: drawn_ms(self.election_ms, context.random),
        )
