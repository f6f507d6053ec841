"""OpenTelemetry traces: what a real proxy's exchanges become, at a receiver of OTLP over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from notleader.proxy.admin import traces
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.wire.endpoint import parse_endpoint
from tests.integration.capture.load import Load


class Receiver:
    """A collector: takes what an exporter posts to /v1/traces."""

    def __init__(self) -> None:
        self.resources: list[dict[str, Any]] = []
        self.spans: list[dict[str, Any]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == "/v1/traces"
                for resource in MessageToDict(body)["resourceSpans"]:
                    receiver.resources.append(attributes(resource["resource"]))
                    for scope in resource["scopeSpans"]:
                        receiver.spans += scope["spans"]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.block_on_close = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]


def attributes(thing: dict[str, Any]) -> dict[str, Any]:
    """OTLP's list of typed attributes as a dict."""
    return {entry["key"]: next(iter(entry["value"].values())) for entry in thing.get("attributes", ())}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.mark.kafka
@pytest.mark.parametrize("workers", [1, 2])
async def test_each_exchange_is_a_span_with_its_faults(
    workers: int, kafka: KafkaCluster, receiver: Receiver, tmp_path: Path
) -> None:
    topic = f"traced-{workers}"
    kafka.create_topic(topic)
    command = ["run", "--json", "--kafka", kafka.bootstrap, "--listen", "127.0.0.1:0", "--admin", "none"]
    (tmp_path / "faults.yaml").write_text(
        "faults: [{name: refused, kind: error, error_code: NOT_LEADER_OR_FOLLOWER, match: {api_key: Produce}}]"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "notleader", *command, "--traces", receiver.url, "--proxy-id", "here"),
        *("--workers", str(workers)),
        *("--config", str(tmp_path / "faults.yaml")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        listen = json.loads(await process.stdout.readline())["listen"]
        producer = AIOKafkaProducer(bootstrap_servers=listen, client_id="shop")
        await producer.start()
        await producer.send_and_wait(topic, b"1", partition=0)
        await producer.stop()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    refused, produce = receiver.named("Produce")
    assert refused["status"] == {"code": "STATUS_CODE_ERROR", "message": "NOT_LEADER_OR_FOLLOWER"}
    (event,) = refused["events"]
    assert attributes(event) == {"notleader.rule": "refused", "notleader.kind": "error"}
    said = attributes(produce)
    assert said["messaging.system"] == "kafka"
    assert said["messaging.client.id"] == "shop"
    assert said["messaging.destination.name"] == topic
    assert said["notleader.outcome"] == "answered"
    assert not produce.get("status")
    (broker,) = receiver.named("Produce broker")
    assert (broker["traceId"], broker["parentSpanId"]) == (produce["traceId"], produce["spanId"])
    times = [int(span[key]) for key in ("startTimeUnixNano", "endTimeUnixNano") for span in (produce, broker)]
    assert times[0] <= times[1] < times[3] <= times[2]
    assert {resource["service.instance.id"] for resource in receiver.resources} == {"here"}


@pytest.mark.kafka
async def test_a_dead_collector_holds_up_no_end_and_is_told_in_one_line_with_what_it_cost(kafka: KafkaCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = ["run", "--json", "--kafka", kafka.bootstrap, "--listen", "127.0.0.1:0", "--admin", "none"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "notleader", *command, "--traces", nobody),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        load = Load(parse_endpoint(json.loads(await process.stdout.readline())["listen"]))
        await load.run(seconds=7)
    finally:
        process.terminate()
        began = time.monotonic()
        _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert time.monotonic() - began < 6
    trouble, lost = (line for line in err.decode().splitlines() if " WARNING " in line)
    assert f"the collector at {nobody} does not take the spans: " in trouble
    counted = re.search(r"(\d+) of (\d+) spans were lost", lost)
    assert counted is not None
    assert counted[1] == counted[2]
    assert int(counted[1]) >= len(load.answered_s)


def test_an_outage_that_was_over_is_told_anew_when_there_is_another(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sdk = logging.getLogger("opentelemetry")
    monkeypatch.setattr(sdk, "handlers", sdk.handlers)
    monkeypatch.setattr(sdk, "propagate", sdk.propagate)
    monkeypatch.setattr(traces, "_CALM_S", 0)
    results = iter([SpanExportResult.FAILURE, SpanExportResult.FAILURE, SpanExportResult.SUCCESS] * 2)

    class Exporter(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = next(results)
            if result is SpanExportResult.FAILURE:
                sdk.getChild("exporter").warning("nobody at %s", "home")
            return result

    made = traces.Traces(Exporter(), "here", "proxy", "run")
    caplog.set_level(logging.INFO, "notleader")
    for _ in range(6):
        made._tracer.start_span("one").end()
        made._provider.force_flush()
    made.close()
    said = [record.getMessage() for record in caplog.records]
    outage = [
        "the collector at here does not take the spans: nobody at home",
        "the collector at here takes spans again",
    ]
    assert said == [*outage, *outage, "4 of 6 spans were lost: the collector at here did not take them"]


def test_nobody_who_does_not_ask_imports_it() -> None:
    modules = "sys, notleader.proxy.control.serving, notleader.proxy.net.server, notleader.proxy.admin.serve"
    program = f"import {modules}; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
