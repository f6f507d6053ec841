"""Connections that somebody else accepts, under a proxy's rules."""

import asyncio
from collections.abc import Callable

from notleader.faults.base import Connection
from notleader.proxy.net.dialing import Dialer
from notleader.proxy.net.transport import Hub, Link
from notleader.proxy.session.session import Session
from notleader.proxy.wire.addresses import Advertise
from notleader.proxy.wire.endpoint import Endpoint


class Passage:
    """The hub of such connections: a proxy's rules, one server, and addresses left alone.

    Who put a plain TCP proxy before a broker has that broker advertise it: its clients stay on it by themselves.
    """

    def __init__(
        self, hub: Hub, new_session: Callable[[Connection, Link, Advertise], Session], dialer: Dialer, server: Endpoint
    ) -> None:
        self._new_session = new_session
        self._dialer = dialer
        self._server = server
        self.clock = hub.clock
        self.transports = hub.transports
        self.opened = hub.opened
        self.closed = hub.closed
        self.sink = hub.sink
        self.endings = hub.endings
        self.wire_error = hub.wire_error
        self.unreachable = hub.unreachable
        self.newer_versions = hub.newer_versions
        self.struck = hub.struck
        self.on_connect = hub.on_connect
        self.standing = hub.standing
        self.uniform = hub.uniform
        self.dial_node = hub.dial_node
        self.login = hub.login

    def new_session(self, connection: Connection, link: Link) -> Session:
        return self._new_session(connection, link, lambda node_id, host, port: (host, port))

    def brokers_seen(self, node_ids: set[int]) -> None:
        """Nothing: this server may be of another cluster."""

    async def dial(self, connection: Connection, protocol: asyncio.Protocol) -> None:
        """Connect to the server, in the clear as whoever is passed through. Raises OSError."""
        await self._dialer.in_the_clear(self._server, protocol)
