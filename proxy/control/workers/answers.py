"""The control plane's answers to one worker: every method is a question, asked by its name."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from notleader.faults.actions import Body, Forward, Relay
from notleader.faults.base import Connection, StandingFault
from notleader.faults.decision import NOTHING, Decision
from notleader.faults.match import Match
from notleader.faults.needs import REQUEST, REQUEST_BODY, RESPONSE_BODY
from notleader.faults.standing import LinkState
from notleader.proxy.control.workers.memory import CLUSTER, DIRECTORY
from notleader.proxy.control.workers.messages import Client, Decided
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response

if TYPE_CHECKING:
    from notleader.faults.cluster import Broker
    from notleader.faults.plan import Plan
    from notleader.proxy.control.workers.memory import Changes
    from notleader.proxy.net.directory import Directory


class Plane(Protocol):
    """What decides and counts for all workers; `control.ControlPlane` is it."""

    plan: Plan
    changes: Changes
    directory: Directory

    def numbered(self) -> int: ...
    def latest(self, now_us: int) -> int: ...
    def uniform(self, low: float, high: float) -> float: ...
    def brokers_seen(self, node_ids: set[int]) -> None: ...


class Answers:
    """Answers one worker, whose connections and open decisions it knows."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._decisions: dict[int, tuple[Decision, Request]] = {}
        self._tickets = 0
        self._connections: dict[int, Connection] = {}
        self.open: set[int] = set()
        """The connections that the worker has."""

    def __call__(self, what: str, *arguments: Any) -> Any:
        return getattr(self, f"answer_{what}")(*arguments)

    def _connection(self, client: Client) -> Connection:
        connection = self._connections.get(client.connection_id)
        if connection is None:
            number = client.connection_id
            connection = Connection(number, number, client.listener, client.node_id, client.client_addr)
            self._connections[number] = connection
        for name, value in zip(Client._fields, client, strict=True):
            setattr(connection, name, value)
        return connection

    def closed(self, connection_id: int) -> None:
        """A connection is over."""
        self.open.discard(connection_id)
        self._connections.pop(connection_id, None)

    # ---- connections and addresses

    def answer_accepted(self) -> int:
        """The number of a new connection."""
        return self._plane.numbered()

    def answer_endpoint(self, node_id: int, host: str, port: int) -> int:
        """The port at which a broker is reached, opened now if it is new. Raises OSError."""
        directory = self._plane.directory
        known = directory.brokers.get(node_id)
        if known is not None and (known.host, known.port) != (host, port):
            self._plane.changes.counts[DIRECTORY] += 1
        return directory.endpoint(node_id, host, port).listen_port

    def answer_broker(self, node_id: int) -> tuple[str, int] | None:
        """Where a broker really is."""
        entry = self._plane.directory.brokers.get(node_id)
        return None if entry is None else (entry.host, entry.port)

    def answer_observe(self, api_version: int, body: bytes) -> tuple[int, dict[int, Broker]]:
        """Learn from a Metadata answer; as of which count it is known, and the brokers."""
        plan, counts = self._plane.plan, self._plane.changes.counts
        if plan.cluster.is_news(api_version, body):
            decoded = response_codec(ApiKey.Metadata, api_version).decode(body, 0)
            plan.cluster.observe_metadata(decoded, (api_version, body))
            counts[CLUSTER] += 1
            self._plane.brokers_seen(set(plan.cluster.brokers))
        return counts[CLUSTER], plan.cluster.brokers

    def answer_topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic id."""
        return self._plane.plan.cluster.topic_name(topic_id)

    def answer_topic_names(self, known: int) -> dict[UUID, str]:
        """All topic ids' names but for the first so many."""
        return dict(islice(self._plane.plan.cluster.topic_names().items(), known, None))

    def answer_uniform(self, low: float, high: float) -> float:
        """A random number of the transports' one stream."""
        return self._plane.uniform(low, high)

    # ---- the plan

    def answer_interest(self, api_key: int, api_version: int) -> int:
        """What the plan has to be shown."""
        return self._plane.plan.interest(api_key, api_version)

    def answer_tells(self, api_key: int, api_version: int) -> bool:
        """Whether the elections have a word in an API's answers."""
        return bool(self._plane.plan.elections.interest(api_key, api_version) & RESPONSE_BODY)

    def answer_meant(self, api_key: int, api_version: int) -> list[Match] | None:
        """What the rules in force mean of an API; None where every request has to be seen."""
        plan = self._plane.plan
        if plan.elections.interest(api_key, api_version) & REQUEST:
            return None
        if api_key == ApiKey.Fetch and plan.interest(api_key, api_version) & REQUEST_BODY:
            return None  # what later ones leave unsaid
        return [rule.fault.match for rule in plan.rules_for(api_key) if not rule.is_exhausted]

    def answer_standing(self) -> tuple[bool, bool]:
        """Whether rules act on new connections, and whether rules stand."""
        faults = [rule.fault for rule in self._plane.plan.rules() if rule.is_on]
        stand = any(isinstance(fault, StandingFault) for fault in faults)
        return any(fault.phase == "connection" and not isinstance(fault, StandingFault) for fault in faults), stand

    def answer_on_connect(self, client: Client, now_us: int) -> Decision:
        """What to do with a new connection."""
        return self._plane.plan.on_connect(self._connection(client), self._plane.latest(now_us))

    def answer_links(self, clients: list[Client], now_us: int) -> list[LinkState]:
        """What open connections have to be."""
        now_us = self._plane.latest(now_us)
        return [self._plane.plan.link(self._connection(client), now_us) for client in clients]

    def answer_is_held(self, rule_name: str, number: int | None) -> bool:
        """Whether an exchange held by that rule still has to wait."""
        return self._plane.plan.is_held(rule_name, number)

    def answer_on_request(self, forgotten: list[int], client: Client, frame: bytes, now_us: int) -> Decided | None:
        """What to do with a request; None for nothing."""
        for ticket in forgotten:
            self._decisions.pop(ticket, None)
        request = Request(frame)
        decision = self._plane.plan.on_request(self._connection(client), request, self._plane.latest(now_us))
        if decision is NOTHING:
            return None
        self._tickets += 1
        self._decisions[self._tickets] = decision, request
        merges = any(isinstance(action, Forward | Relay) and action.merge is not None for action in decision.actions)
        actions = decision.actions
        if merges:
            actions = tuple(
                replace(action, merge=None) if isinstance(action, Forward | Relay) else action for action in actions
            )
        return Decided(self._tickets, actions, decision.hits, len(decision.on_response), decision.refused, merges)

    def answer_merge(self, ticket: int, answers: Any) -> Body:
        """One answer out of those to a request that was decided on."""
        decision, _ = self._decisions[ticket]
        for action in decision.actions:
            if isinstance(action, Forward | Relay) and action.merge is not None:
                return action.merge(answers)
        raise AssertionError(f"{decision} merges nothing")

    def answer_on_response(self, client: Client, kept: int | bytes, frame: bytes, now_us: int) -> Decision | None:
        """What to do with an answer; `kept` is the ticket of its request's decision, or the request."""
        decision, request = (NOTHING, Request(kept)) if isinstance(kept, bytes) else self._decisions[kept]
        response = Response(frame, request)
        connection, now_us = self._connection(client), self._plane.latest(now_us)
        after = self._plane.plan.on_response(connection, request, response, decision, now_us)
        return None if after is NOTHING else after
