"""A worker's view of the plan: what it remembers of it, and whom it asks.

Only what the plan may have something to say about is asked of the control plane: requests that a rule in force means
as far as their header, and the topics or groups that it names, can tell, and everything that an election touches.
What is remembered is thrown away as soon as the plan changes (`memory.PLAN`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from notleader.faults.actions import Action, Body, Forward, Relay
from notleader.faults.cluster import Cluster
from notleader.faults.decision import NOTHING, Decision, Pending
from notleader.faults.index import Index
from notleader.faults.open_decision import OpenDecision
from notleader.faults.plan import Plan
from notleader.faults.standing import UNTOUCHED, LinkState
from notleader.proxy.control.workers.memory import CLUSTER, PLAN
from notleader.proxy.control.workers.messages import Client, Decided
from notleader.proxy.pump.flags import api_number
from notleader.proxy.wire.codec import is_known
from notleader.proxy.wire.names import ApiKey

if TYPE_CHECKING:
    from notleader.faults.base import Connection
    from notleader.faults.match import Match
    from notleader.proxy.wire.view import Request, Response

Ask = Callable[..., Any]


class _Kept(Decision):
    """A decision of the control plane, which keeps it as long as this one lives."""

    __slots__ = ("_forget", "ticket")

    def __init__(self, decided: Decided, ask: Ask, forget: Callable[[int], None]) -> None:
        actions = decided.actions
        if decided.merges:
            actions = tuple(self._merging(action, ask) for action in actions)
        super().__init__(actions, decided.hits, (Pending(None, None),) * decided.waits, decided.refused)
        self.ticket = decided.ticket
        self._forget = forget

    def _merging(self, action: Action, ask: Ask) -> Action:
        if not isinstance(action, Forward | Relay):
            return action

        def merge(answers: Any) -> Body:
            merged: Body = ask("merge", self.ticket, answers)
            return merged

        return replace(action, merge=merge)

    def __del__(self) -> None:
        self._forget(self.ticket)


class _Meant:
    """As much of a rule as its index and the header of a request need."""

    def __init__(self, match: Match) -> None:
        self.fault = self
        self.match = match


class RemotePlan(Plan):
    """The plan of the control plane, as the sessions of a worker see it."""

    def __init__(self, ask: Ask, counts: memoryview, seed: int) -> None:
        super().__init__(seed)
        self.cluster: RemoteCluster = RemoteCluster(ask, counts)
        self._ask = ask
        self._counts = counts
        self._seen = -1
        self._interests: dict[int, int] = {}
        self._meant: dict[int, Index | None] = {}
        self._answers: dict[tuple[str | int, ...], Any] = {}
        self._forgotten: deque[int] = deque()

    def _look(self) -> None:
        """Forget what was remembered of another plan than today's."""
        if self._counts[PLAN] != self._seen:
            # The count first: what is asked for afterwards is at least as new.
            self._seen = self._counts[PLAN]
            self._interests.clear()
            self._meant.clear()
            self._answers.clear()

    def _remembered(self, *question: str | int) -> Any:
        """The answer to a question about the plan as it is; asked once."""
        self._look()
        if question not in self._answers:
            self._answers[question] = self._ask(*question)
        return self._answers[question]

    def interest(self, api_key: int, api_version: int) -> int:
        """What the plan has to be shown of an API's exchanges."""
        if self._counts[PLAN] != self._seen:
            self._look()
        key = api_number(api_key, api_version)
        flags = self._interests.get(key)
        if flags is None:
            flags = self._interests[key] = self._ask("interest", api_key, api_version)
        return flags

    # ---- connections

    def on_connect(self, connection: Connection, now_us: int) -> Decision:
        """What to do with a new connection."""
        if not self._standing()[0]:
            return NOTHING
        decision: Decision = self._ask("on_connect", Client.of(connection), now_us)
        return decision

    def link(self, connection: Connection, now_us: int) -> LinkState:
        """What an open connection has to be now."""
        return self.links([connection], now_us)[0]

    def links(self, connections: list[Connection], now_us: int) -> list[LinkState]:
        """The same of many, in one question."""
        if not self._standing()[1]:
            return [UNTOUCHED] * len(connections)
        states: list[LinkState] = self._ask("links", [Client.of(connection) for connection in connections], now_us)
        return states

    def _standing(self) -> tuple[bool, bool]:
        stands: tuple[bool, bool] = self._remembered("standing")
        return stands

    def is_held(self, rule_name: str, number: int | None = None) -> bool:
        """Whether an exchange held by that rule still has to wait."""
        held: bool = self._ask("is_held", rule_name, number)
        return held

    # ---- requests and answers

    def on_request(self, connection: Connection, request: Request, now_us: int) -> Decision:
        """What to do with a request."""
        if not self._may_be_meant(connection, request, now_us):
            return NOTHING
        forgotten = []
        while self._forgotten:
            forgotten.append(self._forgotten.popleft())
        decided: Decided | None = self._ask(
            "on_request", forgotten, Client.of(connection), bytes(request.frame), now_us
        )
        return NOTHING if decided is None else _Kept(decided, self._ask, self._forgotten.append)

    def _may_be_meant(self, connection: Connection, request: Request, now_us: int) -> bool:
        """Whether some rule may mean a request: what isn't known here counts as yes."""
        self._look()
        header = request.header
        key = api_number(header.api_key, header.api_version)
        if key not in self._meant:
            matches: list[Match] | None = self._ask("meant", header.api_key, header.api_version)
            meant: Any = None if matches is None else [_Meant(match) for match in matches]
            self._meant[key] = None if meant is None else Index(meant)
        index = self._meant[key]
        if index is None:
            return True
        rules = index.rules
        if index.is_needed and is_known(*header[:2]) and header.api_key != ApiKey.Metadata:
            deciding = OpenDecision(self, connection, request, now_us)
            rules = tuple(index.meaning(header.client_id, deciding.groups, deciding.topics))
        return any(rule.fault.match.header(connection, header) for rule in rules)

    def on_response(
        self, connection: Connection, request: Request, response: Response, decision: Decision, now_us: int
    ) -> Decision:
        """What to do with an answer."""
        header = request.header
        if not decision.on_response and not self._is_told(header.api_key, header.api_version):
            return NOTHING
        kept = decision.ticket if isinstance(decision, _Kept) else bytes(request.frame)
        after: Decision | None = self._ask("on_response", Client.of(connection), kept, bytes(response.frame), now_us)
        return NOTHING if after is None else after

    def _is_told(self, api_key: int, api_version: int) -> bool:
        """Whether the elections have a word in the answers of an API."""
        told: bool = self._remembered("tells", api_key, api_version)
        return told


class RemoteCluster(Cluster):
    """What all workers have seen of the cluster; the truth is the control plane's."""

    def __init__(self, ask: Ask, counts: memoryview) -> None:
        super().__init__()
        self._ask = ask
        self._counts = counts
        self._learned_at = -1
        self._unknown: set[UUID] = set()
        self._unknown_at = -1
        self._named: dict[UUID, str] = {}  # as the control plane has them, in its order
        self._named_at = -1

    def is_news(self, api_version: int, frame: bytes, offset: int = 0) -> bool:
        """Likewise, of what any worker has seen."""
        if self._counts[CLUSTER] != self._learned_at:
            self._known.clear()
        return super().is_news(api_version, frame, offset)

    def observe_metadata(self, body: Body, encoded: tuple[int, bytes] | None = None) -> None:
        """Have everybody learn from an answer."""
        assert encoded is not None  # what isn't on its way to a client only the control plane asks for
        as_of, brokers = self._ask("observe", *encoded)
        if self._learned_at != as_of:
            self._learned_at = as_of
            self._known.clear()
        super().observe_metadata(body, encoded)
        self.brokers = brokers

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """The name of a topic id that some worker has seen; called by live readers' threads too."""
        name = super().topic_name(topic_id)
        if name is not None or topic_id is None:
            return name
        if self._unknown_at != self._counts[CLUSTER]:
            self._unknown_at = self._counts[CLUSTER]
            self._unknown = set()
        if topic_id in self._unknown:
            return None
        told: str | None = self._ask("topic_name", topic_id)
        if told is None:
            self._unknown.add(topic_id)
        else:
            self._names[topic_id] = told
        return told

    def topic_names(self) -> Mapping[UUID, str]:
        """The names of all topic ids that some worker has seen; only grows, in order."""
        if self._named_at != self._counts[CLUSTER]:
            self._named_at = self._counts[CLUSTER]
            self._named.update(self._ask("topic_names", len(self._named)))
        return self._named
