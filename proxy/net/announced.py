"""Accepting connections that a load balancer announces with a PROXY protocol header.

The header is taken off the socket byte by exact byte before asyncio gets to see it, so that TLS may follow.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Final

from notleader.proxy.net.proxy_protocol import HEAD_BYTES, rest_bytes, source
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError, in_words

HEADER_S: Final = 10.0
"""How long the header may take to come, in seconds."""

Welcome = Callable[[str | None], asyncio.Protocol]
"""Makes the protocol of a connection; it is given who the client is, None where the header doesn't say."""
Refused = Callable[[str, WireError], None]
"""Told of each connection that was closed for its header: `host:port` of whoever connected, and why."""


class AnnouncedServer:
    """Serves on a listening socket until closed; the socket stays its owner's."""

    def __init__(
        self, listening: socket.socket, welcome: Welcome, tls: ssl.SSLContext | None, refused: Refused
    ) -> None:
        self._listening = listening
        self._welcome = welcome
        self._tls = tls
        self._refused = refused
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        """Accept no more, and drop those whose header is not there yet."""
        self._loop.remove_reader(self._listening)
        for task in self._arriving:
            task.cancel()

    def _accept(self) -> None:
        try:
            connection, peer = self._listening.accept()
        except OSError as error:
            if error.errno == errno.EINVAL:  # another process shut the socket: it says when to accept again
                self._loop.remove_reader(self._listening)
            return  # it went away again, or no file is left: asked again when it is readable again
        connection.setblocking(False)
        host, port = peer[:2]
        task = self._loop.create_task(self._arrive(connection, str(Endpoint(host, port))))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _arrive(self, connection: socket.socket, address: str) -> None:
        taken = False
        try:
            async with asyncio.timeout(HEADER_S):
                head = await self._exactly(connection, HEAD_BYTES)
                client = source(head, await self._exactly(connection, rest_bytes(head)))
            await self._loop.connect_accepted_socket(lambda: self._welcome(client), connection, ssl=self._tls)
            taken = True
        except WireError as error:
            self._refused(address, error)
        except TimeoutError:
            self._refused(address, WireError(f"no PROXY protocol header within {HEADER_S:.0f} s", "client"))
        except OSError as error:
            self._refused(address, WireError(f"{in_words(error)} behind its PROXY protocol header", "client"))
        finally:
            if not taken:
                connection.close()

    async def _exactly(self, connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self._loop.sock_recv(connection, size - len(data))
            if not piece:
                raise WireError("the connection ended before its PROXY protocol header", "client")
            data += piece
        return data
