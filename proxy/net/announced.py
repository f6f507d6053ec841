"""Accepting connections that a load balancer announces with a PROXY protocol header, and those that begin with TLS.

The header is taken off the socket byte by exact byte before asyncio gets to see it, so that TLS may follow. A server of
asyncio's own tells nobody of a handshake that came to nothing.
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
_FIRST_BYTE_S: Final = 60.0
_NO_FILE_LEFT_S: Final = 1.0

Welcome = Callable[[str | None], asyncio.Protocol]
"""Makes the protocol of a connection; it is given who the client is, None where the header doesn't say."""
Refused = Callable[[str, WireError], None]
"""Told of each connection that was closed for its header or handshake: `host:port` of whoever connected, and why."""


class AnnouncedServer:
    """Serves on a listening socket until closed; the socket stays its owner's."""

    def __init__(
        self,
        listening: socket.socket,
        welcome: Welcome,
        tls: ssl.SSLContext | None,
        refused: Refused,
        *,
        has_header: bool = True,
    ) -> None:
        self._listening = listening
        self._welcome = welcome
        self._tls = tls
        self._refused = refused
        self._has_header = has_header
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._read()

    def _read(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def close(self) -> None:
        """Accept no more, and drop those whose header or handshake is not there yet."""
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._listening)
        for task in self._arriving:
            task.cancel()

    def _accept(self) -> None:
        try:
            connection, peer = self._listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # it went away again
        except OSError as error:
            self._loop.remove_reader(self._listening)
            if error.errno != errno.EINVAL:  # another process shut the socket: it says when to accept again
                self._again = self._loop.call_later(_NO_FILE_LEFT_S, self._read)
            return
        connection.setblocking(False)
        host, port = peer[:2]
        task = self._loop.create_task(self._arrive(connection, str(Endpoint(host, port))))
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)

    async def _arrive(self, connection: socket.socket, address: str) -> None:
        taken = False
        client: str | None = None
        try:
            if self._has_header:
                client = await self._announced(connection)
            elif not await self._speaks(connection):
                return  # who only asks whether the port is open
            try:
                await self._loop.connect_accepted_socket(lambda: self._welcome(client), connection, ssl=self._tls)
            except OSError as error:
                if self._tls is None:
                    raise
                raise WireError(f"the TLS handshake failed: {_why(error)}", "client") from error
            taken = True
        except WireError as error:
            self._refused(client or address, error)
        except OSError as error:
            where = "behind its PROXY protocol header" if self._has_header else "before its TLS handshake"
            self._refused(client or address, WireError(f"{in_words(error)} {where}", "client"))
        finally:
            if not taken:
                connection.close()

    async def _announced(self, connection: socket.socket) -> str | None:
        try:
            async with asyncio.timeout(HEADER_S):
                head = await self._exactly(connection, HEAD_BYTES)
                return source(head, await self._exactly(connection, rest_bytes(head)))
        except TimeoutError:
            raise WireError(f"no PROXY protocol header within {HEADER_S:.0f} s", "client") from None

    async def _speaks(self, connection: socket.socket) -> bool:
        """Whether there is a first byte, which stays where it is; False for who went away without any."""
        readable = asyncio.Event()
        self._loop.add_reader(connection, readable.set)
        try:
            async with asyncio.timeout(_FIRST_BYTE_S):
                await readable.wait()
            return bool(connection.recv(1, socket.MSG_PEEK))
        except ConnectionResetError:
            return False
        except TimeoutError:
            raise WireError(f"no TLS handshake within {_FIRST_BYTE_S:.0f} s", "client") from None
        finally:
            self._loop.remove_reader(connection)

    async def _exactly(self, connection: socket.socket, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = await self._loop.sock_recv(connection, size - len(data))
            if not piece:
                raise WireError("the connection ended before its PROXY protocol header", "client")
            data += piece
        return data


def _why(error: OSError) -> str:
    """Why a handshake failed: a client that does not trust the certificate may just go."""
    if isinstance(error, ConnectionResetError) and not error.args:
        return "the client went away"
    return in_words(error)
