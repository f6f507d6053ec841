"""Exchanges, and the plain ones among them taken frame by frame, in Python; see the package."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

from notleader.faults.base import Connection
from notleader.proxy.plain.flags import KEEP_REQUEST, KEEP_RESPONSE, NOT_PLAIN

if TYPE_CHECKING:
    import asyncio

    from notleader.faults.actions import Action
    from notleader.faults.decision import Decision, Hit
    from notleader.faults.plan import Plan
    from notleader.proxy.net.shaping import Shaper
    from notleader.proxy.pump.endpoints import FetchWalk
    from notleader.proxy.record.quick import Quick
    from notleader.proxy.record.writer import CaptureWriter
    from notleader.proxy.session.commands import Commands
    from notleader.proxy.session.handling import Handling
    from notleader.proxy.session.inflight import ConnectionEvent, Kept
    from notleader.proxy.session.metrics import Counters
    from notleader.proxy.session.relays import Relayed
    from notleader.proxy.session.session import Session
    from notleader.proxy.wire.schemas import Direction

Outcome = Literal["answered", "injected", "altered", "dropped", "closed", "no_response"]
Body = dict[str, Any]

SMALL: Final = 4096
"""Below that, a copy costs less than a view."""
_REQUEST: Final = Struct(">ihhih")  # length, api_key, api_version, correlation_id, client_id length
_ANSWER: Final = Struct(">ii")  # length, correlation_id
HIGHEST_API_KEY: Final = 1000
"""Beyond any key in use (Kafka's are below 100): it is no Kafka request."""


def client_id_of(raw: bytes) -> str:
    """A client id as text, the same object wherever it is the same: hardly any connection has one to itself."""
    return sys.intern(raw.decode("utf-8", "replace"))


class _Seen:
    """What every exchange has; the slots are set for each, so there are no more than needed."""

    __slots__ = (
        "api_key",
        "api_version",
        "awaits_broker",
        "broker_responded_at_us",
        "client_id",
        "connection",
        "correlation_id",
        "flags",
        "forwarded_at_us",
        "outcome",
        "request",
        "request_at_us",
        "request_bytes",
        "response",
        "response_at_us",
        "response_bytes",
        "seq",
    )


class Exchange(_Seen):
    """One request and what became of it. Times are µs since the epoch, 0 where it never happened.

    What only a few exchanges have stands on the class until it is set.
    """

    # What the faults decided, and where its execution stands.
    decision: Decision | None = None
    hits: tuple[Hit, ...] = ()
    actions: deque[Action] | None = None
    merge: Callable[[Body], Body] | None = None
    relayed: Relayed | None = None  # the answers of other brokers, while some are missing
    answer: tuple[bytes, ...] | None = None  # a whole frame that waits for its turn, in pieces
    release_at_us: int = 0
    held_by: str | None = None
    copies: int = 0  # how many times more the broker gets the request
    is_copy: bool = False  # one of those: its answer is thrown away
    close_after: bool = False  # the connection ends once the request is with the broker
    error_code: int = 0  # of an answer that a fault gave or changed
    mute_us: int = 0  # how long later requests wait once the answer has left
    afterwards: Literal["", "close", "silence"] = ""  # what follows the answer

    def __init__(
        self,
        connection: Connection,
        seq: int,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_at_us: int,
        request_bytes: int,
        flags: int,
    ) -> None:
        self.connection = connection
        self.seq = seq
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_at_us = request_at_us
        self.request_bytes = request_bytes
        self.flags = flags
        self.forwarded_at_us = self.broker_responded_at_us = self.response_at_us = self.response_bytes = 0
        self.outcome: Outcome = "no_response"
        # The frames, as they were on the client's side of the wire, for whoever asked to keep them.
        self.request: Kept = None
        self.response: Kept = None
        self.awaits_broker = False


class Ends:
    """The two ends of a conversation's bytes: a part of `notleader.proxy.net.transport.Link`.

    What is defined here no subclass replaces, nor `Plain.client_bytes`, `Plain.broker_bytes` and `Noting.record`: they
    are called directly where they are compiled.
    """

    client: asyncio.Transport | None = None
    broker: asyncio.Transport | None = None
    session: Session
    now_us: Callable[[], int]
    _shapers: dict[Direction, Shaper]

    def _too_early(self, data: bytes) -> None:
        raise NotImplementedError

    def _shape(self, direction: Direction, data: bytes | memoryview) -> None:
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        if self.broker is None:
            self._too_early(data)
        else:
            self.session.client_bytes(data, self.now_us())

    def to_broker(self, data: bytes | memoryview) -> None:
        """Send these bytes to the broker, after all that was sent before."""
        if self._shapers:
            self._shape("request", data)
        elif self.broker is not None:
            self.broker.write(data)

    def to_client(self, data: bytes | memoryview) -> None:
        """Send these bytes to the client, after all that was sent before."""
        if self._shapers:
            self._shape("response", data)
        elif self.client is not None:
            self.client.write(data)


class BrokerEnd:
    """Where a conversation's broker is heard: a part of `notleader.proxy.net.transport.BrokerSide`."""

    _link: Ends

    def data_received(self, data: bytes) -> None:
        """Take what the broker sent."""
        link = self._link
        link.session.broker_bytes(data, link.now_us())


class Tally:
    """What is counted with every exchange: a part of `session.metrics.Counters`, which says what it means."""

    __slots__ = ("broker_bytes", "client_bytes", "latency_sum_us", "latency_us", "unanswered")

    client_bytes: int
    broker_bytes: int
    latency_us: dict[int, list[int]]
    latency_sum_us: dict[int, int]
    unanswered: dict[int, int]


class Taker:
    """What the capture is asked with every exchange: a part of `notleader.proxy.record.writer.CaptureWriter`."""

    __slots__ = ("taking",)

    taking: Quick | None
    """Takes an exchange at once if it can; None while somebody looks, who wants rows and in their order."""


class Noting:
    """Where every finished exchange and every event comes by: a part of `notleader.proxy.net.server.Proxy`.

    What needs no more than to be counted and taken for the capture has a shorter way in `native`.
    """

    counters: Counters
    capture: CaptureWriter | None
    _hands_over: bool  # whether what the capture took is about to go to its recorder

    def record(self, entry: Exchange | ConnectionEvent) -> None:
        """Count a finished exchange or event, and keep it for the capture."""
        self._note(entry)

    def _note(self, entry: Exchange | ConnectionEvent) -> None:
        raise NotImplementedError


class Plain:
    """What both directions of a conversation need for frames that are passed on as they came.

    ``client_bytes`` and ``broker_bytes`` take what a side sent; what is not plain goes to `_other_requests` and
    `_other_answers`, and answers whose turn has come to `_flush`: the session's own.
    """

    def __init__(
        self,
        connection: Connection,
        plan: Plan,
        table: Handling,
        commands: Commands,
        queue: deque[Exchange],
        *,
        max_frame_bytes: int,
    ) -> None:
        self.connection = connection
        self.exchanges = 0
        self._plan = plan
        self._table = table
        self._commands = commands
        self._queue = queue
        self._most_plain = min(SMALL, max_frame_bytes)
        self._closed = False
        self._client_ended = False
        # While SASL tokens travel as bare frames: from the client, and from the broker, whose last one may come after
        # the client's first request.
        self._bare = self._bare_answers = False
        self._holding = False  # every request waits: one before it does, or the connection is muted
        self._client_deaf = False  # nothing more is sent to the client
        # Of each direction: how many bytes are missing of what can't be parsed yet, and of a frame being cut through.
        self._request_needed = 0
        self._request_left = 0
        self._request_open: Exchange | None = None
        self._response_needed = 0
        self._response_left = 0
        self._response_open: Exchange | None = None
        self._walk: FetchWalk | None = None  # through that answer, for what it says at its end

    def record_elsewhere(self) -> None:
        """``commands.record`` is another one now; what called the old one directly asks for it from here on."""

    def _other_requests(self, data: bytes, now_us: int) -> None:
        raise NotImplementedError

    def _other_answers(self, data: bytes, now_us: int) -> None:
        raise NotImplementedError

    def _flush(self, now_us: int) -> None:
        raise NotImplementedError

    def client_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the client sent."""
        if not self._closed and not self._one_request(data, now_us):
            self._other_requests(data, now_us)

    def broker_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the broker sent."""
        if not self._closed and not self._inside_answer(data) and not self._one_answer(data, now_us):
            self._other_answers(data, now_us)

    def _one_request(self, data: bytes, now_us: int) -> bool:
        """Pass on one whole small request that is cut through; False: not that case."""
        total = len(data)
        if (
            self._request_needed
            or self._request_left
            or self._holding
            or not _REQUEST.size <= total <= self._most_plain
            or self._bare
        ):
            return False
        size, api_key, api_version, correlation_id, client_id_bytes = _REQUEST.unpack_from(data)
        if size + 4 != total or not (0 <= api_key <= HIGHEST_API_KEY and 0 <= api_version <= 255):
            return False
        flags = self._table[api_key << 8 | api_version] | self._plan.interest(api_key, api_version)
        if flags & NOT_PLAIN:
            return False
        connection = self.connection
        if 0 < client_id_bytes <= total - 14:
            connection.client_id = client_id_of(data[14 : 14 + client_id_bytes])
        self.exchanges += 1
        exchange = Exchange(
            connection,
            self.exchanges,
            api_key,
            api_version,
            correlation_id,
            connection.client_id,
            now_us,
            total,
            flags,
        )
        exchange.forwarded_at_us = now_us
        if flags & KEEP_REQUEST:
            exchange.request = data[4:]
        exchange.awaits_broker = True
        self._queue.append(exchange)
        self._commands.to_broker(data)
        return True

    def _inside_answer(self, data: bytes) -> bool:
        """Pass on what lies inside an answer, all of it bytes that tell nothing; False: not that case."""
        total = len(data)
        if self._response_left <= total:
            return False
        exchange, walk = self._response_open, self._walk
        assert exchange is not None
        if walk is not None and walk.skip <= total:
            return False
        if exchange.flags & KEEP_RESPONSE:
            kept: Any = exchange.response
            if getattr(kept, "skip", 0) <= total:
                return False
            kept.skip -= total
        if walk is not None:
            walk.pass_over(total)
        self._response_left -= total
        self._commands.to_client(data)
        return True

    def _one_answer(self, data: bytes, now_us: int) -> bool:
        """Pass on one whole small answer to the oldest request; False: not that case."""
        total = len(data)
        inflight = self._queue
        if (
            self._response_needed
            or self._response_left
            or not inflight
            or not _ANSWER.size <= total <= self._most_plain
            or self._client_deaf
            or self._bare_answers
        ):
            return False
        size, correlation_id = _ANSWER.unpack_from(data)
        exchange = inflight[0]
        if (
            size + 4 != total
            or exchange.correlation_id != correlation_id
            or not exchange.awaits_broker
            or exchange.flags & NOT_PLAIN
            or exchange.decision is not None
        ):
            return False
        exchange.awaits_broker = False
        exchange.broker_responded_at_us = exchange.response_at_us = now_us
        exchange.response_bytes = total
        if exchange.outcome == "no_response":
            exchange.outcome = "answered"
        if exchange.flags & KEEP_RESPONSE:
            exchange.response = data[4:]
        inflight.popleft()
        self._commands.to_client(data)
        self._commands.record(exchange)
        if inflight and (inflight[0].answer is not None or self._client_ended):
            self._flush(now_us)
        return True
