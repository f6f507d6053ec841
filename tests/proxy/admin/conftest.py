"""A proxy without sockets, and HTTP clients that reach its control plane without any either."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.faults.timeline import Timeline
from notleader.proxy.admin.app import create_app
from notleader.proxy.session.metrics import Counters
from notleader.proxy.wire.header import encode_request_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request


@dataclass
class Endpoint:
    node_id: int
    host: str = "kafka"
    port: int = 9092
    listen_host: str = "127.0.0.1"
    listen_port: int = 19092


class FakeCapture:
    """What a capture writer is asked to do, written down."""

    def __init__(self, directory: Path | None) -> None:
        self.directory = directory
        self.queued_rows = self.written_rows = self.lost_rows = self.segments = 0
        self.done: list[str] = []

    def status(self) -> dict[str, Any]:
        return {"directory": str(self.directory), "segments": self.segments}

    async def rotate(self) -> None:
        self.done.append("rotate")

    def mark(self, label: str) -> None:
        self.done.append(f"mark {label}")


class FakeProxy:
    """The real plan and counters, and a log of everything else."""

    def __init__(self) -> None:
        self.run_id = "run-1"
        self.ready = True
        self.plan = Plan(seed=7)
        self.counters = Counters()
        self.capture: FakeCapture | None = None
        self.timeline: Timeline | None = None
        self.changes = 0
        self.capture_roots = ["capture", "s3://key:word@bucket/tests?region=here"]
        self.there: dict[str, set[int]] | None = {"orders": {0, 1}}
        self.clock_us = 1_000_000
        self.open = {4: {"connection_id": 4, "client_addr": "127.0.0.1:5"}}
        self.closed: list[tuple[int, bool]] = []
        self.queues: list[asyncio.Queue[dict[str, Any]]] = []

    def now_us(self) -> int:
        return self.clock_us

    def plan_changed(self) -> None:
        self.changes += 1

    def start_timeline(self, timeline: Timeline) -> None:
        self.timeline = timeline

    def brokers(self) -> list[Endpoint]:
        return [Endpoint(2), Endpoint(1)]

    async def topics(self) -> dict[str, set[int]] | None:
        return self.there

    def listeners(self) -> list[tuple[str, str, str]]:
        return [
            ("bootstrap", "127.0.0.1:19092", "kafka:9092"),
            *((f"broker-{one.node_id}", f"127.0.0.1:{one.listen_port}", "kafka:9092") for one in self.brokers()),
        ]

    def passage(self, name: str, host: str, port: int) -> Callable[[], asyncio.Protocol]:
        raise NotImplementedError

    def connections(self) -> list[dict[str, Any]]:
        return list(self.open.values())

    def close_connection(self, connection_id: int, reset: bool = False) -> bool:
        self.closed.append((connection_id, reset))
        return self.open.pop(connection_id, None) is not None

    @contextlib.contextmanager
    def subscribe(
        self, accepts: Callable[[Mapping[str, Any]], bool] | None = None
    ) -> Iterator[asyncio.Queue[dict[str, Any]]]:
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(10)
        self.queues.append(queue)
        try:
            yield queue
        finally:
            self.queues.remove(queue)

    async def notable(self) -> list[dict[str, Any]]:
        return []

    async def start_capture(self, directory: str | None, level: str | None) -> None:
        if directory is not None and directory.endswith("nowhere"):
            raise OSError("read-only")
        self.capture = FakeCapture(Path(directory or "capture"))

    async def stop_capture(self) -> None:
        self.capture = None

    def serve(self, api_key: ApiKey = ApiKey.Produce, times: int = 1) -> None:
        """Let a client send requests that the plan decides on by their header."""
        connection = Connection(1, 1, "bootstrap", None, "127.0.0.1:5")
        for _ in range(times):
            frame = encode_request_header(api_key, 8, 1, "test")
            self.plan.on_request(connection, Request(frame), self.clock_us)


@pytest.fixture
def proxy() -> FakeProxy:
    return FakeProxy()


@pytest.fixture
async def client(proxy: FakeProxy) -> AsyncIterator[httpx.AsyncClient]:
    """HTTP straight into the application."""
    transport = httpx.ASGITransport(create_app(proxy), raise_app_exceptions=False)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8474") as made:
        yield made
