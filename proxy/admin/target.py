"""What the control plane needs of the proxy it controls, and of its capture: nothing more is relied on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from notleader.faults.plan import Plan
from notleader.faults.timeline import Timeline
from notleader.proxy.session.metrics import Counters


class BrokerEndpoint(Protocol):
    """One broker: where it really is, and where the proxy listens in its place."""

    @property
    def node_id(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...
    @property
    def listen_host(self) -> str: ...
    @property
    def listen_port(self) -> int: ...


class ListenerAddress(NamedTuple):
    """A listener's name, its address and that of the server behind it, each HOST:PORT."""

    name: str
    listen: str
    server: str


class CaptureStatus(Protocol):
    """What the metrics read of a capture writer."""

    @property
    def queued_rows(self) -> int: ...
    @property
    def written_rows(self) -> int: ...
    @property
    def lost_rows(self) -> int: ...
    @property
    def segments(self) -> int: ...


class Capture(CaptureStatus, Protocol):
    """A capture writer that runs."""

    @property
    def directory(self) -> str | Path | None:
        """Where it writes; None when it only feeds live readers."""
        ...

    def status(self) -> Mapping[str, Any]:
        """Directory, level, rows and bytes so far, as JSON values."""
        ...

    async def rotate(self) -> None:
        """Finish the current segment, so that every row so far can be read."""
        ...

    def mark(self, label: str) -> None:
        """Write a row that carries `label`, to find this moment again."""
        ...


class ControlledProxy(Protocol):
    """A running proxy. Every mutation of `plan` is followed by one `plan_changed()`."""

    @property
    def run_id(self) -> str: ...

    timeline: Timeline | None
    """The one that runs or ran last; None stops it."""

    @property
    def ready(self) -> bool: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def capture(self) -> Capture | None: ...

    def now_us(self) -> int:
        """The monotonic clock that the plan's decisions are made with, in µs."""
        ...

    def plan_changed(self) -> None:
        """Wake what waits on the plan: held exchanges, elections, listeners."""
        ...

    def start_timeline(self, timeline: Timeline) -> None:
        """Run these steps from now on, in place of an earlier timeline."""
        ...

    def brokers(self) -> Sequence[BrokerEndpoint]: ...

    async def topics(self) -> dict[str, set[int]] | None:
        """The partitions of every topic there is, by a broker's word; None when none says without a login."""
        ...

    def listeners(self) -> Sequence[tuple[str, str, str]]:
        """The Kafka listeners, bootstrap first: name, address, address of the server behind it."""
        ...

    def passage(self, name: str, host: str, port: int) -> Callable[[], asyncio.Protocol]:
        """Makes the client's side of connections to one server, which rules know by the listener `name`."""
        ...

    def connections(self) -> list[dict[str, Any]]:
        """The open client connections as JSON values; `connection_id` names each."""
        ...

    def close_connection(self, connection_id: int, reset: bool = False) -> bool:
        """End one client connection, with RST when `reset`; False when there is none of that id."""
        ...

    def subscribe(
        self, accepts: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> AbstractContextManager[asyncio.Queue[dict[str, Any]]]:
        """A bounded queue that gets the capture rows that `accepts` holds for while the context is open."""
        ...

    async def notable(self) -> list[dict[str, Any]]:
        """The rows of the last exchanges that a fault touched or answered with an error, and of the last events."""
        ...

    @property
    def capture_roots(self) -> Sequence[str]:
        """The folders and URLs below which a recording may be asked for."""
        ...

    async def start_capture(self, directory: str | None, level: str | None) -> None:
        """Begin recording; CaptureError when the directory cannot be written, ValueError without one."""
        ...

    async def stop_capture(self) -> None:
        """Flush and end recording."""
        ...
