"""A fault in force: its counters, its random source, and how much it has to be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from notleader.faults.base import Connection, Fault, StandingFault
from notleader.faults.effects import Effect
from notleader.faults.hit import Hit
from notleader.faults.needs import REQUEST, REQUEST_BODY, RESPONSE_BODY
from notleader.faults.random_source import RandomSource
from notleader.faults.trigger import TriggerState
from notleader.proxy.wire.names import ApiKey


class Rule:
    """One rule of a plan.

    `hits` counts the exchanges and connections hit, `refused` those it would have hit but couldn't (with the last
    reason in `last_refusal`), `is_exhausted` says that nothing can be hit any more, `is_on` is what `Plan.switch` sets.
    """

    __slots__ = (
        "_say",
        "api_keys",
        "fault",
        "hits",
        "is_exhausted",
        "is_on",
        "last_refusal",
        "needs",
        "number",
        "random",
        "refused",
        "released",
        "state",
        "struck_node_id",
        "trigger",
    )

    def __init__(
        self,
        fault: Fault,
        random: RandomSource,
        now_us: int | None,
        say: Callable[[Rule, str], None] = lambda rule, reason: None,
        number: int = 0,
    ) -> None:
        self.fault = fault
        self.number = number
        self._say = say
        self.hits = 0
        self.refused = 0
        self.last_refusal = ""
        self.released = False
        self.struck_node_id: int | None = None
        """The broker of the exchange that it struck last; None where that is not known."""
        self.is_exhausted = False
        self.is_on = True
        self.state: dict[str, Any] = {}
        self.random = random
        self.trigger = TriggerState(fault.trigger, random, now_us)
        self.api_keys = fault.api_keys
        self.needs = _needs(fault, self.api_keys)

    @property
    def name(self) -> str:
        return self.fault.name

    def __repr__(self) -> str:
        return f"Rule({self.name!r}, {self.fault.kind}, hits={self.hits})"

    def scope(self, connection: Connection) -> object:
        """What the trigger counts for, as far as the connection says it."""
        if self.fault.trigger.per == "connection":
            return connection.connection_id
        if self.fault.trigger.per == "client":
            return connection.client_id
        return None

    def hit(self, effects: tuple[Effect, ...] = ()) -> Hit:
        """Count one hit."""
        self.hits += 1
        return self.seen(effects)

    def seen(self, effects: tuple[Effect, ...] = ()) -> Hit:
        """A hit that was counted before, with what came of it."""
        return Hit(self.name, self.fault.kind, self.fault.phase, effects=effects)

    def refuse(self, reason: str) -> None:
        """Count one exchange that was meant but can't be faulted."""
        self.refused += 1
        if reason != self.last_refusal:
            self.last_refusal = reason
            self._say(self, reason)


def _needs(fault: Fault, api_keys: frozenset[int] | None) -> int:
    if isinstance(fault, StandingFault):
        return REQUEST | RESPONSE_BODY if fault.watches else 0
    if fault.phase == "connection":
        return 0
    needs = REQUEST
    if fault.match.needs_body or fault.reads_request or fault.trigger.per == "partition":
        needs |= REQUEST_BODY
    if fault.phase == "after_broker":
        needs |= RESPONSE_BODY
        if api_keys is None or ApiKey.Produce in api_keys:
            needs |= REQUEST_BODY  # acks=0: there will be no answer to act on
    return needs


def union(rules: Iterable[Rule]) -> int:
    """What all these rules together have to be shown."""
    needs = 0
    for rule in rules:
        needs |= rule.needs
    return needs
