"""What the proxy counts while it runs: plain integers, bumped on the data path, read at scrape time.

PURE: nothing is formatted, locked or labelled here. `notleader.proxy.admin.exposition` turns it into Prometheus
families when somebody asks for `/metrics`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from notleader.proxy.record.sink import Traffic

_TRAFFIC: Final = ("broker_bytes", "client_bytes", "latency_sum_us", "latency_us", "unanswered")

MAX_RULE_SERIES: Final = 1000
"""How many distinct (rule, kind, phase) are told apart: rule names come from outside, series cost memory."""

OTHER_RULES: Final = "(other)"


class Counters:
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
        "traffic",
        "wire_errors",
    )

    def __init__(self) -> None:
        self.traffic = Traffic()
        """What is counted with every exchange."""
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
        self.loop_lag_us = 0
        self.loop_lag_max_us = 0
        self.loop_lag_sum_us = 0
        self.loop_ticks = 0

    def values(self) -> dict[str, Any]:
        """All of it, by name."""
        own = {name: getattr(self, name) for name in self.__slots__ if name != "traffic"}
        return {name: getattr(self.traffic, name) for name in _TRAFFIC} | own

    def __reduce__(self) -> tuple[Any, ...]:
        return _counted, (self.values(),)

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
        total, more, then = self.traffic, others.traffic, before.traffic
        for api_key, slots in more.latency_us.items():
            counts = zip(total.latency_us[api_key], slots, then.latency_us[api_key], strict=True)
            total.latency_us[api_key] = [a + b - c for a, b, c in counts]
        for name in ("latency_sum_us", "unanswered"):
            _add(getattr(total, name), getattr(more, name), getattr(then, name))
        for name in ("errors", "connections_opened", "connections_closed", "wire_errors"):
            _add(getattr(self, name), getattr(others, name), getattr(before, name))
        total.client_bytes += more.client_bytes - then.client_bytes
        total.broker_bytes += more.broker_bytes - then.broker_bytes
        for key, count in others.injected.items():
            hits = count - before.injected.get(key, 0)
            if key not in self.injected and len(self.injected) >= MAX_RULE_SERIES:
                key = (OTHER_RULES, *key[1:])
            self.injected[key] = self.injected.get(key, 0) + hits
        for name in ("loop_lag_sum_us", "loop_ticks"):
            setattr(self, name, getattr(self, name) + getattr(others, name) - getattr(before, name))
        self.loop_lag_max_us = max(self.loop_lag_max_us, others.loop_lag_max_us)


def _add(total: Any, more: Any, before: Any) -> None:
    for key, count in more.items():
        total[key] += count - before[key]


def _counted(values: dict[str, Any]) -> Counters:
    made = Counters()
    for name, value in values.items():
        setattr(made.traffic if name in _TRAFFIC else made, name, value)
    return made
