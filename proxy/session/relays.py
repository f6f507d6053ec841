"""What a session has under way with other brokers than its own: parts of requests, and whose answers they are.

Pure, like the session that it belongs to. Each part gets a correlation id of its own; brokers answer the parts in
their order, and an exchange goes on once it has every answer. Where the proxy authenticates itself, parts wait for
that, at the beginning and again before the broker's session ends (KIP-368).
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from notleader.faults.actions import Lost, Relay
from notleader.faults.effects import Effect
from notleader.faults.hit import Hit, joined
from notleader.proxy.pump import Exchange
from notleader.proxy.session.copies import copied_bodies
from notleader.proxy.session.login import Login
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import encode_request_header
from notleader.proxy.wire.view import Request, Response

_HEAD: Final = Struct(">ii")  # length, correlation_id
_LENGTH: Final = Struct(">i")
_RENEWED_AFTER: Final = 0.85  # of a session's lifetime, as by Java's clients at the earliest

ToNode = Callable[[int, bytes], None]
Merge = Callable[[Mapping[int | None, Body]], Body]


class Relayed:
    """The answers to one request that several brokers have a part of; its own broker's is under None."""

    __slots__ = ("answers", "left", "lost", "merge")

    def __init__(self, merge: Merge, left: int, lost: Mapping[int, tuple[Lost, ...]]) -> None:
        self.merge = merge
        self.left = left
        self.lost = lost
        self.answers: dict[int | None, Body] = {}

    def add(self, node_id: int | None, answer: Body) -> bool:
        """Take one answer; whether it was the last."""
        self.answers[node_id] = answer
        self.left -= 1
        return not self.left

    def give_up(self, node_id: int, reason: str) -> tuple[Hit, ...]:
        """There will be no answer of this broker: whose doing that is, and what is said in its place."""
        self.left -= 1
        return tuple(
            Hit(
                lost.rule_name,
                lost.kind,
                "before_broker",
                f"broker {node_id}, to which it was relayed: {reason}",
                (Effect("answered", lost.error_code, lost.partitions),),
            )
            for lost in self.lost.get(node_id, ())
        )

    def merged(self) -> Body:
        """One answer out of all."""
        return self.merge(self.answers)


@dataclass(slots=True)
class _Node:
    """What is under way with one broker, over one connection."""

    # The correlation id and the exchange of each part; None where the answer is to be thrown away.
    waiting: deque[tuple[int, Exchange | None, Request]] = field(default_factory=deque)
    torn: bytes = b""
    login: Login | None = None  # while it lasts
    queued: list[bytes] = field(default_factory=list)  # parts that wait for its end
    renew_at_us: int | None = None


class Relays:
    """The parts of one session. ``to_node(node_id, data)`` sends to another broker of the cluster.

    ``login()`` is how the proxy authenticates there; None where nobody has to.
    """

    def __init__(self, to_node: ToNode, max_frame_bytes: int, login: Callable[[], Login | None]) -> None:
        self._to_node = to_node
        self._max_frame_bytes = max_frame_bytes
        self._new_login = login
        self._last_id = 0
        self._nodes: dict[int, _Node] = {}

    def send(self, exchange: Exchange, action: Relay, request: Request, now_us: int) -> Relayed | None:
        """Send the parts of a request, and what is doubled of each; None where nobody will answer."""
        header = request.header
        for node_id, body in action.parts.items():
            whole = request.codec.encode(body)
            node = self._node(node_id, now_us)
            for number, encoded in enumerate((whole, *copied_bodies(exchange, request, body, whole))):
                self._last_id = self._last_id % 0x7FFFFFFF + 1  # never 0, which is the login's
                head = encode_request_header(header.api_key, header.api_version, self._last_id, header.client_id)
                if action.merge is not None:
                    waits = exchange if number == 0 else None
                    node.waiting.append((self._last_id, waits, request))
                self._put(node_id, node, _LENGTH.pack(len(head) + len(encoded)) + head + encoded)
        if action.merge is None:
            return None
        return Relayed(action.merge, len(action.parts) + (action.body is not None), action.lost)

    def _node(self, node_id: int, now_us: int) -> _Node:
        """What is under way with a broker, in a session that lasts or is being opened."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node()
            self._log_in(node_id, node)
        elif node.renew_at_us is not None and now_us >= node.renew_at_us:
            node.renew_at_us = None
            self._log_in(node_id, node)
        return node

    def _log_in(self, node_id: int, node: _Node) -> None:
        node.login = self._new_login()
        if node.login is not None:
            self._to_node(node_id, node.login.start())

    def _put(self, node_id: int, node: _Node, frame: bytes) -> None:
        if node.login is None:
            self._to_node(node_id, frame)
        else:
            node.queued.append(frame)

    def _logs_in(self, node_id: int, node: _Node, login: Login, frame: bytes, now_us: int) -> None:
        if more := login.received(frame):
            self._to_node(node_id, more)
        if not login.is_done:
            return
        node.login = None
        if login.session_lifetime_ms:
            node.renew_at_us = now_us + round(login.session_lifetime_ms * 1000 * _RENEWED_AFTER)
        for queued in node.queued:
            self._to_node(node_id, queued)
        node.queued.clear()

    def received(self, node_id: int, data: bytes, now_us: int) -> list[Exchange]:
        """Take what a broker sent; the exchanges that now have every answer. Raises WireError and LoginError."""
        node = self._nodes[node_id]
        data = node.torn + data
        node.torn = b""
        complete = []
        position = 0
        while len(data) - position >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(data, position)
            if not 4 <= size <= self._max_frame_bytes:
                raise WireError(f"an answer of {size} bytes from broker {node_id}", side="broker")
            if len(data) - position < 4 + size:
                break
            _, correlation_id = _HEAD.unpack_from(data, position)
            exchange = None
            if correlation_id == 0 and node.login is not None:
                self._logs_in(node_id, node, node.login, data[position : position + 4 + size], now_us)
            elif node.waiting and node.waiting[0][0] == correlation_id:
                _, exchange, request = node.waiting.popleft()
            else:
                raise WireError(f"broker {node_id} answered what it wasn't asked", side="broker")
            if exchange is not None:
                answer = Response(data[position + 4 : position + 4 + size], request).body
                assert exchange.relayed is not None
                if exchange.relayed.add(node_id, answer):
                    complete.append(exchange)
            position += 4 + size
        node.torn = data[position:]
        return complete

    def gone(self, node_id: int, reason: str) -> list[Exchange]:
        """The connection to a broker is over; the exchanges that now have all answers that will come.

        The next part opens another connection.
        """
        node = self._nodes.pop(node_id, None)
        complete = []
        for exchange in [exchange for _, exchange, _ in node.waiting if exchange is not None] if node else ():
            relayed = exchange.relayed
            assert relayed is not None
            exchange.hits = joined(exchange.hits, relayed.give_up(node_id, reason))
            exchange.outcome = "altered" if relayed.left or relayed.answers else "injected"
            if not relayed.left:
                complete.append(exchange)
        return complete

    def waits_for(self, node_id: int) -> bool:
        """Whether answers of a broker are still to come."""
        node = self._nodes.get(node_id)
        return node is not None and any(exchange is not None for _, exchange, _ in node.waiting)
