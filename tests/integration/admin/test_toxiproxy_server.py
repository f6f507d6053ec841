"""`notleader toxiproxy`, as who starts it meets it: its flags, its file, its end, and Kafka where it is asked for."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

COMMAND = (sys.executable, "-m", "notleader.proxy", "toxiproxy")


@contextlib.contextmanager
def served(*flags: str) -> Iterator[tuple[httpx.Client, dict[str, Any]]]:
    """A running one, and its ready line; it ends with 0 when it is told to."""
    with subprocess.Popen((*COMMAND, "--port", "0", "--json", *flags), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            ready = json.loads(line)
            with httpx.Client(base_url=f"http://{ready['admin']}", trust_env=False) as http:
                yield http, ready
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == ""
    assert process.returncode == 0


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server that says what it hears."""

    def echo(connection: socket.socket) -> None:
        with connection:
            while heard := connection.recv(1 << 16):
                connection.sendall(heard)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=echo, args=(server.accept()[0],), daemon=True).start()

    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, daemon=True).start()
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.shutdown(socket.SHUT_RDWR)
    server.close()


def said(address: str, what: bytes) -> bytes:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(what)
        return connection.recv(100)


def test_its_file_its_flags_and_its_metrics(tmp_path: Path, upstream: str) -> None:
    file = tmp_path / "proxies.json"
    file.write_text(json.dumps([{"name": "echo", "listen": "localhost:0", "upstream": upstream}]))
    flags = ("-host", "localhost", "-config", str(file), "-seed=7", "-proxy-metrics", "-runtime-metrics")
    with served(*flags) as (http, ready):
        listen = ready["proxies"]["echo"]
        assert list(http.get("/proxies").json()) == ["echo"]
        assert said(listen, b"hello") == b"hello"
        metrics = http.get("/metrics").text
        labels = f'{{direction="downstream",listener="{listen}",proxy="echo",upstream="{upstream}"}}'
        assert f"toxiproxy_proxy_sent_bytes_total{labels} 5.0" in metrics
        assert "process_resident_memory_bytes" in metrics


def test_it_is_a_toxiproxy_and_nothing_else() -> None:
    with served() as (http, _):
        assert http.get("/version").text == '{"version": "2.12.0"}\n'
        assert http.get("/proxies").json() == {}
        for path in ("/metrics", "/v1/faults", "/healthz", "/", "/proxies/"):
            answer = http.get(path)
            assert (answer.status_code, answer.text) == (404, "404 page not found\n")
        assert http.put("/proxies").status_code == 405
        page = http.post("/reset", headers={"user-agent": "Mozilla/5.0"})
        assert (page.status_code, page.text) == (403, "User agent not allowed\n")
        assert http.post("/reset", headers={"origin": "http://elsewhere.example"}).status_code == 403


def test_no_pace_is_kept() -> None:
    with served() as (http, _):
        # At the pace of `notleader run` (20 a second beyond 200) this would take more than half a minute.
        for _ in range(1000):
            assert http.get("/version", timeout=5).status_code == 200


def test_kafka_is_read_where_it_is_asked_for(upstream: str) -> None:
    with served() as (http, _):
        http.post("/proxies", json={"name": "bytes", "listen": "127.0.0.1:0", "upstream": upstream})
        wanted = {"name": "kafka", "listen": "127.0.0.1:0", "upstream": upstream, "kafka": True}
        made = http.post("/proxies", json=wanted).json()
        assert made["kafka"] is True
        assert "kafka" not in http.get("/proxies/bytes").json()
        # No frame of Kafka's has a length of 1.7 GB: whoever reads it as such ends the connection.
        for change in ({}, {"enabled": False}, {"enabled": True}):
            made = http.patch("/proxies/kafka", json=change).json()
        http.post("/reset")
        assert made["kafka"] is True
        assert said(made["listen"], b"hello") == b""
        assert said(http.get("/proxies/bytes").json()["listen"], b"hello") == b"hello"
        fault = {"type": "kafka_error", "attributes": {"error_code": "NOT_LEADER_OR_FOLLOWER"}}
        assert http.post("/proxies/bytes/toxics", json=fault).status_code == 200
        assert said(http.get("/proxies/bytes").json()["listen"], b"hello") == b""


@pytest.mark.parametrize(
    ("content", "code", "complaint"),
    [
        ('[{"name": "a"}]', 2, "missing required field: upstream at proxy 1"),
        ("{", 2, "bad request body: unexpected EOF"),
        ('[{"name": "a", "upstream": "u:1", "listen": "192.0.2.1:0"}]', 1, "cannot assign requested address"),
        (None, 2, "No such file"),
    ],
)
def test_a_file_that_can_not_be_served(tmp_path: Path, content: str | None, code: int, complaint: str) -> None:
    file = tmp_path / "proxies.json"
    if content is not None:
        file.write_text(content)
    done = subprocess.run((*COMMAND, "--port", "0", "--config", str(file)), capture_output=True, text=True, timeout=60)
    assert done.returncode == code
    assert complaint in done.stderr
    assert str(file) in done.stderr


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run((*COMMAND, "--port", port), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
