"""The admin server: uvicorn inside the proxy's own event loop, without a hand on its signals."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Generator, Iterable
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from notleader.proxy.admin.app import create_app
from notleader.proxy.admin.guard import Guard, check_exposure
from notleader.proxy.admin.pace import Pace
from notleader.proxy.admin.settling import Settling, Spread
from notleader.proxy.admin.target import ControlledProxy
from notleader.proxy.admin.toxics.engine import ToxicProxies
from notleader.proxy.net.lag import sample_loop_lag

_MAX_CONNECTIONS: Final = 256
_GRACE_S: Final = 1
_TICKS_PER_S: Final = 10  # as uvicorn counts them
_OFFER: Final = re.compile(rb"(?<=\r\n)upgrade: *h2c\r\n", re.IGNORECASE)  # a body is JSON: it has no such line


class _Http(HttpToolsProtocol):
    """HTTP without the offer to change to HTTP/2, which Java's `HttpClient` makes with its first request.

    A server may ignore an offer (RFC 9110, section 7.8), but httptools takes it for accepted and drops the body.
    """

    def data_received(self, data: bytes) -> None:
        if b"h2c" in data:
            data = _OFFER.sub(b"", data, 1)
        super().data_received(data)


class _Uvicorn(uvicorn.Server):
    """uvicorn without its signal handlers, for the proxy decides what SIGINT and SIGTERM mean; it wakes once a second.

    uvicorn itself does ten times, to see whether it should exit: here `end` says so.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Let `serve` return."""
        self.should_exit = True
        self._ended.set()

    async def main_loop(self) -> None:
        """Write the time of the answers' `Date` anew each second, until the end."""
        tick = 0
        while not await self.on_tick(tick):
            tick += _TICKS_PER_S
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), 1)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


class HttpServer:
    """Serves an application at `host:port`; with port 0 the system picks one (see `port`)."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._server: _Uvicorn | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        """`host:port` as it is listened on, IPv6 addresses in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def start(self, app: ASGIApp) -> None:
        """Listen and serve. Raises OSError when the address cannot be listened on (in use, not ours, name unknown)."""
        listening = await _listen(self.host, self.port)
        self.port = listening.getsockname()[1]
        config = uvicorn.Config(
            app,
            lifespan="off",
            ws="none",
            http=_Http,
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=_MAX_CONNECTIONS,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = _Uvicorn(config)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]), name="admin-server")
        while not self._server.started:
            if self._serving.done():
                await self._serving
                raise OSError(f"the HTTP server at {self.address} did not start")
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Let running requests finish for a second, close the port; harmless when not started."""
        if self._server is not None and self._serving is not None:
            self._server.end()
            await asyncio.gather(self._serving, return_exceptions=True)
        self._server = self._serving = None


class AdminServer:
    """Serves one proxy's control plane at `host:port`; with port 0 the system picks one (see `port`).

    `hosts` are further names by which clients may call it.
    """

    def __init__(
        self,
        proxy: ControlledProxy,
        host: str = "127.0.0.1",
        port: int = 8474,
        token: str | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        self._proxy = proxy
        self._token = token
        self._hosts = tuple(hosts)
        self._stopping = asyncio.Event()
        self._toxics = ToxicProxies(proxy.plan.seed, lambda: proxy, proxy.listeners)
        self._http = HttpServer(host, port)
        self._lag: asyncio.Task[None] | None = None

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._http.host

    @property
    def port(self) -> int:
        """The port that was really bound, once it has started."""
        return self._http.port

    @property
    def address(self) -> str:
        """`host:port` as it is listened on, IPv6 addresses in brackets."""
        return self._http.address

    async def start(self) -> None:
        """Listen and serve.

        Raises ValueError when the address is open to the network without a token, OSError when it cannot be
        listened on (in use, not ours, name unknown).
        """
        check_exposure(self.host, self._token)
        app = create_app(self._proxy, stopping=self._stopping, toxics=self._toxics)
        settling = Settling(app, self._proxy) if isinstance(self._proxy, Spread) else app
        # Strangers are turned away before they are made to wait: they take nobody's turn.
        await self._http.start(Guard(Pace(settling), listen_host=self.host, hosts=self._hosts, token=self._token))
        self._lag = asyncio.create_task(sample_loop_lag(self._proxy.counters), name="loop-lag")

    async def stop(self) -> None:
        """End streams, let running requests finish for a second, close the port; harmless when not started."""
        self._stopping.set()
        if self._lag is not None:
            self._lag.cancel()
        await self._http.stop()
        await self._toxics.stop()


async def _listen(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # Clients that know `localhost` as 127.0.0.1 alone are more than those that know it as ::1 alone.
    family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
