"""Which broker is reached through which listener: ports, once given to a node id, stay with it."""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Literal

from notleader.proxy.config.settings import Settings
from notleader.proxy.net.announced import AnnouncedServer, Refused, Welcome
from notleader.proxy.net.sockets import bound, listen_on, refuse, silence
from notleader.proxy.wire.endpoint import Endpoint, is_wildcard

log = logging.getLogger("notleader")

Fate = Literal["open", "refusing", "silent"]


@dataclass(slots=True)
class BrokerEndpoint:
    """One broker: where it really is, and where the proxy listens in its place."""

    node_id: int
    host: str
    port: int
    listen_host: str
    listen_port: int

    @property
    def listen(self) -> Endpoint:
        """Where the proxy listens in its place."""
        return Endpoint(self.listen_host, self.listen_port)


class Listener:
    """One port of the proxy; ``node_id`` None is the bootstrap listener. Raises OSError when made.

    ``fate`` is what faults want of it, ``absent`` says that its broker has left the cluster. A refusing
    listener keeps its port bound, so that nobody else gets it.
    """

    def __init__(self, node_id: int | None, host: str, port: int, accept: Callable[["Listener"], None]) -> None:
        self.node_id = node_id
        self.server: asyncio.Server | AnnouncedServer | None = None
        self._served: socket.socket | None = None
        self.absent = False
        self.fate: Fate = "open"
        self._accept = accept
        self.socket = bound(host, port)
        self.address = Endpoint(host, self.socket.getsockname()[1])
        self._state: Fate | Literal["closed"] = "refusing"
        try:
            self.update()
        except OSError:
            self._close()
            raise

    @property
    def name(self) -> str:
        return "bootstrap" if self.node_id is None else f"broker-{self.node_id}"

    @property
    def port(self) -> int:
        return self.address.port

    def update(self) -> None:
        """Become what ``fate`` and ``absent`` ask for."""
        wanted: Fate = "refusing" if self.absent else self.fate
        if wanted == self._state:
            return
        if wanted == "refusing":
            self._serve_no_more()
            refuse(self.socket)
        elif self._state == "refusing":
            listen_on(self.socket, self.address)
            self._accept(self)
        if "silent" in (wanted, self._state):
            silence(self.socket, wanted == "silent")
        self._state = wanted

    def serve(self, protocol: Callable[[], asyncio.Protocol]) -> Coroutine[None, None, None]:
        """Accept connections without TLS until the listener refuses or closes."""
        listening = self._served = self.socket.dup()  # a server may close what it serves on
        return self._serve(listening, protocol)

    def serve_announced(
        self, welcome: Welcome, tls: ssl.SSLContext | None, refused: Refused, *, has_header: bool
    ) -> None:
        """Accept connections that begin with a PROXY protocol header, or TLS, or one after the other, likewise."""
        self.server = AnnouncedServer(self.socket, welcome, tls, refused, has_header=has_header)

    async def _serve(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        try:
            server = await asyncio.get_running_loop().create_server(protocol, sock=listening)
        except (OSError, RuntimeError, ValueError):
            if self._served is listening:
                raise
            return  # it refused or was closed before it could accept
        if self._served is listening:
            self.server = server
        else:
            server.close()

    def close(self) -> None:
        """Stop listening; connections that are open stay."""
        self._close()
        self._state = "closed"

    def _serve_no_more(self) -> None:
        server, self.server = self.server, None
        served, self._served = self._served, None
        if server is not None:
            server.close()
        if served is not None:
            served.close()

    def _close(self) -> None:
        self._serve_no_more()
        refuse(self.socket)
        self.socket.close()


def advertised_host(settings: Settings, reached: str) -> str:
    """The name by which clients are told to come back; ``reached`` is the address that brought this one here."""
    if settings.advertise is not None:
        return settings.advertise
    return reached if is_wildcard(settings.listen.host) else settings.listen.host


# Opens the listener of a broker (None: of who bootstraps) on a host and port, and says who takes its connections.
Opened = Callable[[int | None, str, int, Callable[[Listener], None]], Listener]


class Directory:
    """The listeners of one proxy, each made by ``opened``; ``accept`` is called with each that begins to listen."""

    def __init__(
        self,
        listen: Endpoint,
        broker_ports: list[int] | None,
        accept: Callable[[Listener], None],
        opened: Opened = Listener,
        *,
        spared_port: int | None = None,
    ) -> None:
        """``spared_port`` is somebody else's, who will want it later: no broker gets it unless it is asked for."""
        self._spared_port = spared_port
        self._host = listen.host
        self._accept = accept
        self._opened = opened
        self._ports = list(broker_ports) if broker_ports else None
        self._next_port: int | None = None
        self.listeners: dict[int | None, Listener] = {}
        self.brokers: dict[int, BrokerEndpoint] = {}

    def open_bootstrap(self, port: int) -> Listener:
        """Listen for bootstrapping clients. Raises OSError when that can't be."""
        listener = self.listeners[None] = self._opened(None, self._host, port, self._accept)
        self._next_port = self._after(port)
        return listener

    def endpoint(self, node_id: int, host: str, port: int, *, strict: bool = False) -> BrokerEndpoint:
        """The broker's entry, with a listener made now if it has none yet.

        A port that is taken raises OSError when ``strict``; else the next free one is used and logged.
        """
        known = self.brokers.get(node_id)
        if known is not None:
            if (known.host, known.port) != (host, port):
                log.info("broker %d moved from %s:%d to %s:%d", node_id, known.host, known.port, host, port)
                known.host, known.port = host, port
            return known
        listener = self.listeners[node_id] = self._open(node_id, strict)
        entry = self.brokers[node_id] = BrokerEndpoint(node_id, host, port, self._host, listener.port)
        log.info("broker %d (%s:%d) is reached through port %d", node_id, host, port, listener.port)
        return entry

    def seen(self, node_ids: set[int]) -> None:
        """These are the cluster's brokers now: the others' ports refuse connections until they are back.

        Connections that are open live on as long as their broker does.
        """
        for node_id, listener in self.listeners.items():
            absent = node_id is not None and node_id not in node_ids
            if absent != listener.absent:
                log.info("broker %s %s: port %d", node_id, "has left" if absent else "is back", listener.port)
                listener.absent = absent
                listener.update()

    def _open(self, node_id: int, strict: bool) -> Listener:
        while True:
            port = self._take_port()
            try:
                return self._opened(node_id, self._host, port, self._accept)
            except OSError as error:
                if strict or not port:
                    named = ", with --broker-ports" if error.errno == errno.EADDRINUSE else ""
                    raise OSError(error.errno, f"broker {node_id}: {error.strerror}{named}") from error
                log.warning("broker %d can't have port %d (%s): trying another", node_id, port, error.strerror)

    def _take_port(self) -> int:
        if self._ports:
            port = self._ports.pop(0)
        else:
            assert self._next_port is not None
            port = self._next_port
        self._next_port = self._after(port)
        return port

    def _after(self, port: int) -> int:
        """The port to try after this one; 0, which is any free one, after itself and where there is none."""
        following = port + 1 if port else 0
        if following and following == self._spared_port:
            following += 1
        return following if following <= 65535 else 0

    def close(self) -> None:
        """Stop listening everywhere; connections that are open stay."""
        for listener in self.listeners.values():
            listener.close()
