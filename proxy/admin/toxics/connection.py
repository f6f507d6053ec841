"""One proxied TCP connection: two sockets, two pipes, and timers that send what the pipes let go."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from typing import Final, Literal, cast

from notleader.proxy.admin.toxics.volumes import Volume
from notleader.proxy.net.shaping.pipe import Pipe

Stream = Literal["upstream", "downstream"]
STREAMS: Final[tuple[Stream, Stream]] = ("upstream", "downstream")
_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)


def now_us() -> int:
    """The clock of the pipes, in µs."""
    return time.monotonic_ns() // 1000


class _Side(asyncio.Protocol):
    """One socket: what it receives goes into the pipe that leads away from it."""

    def __init__(self, connection: ToxicConnection, stream: Stream) -> None:
        self._connection = connection
        self._stream: Stream = stream
        self.transport: asyncio.Transport | None = None
        self.is_writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._connection.received(self._stream, bytes(data))

    def eof_received(self) -> bool:
        self._connection.ended(self._stream)
        return True  # the other direction goes on until its own pipe ends

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.ended(self._stream)
        self._connection.lost(self)

    def pause_writing(self) -> None:
        self.is_writable = False

    def resume_writing(self) -> None:
        self.is_writable = True
        self._connection.pump()


class ToxicConnection:
    """Joins an accepted client to the server; `pipes` are the chains the toxics live in, `volumes` what passed.

    `closed` is called once, when both sockets are gone.
    """

    def __init__(
        self, pipes: dict[Stream, Pipe], volumes: dict[Stream, Volume], closed: Callable[[ToxicConnection], None]
    ) -> None:
        self.pipes = pipes
        self._volumes = volumes
        self.client = _Side(self, "upstream")
        self.server = _Side(self, "downstream")
        self._closed = closed
        self._timers: dict[Stream, asyncio.TimerHandle | None] = {"upstream": None, "downstream": None}
        self._lost: set[_Side] = set()

    async def connect(self, host: str, port: int) -> None:
        """Dial the server and start; a server that cannot be reached closes the client."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.server, host, port)
        except OSError:
            self._lost.add(self.server)
            self.abort()
            return
        self.resume()

    def resume(self) -> None:
        """Let both directions flow, as far as their pipes have room."""
        if self.client in self._lost:
            self.abort()
            return
        for stream in STREAMS:
            self._pump(stream)

    def abort(self, reset: bool = False) -> None:
        """End both sockets at once; `reset` makes it a RST."""
        for side in (self.client, self.server):
            if side.transport is None:
                continue
            raw = side.transport.get_extra_info("socket")
            if reset and raw is not None and side not in self._lost:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            side.transport.abort()

    def received(self, stream: Stream, data: bytes) -> None:
        """Bytes came in for this direction."""
        self._volumes[stream].received_bytes += len(data)
        self.pipes[stream].receive(data, now_us())
        self._pump(stream)

    def ended(self, stream: Stream) -> None:
        """The source of this direction will send no more."""
        self.pipes[stream].end(now_us())
        self._pump(stream)

    def lost(self, side: _Side) -> None:
        """A socket is gone."""
        self._lost.add(side)
        if len(self._lost) == 2:
            for timer in self._timers.values():
                if timer is not None:
                    timer.cancel()
            self._closed(self)

    def pump(self) -> None:
        """Send what is due in both directions: the chain, or the room at a destination, has changed."""
        for stream in STREAMS:
            self._pump(stream)

    def _pump(self, stream: Stream) -> None:
        source, target = (self.client, self.server) if stream == "upstream" else (self.server, self.client)
        pipe = self.pipes[stream]
        if target.transport is None:
            # The server is still being dialled: what the client said already waits in the pipe.
            self._flow(source, pipe)
            return
        for piece in pipe.due(now_us()) if target.is_writable else ():
            if piece.data is not None:
                if target not in self._lost:
                    self._volumes[stream].sent_bytes += len(piece.data)
                    target.transport.write(piece.data)
            elif piece.reset:
                self.abort(reset=True)
            elif target not in self._lost:
                target.transport.close()
        self._flow(source, pipe)
        self._schedule(stream, pipe)

    def _flow(self, source: _Side, pipe: Pipe) -> None:
        if source.transport is None or source in self._lost or source.transport.is_closing():
            return
        if pipe.is_full:
            source.transport.pause_reading()
        else:
            source.transport.resume_reading()

    def _schedule(self, stream: Stream, pipe: Pipe) -> None:
        timer = self._timers[stream]
        if timer is not None:
            timer.cancel()
            self._timers[stream] = None
        target = self.server if stream == "upstream" else self.client
        due_us = pipe.next_due_us()
        if due_us is None or not target.is_writable or len(self._lost) == 2:
            return
        # One extra millisecond: uvloop's timers have that grain and may fire early.
        delay_s = max(0.0, (due_us - now_us()) / 1e6) + 0.001
        self._timers[stream] = asyncio.get_running_loop().call_later(delay_s, self._pump, stream)
