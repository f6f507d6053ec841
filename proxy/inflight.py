"""The correlation FIFO: which answer belongs to which request, and in what order answers may leave.

Kafka promises that responses on one connection come in the order of the requests (protocol guide,
"Network"). Two queues would be needed to keep that promise next to local answers; one deque does, since
an exchange that the proxy answers itself simply never waits for the broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from faults.actions import Action
from faults.base import Connection
from faults.plan import Decision, Hit
from proxy.capture.passing import Passing
from proxy.wire.errors import WireError

if TYPE_CHECKING:
    from proxy.relays import Relayed

Outcome = Literal["answered", "injected", "altered", "dropped", "closed", "no_response"]
Body = dict[str, Any]
# A frame as it came, in one piece or several, or what is told of it while it passes.
Kept = bytes | memoryview | list[bytes | memoryview] | Passing | None


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
    answer: bytes | None = None  # a whole frame that waits for its turn
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


@dataclass(slots=True)
class ConnectionEvent:
    """Something that happened to a connection, or to the whole proxy, rather than to an exchange."""

    event: Literal["connect", "disconnect", "wire_error", "mark", "fault"]
    connection: Connection | None
    at_us: int
    detail: str
    hits: tuple[Hit, ...] = ()


@dataclass(slots=True)
class Inflight:
    """The exchanges of one connection whose answers have not left yet, oldest first."""

    queue: deque[Exchange] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.queue)

    def __iter__(self) -> Iterator[Exchange]:
        return iter(self.queue)

    def add(self, exchange: Exchange) -> None:
        """Queue an exchange whose answer will leave after those of all earlier ones."""
        self.queue.append(exchange)

    def head(self) -> Exchange | None:
        """The exchange whose answer leaves next."""
        return self.queue[0] if self.queue else None

    def pop(self) -> Exchange:
        """Take out the head."""
        return self.queue.popleft()

    def add_behind(self, earlier: Exchange, exchange: Exchange) -> None:
        """Queue an exchange right behind an earlier one."""
        self.queue.insert(self.queue.index(earlier) + 1, exchange)

    def remove(self, exchange: Exchange) -> None:
        """Forget an exchange that will never be answered and holds nothing back."""
        self.queue.remove(exchange)

    def is_due(self, start: bytes) -> bool:
        """Whether an answer that begins with these four bytes is the one that the broker owes next."""
        awaited = next((exchange for exchange in self.queue if exchange.awaits_broker), None)
        return awaited is not None and start == awaited.correlation_id.to_bytes(4, "big", signed=True)

    def match(self, correlation_id: int) -> Exchange:
        """The exchange this broker's answer belongs to.

        Raises WireError (side "broker") when the broker answers what nobody asked, or out of order.
        """
        for exchange in self.queue:
            if exchange.awaits_broker:
                if exchange.correlation_id != correlation_id:
                    raise WireError(
                        f"the broker answered correlation id {correlation_id} where {exchange.correlation_id} was due",
                        side="broker",
                    )
                return exchange
        raise WireError(
            f"the broker sent an answer (correlation id {correlation_id}) that no request waits for",
            side="broker",
        )
