"""Where every finished exchange comes by: it is counted, and the capture takes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy.pump import IS_NATIVE, Exchange
from notleader.proxy.record.block import BlockWriter
from notleader.proxy.record.event import ConnectionEvent

IS_COMPILED: Final = IS_NATIVE and find_spec("notleader.proxy.record.block_writer") is not None
_SLOTS: Final = 64

Entry = Exchange | ConnectionEvent


def no_latencies() -> list[int]:
    """None in any slot."""
    return [0] * _SLOTS


class Traffic:
    """What is counted of every exchange."""

    __slots__ = ("broker_bytes", "client_bytes", "latency_sum_us", "latency_us", "unanswered")

    def __init__(self) -> None:
        self.client_bytes = 0
        """Bytes sent to clients."""
        self.broker_bytes = 0
        """Bytes sent to brokers."""
        self.latency_us: defaultdict[int, list[int]] = defaultdict(no_latencies)
        """api_key → exchanges answered, by `latency_us.bit_length()`."""
        self.latency_sum_us: defaultdict[int, int] = defaultdict(int)
        self.unanswered: defaultdict[int, int] = defaultdict(int)
        """api_key → requests that got no response: acks=0, dropped, or their connection ended first."""

    def count(self, exchange: Exchange) -> None:
        """Count one finished exchange: its bytes, and how long it took if it was answered."""
        if exchange.forwarded_at_us:
            self.broker_bytes += exchange.request_bytes
        self.client_bytes += exchange.response_bytes
        if exchange.response_at_us:
            self.answered(exchange.api_key, exchange.response_at_us - exchange.request_at_us)
        else:
            self.unanswered[exchange.api_key] += 1

    def answered(self, api_key: int, latency_us: int) -> None:
        """Count one exchange whose response left for the client `latency_us` after its request came.

        Slot k holds the latencies in [2**(k-1), 2**k) µs: one method call on an int finds it, where a
        search in a table of bounds costs ten times as much.
        """
        latency_us = max(latency_us, 0)
        self.latency_us[api_key][latency_us.bit_length()] += 1
        self.latency_sum_us[api_key] += latency_us


class ExchangeSink:
    """Takes the finished exchanges and the events of all connections of one proxy.

    ``notice`` is called first with events, with what a fault has touched, and while nobody is awake to hand on what
    the capture takes.
    """

    __slots__ = ("_notice", "blocks", "capture", "is_awake", "traffic")

    def __init__(self, traffic: Traffic, notice: Callable[[Entry], None]) -> None:
        self.traffic = traffic
        self._notice = notice
        self.capture: Callable[[Entry], None] | None = None
        """Records one; None while nothing is recorded."""
        self.blocks: BlockWriter | None = None
        """Takes what it can in place of ``capture``; None while somebody looks, who wants rows and in their order."""
        self.is_awake = False
        """Whether what the capture took is about to be handed over."""

    def record(self, entry: Entry) -> None:
        """Count a finished exchange or event, and keep it for the capture."""
        is_exchange = type(entry) is Exchange
        if is_exchange:
            self.traffic.count(entry)  # type: ignore[arg-type]
        sleeps = self.capture is not None and not self.is_awake
        if not is_exchange or entry.hits or entry.error_code or sleeps:  # type: ignore[union-attr]
            self._notice(entry)
        if self.capture is not None and (self.blocks is None or not self.blocks.take(entry)):
            self.capture(entry)

    def record_all(self, exchanges: list[Any]) -> None:
        """Count these finished exchanges, and keep them for the capture, in their order."""
        for exchange in exchanges:
            self.record(exchange)


if not TYPE_CHECKING and IS_COMPILED:
    compiled = import_module("notleader.proxy.record.block_writer")
    Traffic, ExchangeSink = compiled.Traffic, compiled.ExchangeSink
