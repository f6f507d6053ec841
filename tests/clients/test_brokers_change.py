"""Brokers leave, come back, join and move while clients work: nobody loses a record or learns a real address."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import HOST, Node, formatted_template, node_properties, prepare
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.lab.process import Child
from notleader.proxy.wire.names import ApiKey
from tests.clients import builds
from tests.clients.comparison import captured, exchanges, notleader_run

pytestmark = pytest.mark.kafka

_DEADLINE_S = 90
_REFRESH_MS = 300
# The proxy's own name of the loopback; brokers' addresses say 127.0.0.1 and localhost.
_PROXY_HOST = "127.0.0.2"

Told = dict[int, tuple[str, int]]


class ChangingCluster(KafkaCluster):
    """Three nodes, to which a fourth can be added, and of which each can move to another address."""

    def add_node(self) -> int:
        """A new broker, which is no controller; its node id."""
        node_id = len(self.nodes) + 1
        folder = self.folder / f"node-{node_id}"
        folder.mkdir()
        node = self.nodes[node_id] = Node(node_id, *free_ports(2), None, folder)
        template = formatted_template(self.version, self._java_command())
        prepare(node, template, self._cluster_id, node_properties(node, self.nodes.values(), False))
        self.start_node(node_id)
        return node_id

    def move_node(self, node_id: int, host: str) -> None:
        """Restart a node on another port, advertised under another name."""
        self.stop_node(node_id)
        node = self.nodes[node_id]
        before, (node.client_port,) = node.client_port, free_ports(1)
        text = node.config.read_text()
        text = text.replace(f"advertised.listeners=CLIENT://{HOST}:{before}", f"advertised.listeners=CLIENT://{host}:0")
        text = text.replace(f"CLIENT://{HOST}:{before}", f"CLIENT://{HOST}:{node.client_port}")
        node.config.write_text(text.replace(f"CLIENT://{host}:0", f"CLIENT://{host}:{node.client_port}"))
        self.start_node(node_id)


async def until(reached: Callable[[], bool], what: str) -> None:
    """Wait for it, at most as long as brokers may take."""
    for _ in range(_DEADLINE_S * 10):
        if reached():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"after {_DEADLINE_S} s: {what}")


class Worker:
    """A producer that never rests; `acked` is what it was told is written, and where."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.producer = producer
        self.acked: dict[str, str] = {}

    @property
    def told(self) -> Told:
        """Where this client believes the brokers to be."""
        return {broker.nodeId: (broker.host, broker.port) for broker in self.producer.client.cluster.brokers()}

    async def work(self) -> None:
        number = 0
        while True:
            value = f"python {number}"
            told = await self.producer.send_and_wait("steady", value.encode(), partition=number % 6)
            self.acked[value] = f"{told.partition}@{told.offset}"
            number += 1
            await asyncio.sleep(0.02)


@asynccontextmanager
async def working(bootstrap: str) -> AsyncIterator[Worker]:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", metadata_max_age_ms=_REFRESH_MS, request_timeout_ms=60_000
    ) as producer:
        worker = Worker(producer)
        task = asyncio.create_task(worker.work())
        try:
            yield worker
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task  # what went wrong in it comes out here


def java_producer(bootstrap: str, folder: Path) -> Child:
    """Kafka's own verifiable producer: a line of JSON for each record that was acknowledged."""
    _, tools = builds.kafka_tools("4")
    settings = folder / "producer.properties"
    settings.write_text(f"metadata.max.age.ms={_REFRESH_MS}\nretries=2147483647\ndelivery.timeout.ms=120000\n")
    command = [tools["JAVA"], "-cp", tools["TOOLS"], "org.apache.kafka.tools.VerifiableProducer"]
    options = {"bootstrap-server": bootstrap, "topic": "steady", "throughput": "50", "acks": "-1"}
    options |= {"value-prefix": "7", "command-config": str(settings)}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    return Child([*command, *flags], log=folder / "java.log")


def acked_by_java(log: Path) -> dict[str, str]:
    """The values that it was told are written, and where; it must not have been told otherwise of any."""
    said = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    assert not [line for line in said if line["name"] == "producer_send_error"]
    sent = [line for line in said if line["name"] == "producer_send_success"]
    return {line["value"]: f"{line['partition']}@{line['offset']}" for line in sent}


def is_refused(port: int) -> bool:
    try:
        socket.create_connection((_PROXY_HOST, port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


async def everything(bootstrap: str) -> set[str]:
    """Every value in the topic, read from the brokers themselves."""
    found = set()
    # "earliest" rather than a seek: assigning begins a reset of its own, which may overtake the seek.
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition("steady", index) for index in range(6)]
        consumer.assign(partitions)
        ends = await consumer.end_offsets(partitions)
        while [partition for partition in partitions if await consumer.position(partition) < ends[partition]]:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                found.update(record.value.decode() for record in records)
    return found


async def test_brokers_leave_return_join_and_move_under_working_clients(tmp_path: Path) -> None:
    with ChangingCluster("4", 3, auto_create_topics=False) as cluster:
        cluster.create_topic("steady", partitions=6)
        flags = ("--listen", f"{_PROXY_HOST}:0", "--capture-level", "partition")
        with notleader_run(cluster.bootstrap, tmp_path / "capture", tmp_path / "proxy.log", *flags) as proxy:
            java = java_producer(proxy.listen, tmp_path)
            try:
                async with working(proxy.listen) as worker:
                    await change(cluster, worker, proxy.listen)
                    # Both have gone on after the last change.
                    seen, lines = len(worker.acked), len(acked_by_java(java.log))
                    await until(lambda: len(worker.acked) > seen + 20, "the Python client goes on")
                    await until(lambda: len(acked_by_java(java.log)) > lines + 20, "the Java client goes on")
                    java.send_signal(signal.SIGTERM)
                    java.wait(60)
            finally:
                if java.running():
                    java.kill()
        found = await everything(cluster.bootstrap)
        acked = worker.acked | acked_by_java(java.log)
        lost = [f"{value} at {place}" for value, place in acked.items() if value not in found]
        assert not lost, f"acknowledged, and not among the {len(found)} that are there: {lost}"
    rows = captured(tmp_path / "capture")
    produced_to = {row["node_id"] for row in exchanges(rows) if row["api_key"] == ApiKey.Produce}
    assert produced_to == {1, 2, 3, 4}
    assert not [row for row in rows if row["event"] == "wire_error"]
    assert "moved from" in (tmp_path / "proxy.log").read_text()


async def change(cluster: ChangingCluster, worker: Worker, bootstrap: str) -> None:
    """Let each change happen, and see what clients are told of it."""
    await until(lambda: set(worker.told) == {1, 2, 3} and len(worker.acked) > 20, "three brokers, and records")
    first = worker.told
    assert {host for host, _ in first.values()} == {_PROXY_HOST}

    await asyncio.to_thread(cluster.stop_node, 3)
    await until(lambda: set(worker.told) == {1, 2}, "the third has left")
    await until(lambda: is_refused(first[3][1]), "its port refuses")
    assert worker.told == {node_id: first[node_id] for node_id in (1, 2)}

    await asyncio.to_thread(cluster.start_node, 3)
    await until(lambda: worker.told == first, "it is back, on its port")
    await until(lambda: not is_refused(first[3][1]), "which is open")

    assert await asyncio.to_thread(cluster.add_node) == 4
    await until(lambda: set(worker.told) == {1, 2, 3, 4}, "a fourth has joined")
    host, port = worker.told[4]
    assert host == _PROXY_HOST
    assert port not in {taken for _, taken in first.values()}
    await write_to_each(worker, bootstrap, "joined")

    await asyncio.to_thread(cluster.move_node, 2, "localhost")
    await write_to_each(worker, bootstrap, "moved")
    assert worker.told == {**first, 4: (host, port)}, "ports stay with their brokers"


async def write_to_each(worker: Worker, bootstrap: str, topic: str) -> None:
    """A record to a partition of each of four brokers, which no other broker has."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        assignment = {index: [index + 1] for index in range(4)}
        await admin.create_topics([NewTopic(topic, -1, -1, replica_assignments=assignment)])
    finally:
        await admin.close()
    for index in range(4):
        async with asyncio.timeout(_DEADLINE_S):
            await worker.producer.send_and_wait(topic, b"here", partition=index)
