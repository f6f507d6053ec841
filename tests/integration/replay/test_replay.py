"""Clients meet a recorded cluster as if it were there: the one that was recorded, and others of other versions."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import trustme
from aiokafka import AIOKafkaProducer

from notleader.proxy.lab import jars
from notleader.proxy.lab.kafka import full_version
from notleader.proxy.wire.endpoint import parse_endpoint
from tests.integration.capture.conftest import notleader
from tests.integration.replay.conftest import TOPIC, VALUES, Served, consume, produce, serve
from tests.tools.programs import need

pytestmark = pytest.mark.kafka
NOT_LEADER = "NotLeaderForPartitionError"


def kcat(bootstrap: str, *arguments: str, given: str = "") -> str:
    command = [need("kcat"), "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


def java(main: str, bootstrap: str, *arguments: str, given: str = "") -> str:
    """A console tool of the newest Kafka; what it prints."""
    poms = ("org.apache.kafka:kafka_2.13", "org.apache.kafka:kafka-tools", "org.slf4j:slf4j-simple:1.7.36")
    path = os.pathsep.join(map(str, jars.resolve("kafka", full_version("4"), poms, lambda done, total: None)))
    command = [need("java"), "-cp", path, main, "--bootstrap-server", bootstrap, "--topic", TOPIC, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=90, check=True)
    assert "ERROR" not in done.stderr, done.stderr
    return done.stdout


async def test_the_recorded_client_meets_the_same_again_and_the_incident_once(
    replay: Served, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(replay.brokers) == 3
    with caplog.at_level(logging.WARNING, "aiokafka"):
        assert await produce(replay.bootstrap) == [(one % 3, one // 3) for one in range(12)]
    assert sum(NOT_LEADER in line for line in caplog.messages) == 2
    assert await consume(replay.bootstrap) == VALUES
    caplog.clear()
    with caplog.at_level(logging.WARNING, "aiokafka"):
        assert await produce(replay.bootstrap) == [(one % 3, 4 + one // 3) for one in range(12)]
    assert not any(NOT_LEADER in line for line in caplog.messages)
    assert await consume(replay.bootstrap) == VALUES
    said = await asyncio.to_thread(replay.end)
    assert "stopping: " in said


async def test_clients_are_told_our_ports_alone(replay: Served) -> None:
    async with AIOKafkaProducer(bootstrap_servers=replay.bootstrap) as producer:
        told = {f"{one.host}:{one.port}" for one in producer.client.cluster.brokers()}
    assert told == set(replay.brokers.values())


def test_kcat_reads_alone_and_in_a_group_and_writes(replay: Served) -> None:
    read = kcat(replay.bootstrap, "-C", "-t", TOPIC, "-e", "-q")
    assert sorted(read.encode().split()) == VALUES
    grouped = kcat(replay.bootstrap, "-q", "-G", "readers", "-X", "auto.offset.reset=earliest", "-c", "12", TOPIC)
    assert sorted(line for line in grouped.encode().split() if line.startswith(b"v")) == VALUES
    written = kcat(replay.bootstrap, "-P", "-t", TOPIC, "-p", "1", "-X", "debug=msg", given="more\n")
    assert written.count("Not leader for partition") == 2, "it meets the recorded incident, too"
    assert "delivered" in written
    assert "offset 4" in kcat(replay.bootstrap, "-Q", "-t", f"{TOPIC}:0:-1")


def test_kafkas_own_tools_read_and_write_in_the_newest_versions(replay: Served) -> None:
    """A console consumer makes up the name of its group."""
    given = ["--from-beginning", "--max-messages", "12", "--timeout-ms", "40000"]
    read = java("org.apache.kafka.tools.consumer.ConsoleConsumer", replay.bootstrap, *given)
    assert sorted(read.encode().split()) == VALUES
    java("org.apache.kafka.tools.ConsoleProducer", replay.bootstrap, given="a\nb\n")
    assert "gets the answers of readers" in replay.end(signal.SIGTERM)


def test_what_was_not_recorded_is_told_and_ends_nothing(replay: Served) -> None:
    address = parse_endpoint(replay.bootstrap)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert connection.recv(100) == b""
    unknown = subprocess.run(
        [need("kcat"), "-b", replay.bootstrap, "-C", "-t", "none", "-e"], capture_output=True, timeout=30, check=False
    )
    assert b"Unknown topic or partition" in unknown.stderr
    assert sorted(kcat(replay.bootstrap, "-C", "-t", TOPIC, "-e", "-q").encode().split()) == VALUES
    said = replay.end()
    assert "this looks like HTTP" in said
    assert said.count("nothing like this Metadata") == 1


async def test_ctrl_c_ends_it_while_clients_wait(replay: Served) -> None:
    consuming = asyncio.create_task(asyncio.to_thread(kcat_forever, replay.bootstrap))
    await asyncio.sleep(1)
    began_s = time.monotonic()
    await asyncio.to_thread(replay.end)
    assert time.monotonic() - began_s < 5
    await consuming


def kcat_forever(bootstrap: str) -> None:
    command = [need("kcat"), "-b", bootstrap, "-C", "-t", TOPIC, "-q"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            running.wait(4)
        except subprocess.TimeoutExpired:
            running.kill()


def test_it_speaks_tls_where_a_certificate_is_given(capture: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    certificate = ["--tls-cert", str(tmp_path / "server.pem")]
    with serve(tmp_path / "told", "replay", str(capture), "--listen", "127.0.0.1:0", *certificate) as served:
        trusting = ["-X", "security.protocol=ssl", "-X", f"ssl.ca.location={tmp_path / 'ca.pem'}"]
        assert "3 brokers" in kcat(served.bootstrap, "-L", *trusting)


def test_what_can_not_be_replayed_is_refused(capture: Path, replay: Served, tmp_path: Path) -> None:
    taken = notleader("replay", str(capture), "--listen", replay.bootstrap, "--json", code=2)
    assert "another program has that port" in taken.stderr
    assert '"error"' in taken.stdout
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no exchange is recorded" in notleader("replay", str(empty), code=2).stderr
    assert "there is nothing at" in notleader("replay", str(tmp_path / "none"), code=2).stderr
    assert "HOST:PORT" in notleader("replay", str(capture), "--listen", "nowhere", code=2).stderr


async def test_a_recorded_request_can_be_sent_again(capture: Path, replay: Served, tmp_path: Path) -> None:
    """As `jq -r .frame FILE | head -1 | base64 -d | nc broker 9092` does."""
    file = tmp_path / "sent.jsonl"
    notleader("capture", "to-requests", str(capture), str(file), "api == Metadata")
    first = json.loads(file.read_text().splitlines()[0])
    reader, writer = await asyncio.open_connection(*parse_endpoint(replay.bootstrap))
    writer.write(base64.b64decode(first["frame"]))
    size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), 10), "big")
    answer = await reader.readexactly(size)
    assert int.from_bytes(answer[:4], "big") == first["correlation_id"]
    writer.close()
    await writer.wait_closed()
