"""OpenTelemetry traces: what a real proxy's exchanges become, at a receiver of OTLP over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from notleader.proxy.lab.kafka import KafkaCluster


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


def test_nobody_who_does_not_ask_imports_it() -> None:
    modules = "sys, notleader.proxy.control.serving, notleader.proxy.net.server, notleader.proxy.admin.serve"
    program = f"import {modules}; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
