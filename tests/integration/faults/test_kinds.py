"""What a client sees of each kind that the tests of proxy/test_effects.py and test_round_trip.py don't show."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
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

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from notleader.proxy.net.transport import Link
from notleader.proxy.wire.names import ApiKey
from tests.clients.raw import connected
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import count, java, until
from tests.integration.proxy.conftest import ProxyFor, told
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
        assert await seconds_to_send(proxy, topic) > 0.7


@pytest.mark.parametrize(
    ("shortest_s", "length"),
    [
        (0.02, {"distribution": "uniform", "min_ms": 20, "max_ms": 120}),
        (0.0, {"distribution": "normal", "mean_ms": 60, "deviation_ms": 30}),
        (0.02, {"distribution": "pareto", "min_ms": 20, "shape": 1.2, "max_ms": 400}),
    ],
    ids=lambda value: value["distribution"] if isinstance(value, dict) else "",
)
async def test_jitter(kafka: KafkaCluster, proxy_for: ProxyFor, shortest_s: float, length: dict[str, Any]) -> None:
    topic = f"jitter-{length['distribution']}"
    kafka.create_topic(topic, partitions=1)
    rule = {"name": "j", "kind": "delay", "delay_ms": length, "match": {"api_key": "Produce"}}
    rule["trigger"] = {"times": "forever"}
    async with (
        proxy_for(kafka.bootstrap, faults=[rule]) as proxy,
        AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer,
    ):
        waited = []
        for _ in range(10):
            started = time.monotonic()
            await producer.send_and_wait(topic, b"v", partition=0)
            waited.append(time.monotonic() - started)
        assert min(waited) >= shortest_s
        assert max(waited) > min(waited) + 0.02, "no two are alike"
        assert proxy.plan.get("j").hits == 10


@pytest.mark.parametrize("phase", ["before_broker", "after_broker"])
async def test_stall_until_released(kafka: KafkaCluster, proxy_for: ProxyFor, phase: str) -> None:
    topic = f"stalled-{phase.replace('_', '-')}"
    kafka.create_topic(topic, partitions=1)
    rule = {"name": "s", "kind": "stall", "phase": phase, "match": {"api_key": "Produce"}, "trigger": {"skip": 1}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:

        async def release() -> None:
            await until(lambda: proxy.plan.get("s").hits > 0)
            await asyncio.sleep(0.6)
            proxy.plan.release("s")
            proxy.plan_changed()

        releasing = asyncio.create_task(release())
        assert await seconds_to_send(proxy, topic) > 0.6
        await releasing


async def test_drop_request(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("unheard", partitions=1)
    rule = {"kind": "drop_request", "match": {"api_key": "Produce", "topic": "unheard"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        with pytest.raises(RequestTimedOutError):
            async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), request_timeout_ms=2000) as producer:
                await producer.send_and_wait("unheard", b"lost", partition=0)
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer:
            assert (await producer.send_and_wait("unheard", b"first", partition=0)).offset == 0, "it never got there"


@pytest.mark.parametrize("later", ["hold", "pass"])
async def test_a_lost_answer_and_the_one_behind_it(kafka: KafkaCluster, proxy_for: ProxyFor, later: str) -> None:
    """A client that pipelines: librdkafka and Java do; here what it does on the wire, without waiting."""
    async with proxy_for(kafka.bootstrap) as proxy:
        for number, kind in enumerate(("drop_request", "drop_response")):
            rules = {"drop_request": {"kind": "drop_request", "later": later}}
            rules["drop_response"] = {"kind": "drop_response", "later": later}
            await add(proxy, name=f"lost-{number}", match={"api_key": "ApiVersions"}, **rules[kind])
            read, write = await asyncio.open_connection(*proxy.listen)
            for asked in (1, 2):
                write.write(bytes.fromhex(f"0000000a 0012 0000 0000000{asked} ffff"))
            if later == "pass":
                async with asyncio.timeout(30):
                    assert (await read.readexactly(8))[4:] == b"\0\0\0\2", "it overtakes the lost one"
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await read.read(1)
            write.close()


@pytest.mark.parametrize("kind", ["close", "reset"])
@pytest.mark.parametrize("phase", ["before_broker", "after_broker", "connection"])
async def test_a_connection_that_ends_is_made_again(
    kafka: KafkaCluster, proxy_for: ProxyFor, kind: str, phase: str
) -> None:
    topic = f"{kind}-{phase.replace('_', '-')}"
    kafka.create_topic(topic, partitions=1)
    match = {"node_id": 1} if phase == "connection" else {"api_key": "Produce"}
    rules = {
        "close": {"name": "c", "kind": "close", "phase": phase, "match": match},
        "reset": {"name": "c", "kind": "reset", "phase": phase, "match": match},
    }
    async with proxy_for(kafka.bootstrap, faults=[rules[kind]]) as proxy:
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), retry_backoff_ms=50) as producer:
            offset = (await producer.send_and_wait(topic, b"v", partition=0)).offset
        assert offset == (1 if phase == "after_broker" else 0), "what was applied before the end is there twice"
        assert proxy.plan.get("c").hits == 1
        assert (await told(proxy)).counters.connections_opened["broker-1"] >= 2


async def test_a_refusal_of_what_was_applied_is_a_duplicate(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("applied", partitions=3)
    refusal = {"kind": "error", "error_code": 6, "phase": "after_broker", "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[refusal]) as proxy:
        assert await produced(proxy, "applied", 1) == [(0, 1)]
        assert await consumed(proxy, "applied", 2) == [b"v0", b"v0"]


@pytest.mark.parametrize("kind", ["truncate", "oversized_frame"])
@pytest.mark.parametrize("phase", ["before_broker", "after_broker"])
async def test_a_torn_or_absurd_frame_costs_a_connection(
    kafka: KafkaCluster, proxy_for: ProxyFor, kind: str, phase: str
) -> None:
    topic = f"{kind}-{phase}".replace("_", "-")
    kafka.create_topic(topic, partitions=1)
    rules = {
        "truncate": {"name": "t", "kind": "truncate", "phase": phase, "after_bytes": 11},
        "oversized_frame": {"name": "t", "kind": "oversized_frame", "phase": phase, "length": -1, "close": True},
    }
    rule = {**rules[kind], "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        async with AIOKafkaProducer(
            bootstrap_servers=str(proxy.listen), retry_backoff_ms=50, enable_idempotence=True
        ) as producer:
            assert (await producer.send_and_wait(topic, b"v", partition=0)).offset == 0, "retried, and applied once"
        assert proxy.plan.get("t").hits == 1


@pytest.mark.parametrize("direction", ["request", "response", "both"])
async def test_a_thin_line_is_slow_the_way_it_is_thin(kafka: KafkaCluster, proxy_for: ProxyFor, direction: str) -> None:
    topic = f"thin-{direction}"
    kafka.create_topic(topic, partitions=1)
    record = bytes(40_000)
    async with proxy_for(kafka.bootstrap) as proxy:
        place = TopicPartition(topic, 0)
        async with (
            AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer,
            reader(proxy, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([place])
            await producer.send_and_wait(topic, record, partition=0)
            await consumer.getone()
            await add(proxy, name="slice", kind="slice", average_bytes=10_000, delay_us=1000, direction=direction)
            await add(proxy, name="thin", kind="bandwidth", rate_bytes_per_s=100_000, direction=direction)
            started = time.monotonic()
            await producer.send_and_wait(topic, record, partition=0)
            sent = time.monotonic() - started
            await remove(proxy, "thin")
            await remove(proxy, "slice")
            assert (await consumer.getone()).value == record
            await add(proxy, name="slice", kind="slice", average_bytes=10_000, delay_us=1000, direction=direction)
            await add(proxy, name="thin", kind="bandwidth", rate_bytes_per_s=100_000, direction=direction)
            consumer.seek(place, 0)
            started = time.monotonic()
            assert (await consumer.getone()).value == record
            read = time.monotonic() - started
        slow = {"request": [sent], "response": [read], "both": [sent, read]}[direction]
        assert min(slow) > 0.3


@pytest.mark.parametrize("part", ["crc", "records", "length", "compression"])
async def test_a_damaged_batch_is_not_appended(kafka: KafkaCluster, proxy_for: ProxyFor, part: str) -> None:
    topic = f"damaged-{part}"
    kafka.create_topic(topic, partitions=3)
    rule = {"name": "p", "kind": "corrupt", "phase": "before_broker", "part": part, "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        # For an unknown codec brokers have no error: they say one that is retried, or that the checksum is wrong.
        refused = contextlib.suppress(KafkaError) if part == "compression" else pytest.raises(KafkaError)
        with refused:
            await produced(proxy, topic, 1, request_timeout_ms=3000)
        assert proxy.plan.get("p").hits == 1
        ((_, offset),) = await produced(proxy, topic, 1)
        assert offset == 0 or part == "compression"
        assert await consumed(proxy, topic, offset + 1) == [b"v0"] * (offset + 1)


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
        await add(proxy, name="f", kind="corrupt", match={"api_key": "Fetch"}, trigger={"times": "forever"})
        consumer = reader(proxy, auto_offset_reset="earliest")
        async with consumer:
            consumer.assign([TopicPartition("corrupt", 0)])
            with pytest.raises(KafkaError):
                async with asyncio.timeout(30):
                    await consumer.getone()
        await remove(proxy, "f")
        assert sorted(await consumed(proxy, "corrupt", 3)) == [b"v0", b"v1", b"v2"]


async def test_reordered_partitions_reach_their_own_records(kafka: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka.create_topic("reordered", partitions=3)
    async with proxy_for(kafka.bootstrap) as proxy:
        await add(proxy, name="r", kind="reorder", trigger={"times": "forever"})
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen), linger_ms=200) as producer:
            sent = [await producer.send("reordered", b"v%d" % index, partition=index) for index in range(3)]
            assert [((await each).partition, (await each).offset) for each in sent] == [(0, 0), (1, 0), (2, 0)]
        assert sorted(await consumed(proxy, "reordered", 3)) == [b"v0", b"v1", b"v2"]
        assert proxy.plan.get("r").hits > 2


async def test_offset_lie_and_an_offset_out_of_range(kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path) -> None:
    kafka.create_topic("lied-about", partitions=1)
    lie = {"name": "lie", "kind": "offset_lie", "add": -3, "match": {"topic": "lied-about"}, "asked": "latest"}
    async with proxy_for(kafka.bootstrap, faults=[lie], capture=str(tmp_path)) as proxy:
        async with AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer:
            for number in range(5):
                await producer.send_and_wait("lied-about", b"v%d" % number, partition=0)
        place = TopicPartition("lied-about", 0)
        async with reader(proxy, auto_offset_reset="none") as consumer:
            assert [await consumer.end_offsets([place]), await consumer.end_offsets([place])] == [
                {place: 2},
                {place: 5},
            ]
            await add(proxy, name="begin", kind="offset_lie", offset=3, asked="earliest", match={"topic": "lied-about"})
            assert await consumer.beginning_offsets([place]) == {place: 3}
            await add(proxy, name="any", kind="offset_lie", offset=4, asked="any", trigger={"times": 2})
            both = [await consumer.beginning_offsets([place]), await consumer.end_offsets([place])]
            assert both == [{place: 4}, {place: 4}]
            await add(proxy, name="range", kind="error", error_code="OFFSET_OUT_OF_RANGE", match={"api_key": "Fetch"})
            consumer.assign([place])
            consumer.seek(place, 4)
            with pytest.raises(OffsetOutOfRangeError):
                async with asyncio.timeout(30):
                    await consumer.getone()
    lied_about = [
        (row["partitions"][0]["base_offset"], [effect["offsets_before"] for effect in row["effects"] or ()])
        for row in rows(tmp_path)
        if row["api_name"] == "ListOffsets"
    ]
    assert lied_about[:3] == [(2, [[5]]), (5, []), (3, [[0]])]


async def test_stale_metadata_hides_a_leader_that_has_moved(kafka3: KafkaCluster, proxy_for: ProxyFor) -> None:
    kafka3.create_topic("frozen", partitions=1)
    former = kafka3.leader("frozen", 0)
    async with proxy_for(kafka3.bootstrap) as proxy:
        await seconds_to_send(proxy, "frozen")
        await add(proxy, name="stale", kind="stale_metadata", match={"topic": "frozen"}, trigger={"times": "forever"})
        moved_to = await led_by_another(kafka3, "frozen", former)
        async with AIOKafkaProducer(
            bootstrap_servers=str(proxy.listen), retry_backoff_ms=50, metadata_max_age_ms=200
        ) as producer:
            sending = asyncio.create_task(producer.send_and_wait("frozen", b"v", partition=0))
            await until(lambda: proxy.plan.get("stale").hits > 2)
            assert producer.client.cluster.leader_for_partition(TopicPartition("frozen", 0)) == former
            assert not sending.done(), "the former leader refuses, and the client is sent back to it"
            await remove(proxy, "stale")
            await sending
            assert producer.client.cluster.leader_for_partition(TopicPartition("frozen", 0)) == moved_to


async def led_by_another(kafka: KafkaCluster, topic: str, former: int) -> int:
    """Put the leader of partition 0 last among its replicas and elect the first; who that is."""
    replicas = sorted(kafka.nodes, key=lambda node: (node == former, node))
    with connected(kafka.bootstrap.partition(",")[0]) as raw:
        partition = {"partition_index": 0, "replicas": replicas}
        answer = raw.call(
            ApiKey.AlterPartitionReassignments,
            0,
            {"timeout_ms": 5000, "topics": [{"name": topic, "partitions": [partition]}]},
        )
        assert answer["responses"][0]["partitions"][0]["error_code"] == 0
        wanted = {"election_type": 0, "topic_partitions": [{"topic": topic, "partitions": [0]}], "timeout_ms": 5000}
        await asyncio.sleep(0.3)
        raw.call(ApiKey.ElectLeaders, 2, wanted)
    await until(lambda: kafka.leader(topic, 0) == replicas[0])
    return replicas[0]


async def test_wrong_metadata_sends_the_client_to_a_broker_that_refuses(
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
        assert sum((await told(proxy)).counters.traffic.latency_us[ApiKey.FindCoordinator]) >= 2


async def test_capped_versions_are_spoken(kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path) -> None:
    kafka.create_topic("capped", partitions=3)
    rule = {"kind": "cap_versions", "versions": {"Produce": 5, "Fetch": "4-6"}, "trigger": {"times": "forever"}}
    async with proxy_for(kafka.bootstrap, faults=[rule], capture=str(tmp_path)) as proxy:
        await produced(proxy, "capped", 3)
        assert len(await consumed(proxy, "capped", 3)) == 3
    spoken = {(row["api_name"], row["api_version"]) for row in rows(tmp_path)}
    assert {("Produce", 5), ("Fetch", 6)} <= spoken


@pytest.mark.parametrize("direction", ["request", "response", "both"])
async def test_limit(kafka: KafkaCluster, proxy_for: ProxyFor, direction: str) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        await add(proxy, name="limit", kind="limit", limit_bytes=50, direction=direction)
        producer = AIOKafkaProducer(bootstrap_servers=str(proxy.listen), request_timeout_ms=2000)
        with pytest.raises(KafkaConnectionError):
            await producer.start()
        await producer.stop()
        assert proxy.plan.get("limit").hits >= 1


async def test_slow_close(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic("kept-open", partitions=1)
    call_at = Link.call_at

    def early(link: Link, at_us: int, do: Callable[..., None], *arguments: object) -> asyncio.TimerHandle:
        return call_at(link, at_us - 5_000, do, *arguments)

    monkeypatch.setattr(Link, "call_at", early)
    async with proxy_for(kafka.bootstrap, capture=str(tmp_path)) as proxy:
        await add(proxy, name="slow", kind="slow_close", delay_ms=700)
        await add(proxy, name="close", kind="close", match={"api_key": "*"})
        started = time.monotonic()
        read, write = await asyncio.open_connection(*proxy.listen)
        write.write(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        async with asyncio.timeout(30):
            assert await read.read() == b""
        assert time.monotonic() - started > 0.7
        write.close()
        # One that its client closes itself is kept from nobody.
        await remove(proxy, "close")
        await seconds_to_send(proxy, "kept-open")
    silences = [
        (row["connection_id"], effect["rule"], effect["held_us"])
        for row in rows(tmp_path)
        for effect in row["effects"] or ()
        if effect["did"] == "silenced"
    ]
    ((connection_id, rule, held_us),) = silences
    assert (connection_id, rule) == (1, "slow")
    assert held_us >= 700_000


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
