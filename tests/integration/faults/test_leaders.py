"""Leaders that move: a real client goes where it is told, and the log has every record once."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from tests.integration.faults.conftest import add, remove
from tests.integration.proxy.conftest import ProxyFor

pytestmark = pytest.mark.kafka


class Traffic:
    """An idempotent producer and a consumer at work on every partition of a topic until told to stop."""

    def __init__(self) -> None:
        self.acked: dict[int, list[int]] = {}
        self.read: dict[int, list[tuple[int, bytes]]] = {}

    async def more(self, index: int, count: int) -> None:
        """Wait until so many records more of a partition, sent after now, have been read as well."""
        enough = len(self.acked[index]) + count
        await until(lambda: len(self.read[index]) >= enough)

    def missing(self) -> int:
        """How many acknowledged records the consumer hasn't read yet."""
        return sum(map(len, self.acked.values())) - sum(map(len, self.read.values()))


@asynccontextmanager
async def traffic(proxy: Proxy, topic: str, partitions: int = 3, **client: Any) -> AsyncIterator[Traffic]:
    """While the context is open both work; at its end everything that was sent has been read."""
    seen, stop = Traffic(), asyncio.Event()
    client = {"bootstrap_servers": str(proxy.listen), "metadata_max_age_ms": 500, **client}
    consumer = AIOKafkaConsumer(auto_offset_reset="earliest", **client)
    producer = AIOKafkaProducer(enable_idempotence=True, **client)

    async def produce(index: int) -> None:
        while not stop.is_set():
            value = b"%d" % len(seen.acked[index])
            metadata = await producer.send_and_wait(topic, value, partition=index)
            seen.acked[index].append(metadata.offset)
            await asyncio.sleep(0.01)

    async def consume() -> None:
        while any(not task.done() for task in producing) or seen.missing():
            for found, records in (await consumer.getmany(timeout_ms=200)).items():
                seen.read[found.partition] += [(record.offset, record.value) for record in records]

    async with producer, consumer:
        consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
        for index in range(partitions):
            seen.acked[index], seen.read[index] = [], []
        async with asyncio.timeout(60), asyncio.TaskGroup() as work:
            producing = [work.create_task(produce(index)) for index in range(partitions)]
            work.create_task(consume())
            try:
                yield seen
            finally:
                stop.set()


def assert_nothing_lost_or_twice(seen: Traffic) -> None:
    for index, offsets in seen.acked.items():
        assert offsets == list(range(len(offsets)))
        assert seen.read[index] == [(offset, b"%d" % offset) for offset in offsets]


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return sorted((row for row in found if row["event"] == "exchange"), key=lambda row: row["request_at_us"])


def brokers_of(captured: list[dict[str, Any]], api_name: str, topic: str, index: int) -> list[int]:
    """The brokers that answered without error for this partition, in order, each change once."""
    served: list[int] = []
    for row in captured:
        if row["api_name"] != api_name:
            continue
        for part in row["partitions"] or ():
            if (part["topic"], part["partition_index"], part["error_code"]) != (topic, index, 0):
                continue
            if api_name == "Fetch" and not part["record_count"]:
                continue
            if served[-1:] != [row["node_id"]]:
                served.append(row["node_id"])
    return served


async def test_a_moved_leader_takes_the_clients_along_and_back(
    kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic = "moved"
    kafka3.create_topic(topic, partitions=3)
    true_leader = kafka3.leader(topic, 0)
    async with proxy_for(kafka3.bootstrap, capture=str(tmp_path)) as proxy:
        async with traffic(proxy, topic) as seen:
            await seen.more(0, 10)
            await add(proxy, name="move", kind="leader_move", match={"topic": topic, "partition_index": 0})
            await seen.more(0, 30)
            (move,) = proxy.plan.elections.moves()
            await remove(proxy, "move")
            await seen.more(0, 20)
        assert proxy.plan.elections.bump(topic, 0) == 2
    assert_nothing_lost_or_twice(seen)
    assert move.leader_id != true_leader
    captured = rows(tmp_path)
    assert brokers_of(captured, "Produce", topic, 0) == [true_leader, move.leader_id, true_leader]
    assert brokers_of(captured, "Fetch", topic, 0) == [true_leader, move.leader_id, true_leader]
    refused = [row for row in captured if row["fault_names"] == ["move"] and row["api_name"] == "Produce"]
    assert refused
    assert {row["error_code"] for row in refused} == {6}


async def test_the_java_client_moves_too(kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path) -> None:
    topic = "moved-java"
    kafka3.create_topic(topic, partitions=1)
    true_leader = kafka3.leader(topic, 0)
    async with (
        proxy_for(kafka3.bootstrap, capture=str(tmp_path / "capture")) as proxy,
        java_traffic(kafka3, proxy, topic, tmp_path) as sent,
    ):
        await until(lambda: len(sent) > 250)
        await add(proxy, name="move", kind="leader_move", match={"topic": topic})
        await until(lambda: len(sent) > 400)
        (move,) = proxy.plan.elections.moves()
        await remove(proxy, "move")
    captured = rows(tmp_path / "capture")
    for api_name in ("Produce", "Fetch"):
        assert brokers_of(captured, api_name, topic, 0) == [true_leader, move.leader_id, true_leader]


@asynccontextmanager
async def java_traffic(
    kafka: KafkaCluster, proxy: Proxy, topic: str, folder: Path
) -> AsyncIterator[list[dict[str, Any]]]:
    """What the Java producer prints for each of 600 records; at the end all were acknowledged and read, once."""
    to = ["--bootstrap-server", str(proxy.listen), "--topic", topic, "--max-messages", "600"]
    settings = folder / "producer.properties"
    settings.write_text("retries=1000\nenable.idempotence=true\n")  # the tool's own default is not to retry
    async with java(kafka, "VerifiableConsumer", *to, "--group-id", topic, "--reset-policy", "earliest") as read:
        await until(lambda: any(line["name"] == "partitions_assigned" for line in read))
        sending = ["--throughput", "50", "--producer.config", str(settings)]
        async with java(kafka, "VerifiableProducer", *to, *sending) as sent:
            yield sent
            await until(lambda: len(sent) > 601)
        await until(lambda: count(read) >= 600)
    acked: dict[int, list[int]] = {}
    for line in sent:
        if line["name"] == "producer_send_success":
            acked.setdefault(line["partition"], []).append(line["offset"])
    assert sum(map(len, acked.values())) == 600
    for offsets in acked.values():
        assert offsets == list(range(len(offsets)))
    assert count(read) == 600


async def test_a_share_group_waits_for_a_leader_and_misses_nothing(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic = "shared-out"
    kafka.create_topic(topic, partitions=2)
    async with proxy_for(kafka.bootstrap, capture=str(tmp_path)) as proxy:
        to = ["--bootstrap-server", str(proxy.listen), "--topic", topic, "--group-id", topic]
        async with (
            java(kafka, "VerifiableShareConsumer", *to, "--offset-reset-strategy", "earliest") as read,
            AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer,
        ):

            async def more() -> None:
                enough = count(read) + 10
                for number in range(10):
                    await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
                await until(lambda: count(read) >= enough, 20)  # what is acquired in vain is locked for 30 s

            await more()
            match = {"api_key": "ShareFetch", "topic": topic}
            await add(proxy, name="no", kind="error", error_code=6, match=match, trigger={"times": 3})
            await more()
            assert proxy.plan.get("no").hits == 3
            await add(proxy, name="lost", kind="leader_election", for_ms=1000, match={"topic": topic})
            await more()
    refused = [row["fault_names"] for row in rows(tmp_path) if row["api_name"] == "ShareFetch" and row["error_code"]]
    assert refused.count(["no"]) >= 3
    assert ["lost"] in refused, "the session's requests name no partition"


def count(lines: list[dict[str, Any]]) -> int:
    return sum(line["count"] for line in lines if line["name"] == "records_consumed")


@asynccontextmanager
async def java(kafka: KafkaCluster, tool: str, *arguments: str) -> AsyncIterator[list[dict[str, Any]]]:
    """The JSON lines of one of Kafka's own tools, as they come; it is ended with the context."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [*kafka._java_command(), quiet, f"org.apache.kafka.tools.{tool}", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []

    async def collect(output: asyncio.StreamReader) -> None:
        async for line in output:
            lines.extend([json.loads(line)] if line.startswith(b"{") else [])

    collecting = asyncio.create_task(collect(process.stdout))
    try:
        yield lines
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await collecting


async def until(reached: Callable[[], bool], timeout_s: float = 40) -> None:
    async with asyncio.timeout(timeout_s):
        while not reached():
            await asyncio.sleep(0.02)


async def test_an_election_can_end_with_another_leader(
    kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic = "elected"
    kafka3.create_topic(topic, partitions=3)
    true_leader = kafka3.leader(topic, 1)
    other = next(entry for entry in (1, 2, 3) if entry != true_leader)
    match = {"topic": topic, "partition_index": 1, "api_key": "Produce"}
    rule = {"kind": "leader_election", "for_ms": 500, "new_leader": other, "match": match, "trigger": {"skip": 20}}
    async with (
        proxy_for(kafka3.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy,
        traffic(proxy, topic) as seen,
    ):
        await seen.more(1, 60)
        assert proxy.plan.elections.leader(topic, 1) == other
    assert_nothing_lost_or_twice(seen)
    assert brokers_of(rows(tmp_path), "Produce", topic, 1) == [true_leader, other]


async def test_another_broker_leads_while_one_of_three_is_powered_off(
    kafka3: KafkaCluster, proxy_for: ProxyFor
) -> None:
    topic = "powered-off"
    kafka3.create_topic(topic, partitions=3)
    gone = kafka3.leader(topic, 0)
    async with (
        proxy_for(kafka3.bootstrap) as proxy,
        AIOKafkaProducer(
            bootstrap_servers=str(proxy.listen), request_timeout_ms=3000, metadata_max_age_ms=500
        ) as producer,
    ):
        assert (await producer.send_and_wait(topic, b"before", partition=0)).offset == 0
        await add(proxy, name="off", kind="broker_down", node_id=gone, how="powered_off", election_ms=300)
        during = None
        async with asyncio.timeout(60):
            while during is None:
                # This client doesn't look for another leader while it sends: its user has to ask again.
                with contextlib.suppress(KafkaError):
                    during = await producer.send_and_wait(topic, b"during", partition=0)
        assert (during.offset, proxy.plan.elections.leader(topic, 0) == gone) == (1, False)
        assert gone not in {broker.nodeId for broker in producer.client.cluster.brokers()}
        await remove(proxy, "off")
        async with asyncio.timeout(60):
            assert (await producer.send_and_wait(topic, b"after", partition=0)).offset == 2
        assert proxy.plan.elections.leader(topic, 0) == gone


async def test_a_rolling_restart_takes_every_broker_down_once_and_loses_nothing(
    kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic = "rolled"
    kafka3.create_topic(topic, partitions=3)
    async with proxy_for(kafka3.bootstrap, capture=str(tmp_path / "capture")) as proxy:
        async with java_traffic(kafka3, proxy, topic, tmp_path) as sent:
            await until(lambda: len(sent) > 50)
            slow = {"distribution": "uniform", "min_ms": 50, "max_ms": 400}
            await add(proxy, name="roll", kind="rolling_restart", down_ms=1500, pause_ms=700, election_ms=slow)
            down = []
            for _ in range(70):
                await asyncio.sleep(0.1)
                down += [listener.node_id for listener in listeners(proxy) if listener.fate == "refusing"]
        assert list(dict.fromkeys(down)) == [1, 2, 3]
        assert all(proxy.plan.elections.bump(topic, index) >= 2 for index in range(3))
    captured = rows(tmp_path / "capture")
    # The producer chooses its partitions, maybe none whose broker is down; the consumer asks for all of them always.
    served = {
        (part["partition_index"], row["node_id"])
        for row in captured
        if row["api_name"] == "Fetch"
        for part in row["partitions"] or ()
        if part["topic"] == topic and part["error_code"] == 0
    }
    assert len(served) > 3, "some partition was led by another broker for a while"


def listeners(proxy: Proxy) -> list[Any]:
    return list(proxy.directory.listeners.values())


async def test_a_rolling_restart_can_be_one_of_power_cuts(kafka3: KafkaCluster, proxy_for: ProxyFor) -> None:
    topic = "rolled-dark"
    kafka3.create_topic(topic, partitions=1)
    gone = kafka3.leader(topic, 0)
    async with (
        proxy_for(kafka3.bootstrap) as proxy,
        AIOKafkaProducer(
            bootstrap_servers=str(proxy.listen), request_timeout_ms=3000, metadata_max_age_ms=200
        ) as producer,
    ):
        assert (await producer.send_and_wait(topic, b"before", partition=0)).offset == 0
        dark = {"kind": "rolling_restart", "how": "powered_off", "down_ms": 60_000, "election_ms": 100}
        await add(proxy, name="roll", match={"node_id": gone}, **dark)
        during = None
        async with asyncio.timeout(60):
            while during is None:
                with contextlib.suppress(KafkaError):
                    during = await producer.send_and_wait(topic, b"during", partition=0)
        assert {listener.node_id for listener in listeners(proxy) if listener.fate == "silent"} == {gone}
        assert (during.offset, proxy.plan.elections.leader(topic, 0) == gone) == (1, False)
