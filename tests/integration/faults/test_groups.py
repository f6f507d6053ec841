"""Groups and transactions in trouble: errors of the coordinator, as real clients take them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from notleader.proxy.wire.names import ApiKey
from tests.integration.faults.conftest import add
from tests.integration.proxy.conftest import ProxyFor, told
from tests.integration.proxy.test_round_trip import produced

pytestmark = pytest.mark.kafka


def error(api_key: str, error_code: str, times: int = 1, **other: Any) -> dict[str, Any]:
    """A rule named after what it does."""
    name = f"{api_key}-{error_code}".lower().replace("_", "-")
    return {
        "name": name,
        "kind": "error",
        "error_code": error_code,
        "match": {"api_key": api_key},
        "trigger": {"times": times},
        **other,
    }


def member(proxy: Proxy, topic: str, **options: Any) -> AIOKafkaConsumer:
    """A member of the group of that topic that looks after it five times a second."""
    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=str(proxy.listen),
        group_id=topic,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
        session_timeout_ms=1500,
        retry_backoff_ms=50,
        enable_auto_commit=False,
        **options,
    )


async def take(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(60):
        return [(await consumer.getone()).value for _ in range(count)]


async def answers(proxy: Proxy, api_key: ApiKey) -> int:
    """How many requests of an API were answered."""
    return sum((await told(proxy)).counters.traffic.latency_us[api_key])


def hits(proxy: Proxy) -> dict[str, int]:
    return {rule.name: rule.hits for rule in proxy.plan.rules()}


async def test_a_coordinator_that_is_not_ready_is_waited_for(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("not-ready", partitions=3)
    rules = [
        error("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", 2),
        error("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS"),
        error("SyncGroup", "REBALANCE_IN_PROGRESS"),
        error("OffsetFetch", "COORDINATOR_LOAD_IN_PROGRESS"),
        error("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        error("LeaveGroup", "NOT_COORDINATOR"),
    ]
    async with proxy_for(kafka.bootstrap, faults=rules) as proxy:
        await produced(proxy, "not-ready", 3)
        async with member(proxy, "not-ready") as consumer:
            assert sorted(await take(consumer, 3)) == [b"v0", b"v1", b"v2"]
            await consumer.commit()
            committed = [await consumer.committed(TopicPartition("not-ready", index)) for index in range(3)]
        assert committed == [1, 1, 1]
        assert hits(proxy) == {rule["name"]: rule["trigger"]["times"] for rule in rules}


@pytest.mark.parametrize("code", ["REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
async def test_a_member_that_is_sent_away_joins_again(kafka: KafkaCluster, proxy_for: ProxyFor, code: str) -> None:
    topic = f"sent-away-{code.lower().replace('_', '-')}"
    kafka.create_topic(topic, partitions=3)
    async with proxy_for(kafka.bootstrap) as proxy:
        await produced(proxy, topic, 3)
        async with member(proxy, topic) as consumer:
            await take(consumer, 3)
            await consumer.commit()
            joined = await answers(proxy, ApiKey.JoinGroup)
            await add(proxy, **error("Heartbeat", code))
            await produced(proxy, topic, 3)
            assert sorted(await take(consumer, 3)) == [b"v0", b"v1", b"v2"]
            async with asyncio.timeout(60):
                while await answers(proxy, ApiKey.JoinGroup) == joined:
                    await asyncio.sleep(0.05)


async def test_a_fenced_instance_gives_up(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("fenced", partitions=3)
    async with proxy_for(kafka.bootstrap, faults=[error("JoinGroup", "FENCED_INSTANCE_ID")]) as proxy:
        consumer = member(proxy, "fenced", group_instance_id="one")
        try:
            async with asyncio.timeout(60):
                with pytest.raises(KafkaError):
                    await consumer.start()
                    await consumer.getone()
        finally:
            await consumer.stop()


async def test_a_join_that_is_held_takes_as_long(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("held", partitions=3)
    rule = {"name": "held", "kind": "stall", "for_ms": 1500, "match": {"api_key": "JoinGroup", "group_id": "held"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        await produced(proxy, "held", 3)
        started = time.monotonic()
        async with member(proxy, "held") as consumer:
            await take(consumer, 3)
        assert time.monotonic() - started > 1.5
        assert hits(proxy) == {"held": 1}


async def test_a_transaction_outlives_a_coordinator_in_trouble(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("transacted", partitions=3)
    transaction = {"transactional_id": "tx*"}
    rules: list[dict[str, Any]] = [
        error("InitProducerId", "CONCURRENT_TRANSACTIONS", 2),
        error("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS"),
        error("AddOffsetsToTxn", "COORDINATOR_LOAD_IN_PROGRESS"),
        error("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
        error("EndTxn", "CONCURRENT_TRANSACTIONS"),
        *(
            {"name": f"slow-{key}", "kind": "delay", "delay_ms": 300, "match": {"api_key": key, **transaction}}
            for key in ("InitProducerId", "AddPartitionsToTxn", "EndTxn")
        ),
    ]
    async with proxy_for(kafka.bootstrap, faults=rules) as proxy:
        producer = AIOKafkaProducer(bootstrap_servers=str(proxy.listen), transactional_id="tx-1")
        async with asyncio.timeout(60), producer, producer.transaction():
            await producer.send_and_wait("transacted", b"v0", partition=0)
            await producer.send_offsets_to_transaction({TopicPartition("transacted", 0): 7}, "transacted")
        assert hits(proxy) == {rule["name"]: rule.get("trigger", {}).get("times", 1) for rule in rules}
        async with member(proxy, "transacted", isolation_level="read_committed") as consumer:
            # The coordinator writes its marker after it has answered EndTxn.
            async with asyncio.timeout(60):
                while await consumer.committed(TopicPartition("transacted", 0)) != 7:
                    await asyncio.sleep(0.05)
            assert await take(consumer, 1) == [b"v0"]


@pytest.mark.parametrize("api_key", ["InitProducerId", "AddPartitionsToTxn", "EndTxn"])
async def test_a_fenced_producer_can_go_no_further(kafka: KafkaCluster, proxy_for: ProxyFor, api_key: str) -> None:
    topic = f"fenced-{api_key.lower()}"
    kafka.create_topic(topic, partitions=3)
    async with proxy_for(kafka.bootstrap, faults=[error(api_key, "INVALID_PRODUCER_EPOCH")]) as proxy:
        producer = AIOKafkaProducer(bootstrap_servers=str(proxy.listen), transactional_id=topic)
        try:
            async with asyncio.timeout(60):
                with pytest.raises(KafkaError):
                    await producer.start()
                    async with producer.transaction():
                        await producer.send_and_wait(topic, b"v0", partition=0)
        finally:
            await producer.stop()
        assert list(hits(proxy).values()) == [1]
