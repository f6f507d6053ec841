"""Scenarios as data: clients with their work, faults, the effects that are true of them, and what caused each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Rule = Mapping[str, Any]
"""A fault as a user writes it, in YAML or JSON."""

IN_WORKERS = ("aiokafka", "confluent-kafka", "kafka-python")
"""Libraries whose clients live together in one process of this suite; the others have a program each."""


@dataclass(frozen=True, kw_only=True)
class Producer:
    """Sends `messages` numbered messages to `partitions` in turn, `interval_ms` apart, and waits for their outcomes."""

    name: str
    lib: str = "aiokafka"
    version: str = ""
    topic: str = "orders"
    partitions: int = 1
    messages: int = 20
    interval_ms: int = 20
    acks: str = "all"
    idempotent: bool = False
    transaction: int = 0
    """Messages in a transaction; 0: none."""
    abort_every: int = 0
    """Each such transaction is aborted."""
    sync: bool = False
    """Each send is waited for before the next one."""
    timeout_ms: int = 1500
    delivery_ms: int = 6000
    resend: int = 0
    """How often the application sends a message again that failed."""
    client_id: str = ""
    """Kafka's client id; the name when empty."""
    wait_ms: int = 10_000
    """How long the last outcomes are waited for."""
    own_process: bool = False
    """In a process of its own, which ends without closing the client: what pends then pends for ever."""
    kill_ms: int = 0
    """Killed (SIGKILL) after this time."""
    start_ms: int = 0
    keys: int = 0
    """So many different keys in turn; 0: each message has its own."""
    clock_us: int = 0
    """How far the clock is off by which its lines are written."""
    options: Mapping[str, Any] = field(default_factory=dict)

    role = "produce"


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """Reads topics: without a group to their present ends, with one until `messages` came or nothing for `idle_ms`."""

    name: str
    lib: str = "aiokafka"
    version: str = ""
    topic: str = "orders"
    group: str = ""
    messages: int = 0
    idle_ms: int = 1500
    commit: str = "end"
    """`end`, `each` (poll) or `none`."""
    slow_ms: int = 0
    """How long each poll's records take."""
    rewind_after: int = 0
    """Seek to the beginning once, after so many records."""
    skip_to_end_after: int = 0
    committed: bool = False
    """isolation.level read_committed."""
    reset: str = "earliest"
    timeout_ms: int = 4000
    client_id: str = ""
    own_process: bool = False
    kill_ms: int = 0
    start_ms: int = 0
    clock_us: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    role = "consume"


Client = Producer | Consumer


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Rules are taken away and added, then the clients work; the next phase begins when they are done."""

    clients: tuple[Client, ...] = ()
    remove: tuple[str, ...] = ()
    add: tuple[Rule, ...] = ()
    after_first_of: str = ""
    """All of this waits until that client was told a first success."""
    pause_ms: int = 0
    """Waited before the clients start."""
    until_done: bool = False
    """Those in the background are waited for, before the next phase begins."""
    background: bool = False
    """The next phase does not wait for these clients."""
    recreate: tuple[str, ...] = ()
    """Topics that are deleted and created again first."""


@dataclass(frozen=True)
class Effect:
    """What is true of a run: `check` has something to tell of `client`, and these rules and no others did it.

    `by` empty: it is true, and no rule's doing. `sure`: the control without the rules has none of it. A rule may be
    named through either of two names when both do (`any_of`): one is enough then, and so are all.
    """

    check: str
    client: str | None
    by: tuple[str, ...] = ()
    at_least: int = 1
    any_of: bool = False
    stays: bool = True
    """Without the innocent rules the effect is there still (not asked where each of two would do it alone)."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One story; planted when it has effects by rules, else healthy."""

    name: str
    phases: tuple[Phase, ...]
    faults: tuple[Rule, ...] = ()
    effects: tuple[Effect, ...] = ()
    besides: tuple[Effect, ...] = ()
    """What may come of it too, or not, as it happens: when it is told, then by these rules."""
    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 1})
    topic_configs: Mapping[str, str] = field(default_factory=dict)
    brokers: int = 1
    kafka: str = "4"
    """The brokers' version, or how it begins."""
    sasl: bool = False
    """The proxy is in front of the brokers' listener on which clients say who they are."""
    healthy: bool = False
    fast: bool = False
    level: str = "record"
    alone: bool = False
    """Judged by itself: with others, what it shows could not be told from theirs."""
    twist: Callable[[Any], None] | None = None
    """What happens to the recording before it is judged: segments copied, lines doubled. Gets the run's folder."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Bounds given to the analysis."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.faults + tuple(rule for phase in self.phases for rule in phase.add)

    @property
    def clients(self) -> tuple[Client, ...]:
        return tuple(client for phase in self.phases for client in phase.clients)


def reader(name: str = "reader", **more: Any) -> Phase:
    """A last phase in which somebody reads everything."""
    return Phase(clients=(Consumer(name=name, **more),))
