"""Toxiproxy's proxies: listeners that hand each connection to its toxics, and the collection of them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from notleader.proxy.admin.target import ControlledProxy, ListenerAddress
from notleader.proxy.admin.toxics.addresses import are_one, listen_at, split_address
from notleader.proxy.admin.toxics.connection import STREAMS, ToxicConnection, now_us
from notleader.proxy.admin.toxics.kafka import (
    KafkaListener,
    KafkaToxicError,
    KafkaToxics,
    ToxicRule,
    change,
    proxy_document,
)
from notleader.proxy.admin.toxics.volumes import Volumes
from notleader.proxy.net.shaping.kinds import KINDS, Toxic
from notleader.proxy.net.shaping.pipe import Pipe


class ToxicProxy:
    """One listener in front of one server; every change of its toxics reaches the open connections too.

    When it is told to `read_as_kafka`, by its first Kafka fault at the latest, its connections go through a `passage`
    of the Kafka proxy on their way to the server, for good: those that are open then, of which the proxy has seen
    nothing, are closed for their clients to come again.
    """

    def __init__(
        self,
        name: str,
        listen: str,
        upstream: str,
        seed: int,
        volumes: Volumes,
        controlled: Callable[[], ControlledProxy] | None = None,
    ) -> None:
        self.name = name
        self.listen = listen
        self.upstream = upstream
        self._bytes: list[ToxicRule] = []
        self._volumes = volumes
        self._controlled = controlled
        self._kafka: KafkaToxics | None = None
        self._passage: asyncio.Server | None = None
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
        document = proxy_document(self.name, self.listen, self.upstream, self.enabled, self.toxics)
        return document if self._kafka is None else {**document, "kafka": True}

    @property
    def toxics(self) -> list[ToxicRule]:
        """Those of bytes, then the Kafka faults."""
        return [*self._bytes, *(self._kafka.rules if self._kafka is not None else ())]

    async def start(self, taken: tuple[asyncio.Server, str] | None = None) -> None:
        """Listen, or take over a server that does; `listen` then holds the actual address. OSError, ValueError."""
        if self._server is not None:
            return
        self._server, self.listen = taken or await listen_at(self.listen, self._accept)
        if self._kafka is not None:
            await self._open_passage()

    async def stop(self) -> None:
        """Close the listener and every connection."""
        self._close_passage()
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

    async def is_at(self, listen: str, upstream: str) -> bool:
        """Whether these are its addresses, however they are written. OSError or ValueError for what is none."""
        split_address(upstream)
        return await are_one(listen, self.listen) and upstream == self.upstream

    async def update(self, listen: str, upstream: str, enabled: bool) -> None:
        """Take new addresses and switch on or off; changed addresses close the connections there are.

        OSError or ValueError when it can't listen there: then it listens where it did. What was refused for the
        addresses alone has closed nothing.
        """
        before, was_enabled = (self.listen, self.upstream), self.enabled
        if await self.is_at(listen, upstream):
            await (self.start() if enabled else self.stop())
            return
        taken = None
        if enabled and split_address(listen)[1] != split_address(self.listen)[1]:
            # One port can't be had twice; another is taken before anything is given up.
            taken = await listen_at(listen, self._accept)
        await self.stop()
        self.listen, self.upstream = listen, upstream
        try:
            if enabled:
                await self.start(taken)
        except OSError:
            self.listen, self.upstream = before
            if was_enabled:
                await self.start()
            raise

    def toxic(self, name: str) -> ToxicRule | None:
        """The toxic of that name."""
        return next((toxic for toxic in self.toxics if toxic.name == name), None)

    async def add_toxic(self, rule: ToxicRule) -> None:
        """Append a toxic to its direction, or put a Kafka fault in force. KafkaToxicError."""
        if rule.is_kafka:
            await self._add_kafka(rule)
            return
        self._bytes.append(rule)
        for connection in list(self._connections):
            connection.pipes[rule.stream].add(self._drawn(rule))
            connection.pump()

    async def _add_kafka(self, rule: ToxicRule) -> None:
        if rule.type == "kafka_refuse":
            raise KafkaToxicError("kafka_refuse is for the Kafka listeners: disable this proxy instead")
        toxics = self._toxics_of_kafka()
        toxics.put(rule)
        await self._read(toxics)

    async def read_as_kafka(self) -> None:
        """Let the Kafka proxy see what passes, from now on. KafkaToxicError where there is none."""
        await self._read(self._toxics_of_kafka())

    def _toxics_of_kafka(self) -> KafkaToxics:
        if self._controlled is None:
            raise KafkaToxicError("there is no Kafka proxy here")
        return self._kafka or KafkaToxics(self._controlled(), self.name)

    async def _read(self, toxics: KafkaToxics) -> None:
        self._kafka = toxics
        if self._passage is None and self.enabled:
            await self._open_passage()
            for connection in list(self._connections):
                connection.abort()

    async def _open_passage(self) -> None:
        assert self._controlled is not None
        accept = self._controlled().passage(self.name, *split_address(self.upstream))
        self._passage = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)

    def _close_passage(self) -> None:
        passage, self._passage = self._passage, None
        if passage is not None:
            passage.close()

    def clear(self) -> None:
        """Take every toxic out."""
        for toxic in self.toxics:
            self.remove_toxic(toxic)

    async def update_toxic(self, rule: ToxicRule, attributes: dict[str, Any], toxicity: float) -> None:
        """Change attributes and toxicity; toxicity is drawn anew for each open connection."""
        if rule.is_kafka:
            assert self._kafka is not None
            change(self._kafka, rule, attributes, toxicity)
            return
        index = self._index(rule)
        rule.attributes, rule.toxicity = attributes, toxicity
        for connection in list(self._connections):
            pipe = connection.pipes[rule.stream]
            toxic = pipe.toxic_at(index)
            if not self._strikes(rule):
                toxic = None
            elif toxic is None:
                toxic = self._make(rule)
            else:
                toxic.update(attributes, now_us())
            pipe.replace(index, toxic, now_us())
            connection.pump()

    def remove_toxic(self, rule: ToxicRule) -> None:
        """Take a toxic out of every connection."""
        if rule.is_kafka:
            assert self._kafka is not None
            self._kafka.remove(rule)
            return
        index = self._index(rule)
        self._bytes.remove(rule)
        for connection in list(self._connections):
            connection.pipes[rule.stream].remove(index, now_us())
            connection.pump()

    def _index(self, rule: ToxicRule) -> int:
        return [toxic for toxic in self._bytes if toxic.stream == rule.stream].index(rule)

    def _accept(self) -> asyncio.Protocol:
        pipes = {stream: Pipe(self._drawn(rule) for rule in self._bytes if rule.stream == stream) for stream in STREAMS}
        volumes = {stream: self._volumes.of(stream, self.name, self.listen, self.upstream) for stream in STREAMS}
        connection = ToxicConnection(pipes, volumes, self._connections.discard)
        self._connections.add(connection)
        host, port = split_address(self.upstream)
        if self._passage is not None:
            host, port = self._passage.sockets[0].getsockname()
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
    """All proxies of the Toxiproxy API, by name: those made over it, and the Kafka `listeners` there are.

    `controlled` gives the Kafka proxy whose passages are taken; it is asked when the first is needed.
    """

    def __init__(
        self,
        seed: int = 0,
        controlled: Callable[[], ControlledProxy] | None = None,
        listeners: Callable[[], Sequence[tuple[str, str, str]]] = tuple,
    ) -> None:
        self.volumes = Volumes()
        self._seed = seed
        self._controlled = None if controlled is None else cache(controlled)
        self._listed = listeners
        self._made: dict[str, ToxicProxy] = {}
        self._of_listeners: dict[str, KafkaToxics] = {}

    @property
    def by_name(self) -> dict[str, ToxicProxy | KafkaListener]:
        """Every proxy that there is now."""
        return {**self._listeners(), **self._made}

    def _listeners(self) -> dict[str, KafkaListener]:
        if self._controlled is None:
            return {}
        of = self._of_listeners
        return {
            address.name: KafkaListener(
                self._controlled(), address, of.setdefault(address.name, KafkaToxics(self._controlled(), address.name))
            )
            for address in (ListenerAddress(*entry) for entry in self._listed())
        }

    async def add(self, name: str, listen: str, upstream: str, enabled: bool) -> ToxicProxy:
        """Make a proxy and start it when `enabled`; OSError or ValueError when it cannot listen."""
        proxy = ToxicProxy(name, listen, upstream, self._seed, self.volumes, self._controlled)
        split_address(upstream)
        if enabled:
            await proxy.start()
        else:
            split_address(listen)
        self._made[name] = proxy
        return proxy

    async def remove(self, name: str) -> None:
        """Stop and forget a proxy; a Kafka listener only loses its toxics. KeyError when there is none."""
        listener = self._listeners().get(name)
        if listener is not None:
            for toxic in list(listener.toxics):
                listener.remove_toxic(toxic)
            await listener.start()
            return
        proxy = self._made.pop(name)
        proxy.clear()
        await proxy.stop()

    async def stop(self) -> None:
        """Stop and forget those that were made."""
        for name in list(self._made):
            await self.remove(name)
