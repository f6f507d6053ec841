"""`python -m benchmarks.analysis.busy FOLDER`: record eight rules in front of seven clients, for `verdicts --capture`.

Generated captures have one rule and one kind of trouble; here three brokers stand behind eight rules, in front of them
four producers, a group of two that commits, and a lone reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from rich.console import Console

from notleader.proxy import Proxy
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.recorders.aiokafka import recorded

TOPICS = {"orders": 6, "payments": 3}
RULES: tuple[dict[str, Any], ...] = (
    {"name": "election", "kind": "leader_election", "match": {"topic": "orders", "partition_index": 0}, "for_ms": 1500,
     "trigger": {"after_ms": 3000, "times": 1}},
    {"name": "not-leader", "kind": "error", "error_code": "NOT_LEADER_OR_FOLLOWER",
     "match": {"api_key": "Produce", "topic": "payments"}, "trigger": {"every": 40}},
    {"name": "lost-answer", "kind": "drop_response", "match": {"api_key": "Produce", "topic": "orders"},
     "trigger": {"after_ms": 8000, "times": 2}},
    {"name": "slow-broker", "kind": "delay", "delay_ms": 120, "match": {"node_id": 2}, "trigger": {"every": 10}},
    {"name": "stall", "kind": "stall", "for_ms": 1200, "match": {"api_key": "Fetch"},
     "trigger": {"after_ms": 12000, "times": 3}},
    {"name": "cut", "kind": "close", "match": {"api_key": "Produce"}, "trigger": {"after_ms": 6000, "every": 150}},
    {"name": "no-coordinator", "kind": "error", "error_code": "NOT_COORDINATOR",
     "match": {"api_key": ["OffsetCommit", "Heartbeat"]}, "trigger": {"after_ms": 10000, "times": 4}},
    {"name": "broker-away", "kind": "broker_down", "node_id": 3, "trigger": {"after_ms": 16000, "for_ms": 2500}},
)  # fmt: skip
_PRODUCERS: dict[str, dict[str, Any]] = {
    "idempotent": {"enable_idempotence": True},
    "plain": {"acks": "all"},
    "quick": {"acks": 1, "linger_ms": 5},
    "packed": {"acks": 1, "linger_ms": 20, "compression_type": "gzip"},
}


def main(
    folder: Annotated[Path, typer.Argument(help="Where capture/ and outcomes/ go.")],
    seconds: Annotated[float, typer.Option(help="How long the clients work.")] = 28,
) -> None:
    """Record a run of many rules."""
    with KafkaCluster(nodes=3, auto_create_topics=False) as kafka:
        asyncio.run(_record(kafka.bootstrap, folder, seconds))
    Console(stderr=True).print(f"in {folder}: capture and outcomes")


async def _record(bootstrap: str, folder: Path, seconds: float) -> None:
    said = folder / "outcomes"
    said.mkdir(parents=True)
    await _create(bootstrap)
    settings = {"capture": str(folder / "capture"), "capture_level": "record", "capture_stop_s": 120, "seed": 7}
    async with Proxy.in_front_of(bootstrap, faults=RULES, **settings) as proxy:
        at = str(proxy.listen)
        async with AsyncExitStack() as clients, asyncio.timeout(seconds + 60):
            until = asyncio.get_running_loop().time() + seconds
            producers = [
                await clients.enter_async_context(_producer(at, name, options, said))
                for name, options in _PRODUCERS.items()
            ]
            readers = [
                await clients.enter_async_context(_consumer(at, name, group, said))
                for name, group in (("member-a", "billing"), ("member-b", "billing"), ("lone", None))
            ]
            work = [_send(producer, number, until) for number, producer in enumerate(producers)]
            await asyncio.gather(*work, *(_read(reader, until + 3) for reader in readers))


async def _create(bootstrap: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, count, 3) for topic, count in TOPICS.items()])
    finally:
        await admin.close()


@asynccontextmanager
async def _producer(at: str, name: str, options: dict[str, Any], said: Path) -> AsyncIterator[Any]:
    options = {"request_timeout_ms": 3000, **options}
    client = AIOKafkaProducer(bootstrap_servers=at, client_id=name, **options)
    async with recorded(client, said / f"{name}.jsonl", budget_ms=2000) as producer:
        yield producer


@asynccontextmanager
async def _consumer(at: str, name: str, group: str | None, said: Path) -> AsyncIterator[Any]:
    client = AIOKafkaConsumer(
        *TOPICS, bootstrap_servers=at, client_id=name, group_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, session_timeout_ms=6000, request_timeout_ms=7000,
    )  # fmt: skip
    async with recorded(client, said / f"{name}.jsonl") as consumer:
        yield consumer


async def _send(producer: Any, number: int, until: float) -> None:
    """About twenty-five records a second, to all partitions in turn, none of them waited for."""
    loop = asyncio.get_running_loop()
    places = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]
    pending: set[asyncio.Future[Any]] = set()
    sent = number
    while loop.time() < until:
        topic, index = places[sent % len(places)]
        try:
            future = await producer.send(topic, b"x" * 200, partition=index)
        except KafkaError:
            continue
        pending.add(future)
        future.add_done_callback(pending.discard)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        sent += 1
        await asyncio.sleep(0.04)
    if pending:
        await asyncio.wait(pending, timeout=20)


async def _read(consumer: Any, until: float) -> None:
    loop = asyncio.get_running_loop()
    read = 0
    while loop.time() < until:
        try:
            batch = await consumer.getmany(timeout_ms=200)
            read += sum(map(len, batch.values()))
            if read > 50 and consumer._group_id:
                await consumer.commit()
                read = 0
        except KafkaError:
            await asyncio.sleep(0.1)


if __name__ == "__main__":
    typer.run(main)
