"""The correlation FIFO: which answer belongs to which request, and in what order answers may leave.

Kafka promises that responses on one connection come in the order of the requests (protocol guide,
"Network"). Two queues would be needed to keep that promise next to local answers; one deque does, since
an exchange that the proxy answers itself simply never waits for the broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from notleader.faults.base import Connection
from notleader.faults.plan import Hit
from notleader.proxy.capture.passing import Passing
from notleader.proxy.plain import Exchange
from notleader.proxy.wire.errors import WireError

__all__ = ["ConnectionEvent", "Exchange", "Inflight", "Kept"]

# A frame as it came, in one piece or several, or what is told of it while it passes.
Kept = bytes | memoryview | list[bytes | memoryview] | Passing | None


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
