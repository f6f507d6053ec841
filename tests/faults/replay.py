"""A recorded session, played again through the session's own code: what the client sent, what the broker answered."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from struct import pack, unpack_from
from typing import Any

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.pump import Exchange
from notleader.proxy.session.commands import Script
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.session import Session
from tests.faults.script import fault

Recorded = tuple[object, bytes, bytes | None]
"""The connection it was seen on, a request and its answer, without their lengths."""
_OFTEN = {"times": "forever", "probability": 0.3}


def rules() -> list[Any]:
    """Rules that draw lots, of every kind of outcome: held, refused, changed, lost, cut."""
    long_tail = {"distribution": "pareto", "min_ms": 1}
    return [
        fault(name="slow", kind="delay", delay_ms=long_tail, trigger=_OFTEN),
        fault(name="late", kind="delay", phase="after_broker", delay_ms=long_tail, trigger=_OFTEN),
        fault(name="refused", kind="error", error_code=6, match={"api_key": "Produce"}, trigger=_OFTEN),
        fault(name="told", kind="error", error_code=15, phase="after_broker", trigger={**_OFTEN, "skip": 4}),
        fault(name="lost", kind="leader_election", for_ms=20, trigger={"skip": 2}),
        fault(name="reordered", kind="reorder", trigger=_OFTEN),
        fault(name="throttled", kind="throttle", throttle_time_ms=5, muted=True, trigger={**_OFTEN, "skip": 4}),
        fault(name="torn", kind="truncate", trigger={"times": 2, "probability": 0.1, "skip": 6}),
    ]


class Replay:
    """One recording, a millisecond between requests; a connection that a fault closes is opened again.

    `log` is everything that the sessions asked for, every byte of it, in order.
    """

    def __init__(self, recorded: Iterable[Recorded], seed: int) -> None:
        self.plan = Plan(seed, rules())
        self.script = Script()
        self.now_us = 0
        self.log: list[object] = []
        self.answers: dict[tuple[int, ...], deque[bytes | None]] = defaultdict(deque)
        self.sessions: dict[object, Session] = {}
        self.connections = 0
        for on, request, answer in recorded:
            self.answers[unpack_from(">hhi", request)].append(answer)
            self.now_us += 1000
            if on not in self.sessions:
                self.sessions[on] = self.connected()
            self.sessions[on].client_bytes(pack(">i", len(request)) + request, self.now_us)
            self.follow(on)

    def connected(self) -> Session:
        self.connections += 1
        on = Connection(self.connections, self.connections, "broker-1", 1, f"10.0.0.1:{self.connections}")
        return Session(on, self.plan, Handling(None), self.script, lambda node_id, host, port: ("p", node_id))

    def follow(self, on: object) -> None:
        """Do what the session asks for, the broker's part too, until it asks for nothing more."""
        while commands := self.script.take():
            for name, *what in commands:
                self.log.append((name, *map(self.readable, what)))
                if name == "to_broker":
                    self.answer(self.sessions[on], what[0])
                elif name == "wake":
                    self.now_us = max(self.now_us, what[0])
                    self.sessions[on].wake(self.now_us)
                elif name in ("close", "reset"):
                    self.sessions[on] = self.connected()

    def answer(self, session: Session, data: bytes) -> None:
        """The broker's recorded answer to each whole request in there."""
        position = 0
        while position + 12 <= len(data):
            size, *key = unpack_from(">ihhi", data, position)
            position += 4 + size
            recorded = self.answers[tuple(key)]
            answer = recorded.popleft() if recorded else None
            if answer is not None:
                self.now_us += 200
                session.broker_bytes(pack(">i", len(answer)) + answer, self.now_us)

    @staticmethod
    def readable(value: object) -> object:
        if isinstance(value, Exchange):
            return value.api_key, value.outcome, value.hits, value.request_bytes, value.response_bytes
        return repr(value)
