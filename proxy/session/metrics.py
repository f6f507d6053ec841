"""What the proxy counts while it runs: plain integers, bumped on the data path, read at scrape time.

PURE: nothing is formatted, locked or labelled here. `notleader.proxy.admin.exposition` turns it into Prometheus
families when somebody asks for `/metrics`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy import plain

if TYPE_CHECKING:
    from notleader.proxy.pump import Exchange

_SLOTS: Final = 64
_WITH_EXCHANGES: Final = ("broker_bytes", "client_bytes", "latency_sum_us", "latency_us", "unanswered")

MAX_RULE_SERIES: Final = 1000
"""How many distinct (rule, kind, phase) are told apart: rule names come from outside, series cost memory."""

OTHER_RULES: Final = "(other)"


def _no_latencies() -> list[int]:
    return [0] * _SLOTS


class Counters(plain.Tally):
    """Plain integers the session and the transport bump per event; read only when metrics are scraped.

    One proxy has one `Counters`. All of it belongs to the event loop's thread.
    """

    __slots__ = (
        "connections_closed",
        "connections_opened",
        "errors",
        "injected",
        "loop_lag_max_us",
        "loop_lag_sum_us",
        "loop_lag_us",
        "loop_ticks",
        "wire_errors",
    )

    def __init__(self) -> None:
        self.latency_us: defaultdict[int, list[int]] = defaultdict(_no_latencies)
        """api_key → exchanges answered, by `latency_us.bit_length()`."""
        self.latency_sum_us: defaultdict[int, int] = defaultdict(int)
        self.unanswered: defaultdict[int, int] = defaultdict(int)
        """api_key → requests that got no response: acks=0, dropped, or their connection ended first."""
        self.errors: defaultdict[tuple[int, int], int] = defaultdict(int)
        """(api_key, error_code) → responses sent to clients with that error, of those that were read.

        Those are what a fault gave or changed, and everything while a capture, traces or a live reader reads bodies.
        """
        self.injected: dict[tuple[str, str, str], int] = {}
        """(rule name, kind, phase) → hits. Bump it through `hit`, which bounds it."""
        self.connections_opened: defaultdict[str, int] = defaultdict(int)
        """listener → client connections accepted."""
        self.connections_closed: defaultdict[str, int] = defaultdict(int)
        self.wire_errors: defaultdict[str, int] = defaultdict(int)
        """guilty side ("client", "broker") → connections closed because it did not speak Kafka."""
        self.client_bytes = 0
        """Bytes sent to clients."""
        self.broker_bytes = 0
        """Bytes sent to brokers."""
        self.loop_lag_us = 0
        self.loop_lag_max_us = 0
        self.loop_lag_sum_us = 0
        self.loop_ticks = 0

    def values(self) -> dict[str, Any]:
        """All of it, by name."""
        return {name: getattr(self, name) for name in (*_WITH_EXCHANGES, *self.__slots__)}

    def __reduce__(self) -> tuple[Any, ...]:
        return _counted, (self.values(),)

    def answered(self, api_key: int, latency_us: int) -> None:
        """Count one exchange whose response left for the client `latency_us` after its request came.

        Slot k holds the latencies in [2**(k-1), 2**k) µs: one method call on an int finds it, where a
        search in a table of bounds costs ten times as much.
        """
        if latency_us < 0:
            latency_us = 0
        self.latency_us[api_key][latency_us.bit_length()] += 1
        self.latency_sum_us[api_key] += latency_us

    def error(self, api_key: int, error_code: int) -> None:
        """Count one answer that took this error to a client."""
        self.errors[api_key, error_code] += 1

    def hit(self, rule: str, kind: str, phase: str) -> None:
        """Count one fault that was applied; beyond `MAX_RULE_SERIES` rules the name becomes `(other)`."""
        key = (rule, kind, phase)
        count = self.injected.get(key)
        if count is None:
            if len(self.injected) >= MAX_RULE_SERIES:
                key = (OTHER_RULES, kind, phase)
            count = self.injected.get(key, 0)
        self.injected[key] = count + 1

    def absorb(self, others: Counters, before: Counters | None) -> None:
        """Add what another process has counted since it last told (`before`; None: it never did)."""
        before = Counters() if before is None else before
        for api_key, slots in others.latency_us.items():
            mine, then = self.latency_us[api_key], before.latency_us[api_key]
            self.latency_us[api_key] = [a + b - c for a, b, c in zip(mine, slots, then, strict=True)]
        for name in (
            "latency_sum_us",
            "unanswered",
            "errors",
            "connections_opened",
            "connections_closed",
            "wire_errors",
        ):
            total, then = getattr(self, name), getattr(before, name)
            for key, count in getattr(others, name).items():
                total[key] += count - then[key]
        for key, count in others.injected.items():
            more = count - before.injected.get(key, 0)
            if key not in self.injected and len(self.injected) >= MAX_RULE_SERIES:
                key = (OTHER_RULES, *key[1:])
            self.injected[key] = self.injected.get(key, 0) + more
        for name in ("client_bytes", "broker_bytes", "loop_lag_sum_us", "loop_ticks"):
            setattr(self, name, getattr(self, name) + getattr(others, name) - getattr(before, name))
        self.loop_lag_max_us = max(self.loop_lag_max_us, others.loop_lag_max_us)


def _counted(values: dict[str, Any]) -> Counters:
    made = Counters()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def count(counters: Counters, exchange: Exchange) -> None:
    """Count one finished exchange: its bytes, and how long it took if it was answered."""
    if exchange.forwarded_at_us:
        counters.broker_bytes += exchange.request_bytes
    counters.client_bytes += exchange.response_bytes
    if exchange.response_at_us:
        counters.answered(exchange.api_key, exchange.response_at_us - exchange.request_at_us)
    else:
        counters.unanswered[exchange.api_key] += 1


if not TYPE_CHECKING and plain.IS_NATIVE:
    count = plain.native.count
