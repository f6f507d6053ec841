"""Groups and transactional ids that another broker is shown to coordinate, while the one that does is away.

FindCoordinator, asked of the others, names another broker once the election is over; what that one is asked for such a
group or transactional id the proxy relays as a whole to the true coordinator, which lives on. Every other broker says
by itself that it does not coordinate. Once the true one is back the shown one says so too, and clients ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from notleader.faults.actions import Body, Forward, Lost, Relay
from notleader.faults.answers import refusal
from notleader.faults.election_state import Touch
from notleader.faults.match import GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE, groups_named, transactional_ids_named
from notleader.proxy.wire.names import ApiKey, ErrorCode

if TYPE_CHECKING:
    from notleader.faults.cluster import Cluster
    from notleader.proxy.wire.view import Request

_OF_TRANSACTIONS: Final = frozenset(
    (ApiKey.InitProducerId, ApiKey.AddPartitionsToTxn, ApiKey.AddOffsetsToTxn, ApiKey.EndTxn)
)
_OF_GROUPS: Final = frozenset(
    (
        *(ApiKey.JoinGroup, ApiKey.SyncGroup, ApiKey.Heartbeat, ApiKey.LeaveGroup, ApiKey.ConsumerGroupHeartbeat),
        *(ApiKey.OffsetCommit, ApiKey.OffsetFetch, ApiKey.TxnOffsetCommit, ApiKey.OffsetDelete),
    )
)
_NOBODY: Final = {"node_id": -1, "host": "", "port": -1, "error_code": int(ErrorCode.COORDINATOR_NOT_AVAILABLE)}

Key = tuple[int, str]
"""A key type of FindCoordinator, and the group or transactional id."""


class _Away(NamedTuple):
    node_id: int
    from_us: float


class Coordinators:
    """Who is shown to coordinate what; only what the proxy has told somebody is relayed."""

    __slots__ = ("_away", "_changed", "_cluster", "_gives_up", "_true")

    def __init__(self, cluster: Cluster, changed: Callable[[], None]) -> None:
        self._cluster = cluster
        self._changed = changed
        self._away: dict[str, _Away] = {}
        self._true: dict[Key, int] = {}
        self._gives_up = False

    def leave(self, node_id: int, started_by: str, others_from_us: Callable[[], float] | None) -> None:
        """A broker is away, as this rule wants it: others coordinate in its place from then on (None: nobody does)."""
        known = self._away.get(started_by)
        if known is None or known.node_id != node_id:
            self._away[started_by] = _Away(node_id, float("inf") if others_from_us is None else others_from_us())

    def come_back(self, started_by: str) -> None:
        """The broker that this rule kept away coordinates again; nothing where there is none."""
        back = self._away.pop(started_by, None)
        self._gives_up = self._gives_up and back is None
        if back is not None and back.node_id in self._true.values():
            self._true = {key: node_id for key, node_id in self._true.items() if node_id != back.node_id}
            self._changed()

    def give_up(self) -> None:
        """Requests can't be relayed: nobody coordinates in the place of who is away, until somebody comes back."""
        self._gives_up = True
        self._true.clear()
        self._changed()

    def any_of(self, api_key: int) -> bool:
        """Whether requests of an API may have to be relayed."""
        return bool(self._true) and (api_key in _OF_TRANSACTIONS or api_key in _OF_GROUPS)

    def told(self, request: Request, answer: Body, started_by: str, now_us: int) -> Body:
        """A FindCoordinator answer in which the broker that this rule keeps away coordinates nothing."""
        away = self._away[started_by]
        key_type = request.body.get("key_type", GROUP_KEY_TYPE)

        def other(entry: dict[str, Any], key: str) -> dict[str, Any]:
            if entry["node_id"] != away.node_id:
                return entry
            node_id = self._other(away.node_id) if now_us >= away.from_us and not self._gives_up else None
            if node_id is None or key_type not in (GROUP_KEY_TYPE, TRANSACTION_KEY_TYPE):
                return {**entry, **_NOBODY}
            if (key_type, key) not in self._true:
                self._true[key_type, key] = away.node_id
                self._changed()
            broker = self._cluster.brokers[node_id]
            return {**entry, "node_id": node_id, "host": broker.host, "port": broker.port}

        if "coordinators" in answer:
            return {**answer, "coordinators": [other(entry, entry["key"]) for entry in answer["coordinators"]]}
        return other(answer, request.body["key"])

    def true_of(self, request: Request, node_id: int | None) -> int | None:
        """The broker to relay a request to that came to the broker `node_id`; None where it is to be left alone."""
        if node_id is None or not self.any_of(request.header.api_key):
            return None
        true = {self._true.get(key) for key in _named(request)}
        if len(true) != 1:
            return None
        (coordinator,) = true
        return coordinator if coordinator is not None and node_id == self._other(coordinator) else None

    def away_by(self, node_id: int) -> list[str]:
        """The rules that keep a broker away."""
        return [started_by for started_by, away in self._away.items() if away.node_id == node_id]

    def _other(self, node_id: int) -> int | None:
        """Who is shown in place of this one: the next broker that is there."""
        away = {each.node_id for each in self._away.values()} | {node_id}
        others = sorted(other for other in self._cluster.brokers if other not in away)
        return next((other for other in others if other > node_id), others[0] if others else None)


def relayed_whole(node_id: int, forward: Forward, request: Request, by: Iterable[Touch]) -> Relay:
    """What would go to the connection's own broker goes to that one, as a whole.

    If it can't be asked, no coordinator is there: because of the rules `by` which it was to be.
    """
    code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def merge(answers: Mapping[int | None, Body]) -> Body:
        answer = answers[node_id] if node_id in answers else refusal(request, code)
        return answer if forward.merge is None else forward.merge(answer)

    return Relay({node_id: forward.body}, None, merge, lost={node_id: tuple(Lost(*touch, code, None) for touch in by)})


def _named(request: Request) -> list[Key]:
    api_key, body = request.header.api_key, request.body
    if api_key in _OF_TRANSACTIONS:
        return [(TRANSACTION_KEY_TYPE, name) for name in transactional_ids_named(api_key, body)]
    return [(GROUP_KEY_TYPE, name) for name in groups_named(api_key, body)]
