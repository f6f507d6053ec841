"""What a control plane and its workers say to each other, beyond plain values."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from notleader.faults.actions import Action, PartitionKey
from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.proxy.config.settings import Settings
from notleader.proxy.session.metrics import Counters


class Client(NamedTuple):
    """What a decision may depend on of a connection; sent along with each question."""

    connection_id: int
    listener: str
    node_id: int | None
    client_addr: str
    client_id: str | None
    principal: str | None
    claimed_principal: str | None
    client_software_name: str | None
    client_software_version: str | None
    uses_sasl: bool

    @classmethod
    def of(cls, connection: Connection) -> Self:
        """A connection as it stands."""
        return cls._make(getattr(connection, name) for name in cls._fields)


class Decided(NamedTuple):
    """A decision as it is sent; `waits` is how many rules act on the answer, `merges` that an action merges answers.

    The control plane keeps its own, with what can't be sent, under `ticket` until told to forget it.
    """

    ticket: int
    actions: tuple[Action, ...]
    hits: tuple[Hit, ...]
    waits: int
    refused: frozenset[PartitionKey]
    merges: bool


class Start(NamedTuple):
    """What a worker has to know to begin."""

    settings: Settings
    number: int
    run_id: str
    clock_offset_ns: int
    log_level: int


class WorkerReport(NamedTuple):
    """How a worker does: its counters, its recorder's status, and its connections where they were asked for."""

    counters: Counters
    capture: dict[str, Any] | None
    connections: list[dict[str, object]]
