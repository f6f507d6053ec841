"""The proxy's `Counters` as Prometheus metric families, made at the moment of the scrape."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, get_args

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from notleader.proxy.admin.target import CaptureStatus
from notleader.proxy.session.metrics import Counters
from notleader.proxy.wire.errors import Side
from notleader.proxy.wire.names import api_name, error_name

FIRST_BUCKET: Final = 5  # 32 µs: faster than any proxied exchange measured
_SAMPLES_PER_PIECE: Final = 40
LAST_BUCKET: Final = 27  # 134 s: slower than any client's request timeout


class MeteredProxy(Protocol):
    """What the metrics read of a proxy."""

    @property
    def counters(self) -> Counters: ...
    @property
    def capture(self) -> CaptureStatus | None: ...


class ProxyCollector(Collector):
    """Prometheus families made from one proxy's `Counters` at the moment of the scrape."""

    def __init__(self, proxy: MeteredProxy) -> None:
        self._proxy = proxy

    def describe(self) -> Iterable[Metric]:
        """Nothing: stops the registry from collecting once only to learn the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        counters = self._proxy.counters
        yield from _exchanges(counters)
        yield from _faults(counters)
        yield from _connections(counters)
        yield from _event_loop(counters)
        if self._proxy.capture is not None:
            yield from _capture(self._proxy.capture)


def make_registry(proxy: MeteredProxy) -> CollectorRegistry:
    """A registry of this proxy's metrics and of the process's memory, CPU and descriptors."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ProxyCollector(proxy))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def render(registry: CollectorRegistry, accept: str) -> tuple[Iterator[bytes], str]:
    """The exposition and its content type, in the format that `accept` (an HTTP header value) prefers.

    It comes in pieces, each some tenths of a millisecond's work: the whole takes ten of them, or a hundred.
    """
    encoder, content_type = choose_encoder(accept)
    return _pieces(registry, encoder), content_type


class _Only(Collector):
    def __init__(self, *metrics: Metric) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _pieces(registry: CollectorRegistry, encoder: Callable[[Collector], bytes]) -> Iterator[bytes]:
    end = encoder(_Only())  # what OpenMetrics closes with
    for metric in registry.collect():
        for first in range(0, len(metric.samples) or 1, _SAMPLES_PER_PIECE):
            part = copy.copy(metric)
            part.samples = metric.samples[first : first + _SAMPLES_PER_PIECE]
            lines = encoder(_Only(part)).removesuffix(end).splitlines(keepends=True)
            yield b"".join(line for line in lines if not first or not line.startswith(b"# "))
    yield end


def _exchanges(counters: Counters) -> Iterator[Metric]:
    traffic = counters.traffic
    requests = CounterMetricFamily("notleader_requests", "Requests that came from clients.", labels=["api_name"])
    unanswered = CounterMetricFamily(
        "notleader_unanswered_requests",
        "Requests that got no response: acks=0, dropped, or their connection ended first.",
        labels=["api_name"],
    )
    latency = HistogramMetricFamily(
        "notleader_exchange_duration_seconds",
        "From a request's arrival to its response's departure, faults included.",
        labels=["api_name"],
    )
    for api_key in sorted(traffic.latency_us.keys() | traffic.unanswered.keys()):
        name = api_name(api_key) or str(api_key)
        slots = traffic.latency_us.get(api_key)
        answered = sum(slots) if slots else 0
        silent = traffic.unanswered.get(api_key, 0)
        requests.add_metric([name], answered + silent)
        if silent:
            unanswered.add_metric([name], silent)
        if slots:
            latency.add_metric([name], _buckets(slots), traffic.latency_sum_us[api_key] / 1e6)
    yield requests
    yield unanswered
    yield latency
    errors = CounterMetricFamily(
        "notleader_error_responses",
        "Responses to clients that carry a Kafka error code, of those that the proxy reads: what a fault gave or "
        "changed always, all of them while there is a capture, traces or a live reader. What only the capture's "
        "recorder reads is counted about a second later.",
        labels=["api_name", "error_code"],
    )
    for (api_key, error_code), count in sorted(counters.errors.items()):
        errors.add_metric([api_name(api_key) or str(api_key), error_name(error_code) or str(error_code)], count)
    yield errors


def _buckets(slots: list[int]) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    seen = sum(slots[:FIRST_BUCKET])
    for k in range(FIRST_BUCKET, LAST_BUCKET + 1):
        seen += slots[k]
        buckets.append((repr(2**k / 1e6), seen))
    buckets.append(("+Inf", sum(slots)))
    return buckets


def _faults(counters: Counters) -> Iterator[Metric]:
    injected = CounterMetricFamily("notleader_injected_faults", "Faults applied.", labels=["rule", "kind", "phase"])
    for (rule, kind, phase), count in sorted(counters.injected.items()):
        injected.add_metric([rule, kind, phase], count)
    yield injected


def _connections(counters: Counters) -> Iterator[Metric]:
    opened = CounterMetricFamily("notleader_connections", "Client connections accepted.", labels=["listener"])
    still_open = GaugeMetricFamily(
        "notleader_open_connections", "Client connections that are open now.", labels=["listener"]
    )
    for listener, count in sorted(counters.connections_opened.items()):
        opened.add_metric([listener], count)
        still_open.add_metric([listener], count - counters.connections_closed.get(listener, 0))
    yield opened
    yield still_open
    wire_errors = CounterMetricFamily(
        "notleader_wire_errors", "Connections closed because a side did not speak Kafka, or TLS.", labels=["side"]
    )
    # There before the first error: of a series that begins with 1 nobody sees an increase.
    for side in get_args(Side):
        wire_errors.add_metric([side], counters.wire_errors.get(side, 0))
    yield wire_errors
    sent = CounterMetricFamily("notleader_sent_bytes", "Bytes the proxy sent on.", labels=["to"])
    sent.add_metric(["broker"], counters.traffic.broker_bytes)
    sent.add_metric(["client"], counters.traffic.client_bytes)
    yield sent


def _event_loop(counters: Counters) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "notleader_event_loop_lag_seconds",
        "How late the event loop woke the last sleeper.",
        value=counters.loop_lag_us / 1e6,
    )
    yield GaugeMetricFamily(
        "notleader_event_loop_lag_max_seconds",
        "The greatest lag since the proxy started.",
        value=counters.loop_lag_max_us / 1e6,
    )
    yield CounterMetricFamily(
        "notleader_event_loop_lag_sum_seconds",
        "The sum of the measured lags.",
        value=counters.loop_lag_sum_us / 1e6,
    )
    yield CounterMetricFamily(
        "notleader_event_loop_lag_samples", "How many lags were measured.", value=counters.loop_ticks
    )


def _capture(capture: CaptureStatus) -> Iterator[Metric]:
    yield GaugeMetricFamily(
        "notleader_capture_queued_rows", "Rows that wait for the capture writer.", value=capture.queued_rows
    )
    yield CounterMetricFamily("notleader_capture_written_rows", "Rows written to segments.", value=capture.written_rows)
    yield CounterMetricFamily(
        "notleader_capture_lost_rows", "Rows dropped because the queue was full.", value=capture.lost_rows
    )
    yield CounterMetricFamily("notleader_capture_segments", "Segments that are whole on disk.", value=capture.segments)
