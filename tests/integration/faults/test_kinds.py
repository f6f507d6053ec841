"""What a client sees of each kind that the tests of proxy/test_effects.py and test_round_trip.py don't show."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import (
    CorruptRecordException,
    KafkaConnectionError,
    KafkaError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
)

from proxy.lab.kafka import KafkaCluster
from proxy.server import Proxy
from proxy.wire.names import ApiKey
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import count, java, until
from tests.integration.proxy.conftest import ProxyFor
from tests.integration.proxy.test_round_trip import consumed, produced, rows

pytestmark = pytest.mark.kafka


def reader(proxy: Proxy, **options: Any) -> AIOKafkaConsumer:
    """A consumer without a group."""
    return AIOKafkaConsumer(bootstrap_servers=str(proxy.listen), retry_backoff_ms=50, **options)


async def seconds_to_send(proxy: Proxy, topic: str, **options: Any) -> float:
    """How long one record took, on a producer that had sent one before."""
    async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), retry_backoff_ms=50, **options) as producer:
        await producer.send_and_wait(topic, b"first", partition=0)
        started = time.monotonic()
        await producer.send_and_wait(topic, b"second", partition=0)
        return time.monotonic() - started


@pytest.mark.parametrize("phase", ["before_broker", "after_broker"])
async def test_delay(kafka: KafkaCluster, proxy_for: ProxyFor, phase: str) -> None:
    topic = f"delayed-{phase.replace('_', '-')}"
    kafka.create_topic(topic, partitions=1)
    rule = {"kind": "delay", "delay_ms": 700, "phase": phase, "match": {"api_key": "Produce"}, "trigger": {"skip": 1}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        assert 0.7 < await seconds_to_send(proxy, topic) < 2


async def test_stall_until_released(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("stalled", partitions=1)
    rule = {"name": "s", "kind": "stall", "match": {"api_key": "Produce"}, "trigger": {"skip": 1}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:

        async def release() -> None:
            await until(lambda: proxy.plan.get("s").hits > 0)
            await asyncio.sleep(0.6)
            proxy.plan.release("s")
            proxy.plan_changed()

        releasing = asyncio.create_task(release())
        assert 0.6 < await seconds_to_send(proxy, "stalled") < 3
        await releasing


async def test_drop_request(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("unheard", partitions=1)
    rule = {"kind": "drop_request", "match": {"api_key": "Produce", "topic": "unheard"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        with pytest.raises(RequestTimedOutError):
            async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), request_timeout_ms=700) as producer:
                await producer.send_and_wait("unheard", b"lost", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer:
            assert (await producer.send_and_wait("unheard", b"first", partition=0)).offset == 0, "it never got there"


async def test_close(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("closed", partitions=1)
    rule = {"name": "c", "kind": "close", "match": {"api_key": "Produce"}, "trigger": {"skip": 1}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        await seconds_to_send(proxy, "closed", enable_idempotence=True)
        assert proxy.plan.get("c").hits == 1
        assert proxy.counters.connections_opened["broker-1"] >= 2, "the client has connected again"


async def test_corrupt_records_are_refused_by_the_broker_and_by_the_consumer(
    kafka: KafkaCluster, proxy_for: ProxyFor
) -> None:
    kafka.create_topic("corrupt", partitions=3)
    to_broker = {"kind": "corrupt", "phase": "before_broker", "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[{"name": "p", **to_broker}]) as proxy:
        with pytest.raises(CorruptRecordException):
            await produced(proxy, "corrupt", 3)
        assert await produced(proxy, "corrupt", 3) == [(0, 0), (1, 0), (2, 0)], "nothing was appended before"
        assert proxy.plan.get("p").hits == 1
        add(proxy, name="f", kind="corrupt", match={"api_key": "Fetch"}, trigger={"times": "forever"})
        consumer = reader(proxy, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([TopicPartition("corrupt", 0)])
            with pytest.raises(KafkaError):
                async with asyncio.timeout(5):
                    await consumer.getone()
        remove(proxy, "f")
        assert sorted(await consumed(proxy, "corrupt", 3)) == [b"v0", b"v1", b"v2"]


async def test_reordered_partitions_reach_their_own_records(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("reordered", partitions=3)
    async with proxy_for(kafka.bootstrap) as proxy:
        add(proxy, name="r", kind="reorder", trigger={"times": "forever"})
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), linger_ms=200) as producer:
            sent = [await producer.send("reordered", b"v%d" % index, partition=index) for index in range(3)]
            assert [((await each).partition, (await each).offset) for each in sent] == [(0, 0), (1, 0), (2, 0)]
        assert sorted(await consumed(proxy, "reordered", 3)) == [b"v0", b"v1", b"v2"]
        assert proxy.plan.get("r").hits > 2


async def test_offset_lie_and_an_offset_out_of_range(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("lied-about", partitions=1)
    lie = {"name": "lie", "kind": "offset_lie", "add": -3, "match": {"topic": "lied-about"}}
    async with proxy_for(kafka.bootstrap, faults=[lie]) as proxy:
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer:
            for number in range(5):
                await producer.send_and_wait("lied-about", b"v%d" % number, partition=0)
        place = TopicPartition("lied-about", 0)
        async with reader(proxy, auto_offset_reset="none") as consumer:
            assert [await consumer.end_offsets([place]), await consumer.end_offsets([place])] == [
                {place: 2},
                {place: 5},
            ]
            add(proxy, name="range", kind="error", error_code="OFFSET_OUT_OF_RANGE", match={"api_key": "Fetch"})
            consumer.assign([place])
            consumer.seek(place, 4)
            with pytest.raises(OffsetOutOfRangeError):
                async with asyncio.timeout(5):
                    await consumer.getone()


async def test_stale_and_wrong_metadata_send_the_client_to_a_broker_that_refuses(
    kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka3.create_topic("misled", partitions=3)
    wrong = {"name": "w", "kind": "wrong_leader", "match": {"topic": "misled", "partition_index": 0}}
    async with proxy_for(kafka3.bootstrap, faults=[wrong], capture=str(tmp_path)) as proxy:
        assert (await produced(proxy, "misled", 3, enable_idempotence=True))[0] == (0, 0)
    refused = [row for row in rows(tmp_path) if row["api_name"] == "Produce" and row["error_code"] == 6]
    assert refused
    assert {row["node_id"] for row in refused} != {kafka3.leader("misled", 0)}


async def test_a_coordinator_that_is_elsewhere_is_looked_for_again(kafka3: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka3.create_topic("elsewhere", partitions=3)
    rule = {"name": "m", "kind": "coordinator_move", "match": {"group_id": "readers-elsewhere"}}
    async with proxy_for(kafka3.bootstrap, faults=[rule]) as proxy:
        await produced(proxy, "elsewhere", 3)
        assert len(await consumed(proxy, "elsewhere", 3)) == 3
        assert proxy.plan.get("m").hits == 1
        assert sum(proxy.counters.latency_us[ApiKey.FindCoordinator]) >= 2


async def test_capped_versions_are_spoken(kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path) -> None:
    kafka.create_topic("capped", partitions=3)
    rule = {"kind": "cap_versions", "versions": {"Produce": 5, "Fetch": "4-6"}, "trigger": {"times": "forever"}}
    async with proxy_for(kafka.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy:
        await produced(proxy, "capped", 3)
        assert len(await consumed(proxy, "capped", 3)) == 3
    spoken = {(row["api_name"], row["api_version"]) for row in rows(tmp_path)}
    assert {("Produce", 5), ("Fetch", 6)} <= spoken


async def test_limit_and_slow_close(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        add(proxy, name="limit", kind="limit", limit_bytes=50, direction="response")
        producer = AIOKafkaProducer(bootstrap_servers=str(proxy.listen), request_timeout_ms=2000)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        remove(proxy, "limit")
        add(proxy, name="slow", kind="slow_close", delay_ms=700)
        add(proxy, name="close", kind="close", match={"api_key": "*"})
        started = time.monotonic()
        read, write = await asyncio.open_connection(*proxy.listen)
        write.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        async with asyncio.timeout(5):
            assert await read.read() == b""
        assert 0.7 < time.monotonic() - started < 2
        write.close()


async def test_what_can_not_be_applied_is_said(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("alone", partitions=1)
    rule = {"name": "other", "kind": "leader_move", "match": {"topic": "alone"}}
    with caplog.at_level(logging.WARNING, "notleader"):
        async with proxy_for(kafka.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy:
            await seconds_to_send(proxy, "alone")
    said = "fault other (leader_move) can't be applied: there is no other broker"
    assert caplog.messages.count(said) == 1
    assert [row["detail"] for row in rows(tmp_path) if row["event"] == "fault"] == [said]


async def test_java_outlives_fetch_sessions_and_group_epochs_that_are_refused(
    kafka: KafkaCluster, proxy_for: ProxyFor
) -> None:
    kafka.create_topic("java-refused", partitions=3)
    refusals = {
        "session": ("Fetch", "FETCH_SESSION_ID_NOT_FOUND", 2),
        "epoch": ("Fetch", "INVALID_FETCH_SESSION_EPOCH", 3),
        "member": ("ConsumerGroupHeartbeat", "UNKNOWN_MEMBER_ID", 1),
        "fenced": ("ConsumerGroupHeartbeat", "FENCED_MEMBER_EPOCH", 1),
    }
    rules = [
        {"name": name, "kind": "error", "error_code": code, "match": {"api_key": key}, "trigger": {"skip": skip}}
        for name, (key, code, skip) in refusals.items()
    ]
    async with proxy_for(kafka.bootstrap, faults=rules) as proxy:
        await produced(proxy, "java-refused", 6)
        wanted = ["--topic", "java-refused", "--group-id", "java", "--reset-policy", "earliest"]
        wanted += ["--group-protocol", "consumer", "--max-messages", "12"]
        async with java(kafka, "VerifiableConsumer", "--bootstrap-server", str(proxy.listen), *wanted) as lines:
            await until(lambda: count(lines) >= 6)
            await until(lambda: all(rule.hits for rule in proxy.plan.rules()), 60)
            await produced(proxy, "java-refused", 6)
            await until(lambda: count(lines) >= 12)
