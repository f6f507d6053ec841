"""Kafka's wire by hand, over a plain socket: for what no client library does any more."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import Any

from notleader.proxy.wire.codec import request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, response_body_offset
from notleader.proxy.wire.names import ApiKey

_LENGTH = struct.Struct(">i")


class Raw:
    """One connection; correlation ids count from 1."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._asked: list[tuple[int, int]] = []

    def send(self, frame: bytes) -> None:
        """A frame, of which the length is put in front here."""
        self.socket.sendall(_LENGTH.pack(len(frame)) + frame)

    def receive(self) -> bytes:
        """The next frame without its length; EOFError when the other side has ended."""
        return self._exactly(_LENGTH.unpack(self._exactly(4))[0])

    def ask(self, api_key: ApiKey, api_version: int, body: dict[str, Any]) -> None:
        """Send a request."""
        self._asked.append((api_key, api_version))
        header = encode_request_header(api_key, api_version, len(self._asked), "raw")
        self.send(header + request_codec(api_key, api_version).encode(body))

    def answer(self) -> dict[str, Any]:
        """The body of the answer to the last request."""
        frame = self.receive()
        assert struct.unpack_from(">i", frame)[0] == len(self._asked)
        api_key, api_version = self._asked[-1]
        offset = response_body_offset(api_key, api_version, frame)
        return response_codec(api_key, api_version).decode(frame, offset)

    def call(self, api_key: ApiKey, api_version: int, body: dict[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer."""
        self.ask(api_key, api_version, body)
        return self.answer()

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            data = self.socket.recv(size - len(parts))
            if not data:
                raise EOFError(f"the connection ended {size - len(parts)} bytes early")
            parts += data
        return bytes(parts)


def address_of(text: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[host]:port`."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@contextlib.contextmanager
def connected(address: str, *, receive_buffer_bytes: int | None = None) -> Iterator[Raw]:
    """A connection to `host:port`, with a receive buffer of that size where one is given."""
    host, port = address_of(address)
    connection = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    with connection:
        if receive_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        connection.settimeout(30)
        connection.connect((host, port))
        yield Raw(connection)
