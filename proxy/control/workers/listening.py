"""One port of a proxy in several processes: a socket for each worker, all of them the control plane's.

The control plane binds them, listens and stops listening, so a port changes for all workers in one call and nobody
has to wait for a worker. Workers only accept.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final, Literal

from notleader.proxy.net.directory import Fate, Listener
from notleader.proxy.net.sockets import bound_at, listen_on, refuse, silence

_AT_ONCE: Final = 64
_NO_FILE_LEFT_S: Final = 1.0


class SharedListener(Listener):
    """A listener with one socket for each of `workers` workers; the kernel spreads connections by their addresses."""

    def __init__(
        self, node_id: int | None, host: str, port: int, accept: Callable[[Listener], None], *, workers: int
    ) -> None:
        self._workers = workers
        self.sockets: list[socket.socket] = []
        super().__init__(node_id, host, port, accept)

    def update(self) -> None:
        """Become what `fate` and `absent` ask for."""
        if not self.sockets:
            self._bind()
        wanted: Fate | Literal["closed"] = "refusing" if self.absent else self.fate
        if self._state in (wanted, "closed"):
            return
        if wanted == "refusing":
            self._refuse()
        elif self._state == "refusing":
            for sock in self.sockets:
                listen_on(sock, self.address)
            self._accept(self)
        if "silent" in (wanted, self._state):
            for sock in self.sockets:
                silence(sock, wanted == "silent")
        self._state = wanted

    def _bind(self) -> None:
        # The first was bound alone, so that a port somebody else has is an error and not shared with him.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.sockets = [self.socket]
        for _ in range(1, self._workers):
            self.sockets.append(bound_at(self.socket.family, self.socket.getsockname(), shares=True))

    def _refuse(self) -> None:
        for sock in self.sockets:
            refuse(sock)

    def _close(self) -> None:
        self._refuse()
        for sock in self.sockets:
            sock.close()


class Accepting:
    """Accepts connections on a socket that another process listens with, until that process shuts it."""

    def __init__(self, listening: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listening = listening
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._arriving: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        self._read()

    def _read(self) -> None:
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more; harmless when called twice."""
        if self._again is not None:
            self._again.cancel()
        if self._listening.fileno() >= 0:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._loop.remove_reader(self._listening.fileno())
                if error.errno != errno.EINVAL:  # shut: whoever shut it says when to accept again
                    self._again = self._loop.call_later(_NO_FILE_LEFT_S, self._read)
                return
            connection.setblocking(False)
            task = self._loop.create_task(self._take(connection))
            self._arriving.add(task)
            task.add_done_callback(self._arriving.discard)

    async def _take(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:  # it went away again
            connection.close()
