"""How many bytes each link took and gave, as Toxiproxy's metrics show it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily

_LABELS = ("direction", "proxy", "listener", "upstream")


@dataclass(slots=True)
class Volume:
    """Of all connections of one proxy in one direction, so far."""

    received_bytes: int = 0
    sent_bytes: int = 0


class Volumes:
    """A Prometheus collector of `toxiproxy_proxy_received_bytes_total` and `…_sent_bytes_total`."""

    def __init__(self) -> None:
        self._by_labels: dict[tuple[str, str, str, str], Volume] = {}

    def of(self, direction: str, proxy: str, listener: str, upstream: str) -> Volume:
        """What to count in."""
        return self._by_labels.setdefault((direction, proxy, listener, upstream), Volume())

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Both counters, for prometheus_client, which only who asks for metrics needs."""
        from prometheus_client.core import CounterMetricFamily

        received = CounterMetricFamily("toxiproxy_proxy_received_bytes", "", labels=_LABELS)
        sent = CounterMetricFamily("toxiproxy_proxy_sent_bytes", "", labels=_LABELS)
        for labels, volume in self._by_labels.items():
            received.add_metric(labels, volume.received_bytes)
            sent.add_metric(labels, volume.sent_bytes)
        yield received
        yield sent
