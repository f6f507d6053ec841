"""An outage of a real three-broker cluster, recorded, turned into a timeline, and had again from one healthy broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvloop
import yaml
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.config.settings import load
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from notleader.proxy.wire.names import ErrorCode
from tests.integration.capture.conftest import notleader
from tests.proxy.record.entries import read

pytestmark = pytest.mark.kafka
PARTITIONS = 6


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


class Send(NamedTuple):
    """One send of the client: when it began (s since the first), how long it took, whether it was acknowledged."""

    at_s: float
    took_s: float
    acknowledged: bool


async def produce(address: str, topic: str, done: asyncio.Event) -> list[Send]:
    """Fifty records a second over all partitions, each awaited by itself, until told to end."""
    sends: list[Send] = []
    began_s = time.monotonic()

    async def one(producer: AIOKafkaProducer, number: int) -> None:
        at_s = time.monotonic()
        acknowledged = True
        try:
            await producer.send_and_wait(topic, b"v%d" % number, partition=number % PARTITIONS)
        except Exception:
            acknowledged = False
        sends.append(Send(at_s - began_s, time.monotonic() - at_s, acknowledged))

    async with (
        AIOKafkaProducer(bootstrap_servers=address, client_id="shop", enable_idempotence=True) as producer,
        asyncio.TaskGroup() as group,
    ):
        number = 0
        while not done.is_set():
            group.create_task(one(producer, number))
            number += 1
            await asyncio.sleep(0.02)
    return sends


async def consume(address: str, topic: str, done: asyncio.Event, wanted: Callable[[], int]) -> int:
    """How many records a consumer without a group gets, once the producer is done and all that it wants is there."""
    read_so_far = 0
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=address, client_id="till", group_id=None, auto_offset_reset="earliest"
    ) as consumer:
        last_s = time.monotonic()
        while not done.is_set() or (read_so_far < wanted() and time.monotonic() - last_s < 30):
            got = sum(len(records) for records in (await consumer.getmany(timeout_ms=200)).values())
            if got or not done.is_set():
                last_s = time.monotonic()
            read_so_far += got
    return read_so_far


class Seen(NamedTuple):
    """What the clients went through."""

    sends: list[Send]
    consumed: int


async def recorded(
    bootstrap: str, topic: str, folder: Path, meanwhile: Callable[[], Awaitable[Any]], **settings: Any
) -> Seen:
    proxy = Proxy(
        load({"kafka": bootstrap, "listen": "127.0.0.1:0", "admin": None, "capture": str(folder), **settings})
    )
    await proxy.start()
    try:
        done, over = asyncio.Event(), asyncio.Event()
        sends: list[Send] = []
        consuming = asyncio.create_task(consume(str(proxy.listen), topic, over, lambda: len(sends)))
        producing = asyncio.create_task(produce(str(proxy.listen), topic, done))
        await asyncio.sleep(2)
        await meanwhile()
        await asyncio.sleep(2)
        done.set()
        sends += await producing
        over.set()
        return Seen(sends, await consuming)
    finally:
        await proxy.stop()


def refusals(folder: Path) -> set[tuple[str, int]]:
    """With which codes partitions were refused, by API; how often is the clients' pace, not the outage's."""
    return {
        (row["api_name"], part["error_code"])
        for row in read(folder)
        if row["api_name"] in ("Produce", "Fetch")
        for part in row["partitions"] or ()
        if part["error_code"]
    }


def refused_partitions(folder: Path) -> set[int]:
    return {
        part["partition_index"]
        for row in read(folder)
        if row["api_name"] == "Produce"
        for part in row["partitions"] or ()
        if part["error_code"]
    }


def broken_clients(folder: Path) -> set[str]:
    """Whose connections ended before the clients themselves did."""
    return {
        row["client_id"]
        for row in read(folder)
        if row["event"] == "disconnect"
        and row["client_id"] is not None  # one that never asked anything lost nothing
        and not (row["detail"] or "").startswith(("the client", "the proxy"))
    }


def longest_s(seen: Seen) -> float:
    """The slowest send once the connections are warm."""
    return max(send.took_s for send in seen.sends if send.at_s > 1)


async def rolling_restart(cluster: KafkaCluster) -> None:
    for node_id in cluster.nodes:
        await asyncio.to_thread(cluster.stop_node, node_id)
        await asyncio.to_thread(cluster.start_node, node_id)


async def power_off(cluster: KafkaCluster) -> None:
    await asyncio.to_thread(cluster.kill_node, 2)
    await asyncio.sleep(12)


@pytest.mark.outage
@pytest.mark.parametrize("disturb", [rolling_restart, power_off])
async def test_the_outage_happens_again_in_front_of_one_healthy_broker(
    disturb: Callable[[KafkaCluster], Awaitable[None]], kafka: KafkaCluster, tmp_path: Path
) -> None:
    first, second = tmp_path / "recorded", tmp_path / "replayed"
    topic = f"orders-{disturb.__name__}"  # the healthy broker sees both outages
    with KafkaCluster("4", nodes=3, auto_create_topics=False) as cluster:
        cluster.create_topic(topic, partitions=PARTITIONS)
        began_s = time.monotonic()
        before = await recorded(cluster.bootstrap, topic, first, lambda: disturb(cluster))
        took_s = time.monotonic() - began_s

    file = tmp_path / "again.yaml"
    told = json.loads(notleader("capture", "to-faults", str(first), str(file), "--json").stdout)
    assert sum(count for name, count in told.items() if name != "file") > 0
    notleader("check", str(file))

    kafka.create_topic(topic, partitions=PARTITIONS)
    timeline = yaml.safe_load(file.read_text())
    after = await recorded(kafka.bootstrap, topic, second, lambda: asyncio.sleep(took_s - 4), **timeline)

    for seen in (before, after):
        assert all(send.acknowledged for send in seen.sends)
        assert seen.consumed == len(seen.sends)
    if disturb is rolling_restart:
        assert refusals(second) == refusals(first)
        assert refused_partitions(second) <= refused_partitions(first)
        assert refused_partitions(second)
    else:
        # A broker that is gone says nothing; the one that stands in for it says that it is not the leader.
        assert {code for _, code in refusals(second) - refusals(first)} <= {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert refusals(first) <= refusals(second)
    assert broken_clients(second) == broken_clients(first) != set()
    # A send that had to wait for the outage to end had to wait in the replay, too.
    assert (longest_s(after) > 0.5) == (longest_s(before) > 0.5)
