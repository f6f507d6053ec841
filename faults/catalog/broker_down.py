"""`broker_down`: one broker is gone, and the others know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import Field

from notleader.faults.actions import Action, Refuse, Reset, RewriteResponse, Silence, Standing
from notleader.faults.base import BeginContext, Connection, Context, NotApplicableError, StandingFault
from notleader.faults.document import NodeId
from notleader.faults.durations import Duration, drawn_ms
from notleader.faults.outage import NAMES_BROKERS, answer_without, depose, restore

_NODE = "node_id"


class BrokerDown(StandingFault):
    """The broker `node_id` is dead for its clients: its port and its connections, and in what the others tell.

    `killed`: connections are reset, new ones refused. `powered_off`: everything falls silent. Metadata, DescribeCluster
    and DescribeTopicPartitions, asked of the others, don't list it any more, not as a replica in sync either, nor does
    FindCoordinator name it, and the partitions that it leads have no leader. With `election_ms` the next replica in
    sync leads each of them after that time, and the next broker coordinates its groups and transactions (the broker
    itself lives on: the proxy relays to it what the new leader or coordinator is asked, see `leader_move`). When the
    rule goes the broker leads and coordinates again, one leader epoch higher. When no broker is left, whoever
    bootstraps finds none either. Only brokers go: what is told of the quorum of controllers (DescribeQuorum) stays.
    """

    kind: Literal["broker_down"] = "broker_down"
    watches = frozenset(map(int, NAMES_BROKERS))
    told_alike = frozenset()

    node_id: NodeId | Literal["struck"] = Field(
        description="The broker that is gone; `struck` is the one whose exchange the rule of `after_fault` struck."
    )
    how: Literal["killed", "powered_off"] = Field("killed", description="Whether its host answers for it.")
    election_ms: Duration | None = Field(
        None,
        description="How long each of its partitions has no leader, and what it coordinates no coordinator; "
        "without, until the broker is back.",
    )

    def means(
        self, listener: str, node_id: int | None, connection: Connection | None, state: Mapping[str, Any]
    ) -> bool:
        return (
            node_id is not None and node_id == state.get(_NODE) and super().means(listener, node_id, connection, state)
        )

    def of_listener(self) -> Iterable[Standing]:
        yield Refuse() if self.how == "killed" else Silence(release="discard")

    def of_connection(self) -> Iterable[Standing]:
        yield Reset() if self.how == "killed" else Silence(release="discard")

    def begin(self, context: BeginContext) -> None:
        context.state[_NODE] = context.struck_node_id if self.node_id == "struck" else self.node_id
        self._depose(context)

    def end(self, context: BeginContext) -> None:
        restore(context.elections, context.rule_name)
        context.state.clear()

    def on_response(self, context: Context) -> Iterable[Action]:
        # What the elections had to say of this answer is in it already, but for those that begin with it.
        node_id: int | None = context.state.get(_NODE)
        if node_id is None:
            raise NotApplicableError(
                "no rule of `after_fault` struck an exchange with a broker that is known by its id"
            )
        told = context.elections.told_now(context.answer, self._depose(context))
        coordinators = context.elections.coordinators
        yield RewriteResponse(
            answer_without(context.request, told, node_id, coordinators, context.rule_name, context.now_us)
        )

    def _depose(self, context: BeginContext | Context) -> frozenset[tuple[str | None, int]]:
        node_id: int | None = context.state[_NODE]
        if node_id is None:
            return frozenset()
        wanted = self.election_ms
        draw = None if wanted is None else lambda: drawn_ms(wanted, context.random)
        return depose(context.cluster, context.elections, node_id, context.now_us, context.rule_name, self.kind, draw)
