"""The admin server beside a real proxy: its socket, its end, and what it changes for a real client."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from notleader.proxy.admin.pace import BURST, REQUESTS_PER_S
from notleader.proxy.admin.serve import AdminServer
from notleader.proxy.config.settings import load
from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.admin.conftest import Controlled, serve_controls

NOTLEADER = [sys.executable, "-m", "notleader"]


def api(controlled: Controlled, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=controlled.url, trust_env=False, timeout=200, **options)


async def test_it_says_where_it_listens_and_answers_there(controlled: Controlled) -> None:
    assert controlled.admin.port != 0
    async with api(controlled) as client:
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.json()["detail"]) == (503, "no Kafka broker answers yet; the log says why")
        assert "process_resident_memory_bytes" in (await client.get("/metrics")).text


async def test_its_answers_tell_the_time(controlled: Controlled) -> None:
    async with api(controlled) as client:
        first = (await client.get("/healthz")).headers["date"]
        async with asyncio.timeout(60):
            while (await client.get("/healthz")).headers["date"] == first:
                await asyncio.sleep(0.2)


async def test_who_offers_http_2_is_answered_all_the_same(controlled: Controlled) -> None:
    """As Java's HttpClient does it."""
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}
    async with api(controlled) as client:
        answer = await client.post("/v1/faults", headers=offer, json={"kind": "close"})
        assert answer.status_code == 201, answer.text
        assert len((await client.get("/v1/faults", headers=offer)).json()) == 1


async def test_a_port_in_use_is_an_os_error(controlled: Controlled) -> None:
    second = AdminServer(controlled.proxy, "127.0.0.1", controlled.admin.port)
    with pytest.raises(OSError, match="in use"):
        await second.start()
    await second.stop()


async def test_beyond_loopback_without_a_token_it_does_not_start(controlled: Controlled) -> None:
    server = AdminServer(controlled.proxy, "0.0.0.0", 0)
    with pytest.raises(ValueError, match="token"):
        await server.start()
    await server.stop()


async def test_signals_stay_the_proxys(controlled: Controlled) -> None:
    caught = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, caught.set)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(caught.wait(), 120)
    async with api(controlled) as client:
        assert (await client.get("/healthz")).status_code == 200


async def test_it_stops_while_streams_are_open_and_frees_the_port() -> None:
    async with serve_controls() as controlled:
        async with api(controlled) as client, client.stream("GET", "/v1/exchanges") as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith(":")
            async with asyncio.timeout(120):
                await controlled.admin.stop()
            assert [line async for line in lines if line] == []
        with socket.create_server(("127.0.0.1", controlled.admin.port)):
            pass


async def test_it_may_be_called_by_the_names_it_was_given() -> None:
    settings = load({"kafka": "127.0.0.1:1", "admin_hosts": "notleader, sidecar.svc"})
    async with serve_controls(hosts=settings.admin_hosts) as controlled:
        for host, status in (("notleader:8474", 200), ("SIDECAR.svc", 200), ("evil.example", 403)):
            async with api(controlled) as client:
                assert (await client.get("/v1/faults", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    "head",
    [
        b"GET /v1/faults HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"POST /v1/faults HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 2\r\n\r\n[]",
    ],
)
async def test_a_web_page_cannot_drive_it(controlled: Controlled, head: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", controlled.admin.port)
    writer.write(head)
    assert (await reader.readline()).split()[1] == b"403"
    writer.close()


async def test_a_huge_body_is_refused_before_it_is_sent(controlled: Controlled) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", controlled.admin.port)
    writer.write(b"POST /v1/faults HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n")
    assert (await asyncio.wait_for(reader.readline(), 120)).split()[1] == b"413"
    writer.close()


@pytest.mark.kafka
async def test_a_fault_added_over_http_strikes_a_real_client_and_is_seen_live(kafka: KafkaCluster) -> None:
    kafka.create_topic("admin-orders")
    async with serve_controls(kafka.bootstrap) as controlled, api(controlled) as client:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen))
        await producer.start()
        try:
            await producer.send_and_wait("admin-orders", b"before")
            fault = {
                "name": "not-leader",
                "kind": "error",
                "error_code": "NOT_LEADER_OR_FOLLOWER",
                "match": {"api_key": "Produce", "topic": "admin-orders"},
                "trigger": {"times": 2},
            }
            assert (await client.post("/v1/faults", json=fault)).status_code == 201
            waiting = asyncio.create_task(client.get("/v1/faults/not-leader/wait?hits=2&timeout_ms=120000"))
            looking = asyncio.Event()
            seen = asyncio.create_task(first_injected(client, looking))
            await asyncio.wait_for(looking.wait(), 120)
            await producer.send_and_wait("admin-orders", b"struck twice, then retried")
            assert (await waiting).json()["exhausted"] is True
            row = await asyncio.wait_for(seen, 120)
            assert row["fault_names"] == ["not-leader"]
            assert row["api_name"] == "Produce"

            connections = (await client.get("/v1/connections")).json()
            assert {item["client_id"] for item in connections} == {producer.client._client_id}
            assert [item["port"] for item in (await client.get("/v1/brokers")).json()] != []
            metrics = (await client.get("/metrics")).text
            assert (
                'notleader_injected_faults_total{kind="error",phase="before_broker",rule="not-leader"} 2.0' in metrics
            )
            assert 'notleader_requests_total{api_name="Produce"}' in metrics
        finally:
            await producer.stop()


async def first_injected(client: httpx.AsyncClient, looking: asyncio.Event) -> dict[str, Any]:
    """The first row of the live stream that a fault touched; ``looking`` is set once nothing is missed any more."""
    async with client.stream("GET", "/v1/exchanges", timeout=200) as stream:
        looking.set()
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                row: dict[str, Any] = json.loads(line.removeprefix("data: "))
                if row["fault_names"]:
                    return row
    raise AssertionError("the stream ended")


@pytest.mark.kafka
async def test_an_election_over_http_is_one_for_the_client(kafka: KafkaCluster) -> None:
    kafka.create_topic("admin-election")
    async with serve_controls(kafka.bootstrap) as controlled, api(controlled) as client:
        producer = AIOKafkaProducer(bootstrap_servers=str(controlled.proxy.listen))
        await producer.start()
        try:
            await producer.send_and_wait("admin-election", b"before")
            wanted = {"topic": "admin-election", "partition_index": 0, "for_ms": 600}
            loop = asyncio.get_running_loop()
            started = loop.time()
            assert (await client.post("/v1/elections", json=wanted)).status_code == 201
            await producer.send_and_wait("admin-election", b"waits for a leader")
            assert loop.time() - started >= 0.6
            assert (await client.get("/v1/elections")).json() == []
        finally:
            await producer.stop()


def test_an_api_for_everybody_without_a_token_is_refused_before_anything_is_asked_for() -> None:
    command = [*NOTLEADER, "run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0", "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "NOTLEADER_TOKEN"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, "set a token" in json.loads(ran.stdout)["error"]) == (2, True)
    assert "no Kafka broker answers" not in ran.stderr


def test_the_command_line_drives_a_proxy_that_runs(tmp_path: Path) -> None:
    proxy = subprocess.Popen(
        [*NOTLEADER, "run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert proxy.stdout is not None
        admin = json.loads(proxy.stdout.readline())["admin"]

        def fault(*arguments: str) -> subprocess.CompletedProcess[str]:
            environment = {**os.environ, "NOTLEADER_ADMIN": admin}
            command = [*NOTLEADER, "fault", *arguments]
            return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

        file = tmp_path / "faults.yaml"
        file.write_text("faults:\n  - {name: slow, kind: delay, delay_ms: 200, trigger: {times: forever}}\n")
        added = fault("add", str(file), "--json")
        assert added.returncode == 0, added.stderr
        assert json.loads(added.stdout)[0]["name"] == "slow"
        assert json.loads(fault("ls", "--json").stdout)[0]["hits"] == 0
        waited = fault("wait", "slow", "--hits", "1", "--timeout", "100ms")
        assert (waited.returncode, waited.stderr) == (1, "")
        assert fault("rm", "slow").returncode == 0
        assert fault("rm", "slow").returncode == 1
    finally:
        proxy.terminate()
        assert proxy.wait(10) == 0
        if proxy.stdout is not None:
            proxy.stdout.close()
    lost = fault("ls")
    assert lost.returncode == 2
    assert lost.stderr.count("\n") == 1


async def test_who_polls_in_a_tight_loop_does_not_get_the_event_loop(controlled: Controlled) -> None:
    async def poll(seconds: float) -> int:
        done = 0
        async with api(controlled) as client:
            until = asyncio.get_running_loop().time() + seconds
            while asyncio.get_running_loop().time() < until:
                assert (await client.get("/metrics")).status_code == 200
                done += 1
        return done

    served = sum(await asyncio.gather(*(poll(2) for _ in range(4))))
    assert served <= BURST + 5 * REQUESTS_PER_S
