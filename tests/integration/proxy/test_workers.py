"""Two processes behind one port: what is counted is counted once, and what is told is the same everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from struct import unpack
from typing import Any, NamedTuple

import pytest

from notleader.faults.base import Fault
from notleader.faults.schema import parse_fault_document
from notleader.proxy.admin.serve import AdminServer
from notleader.proxy.capture.reading import Capture
from notleader.proxy.config.settings import ConfigError, load
from notleader.proxy.control.workers.control import ControlPlane, WorkerLostError
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from tests.proxy.session.conversation import request

pytestmark = pytest.mark.kafka

METADATA = 9


class Client:
    """One connection, one Metadata request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    async def metadata(self, topic: str) -> dict[str, Any]:
        """The answer's entry of a topic."""
        self._number += 1
        body = {"topics": [{"name": topic}], "allow_auto_topic_creation": False}
        self._writer.write(request(ApiKey.Metadata, METADATA, self._number, body))
        async with asyncio.timeout(20):
            (size,) = unpack(">i", await self._reader.readexactly(4))
            answer = await self._reader.readexactly(size)
        (found,) = response_codec(ApiKey.Metadata, METADATA).decode(answer, 5)["topics"]
        entry: dict[str, Any] = found
        return entry

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Crowd(NamedTuple):
    """Connections that both workers have some of."""

    proxy: ControlPlane
    clients: list[Client]

    async def errors(self, topic: str) -> Counter[int]:
        """Everybody asks at once; how often each error came back."""
        entries = await asyncio.gather(*(client.metadata(topic) for client in self.clients))
        return Counter(entry["error_code"] for entry in entries)

    async def is_with_both(self) -> None:
        """Both workers have connections."""
        await self.proxy.gather(connections=True)
        told = [process.report for process in self.proxy._processes]
        assert all(each is not None and each.connections for each in told), "both workers have connections"

    def add(self, **fault: Any) -> None:
        """Put a fault in force, and don't wait for anybody."""
        self.proxy.add_fault(**fault)


async def connected(proxy: Proxy) -> Client:
    return Client(*await asyncio.open_connection(*proxy.listen))


@pytest.fixture(scope="module")
def topic(kafka: KafkaCluster) -> str:
    kafka.create_topic("shared", partitions=1)
    return "shared"


@contextlib.asynccontextmanager
async def two_workers(kafka: KafkaCluster, **settings: Any) -> AsyncIterator[ControlPlane]:
    quiet = {"listen": "127.0.0.1:0", "admin": None, "seed": 7, "workers": 2}
    proxy = ControlPlane(load({"kafka": kafka.bootstrap, **quiet, **settings}))
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()


@contextlib.asynccontextmanager
async def crowd_of(proxy: ControlPlane, size: int = 40) -> AsyncIterator[Crowd]:
    clients = [await connected(proxy) for _ in range(size)]
    try:
        yield Crowd(proxy, clients)
    finally:
        for client in clients:
            await client.close()


def error(**more: Any) -> dict[str, Any]:
    return {
        "name": "e",
        "kind": "error",
        "error_code": "BROKER_NOT_AVAILABLE",
        "match": {"api_key": "Metadata"},
        **more,
    }


REFUSED = int(ErrorCode.BROKER_NOT_AVAILABLE)


async def test_counters_hold_across_workers(kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "notleader")
    async with two_workers(kafka) as proxy, crowd_of(proxy) as crowd:
        assert await crowd.errors(topic) == {0: 40}
        await crowd.is_with_both()

        crowd.add(**error(trigger={"times": 7}))
        assert await crowd.errors(topic) == {0: 33, REFUSED: 7}
        assert proxy.plan.get("e").hits == 7
        assert await crowd.errors(topic) == {0: 40}, "exhausted for everybody"
        assert any(said.startswith("fault e (error) struck for the first time") for said in caplog.messages)
        proxy.remove_fault("e")

        crowd.add(**error(trigger={"every": 3, "skip": 2, "times": "forever"}))
        first = await crowd.errors(topic)
        second = await crowd.errors(topic)
        hits = proxy.plan.get("e").hits
        assert first[REFUSED] + second[REFUSED] == hits
        assert hits in ((80 - 2) // 3, (80 - 2 + 2) // 3), "every third of 78, however they are spread"
        proxy.remove_fault("e")

        crowd.add(**error(trigger={"times": 2, "per": "connection"}))
        assert [await crowd.errors(topic) for _ in range(3)] == [{REFUSED: 40}, {REFUSED: 40}, {0: 40}]


@pytest.mark.workers
async def test_a_seeded_draw_is_one_sequence_over_all_workers(kafka: KafkaCluster, topic: str) -> None:
    """One request after the other, each over another connection, is decided as one process decides it."""
    rule = error(trigger={"probability": 0.5, "times": "forever"})
    sequences = []
    for workers in (1, 2):
        settings = {"kafka": kafka.bootstrap, "listen": "127.0.0.1:0", "admin": None, "seed": 11, "faults": [rule]}
        proxy = ControlPlane(load({**settings, "workers": 2})) if workers == 2 else Proxy(load(settings))
        async with proxy:
            clients = [await connected(proxy) for _ in range(30)]
            sequences.append([(await client.metadata(topic))["error_code"] for client in clients])
            for client in clients:
                await client.close()
    assert sequences[0] == sequences[1]
    assert len(set(sequences[0])) == 2


@pytest.mark.workers
async def test_an_election_is_the_same_story_on_every_worker(kafka: KafkaCluster, topic: str) -> None:
    async with two_workers(kafka) as proxy, crowd_of(proxy) as crowd:

        async def shown() -> set[tuple[int, int]]:
            entries = await asyncio.gather(*(client.metadata(topic) for client in crowd.clients))
            return {(part["leader_id"], part["leader_epoch"]) for entry in entries for part in entry["partitions"]}

        ((leader, epoch),) = await shown()
        proxy.plan.elections.start(topic, 0, 60_000, proxy.now_us())
        assert await shown() == {(-1, epoch + 1)}
        proxy.plan.elections.end(topic, 0)
        assert await shown() == {(leader, epoch + 1)}


async def test_what_the_api_answers_for_is_in_force_everywhere(kafka: KafkaCluster, topic: str) -> None:
    async with two_workers(kafka) as proxy, crowd_of(proxy, 20) as crowd:
        admin = AdminServer(proxy, "127.0.0.1", 0)
        await admin.start()
        try:
            port = admin.port
            for _ in range(3):
                assert (await http(port, "POST", "/v1/faults", error(trigger={"times": "forever"})))[0] == 201
                assert await crowd.errors(topic) == {REFUSED: 20}
                assert (await http(port, "DELETE", "/v1/faults/e"))[0] == 204
                assert await crowd.errors(topic) == {0: 20}

            metrics = (await http(port, "GET", "/metrics"))[1].decode()
            asked = next(line for line in metrics.splitlines() if 'requests_total{api_name="Metadata"}' in line)
            assert float(asked.split()[-1]) == 6 * 20
            assert (await http(port, "GET", "/v1/connections"))[1].count(b'"connection_id"') == 20

            # A standing fault: every open connection is cut, whoever has it, before the call returns.
            cut = {"name": "cut", "kind": "reset", "phase": "connection", "match": {"listener": "bootstrap"}}
            assert (await http(port, "POST", "/v1/faults", {**cut, "kind": "refuse", "phase": "connection"}))[0] == 201
            for _ in range(20):
                with pytest.raises(ConnectionRefusedError):
                    await connected(proxy)
            assert (await http(port, "DELETE", "/v1/faults/cut"))[0] == 204
            async with crowd_of(proxy, 20) as again:
                assert await again.errors(topic) == {0: 20}
        finally:
            await admin.stop()


async def http(port: int, method: str, path: str, document: object = None) -> tuple[int, bytes]:
    """One request of its own connection: its status and body."""
    body = b"" if document is None else json.dumps(document).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(30):
        answer = await reader.read()
    writer.close()
    status, _, rest = answer.partition(b"\r\n\r\n")
    return int(status.split()[1]), rest


@pytest.mark.parametrize("recorded", [False, True])
async def test_what_was_before_comes_from_every_worker(
    kafka: KafkaCluster, topic: str, tmp_path: Path, recorded: bool
) -> None:
    """`/v1/exchanges?before=N`: the last N of all, each once, from the recording or from what each worker remembers."""
    settings = {"capture": str(tmp_path)} if recorded else {}
    async with two_workers(kafka, proxy_id="p", **settings) as proxy, crowd_of(proxy, 20) as crowd:
        crowd.add(**error(trigger={"times": 30}))
        await proxy.settled()
        assert await crowd.errors(topic) == {REFUSED: 20}
        assert await crowd.errors(topic) == {REFUSED: 10, 0: 10}
        await crowd.is_with_both()
        if recorded:
            assert proxy.capture is not None
            await proxy.capture.rotate()
        admin = AdminServer(proxy, "127.0.0.1", 0)
        await admin.start()
        try:
            for most, wanted in ((1000, 30), (7, 7)):
                rows = await told_before(admin.port, most, wanted)
                assert len({(row["connection_id"], row["exchange_seq"]) for row in rows}) == wanted
                assert {tuple(row["fault_names"]) for row in rows} == {("e",)}
                times = [row["request_at_us"] for row in rows]
                assert times == sorted(times)
                if most == 1000:
                    assert {row["proxy_id"] for row in rows} == {"p-w1", "p-w2"}
        finally:
            await admin.stop()


async def told_before(port: int, most: int, wanted: int) -> list[dict[str, Any]]:
    """What the stream of the refused begins with: `wanted` rows, and no more within a second."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    asked = f"/v1/exchanges?before={most}&filter=fault%20%3D%3D%20e"
    writer.write(f"GET {asked} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    rows: list[dict[str, Any]] = []
    try:
        while True:
            async with asyncio.timeout(60 if len(rows) < wanted else 1):
                line = await reader.readline()
            if line.startswith(b"data: "):
                rows.append(json.loads(line[6:]))
    except TimeoutError:
        return rows
    finally:
        writer.close()


@pytest.mark.workers
async def test_captures_are_of_one_run_and_complete(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    async with two_workers(kafka, capture=str(tmp_path), proxy_id="p") as proxy:
        with proxy.subscribe() as live:
            async with crowd_of(proxy, 20) as crowd:
                assert await crowd.errors(topic) == {0: 20}
            seen: set[int] = set()
            async with asyncio.timeout(30):
                while len(seen) < 20:
                    row = await live.get()
                    if row["event"] == "exchange":
                        seen.add(row["connection_id"])
        assert proxy.capture is not None
        await proxy.capture.rotate()
        assert proxy.capture.written_rows >= 60, "a connect, an exchange and a disconnect of each"
    rows = [row for row in Capture(str(tmp_path)).rows() if row["event"] == "exchange"]
    assert {row["proxy_id"] for row in rows} == {"p-w1", "p-w2"}
    assert len({row["run_id"] for row in rows}) == 1
    assert len({row["connection_id"] for row in rows}) == len(rows) == 20


async def test_a_worker_that_dies_ends_the_proxy(kafka: KafkaCluster, caplog: pytest.LogCaptureFixture) -> None:
    async with two_workers(kafka) as proxy:
        assert proxy._processes[0].process is not None
        proxy._processes[0].process.kill()
        async with asyncio.timeout(30):
            await proxy.stopped.wait()
        assert proxy.lost == f"worker 1 (pid {proxy.worker_pids()[0]}) was killed by signal 9"
        with pytest.raises(WorkerLostError):
            await proxy.settled()
        with pytest.raises(ConnectionRefusedError):
            await connected(proxy)


@pytest.mark.workers
async def test_a_worker_that_hangs_is_said_and_holds_nobody_up(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notleader.proxy.control.workers.control._ANSWER_S", 1.0)
    async with two_workers(kafka) as proxy:
        admin = AdminServer(proxy, "127.0.0.1", 0)
        await admin.start()
        pid = proxy.worker_pids()[1]
        os.kill(pid, signal.SIGSTOP)
        try:
            status, answer = await http(admin.port, "POST", "/v1/faults", error())
            assert status == 503
            assert f"worker 2 (pid {pid}) does not answer" in json.loads(answer)["detail"]
            assert (await http(admin.port, "GET", "/metrics"))[0] == 200
        finally:
            os.kill(pid, signal.SIGCONT)
        async with asyncio.timeout(30):
            while (await http(admin.port, "DELETE", "/v1/faults/e"))[0] == 503:
                pass
        await admin.stop()


@pytest.mark.workers
async def test_a_port_that_somebody_has_is_not_shared(kafka: KafkaCluster) -> None:
    async with two_workers(kafka) as proxy:
        again = ControlPlane(load({"kafka": kafka.bootstrap, "listen": str(proxy.listen), "admin": None, "workers": 2}))
        with pytest.raises(OSError, match="can't listen on"):
            await again.start()
        for port in (proxy.listen.port, *(broker.listen_port for broker in proxy.brokers())):
            with socket.socket() as taken, pytest.raises(OSError, match="in use"):
                taken.bind(("127.0.0.1", port))


async def test_they_share_the_ports_of_ipv6_too(kafka: KafkaCluster, topic: str) -> None:
    async with two_workers(kafka, listen="[::1]:0") as proxy, crowd_of(proxy) as crowd:
        assert await crowd.errors(topic) == {0: 40}
        await crowd.is_with_both()
        crowd.add(**error(trigger={"times": 7}))
        assert await crowd.errors(topic) == {0: 33, REFUSED: 7}


def test_one_process_refuses_to_be_several() -> None:
    with pytest.raises(ConfigError, match="ControlPlane"):
        Proxy(load({"kafka": "127.0.0.1:1", "workers": 2}))


def test_a_fault_can_be_sent() -> None:
    """What is sent to workers of a rule is its match."""
    fault: Fault = parse_fault_document(error(match={"topic": ["a*", "!ab"], "client_id": "x", "connection": "<=3"}))
    assert pickle.loads(pickle.dumps(fault.match)) == fault.match
