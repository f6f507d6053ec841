"""Connections of a conversation to other brokers than its own: for relayed requests."""

import asyncio
from typing import Protocol, cast

from notleader.proxy.net.sockets import tune
from notleader.proxy.session.commands import Side
from notleader.proxy.wire.errors import in_words


class Owner(Protocol):
    """The conversation that it belongs to."""

    @property
    def transports(self) -> set[asyncio.BaseTransport]:
        """All of the proxy that are not closed yet."""

    async def dial_node(self, node_id: int, protocol: asyncio.Protocol) -> None:
        """Connect to one broker of the cluster. Raises OSError."""

    def side_bytes(self, node_id: int, data: bytes) -> None:
        """That broker sent something."""

    def side_gone(self, node_id: int, reason: str) -> None:
        """The connection is over."""

    def hold_reading(self, side: Side, change: int) -> None:
        """One cause more (1) or fewer (-1) to read nothing from this side."""


class SideConnection(asyncio.Protocol):
    """A connection of one conversation to another broker than its own, dialled when it is made."""

    def __init__(self, owner: Owner, node_id: int) -> None:
        self._owner = owner
        self._node_id = node_id
        self._transport: asyncio.Transport | None = None
        self._early: list[bytes] = []
        self._over = False
        self._full = False
        self._dialing = asyncio.get_running_loop().create_task(self._dial())

    def send(self, data: bytes) -> None:
        """Send these bytes, now or when the connection is there."""
        if self._transport is None:
            self._early.append(data)
        else:
            self._transport.write(data)

    def hold_reading(self, held: bool) -> None:
        """Stop or go on reading."""
        if self._transport is None or self._transport.is_closing():
            return
        if held and self._transport.is_reading():
            self._transport.pause_reading()
        elif not held and not self._transport.is_reading():
            self._transport.resume_reading()

    def close(self) -> None:
        """The conversation is over."""
        self._over = True
        self._dialing.cancel()
        if self._transport is not None:
            self._transport.close()

    async def _dial(self) -> None:
        try:
            await self._owner.dial_node(self._node_id, self)
        except OSError as error:
            self._gone(in_words(error))

    def _gone(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._owner.side_gone(self._node_id, reason)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(self._transport)
        self._owner.transports.add(self._transport)
        if self._over:
            self._transport.close()
            return
        for data in self._early:
            self._transport.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        self._owner.side_bytes(self._node_id, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
        if self._transport is not None:
            self._owner.transports.discard(self._transport)
        self._gone("it closed the connection" if exc is None else in_words(exc))

    def pause_writing(self) -> None:
        if not self._full:
            self._full = True
            self._owner.hold_reading("client", 1)

    def resume_writing(self) -> None:
        if self._full:
            self._full = False
            self._owner.hold_reading("client", -1)
