"""A real proxy with its admin server; no Kafka is needed where only the controls are tested."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

import pytest
import uvloop

from notleader.proxy.admin.serve import AdminServer
from notleader.proxy.config.settings import Settings
from notleader.proxy.net.server import Proxy


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@dataclass
class Controlled:
    """A proxy in front of nothing, and its admin server."""

    proxy: Proxy
    admin: AdminServer

    @property
    def url(self) -> str:
        return f"http://{self.admin.address}"


@contextlib.asynccontextmanager
async def serve_controls(
    bootstrap: str = "127.0.0.1:1", token: str | None = None, hosts: Iterable[str] = ()
) -> AsyncIterator[Controlled]:
    settings = {
        "kafka": bootstrap,
        "listen": "127.0.0.1:0",
        "seed": 7,
        "connect_timeout_ms": 2000,
        "capture_root": tempfile.gettempdir(),
        "capture_stop_s": 120,  # on a busy machine the recorder's start alone takes longer than by default is waited
    }
    proxy = Proxy(Settings.model_validate(settings))
    await proxy.start()
    admin = AdminServer(proxy, "127.0.0.1", 0, token, hosts)
    try:
        await admin.start()
        yield Controlled(proxy, admin)
    finally:
        await admin.stop()
        await proxy.stop()


@pytest.fixture
async def controlled() -> AsyncIterator[Controlled]:
    async with serve_controls() as found:
        yield found


@pytest.fixture
async def echo_server() -> AsyncIterator[str]:
    """The address of a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"{host}:{port}"
    server.close()
    await server.wait_closed()
