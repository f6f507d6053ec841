"""The ports of a replay: a listener for who bootstraps and one for each recorded broker, and their connections."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import Final, cast

from notleader.proxy.config.settings import Settings
from notleader.proxy.net.directory import BrokerEndpoint, Directory, Listener, advertised_host
from notleader.proxy.net.sockets import address_of, reset, tune
from notleader.proxy.net.tls import Tls
from notleader.proxy.pump.pieces import absurd_length, framed
from notleader.proxy.replay.conversation import Conversation
from notleader.proxy.replay.exchange import Ending
from notleader.proxy.replay.stand_in import Reply, StandIn
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError

log = logging.getLogger("notleader")

_MOST_WAITING: Final = 1000
"""Requests of one connection that may wait for their answers; what comes behind them stays in the socket."""


class Replay:
    """Serves a recorded cluster. ``await start()`` listens, ``await stop()`` closes everything.

    Raises OSError (a port is taken) from ``start``, ConfigError for TLS files that can't be used.
    """

    def __init__(self, stand_in: StandIn, settings: Settings, brokers: dict[int, tuple[str, int]]) -> None:
        """``brokers``: the recorded node ids, with the addresses that they had."""
        self._stand_in = stand_in
        self.settings = settings
        self._brokers = brokers
        self._tls = Tls(settings)
        self._directory = Directory(settings.listen, settings.broker_ports, self._serve)
        self._connections: set[_Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen for bootstrapping clients and in the place of every recorded broker."""
        try:
            self._directory.open_bootstrap(self.settings.listen.port)
            for node_id, address in sorted(self._brokers.items()):
                self._directory.endpoint(node_id, *address, strict=True)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop listening and close the connections."""
        self._directory.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    @property
    def listen(self) -> Endpoint:
        """Where clients bootstrap, with the port that was really bound."""
        return Endpoint(self.settings.listen.host, self._directory.listeners[None].port)

    def brokers(self) -> list[BrokerEndpoint]:
        """The recorded brokers and where we listen in their place, by node id."""
        return [entry for _, entry in sorted(self._directory.brokers.items())]

    def _serve(self, listener: Listener) -> None:
        welcome = partial(_Connection, self, listener)
        if self._tls.listen is not None:
            listener.serve_announced(lambda _: welcome(), self._tls.listen, _turned_away, has_header=False)
            return
        task = asyncio.get_running_loop().create_task(listener.serve(welcome))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- what the connections need ---------------------------------------------------------------

    def conversation(self, listener: Listener, local_host: str) -> Conversation:
        """What is said on a new connection, to a client that reached us at ``local_host``."""
        host = advertised_host(self.settings, local_host)

        def advertise(node_id: int, recorded_host: str, port: int) -> tuple[str, int]:
            known = self._directory.brokers.get(node_id) or self._directory.endpoint(node_id, recorded_host, port)
            return host, known.listen_port

        return Conversation(self._stand_in, listener.node_id, advertise)

    def opened(self, connection: _Connection) -> None:
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One client connection: frames in, replies out in their order, each when it is due."""

    def __init__(self, replay: Replay, listener: Listener) -> None:
        self._replay = replay
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()
        self._due: deque[tuple[float, Reply]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._is_silent = False
        self._can_write = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        tune(self._transport)
        self._client = address_of(self._transport.get_extra_info("peername"))
        local = self._transport.get_extra_info("sockname")
        host = str(local[0]) if isinstance(local, tuple) else self._listener.address.host
        self._conversation = self._replay.conversation(self._listener, host)
        self._replay.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._replay.closed(self)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        """End it now."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._received += data
        at = 0
        try:
            while len(self._received) - at >= 4 and not self._is_silent and not self._transport.is_closing():
                size = int.from_bytes(self._received[at : at + 4], "big", signed=True)
                if not 0 <= size <= self._replay.settings.max_frame_bytes:
                    raise WireError(absurd_length(bytes(self._received), at, size), "client")
                if len(self._received) - at - 4 < size:
                    break
                frame = bytes(self._received[at + 4 : at + 4 + size])
                at += 4 + size
                self._queue(self._conversation.take(frame))
        except WireError as error:
            log.warning("%s (%s): the %s", self._client, self._listener.name, error.sentence)
            self._transport.close()
        del self._received[:at]
        if self._is_silent:
            self._received.clear()
        self._send_due()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._can_write = False

    def resume_writing(self) -> None:
        self._can_write = True
        self._send_due()

    def _queue(self, reply: Reply) -> None:
        self._due.append((self._loop.time() + reply.after_us / 1_000_000, reply))
        # Nothing leaves behind an end; what comes behind it is read, so that the client sees no full window.
        self._is_silent = reply.ending not in (Ending.ANSWERED, Ending.UNANSWERED)
        if len(self._due) >= _MOST_WAITING:
            self._transport.pause_reading()

    def _send_due(self) -> None:
        """Send what is due, as far as it is at the head."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._due and self._can_write and not self._transport.is_closing():
            at, reply = self._due[0]
            if at > self._loop.time():
                self._timer = self._loop.call_at(at, self._send_due)
                return
            self._due.popleft()
            if len(self._due) == _MOST_WAITING - 1:
                self._transport.resume_reading()
            if reply.frame is not None:
                self._transport.write(framed(reply.frame))
            if reply.ending is Ending.RESET:
                reset(self._transport)
            elif reply.ending is Ending.CLOSED:
                self._transport.close()


def _turned_away(address: str, error: WireError) -> None:
    log.warning("%s: %s", address, error.reason)
