"""Traces for OpenTelemetry: a span per exchange, with one inside it for what the broker took.

Needs the extra `otel`, and is imported only where traces are asked for. Spans are made in the recorder's thread
and sent by the SDK's own: the event loop that carries the traffic has no part in it. What a slow collector does
not take in time, the SDK drops. Its OTEL_… variables hold (sampling, headers, batch sizes).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

from notleader.proxy import __version__
from notleader.proxy.record.roots import without_secrets
from notleader.proxy.wire.names import error_name

if TYPE_CHECKING:
    from notleader.proxy.admin.target import ControlledProxy

log = logging.getLogger("notleader")

_LOOK_S: Final = 0.2
_CLOSE_S: Final = 3.0
"""How long the end waits for a collector; the SDK alone would try for half a minute."""
_CALM_S: Final = 5.0
"""An outage is over when spans are taken and nothing has gone wrong for so long."""
_FINE: Final = frozenset({"answered", "altered"})


class Traces:
    """Makes spans of capture rows; `close` sends what is left."""

    def __init__(self, exporter: SpanExporter, shown: str, proxy_id: str, run_id: str) -> None:
        """``shown`` is the collector's name in the log."""
        resource = Resource.create(
            {"service.name": "notleader", "service.instance.id": proxy_id, "notleader.run_id": run_id}
        )
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._counted = _Counted(exporter, shown)
        self._provider.add_span_processor(self._counted)
        self._tracer = self._provider.get_tracer("notleader", __version__)

    @classmethod
    def over_http(cls, endpoint: str, proxy_id: str, run_id: str) -> Traces:
        """Traces for the collector at `endpoint` (http://host:4318), by OTLP over HTTP."""
        exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces")
        return cls(exporter, without_secrets(endpoint), proxy_id, run_id)

    async def follow(self, proxy: ControlledProxy, stopping: asyncio.Event) -> None:
        """Trace the exchanges of a proxy until cancelled: once it has stopped, for its last rows come then."""
        while True:
            # Asked in the recorder's thread whether it wants a row, it makes the span and wants nothing.
            with proxy.subscribe(self._take):
                source = proxy.capture
                while proxy.capture is source or stopping.is_set():
                    await asyncio.sleep(_LOOK_S)

    def close(self) -> None:
        """Send what is left, for some seconds at most, and say how many spans were lost. Blocks."""
        closing = threading.Thread(target=self._provider.shutdown, name="notleader-traces", daemon=True)
        closing.start()
        closing.join(_CLOSE_S)
        self._counted.tell_losses()

    def _take(self, row: Mapping[str, Any]) -> bool:
        if row["event"] == "exchange":
            self.span(row)
        return False

    def span(self, row: Mapping[str, Any]) -> None:
        """The spans of one exchange, given as a capture row."""
        last_us = row["response_at_us"] or row["broker_responded_at_us"] or row["request_at_us"]
        span = self._tracer.start_span(
            row["api_name"],
            kind=SpanKind.SERVER,
            start_time=row["request_at_us"] * 1000,
            attributes=_attributes(row),
        )
        for name, kind in zip(row["fault_names"] or (), row["fault_kinds"] or (), strict=False):
            span.add_event("fault", {"notleader.rule": name, "notleader.kind": kind}, row["request_at_us"] * 1000)
        if row["error_code"] or row["outcome"] not in _FINE:
            span.set_status(Status(StatusCode.ERROR, _error(row)))
        if row["forwarded_at_us"] and row["broker_responded_at_us"]:
            broker = self._tracer.start_span(
                f"{row['api_name']} broker",
                set_span_in_context(span),
                kind=SpanKind.CLIENT,
                start_time=row["forwarded_at_us"] * 1000,
            )
            broker.end(row["broker_responded_at_us"] * 1000)
        span.end(last_us * 1000)


class _Counted(BatchSpanProcessor):
    """Knows how many spans its collector took, and tells an outage in one line, for all that the SDK says of it."""

    def __init__(self, exporter: SpanExporter, shown: str) -> None:
        self._shown = shown
        self._ended = self._sent = 0
        self._troubled_at_s: float | None = None
        # What the SDK says comes here alone. Its loggers are those of the process, as this one is.
        sdk = logging.getLogger("opentelemetry")
        sdk.handlers, sdk.propagate = [_Heard(self._trouble)], False
        super().__init__(_Taken(exporter, self._took))

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span, and have it sent."""
        if span.context is not None and span.context.trace_flags.sampled:
            self._ended += 1
        super().on_end(span)

    def tell_losses(self) -> None:
        """Say how many spans were made and never taken, if any."""
        if lost := self._ended - self._sent:
            log.warning(
                "%d of %d spans were lost: the collector at %s did not take them", lost, self._ended, self._shown
            )

    def _took(self, count: int) -> None:
        self._sent += count
        if self._troubled_at_s is not None and time.monotonic() > self._troubled_at_s + _CALM_S:
            self._troubled_at_s = None
            log.info("the collector at %s takes spans again", self._shown)

    def _trouble(self, record: logging.LogRecord) -> None:
        level = logging.WARNING if self._troubled_at_s is None else logging.DEBUG
        self._troubled_at_s = time.monotonic()
        log.log(level, "the collector at %s does not take the spans: %s", self._shown, record.getMessage())


class _Taken(SpanExporter):
    """An exporter that tells how many spans were taken."""

    def __init__(self, exporter: SpanExporter, took: Callable[[int], None]) -> None:
        self._exporter = exporter
        self._took = took

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self._took(len(spans))
        return result

    def shutdown(self) -> None:
        """Send no more."""
        self._exporter.shutdown()


class _Heard(logging.Handler):
    """Hands warnings on."""

    def __init__(self, heard: Callable[[logging.LogRecord], None]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        """Hand one on."""
        self._heard(record)


def _error(row: Mapping[str, Any]) -> str:
    return error_name(row["error_code"]) or str(row["error_code"]) if row["error_code"] else str(row["outcome"])


def _attributes(row: Mapping[str, Any]) -> dict[str, Any]:
    """OpenTelemetry's names where it has some, `kafka.…` and `notleader.…` for the rest; without what is not known."""
    topics = sorted({part["topic"] for part in row["partitions"] or () if part["topic"]})
    wanted = {
        "messaging.system": "kafka",
        "messaging.client.id": row["client_id"],
        "messaging.consumer.group.name": row["group_id"],
        "messaging.destination.name": topics[0] if len(topics) == 1 else None,
        "client.address": row["client_addr"],
        "kafka.api_key": row["api_key"],
        "kafka.api_version": row["api_version"],
        "kafka.correlation_id": row["correlation_id"],
        "kafka.node_id": row["node_id"],
        "kafka.error_code": row["error_code"] or None,
        "kafka.topics": topics if len(topics) > 1 else None,
        "notleader.connection_id": row["connection_id"],
        "notleader.exchange_seq": row["exchange_seq"],
        "notleader.outcome": row["outcome"],
        "notleader.faults": row["fault_names"] or None,
    }
    return {key: value for key, value in wanted.items() if value is not None}
