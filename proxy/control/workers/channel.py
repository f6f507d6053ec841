"""How a control plane and one worker talk: questions that wait for their answer, orders, and news.

All of it goes over socket pairs that nobody else has an end of, as pickles between two copies of the same program.
The control plane never waits for a worker in a way that keeps it from answering: that is why nothing locks up.
"""

from __future__ import annotations

import asyncio
import copyreg
import errno
import io
import logging
import os
import pickle
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Final, cast

from notleader.proxy.wire.errors import WireError

log = logging.getLogger("notleader")

_LENGTH: Final = struct.Struct(">I")
_ORDER_BYTES: Final = 64 << 10
_MOST_DESCRIPTORS: Final = 4
_ANSWERED: Final = True


class _Pickler(pickle.Pickler):
    # Decoded bodies hold views of the frame that they came in.
    dispatch_table = {**copyreg.dispatch_table, memoryview: lambda view: (bytes, (bytes(view),))}  # noqa: RUF012


def pickled(message: object) -> bytes:
    """A message as it is sent."""
    data = io.BytesIO()
    _Pickler(data, pickle.HIGHEST_PROTOCOL).dump(message)
    return data.getvalue()


def framed(message: object) -> bytes:
    """One message with its length before it."""
    data = pickled(message)
    return _LENGTH.pack(len(data)) + data


class Questions:
    """A worker's side: `ask(what, *arguments)` blocks for the answer, from any thread, one question at a time.

    Raises what answering raised. Without a control plane there is nothing left to do: the process ends at once.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._lock = threading.Lock()

    def __call__(self, what: str, *arguments: object) -> Any:
        message = framed((what, arguments))
        with self._lock:
            try:
                self._socket.sendall(message)
                (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
                answered, answer = pickle.loads(self._exactly(size))
            except (ConnectionError, EOFError):
                os._exit(1)
        if answered is _ANSWERED:
            return answer
        raise answer

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            received = self._socket.recv_into(view)
            if not received:
                raise EOFError
            view = view[received:]
        return data


class Incoming(asyncio.Protocol):
    """Takes framed messages off a stream; the subclass says what becomes of each."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        position = 0
        while len(self._data) - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._data, position)
            end = position + _LENGTH.size + size
            if len(self._data) < end:
                break
            with memoryview(self._data) as view:
                message = pickle.loads(view[position + _LENGTH.size : end])
            position = end
            self.message(message)
        del self._data[:position]

    def message(self, message: Any) -> None:
        """One whole message."""
        raise NotImplementedError


class Answering(Incoming):
    """The control plane's side of one worker's questions; `answer` is called with each, and may raise."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        super().__init__()
        self._answer = answer

    def message(self, message: Any) -> None:
        what, arguments = message
        try:
            answer = framed((_ANSWERED, self._answer(what, *arguments)))
        except Exception as error:  # it is the worker's to handle, as if it had happened there
            if not isinstance(error, WireError | OSError):
                log.exception("a worker can't be answered: %s", what)
            answer = framed((not _ANSWERED, error))
        if self.transport is not None:
            self.transport.write(answer)


class News(Incoming):
    """What a worker tells unasked."""

    def __init__(self, told: Callable[..., None]) -> None:
        super().__init__()
        self._told = told

    def message(self, message: Any) -> None:
        self._told(*message)


class Orders:
    """What a control plane has one worker do, in order, file descriptors included; never blocks.

    A worker that takes no orders for a while finds them all once it does.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._waiting: list[tuple[bytes, tuple[int, ...]]] = []
        self._writing = False

    def send(self, number: int, what: str, arguments: tuple[object, ...], descriptors: tuple[int, ...] = ()) -> None:
        """Send one order; the descriptors have to stay open until it was taken."""
        order = pickled((number, what, arguments))
        self._waiting.append((order, descriptors))
        if not self._writing:
            self._flush()

    def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            order, descriptors = self._waiting[0]
            try:
                socket.send_fds(self._socket, [order], descriptors)
            except BlockingIOError:
                if not self._writing:
                    self._writing = True
                    loop.add_writer(self._socket.fileno(), self._flush)
                return
            except OSError as error:
                if error.errno not in (errno.EPIPE, errno.ECONNRESET):
                    raise
                self._waiting.clear()  # the worker is gone, which is said elsewhere
                break
            self._waiting.pop(0)
        if self._writing:
            self._writing = False
            loop.remove_writer(self._socket.fileno())

    def close(self) -> None:
        """Send no more."""
        if self._writing:
            asyncio.get_running_loop().remove_writer(self._socket.fileno())
        self._waiting.clear()
        self._socket.close()


def take_order(sock: socket.socket) -> tuple[tuple[int, str, tuple[Any, ...]], list[int]] | None:
    """The next order and the descriptors with it; None when the control plane is gone. BlockingIOError: none now."""
    data, descriptors, _, _ = socket.recv_fds(sock, _ORDER_BYTES, _MOST_DESCRIPTORS)
    return (pickle.loads(data), descriptors) if data else None
