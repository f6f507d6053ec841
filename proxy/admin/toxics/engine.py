"""Toxiproxy's proxies: listeners that hand each connection to its toxics, and the collection of them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass, field
from random import Random
from typing import Any

from proxy.admin.toxics.connection import STREAMS, Stream, ToxicConnection, now_us
from proxy.admin.toxics.kinds import KINDS, Toxic
from proxy.admin.toxics.link import Link


@dataclass(slots=True)
class ToxicRule:
    """A toxic of a proxy, as its API shows it; each connection has its own `Toxic` made from it."""

    name: str
    type: str
    stream: Stream
    toxicity: float
    attributes: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The JSON object of this toxic."""
        return {
            "attributes": dict(self.attributes),
            "name": self.name,
            "type": self.type,
            "stream": self.stream,
            "toxicity": self.toxicity,
        }


class ToxicProxy:
    """One listener in front of one server; every change of its toxics reaches the open connections too."""

    def __init__(self, name: str, listen: str, upstream: str, seed: int = 0) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self.toxics: list[ToxicRule] = []
        self._random = Random(f"{seed}:{name}")
        self._server: asyncio.Server | None = None
        self._connections: set[ToxicConnection] = set()
        self._dialling: set[asyncio.Task[None]] = set()

    @property
    def enabled(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    def document(self) -> dict[str, Any]:
        """The JSON object of this proxy."""
        ordered = sorted(self.toxics, key=lambda toxic: STREAMS.index(toxic.stream))
        return {
            "name": self.name,
            "listen": self.listen,
            "upstream": self.upstream,
            "enabled": self.enabled,
            "toxics": [toxic.document() for toxic in ordered],
        }

    async def start(self) -> None:
        """Listen; `listen` then holds the actual address. OSError or ValueError when that is impossible."""
        if self._server is not None:
            return
        host, port = split_address(self.listen)
        loop = asyncio.get_running_loop()
        # The first address only: a name with several would get a port each when the port is 0.
        found = await loop.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
        server = await loop.create_server(self._accept, str(found[0][4][0]), port, reuse_address=True)
        bound = server.sockets[0].getsockname()
        self.listen = f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"
        self._server = server

    async def stop(self) -> None:
        """Close the listener and every connection."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in list(self._dialling):
            task.cancel()
        for connection in list(self._connections):
            connection.abort()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(server.wait_closed(), 1.0)

    async def update(self, listen: str, upstream: str, enabled: bool) -> None:
        """Take new addresses and switch on or off; changed addresses close the connections there are."""
        if listen != self.listen or upstream != self.upstream:
            await self.stop()
            self.listen, self.upstream = listen, upstream
        if enabled:
            await self.start()
        else:
            await self.stop()

    def toxic(self, name: str) -> ToxicRule | None:
        """The toxic of that name."""
        return next((toxic for toxic in self.toxics if toxic.name == name), None)

    def add_toxic(self, rule: ToxicRule) -> None:
        """Append a toxic to its direction."""
        self.toxics.append(rule)
        for connection in list(self._connections):
            connection.links[rule.stream].add(self._drawn(rule))
            connection.pump()

    def update_toxic(self, rule: ToxicRule, attributes: dict[str, int], toxicity: float) -> None:
        """Change attributes and toxicity; toxicity is drawn anew for each open connection."""
        index = self._index(rule)
        rule.attributes, rule.toxicity = attributes, toxicity
        for connection in list(self._connections):
            link = connection.links[rule.stream]
            toxic = link.toxic_at(index)
            if not self._strikes(rule):
                toxic = None
            elif toxic is None:
                toxic = self._make(rule)
            else:
                toxic.update(attributes, now_us())
            link.replace(index, toxic, now_us())
            connection.pump()

    def remove_toxic(self, rule: ToxicRule) -> None:
        """Take a toxic out of every connection."""
        index = self._index(rule)
        self.toxics.remove(rule)
        for connection in list(self._connections):
            connection.links[rule.stream].remove(index, now_us())
            connection.pump()

    def _index(self, rule: ToxicRule) -> int:
        return [toxic for toxic in self.toxics if toxic.stream == rule.stream].index(rule)

    def _accept(self) -> asyncio.Protocol:
        links = {stream: Link(self._drawn(rule) for rule in self.toxics if rule.stream == stream) for stream in STREAMS}
        connection = ToxicConnection(links["upstream"], links["downstream"], self._connections.discard)
        self._connections.add(connection)
        host, port = split_address(self.upstream)
        task = asyncio.get_running_loop().create_task(connection.connect(host or "127.0.0.1", port))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return connection.client

    def _drawn(self, rule: ToxicRule) -> Toxic | None:
        return self._make(rule) if self._strikes(rule) else None

    def _strikes(self, rule: ToxicRule) -> bool:
        return self._random.random() < rule.toxicity

    def _make(self, rule: ToxicRule) -> Toxic:
        return KINDS[rule.type](rule.attributes, self._random, now_us())


class ToxicProxies:
    """All proxies made over the Toxiproxy API, by name."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self.by_name: dict[str, ToxicProxy] = {}

    async def add(self, name: str, listen: str, upstream: str, enabled: bool) -> ToxicProxy:
        """Make a proxy and start it when `enabled`; OSError or ValueError when it cannot listen."""
        proxy = ToxicProxy(name, listen, upstream, self._seed)
        split_address(upstream)
        if enabled:
            await proxy.start()
        self.by_name[name] = proxy
        return proxy

    async def remove(self, name: str) -> None:
        """Stop and forget a proxy; KeyError when there is none of that name."""
        await self.by_name.pop(name).stop()

    async def stop(self) -> None:
        """Stop and forget them all."""
        for name in list(self.by_name):
            await self.remove(name)


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as (host, port); the host may be empty. ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address: HOST:PORT is wanted")
    return host.strip("[]"), int(port)
