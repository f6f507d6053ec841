"""What a session has under way with other brokers than its own: parts of requests, and whose answers they are.

Pure, like the session that it belongs to. Each part gets a correlation id of its own; brokers answer the parts in
their order, and an exchange goes on once it has every answer.
"""

from collections import deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final

from notleader.faults.actions import Relay
from notleader.proxy.pump import Exchange
from notleader.proxy.session.copies import copied_bodies
from notleader.proxy.wire.codec import Body
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.header import encode_request_header
from notleader.proxy.wire.view import Request, Response

_HEAD: Final = Struct(">ii")  # length, correlation_id
_LENGTH: Final = Struct(">i")

ToNode = Callable[[int, bytes], None]


class Relayed:
    """The answers to one request that several brokers have a part of; its own broker's is under None."""

    __slots__ = ("answers", "left", "merge")

    def __init__(self, merge: Callable[[Mapping[int | None, Body]], Body], left: int) -> None:
        self.merge = merge
        self.left = left
        self.answers: dict[int | None, Body] = {}

    def add(self, node_id: int | None, answer: Body) -> bool:
        """Take one answer; whether it was the last."""
        self.answers[node_id] = answer
        self.left -= 1
        return not self.left

    def merged(self) -> Body:
        """One answer out of all."""
        return self.merge(self.answers)


class Relays:
    """The parts of one session. ``to_node(node_id, data)`` sends to another broker of the cluster."""

    def __init__(self, to_node: ToNode, max_frame_bytes: int) -> None:
        self._to_node = to_node
        self._max_frame_bytes = max_frame_bytes
        self._last_id = 0
        # By node the correlation id and the exchange of each part; None where the answer is to be thrown away.
        self._waiting: dict[int, deque[tuple[int, Exchange | None, Request]]] = {}
        self._torn: dict[int, bytes] = {}

    def send(self, exchange: Exchange, action: Relay, request: Request) -> Relayed | None:
        """Send the parts of a request, and what is doubled of each; None where nobody will answer."""
        header = request.header
        for node_id, body in action.parts.items():
            whole = request.codec.encode(body)
            for number, encoded in enumerate((whole, *copied_bodies(exchange, request, body, whole))):
                self._last_id = self._last_id + 1 & 0x7FFFFFFF
                head = encode_request_header(header.api_key, header.api_version, self._last_id, header.client_id)
                if action.merge is not None:
                    waits = exchange if number == 0 else None
                    self._waiting.setdefault(node_id, deque()).append((self._last_id, waits, request))
                self._to_node(node_id, _LENGTH.pack(len(head) + len(encoded)) + head + encoded)
        if action.merge is None:
            return None
        return Relayed(action.merge, len(action.parts) + (action.body is not None))

    def received(self, node_id: int, data: bytes) -> list[Exchange]:
        """Take what a broker sent; the exchanges that now have every answer. Raises WireError."""
        data = self._torn.pop(node_id, b"") + data
        complete = []
        position = 0
        while len(data) - position >= _HEAD.size:
            size, correlation_id = _HEAD.unpack_from(data, position)
            if not 4 <= size <= self._max_frame_bytes:
                raise WireError(f"an answer of {size} bytes from broker {node_id}", side="broker")
            if len(data) - position < 4 + size:
                break
            waiting = self._waiting.get(node_id)
            if not waiting or waiting[0][0] != correlation_id:
                raise WireError(f"broker {node_id} answered what it wasn't asked", side="broker")
            _, exchange, request = waiting.popleft()
            if exchange is not None:
                answer = Response(data[position + 4 : position + 4 + size], request).body
                assert exchange.relayed is not None
                if exchange.relayed.add(node_id, answer):
                    complete.append(exchange)
            position += 4 + size
        if position < len(data):
            self._torn[node_id] = data[position:]
        return complete

    def waits_for(self, node_id: int) -> bool:
        """Whether answers of this broker are still to come."""
        return any(exchange is not None for _, exchange, _ in self._waiting.get(node_id, ()))
