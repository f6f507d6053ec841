"""Brokers that are dead, each in its way: what a client that is at work feels of it, and one that starts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import until
from tests.integration.proxy.conftest import ProxyFor, told
from tests.integration.proxy.test_round_trip import consumed

pytestmark = pytest.mark.kafka

_FOREVER = {"times": "forever"}
WAYS: dict[str, dict[str, Any]] = {
    "refuse": {"kind": "refuse"},
    "reset": {"kind": "reset", "phase": "connection", "trigger": _FOREVER},
    "mute": {"kind": "drop_request", "trigger": _FOREVER},
    "blackhole": {"kind": "blackhole"},
}


def producer(proxy: Proxy, timeout_ms: int = 3000, **options: Any) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=str(proxy.listen), request_timeout_ms=timeout_ms, retry_backoff_ms=50, **options
    )


@pytest.mark.parametrize("way", WAYS)
async def test_who_is_connected_outlives_the_bootstrap_and_nobody_new_comes_in(
    kafka: KafkaCluster, proxy_for: ProxyFor, way: str
) -> None:
    topic = f"no-bootstrap-{way}"
    kafka.create_topic(topic, partitions=1)
    async with proxy_for(kafka.bootstrap) as proxy, producer(proxy) as at_work:
        await at_work.send_and_wait(topic, b"before", partition=0)
        await add(proxy, name="dead", match={"listener": "bootstrap"}, **WAYS[way])
        assert (await at_work.send_and_wait(topic, b"during", partition=0)).offset == 1
        late = producer(proxy)
        with pytest.raises(KafkaConnectionError):
            await late.start()
        await late.stop()
        assert proxy.plan.get("dead").hits
        await remove(proxy, "dead")
        async with producer(proxy) as late:
            assert (await late.send_and_wait(topic, b"after", partition=0)).offset == 2


@pytest.mark.parametrize("way", WAYS)
async def test_a_single_broker_that_is_dead_is_waited_for(kafka: KafkaCluster, proxy_for: ProxyFor, way: str) -> None:
    """The bootstrap still answers, and names the broker: whoever comes now finds nobody there."""
    topic = f"no-broker-{way}"
    kafka.create_topic(topic, partitions=1)
    async with proxy_for(kafka.bootstrap) as proxy:
        await add(proxy, name="dead", match={"node_id": 1}, **WAYS[way])
        async with producer(proxy, 15_000) as waiting:
            sending = asyncio.create_task(waiting.send_and_wait(topic, b"v", partition=0))
            await until(lambda: proxy.plan.get("dead").hits > 0)
            done, _ = await asyncio.wait([sending], timeout=0.3)
            assert not done
            await remove(proxy, "dead")
            if way == "mute":
                # It believes in the connection: what was swallowed is asked again once that has been given up.
                for entry in (await told(proxy)).connections():
                    proxy.close_connection(entry["connection_id"])
            assert (await sending).offset == 0


@pytest.mark.parametrize("how", ["killed", "powered_off"])
async def test_where_the_only_broker_is_down_nobody_answers(kafka: KafkaCluster, proxy_for: ProxyFor, how: str) -> None:
    topic = f"only-broker-{how}"
    kafka.create_topic(topic, partitions=1)
    async with proxy_for(kafka.bootstrap) as proxy:
        reader, writer = await asyncio.open_connection(proxy.listen.host, proxy.listen.port)
        await add(proxy, name="down", kind="broker_down", node_id=1, how=how)
        if how == "killed":
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read(1) == b"", "who has bootstrapped is cut off as well"
        writer.close()
        late = producer(proxy)
        with pytest.raises(KafkaConnectionError):
            await late.start()
        await late.stop()
        await remove(proxy, "down")
        async with producer(proxy) as late:
            assert (await late.send_and_wait(topic, b"after", partition=0)).offset == 0


@pytest.mark.parametrize("release", ["immediate", "delayed", "discard"])
async def test_what_was_under_way_when_a_black_hole_opened_arrives_once_when_it_closes(
    kafka: KafkaCluster, proxy_for: ProxyFor, release: str
) -> None:
    topic = f"hole-{release}"
    kafka.create_topic(topic, partitions=3)
    async with proxy_for(kafka.bootstrap) as proxy, producer(proxy, 15_000, enable_idempotence=True) as sender:
        await sender.send_and_wait(topic, b"v0", partition=0)
        await add(proxy, name="hole", kind="blackhole", release=release, release_delay_ms=700)
        sending = asyncio.create_task(sender.send_and_wait(topic, b"v1", partition=0))
        done, _ = await asyncio.wait([sending], timeout=0.4)
        assert not done
        lifted = time.monotonic()
        await remove(proxy, "hole")
        assert (await sending).offset == 1
        if release == "delayed":
            assert time.monotonic() - lifted > 0.6, "a TCP retransmission later"
        assert await consumed(proxy, topic, 2) == [b"v0", b"v1"]


async def test_without_acks_a_refusal_is_a_connection_that_closes(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("no-acks", partitions=3)
    rule = {"name": "e", "kind": "error", "error_code": 6, "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        async with producer(proxy, acks=0) as careless:
            await careless.send_and_wait("no-acks", b"lost", partition=0)
            async with asyncio.timeout(40):
                while not (await told(proxy)).counters.connections_closed["broker-1"]:
                    await asyncio.sleep(0.02)
            for number in range(3):
                await careless.send_and_wait("no-acks", b"v%d" % number, partition=0)
        assert proxy.plan.get("e").hits == 1
        assert (await consumed(proxy, "no-acks", 1)) != [b"lost"]


async def test_of_a_request_for_three_partitions_one_is_refused_and_all_sequences_stay_right(
    kafka: KafkaCluster, proxy_for: ProxyFor
) -> None:
    kafka.create_topic("in-part", partitions=3)
    rule = {"name": "e", "kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER", "trigger": {"times": 3}}
    rule["match"] = {"api_key": "Produce", "topic": "in-part", "partition_index": 1}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        async with producer(proxy, 15_000, enable_idempotence=True, linger_ms=50) as sender:
            sent = [
                await sender.send("in-part", b"%d-%d" % (index, number), partition=index)
                for number in range(10)
                for index in range(3)
            ]
            landed = [await each for each in sent]
        assert [(each.partition, each.offset) for each in landed] == [
            (index, number) for number in range(10) for index in range(3)
        ]
        assert proxy.plan.get("e").hits == 3
        read = await consumed(proxy, "in-part", 30)
    assert sorted(read) == sorted(b"%d-%d" % (index, number) for index in range(3) for number in range(10))


@pytest.mark.parametrize("muted", [True, False])
async def test_a_quota_is_a_figure_and_a_channel_that_is_muted_or_not(
    kafka: KafkaCluster, proxy_for: ProxyFor, muted: bool
) -> None:
    topic = f"quota-{muted}".lower()
    kafka.create_topic(topic, partitions=1)
    rule = {"name": "t", "kind": "throttle", "throttle_time_ms": 2500, "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap) as proxy, producer(proxy, 15_000) as sender:
        await sender.send_and_wait(topic, b"v", partition=0)
        await add(proxy, muted=muted, **rule)
        started = time.monotonic()
        await sender.send_and_wait(topic, b"v", partition=0)
        await sender.send_and_wait(topic, b"v", partition=0)
        waited = time.monotonic() - started
        assert proxy.plan.get("t").hits == 1
    # This client takes no notice of the figure: it waits only where it isn't heard.
    assert (waited > 2.5) is muted


async def test_every_broker_is_dead_for_who_is_at_work(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("all-dead", partitions=1)
    async with proxy_for(kafka.bootstrap) as proxy, producer(proxy) as at_work:
        await at_work.send_and_wait("all-dead", b"v", partition=0)
        await add(proxy, name="dead", kind="blackhole")
        with pytest.raises(KafkaError):
            await at_work.send_and_wait("all-dead", b"v", partition=0)
        await remove(proxy, "dead")
