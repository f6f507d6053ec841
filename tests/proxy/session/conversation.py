"""A conversation as a script: frames made by the codec, a clock that moves when told, commands as data."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.faults.schema import parse_faults
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import Level
from notleader.proxy.session.commands import Script
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.login import Login
from notleader.proxy.session.session import Session
from notleader.proxy.wire.codec import request_codec, response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey


def framed(frame: bytes) -> bytes:
    return pack(">i", len(frame)) + frame


def request(
    api_key: ApiKey, version: int, correlation_id: int, body: dict[str, Any] | None = None, client_id: str = "c"
) -> bytes:
    """A whole request, length prefix included."""
    header = encode_request_header(api_key, version, correlation_id, client_id)
    return framed(header + request_codec(api_key, version).encode(body or {}))


def response(api_key: ApiKey, version: int, correlation_id: int, body: dict[str, Any] | None = None) -> bytes:
    """A whole answer, length prefix included."""
    header = encode_response_header(api_key, version, correlation_id)
    return framed(header + response_codec(api_key, version).encode(body or {}))


def decoded(api_key: ApiKey, version: int, whole: bytes) -> dict[str, Any]:
    """The body of an answer with a version 0 header (not flexible)."""
    return response_codec(api_key, version).decode(whole, 8)


class Conversation:
    """One session with its script; ``now_ms`` is the clock."""

    def __init__(
        self,
        *faults: dict[str, Any],
        level: Level | None = None,
        login: Callable[[], Login | None] = lambda: None,
        **limits: int,
    ) -> None:
        self.now_ms = 0.0
        self.plan = Plan(seed=7, faults=parse_faults(list(faults)))
        self.script = Script()
        self.records: list[Exchange | ConnectionEvent] = []
        self.brokers_seen: set[int] = set()
        self.table = Handling(level)
        self.session = Session(
            Connection(1, 1, "bootstrap", None, "127.0.0.1:5"),
            self.plan,
            self.table,
            self.script,
            lambda node_id, host, port: ("proxy", 9000 + node_id),
            login=login,
            **limits,
        )

    @property
    def now_us(self) -> int:
        return 1_000_000 + round(self.now_ms * 1000)

    def client(self, data: bytes) -> list[Any]:
        self.session.client_bytes(data, self.now_us)
        return self.commands()

    def broker(self, data: bytes) -> list[Any]:
        self.session.broker_bytes(data, self.now_us)
        return self.commands()

    def at(self, now_ms: float) -> list[Any]:
        """Let time pass and wake the session."""
        self.now_ms = now_ms
        self.session.wake(self.now_us)
        return self.commands()

    def commands(self) -> list[Any]:
        """What the session asked for since the last look, a repeated wake once.

        Records and the brokers seen are kept apart, in ``records`` and ``brokers_seen``.
        """
        commands: list[Any] = []
        for command in self.script.take():
            if command[0] == "record":
                self.records.append(command[1])
            elif command[0] == "brokers_seen":
                self.brokers_seen = command[1]
            elif command[0] != "wake" or command not in commands:
                commands.append(command)
        return commands

    @property
    def exchanges(self) -> list[Exchange]:
        return [entry for entry in self.records if isinstance(entry, Exchange)]

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(entry.event, entry.detail) for entry in self.records if isinstance(entry, ConnectionEvent)]
