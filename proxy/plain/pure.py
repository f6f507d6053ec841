"""What is counted and recorded of a finished exchange, in Python; see the package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from notleader.proxy.pump import Exchange
    from notleader.proxy.record.event import ConnectionEvent
    from notleader.proxy.record.quick import Quick
    from notleader.proxy.record.writer import CaptureWriter
    from notleader.proxy.session.metrics import Counters


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


class ExchangeSink:
    """Where every finished exchange and every event comes by: a part of `notleader.proxy.net.server.Proxy`.

    What needs no more than to be counted and taken for the capture has a shorter way in `native`.
    """

    counters: Counters
    capture: CaptureWriter | None
    _hands_over: bool  # whether what the capture took is about to go to its recorder

    def record(self, entry: Exchange | ConnectionEvent) -> None:
        """Count a finished exchange or event, and keep it for the capture."""
        self._note(entry)

    def record_all(self, exchanges: list[Exchange]) -> None:
        """Count these finished exchanges, and keep them for the capture, in their order."""
        for exchange in exchanges:
            self.record(exchange)

    def _note(self, entry: Exchange | ConnectionEvent) -> None:
        raise NotImplementedError
