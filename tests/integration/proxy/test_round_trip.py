"""Through the proxy a real client sees a real cluster, and only the proxy's addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import RequestTimedOutError

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from tests.integration.proxy.conftest import ProxyFor

pytestmark = pytest.mark.kafka


async def produced(proxy: Proxy, topic: str, count: int, **options: Any) -> list[tuple[int, int]]:
    """Send ``count`` records over three partitions; where each landed."""
    async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), **options) as producer:
        landed = []
        for number in range(count):
            headers = [("notleader-id", b"m%d" % number)]
            metadata = await producer.send_and_wait(topic, b"v%d" % number, partition=number % 3, headers=headers)
            landed.append((metadata.partition, metadata.offset))
        hosts = {(broker.host, broker.port) for broker in producer.client.cluster.brokers()}
    assert hosts == {(entry.listen_host, entry.listen_port) for entry in proxy.brokers()}
    return landed


async def consumed(proxy: Proxy, topic: str, count: int) -> list[bytes]:
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=str(proxy.listen), group_id=f"readers-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        values = [(await consumer.getone()).value for _ in range(count)]
        await consumer.commit()
    return values


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dataset.dataset(folder, format="parquet").to_table().to_pylist()
    return found


@pytest.mark.parametrize("nodes", [1, 3])
async def test_produce_consume_and_commit(
    nodes: int, request: pytest.FixtureRequest, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    cluster: KafkaCluster = request.getfixturevalue("kafka" if nodes == 1 else "kafka3")
    topic = f"round-trip-{nodes}"
    cluster.create_topic(topic, partitions=3)
    async with proxy_for(cluster.bootstrap, capture=str(tmp_path), capture_level="record") as proxy:
        assert len(proxy.brokers()) == nodes
        landed = await produced(proxy, topic, 12, enable_idempotence=True)
        values = await consumed(proxy, topic, 12)
    assert sorted(values) == sorted(b"v%d" % number for number in range(12))

    captured = rows(tmp_path)
    assert {row["event"] for row in captured} == {"connect", "disconnect", "exchange"}
    batches = [
        (part["partition_index"], part["base_offset"], message_id)
        for row in captured
        if row["api_name"] == "Produce"
        for part in row["partitions"]
        for message_id in part["message_ids"]
    ]
    assert sorted(batches) == sorted((*place, f"m{number}") for number, place in enumerate(landed))
    fetched = {
        message_id
        for row in captured
        if row["api_name"] == "Fetch"
        for part in row["partitions"] or ()
        for message_id in part["message_ids"] or ()
    }
    assert fetched == {f"m{number}" for number in range(12)}
    if nodes == 3:
        leaders = {row["node_id"] for row in captured if row["api_name"] == "Produce"}
        assert leaders == {cluster.leader(topic, index) for index in range(3)}


async def test_an_injected_error_is_retried_and_recorded(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka.create_topic("injected", partitions=3)
    rule = {
        "name": "lost-leader",
        "kind": "error",
        "error_code": "NOT_LEADER_FOR_PARTITION",
        "match": {"api_key": "Produce", "topic": "injected", "partition_index": 1},
        "trigger": {"times": 2},
    }
    async with proxy_for(kafka.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy:
        landed = await produced(proxy, "injected", 6)
        assert proxy.plan.get("lost-leader").hits == 2
    assert landed == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    touched = [row for row in rows(tmp_path) if row["fault_names"]]
    assert [(row["outcome"], row["fault_kinds"], row["error_code"], row["forwarded_at_us"]) for row in touched] == [
        ("injected", ["error"], 6, None)
    ] * 2


async def test_a_dropped_answer_is_an_error_to_the_client_and_a_record_in_the_log(
    kafka: KafkaCluster, proxy_for: ProxyFor
) -> None:
    kafka.create_topic("dropped", partitions=3)
    rule = {"kind": "drop_response", "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        with pytest.raises(RequestTimedOutError):
            await produced(proxy, "dropped", 1, request_timeout_ms=3000)
        assert await consumed(proxy, "dropped", 1) == [b"v0"]


@pytest.mark.parametrize(("idempotent", "expected"), [(False, [b"v0", b"v0", b"v1"]), (True, [b"v0", b"v1"])])
async def test_a_reset_after_the_broker_duplicates_for_a_plain_producer_only(
    kafka: KafkaCluster, proxy_for: ProxyFor, idempotent: bool, expected: list[bytes]
) -> None:
    topic = f"reset-{idempotent}"
    kafka.create_topic(topic, partitions=3)
    rule = {"kind": "reset", "phase": "after_broker", "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        await produced(proxy, topic, 2, enable_idempotence=idempotent)
        assert sorted(await consumed(proxy, topic, len(expected))) == expected


@pytest.mark.parametrize("nodes", [1, 3])
async def test_a_virtual_election_is_survived_by_an_idempotent_producer(
    nodes: int, request: pytest.FixtureRequest, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    cluster: KafkaCluster = request.getfixturevalue("kafka" if nodes == 1 else "kafka3")
    topic = f"election-{nodes}"
    cluster.create_topic(topic, partitions=3)
    match = {"topic": topic, "partition_index": 1, "api_key": "Produce"}
    rule = {"name": "lost", "kind": "leader_election", "for_ms": 700, "match": match}
    async with proxy_for(cluster.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy:
        started = asyncio.get_running_loop().time()
        landed = await produced(proxy, topic, 9, enable_idempotence=True)
        assert asyncio.get_running_loop().time() - started > 0.6
        assert await consumed(proxy, topic, 9)
    assert landed == [(number % 3, number // 3) for number in range(9)]
    refused = [row for row in rows(tmp_path) if row["api_name"] == "Produce" and row["fault_names"]]
    assert refused
    assert {row["error_code"] for row in refused} == {6}
    leaderless = [row for row in rows(tmp_path) if row["api_name"] == "Metadata" and row["fault_names"]]
    assert leaderless, "Metadata tells the same story"
