"""A pytest module to copy: does the application outlive a leader election? Run it with KAFKA=localhost:9092."""

import asyncio
import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaProducer

from notleader.proxy import Proxy


@pytest_asyncio.fixture
async def proxy() -> AsyncIterator[Proxy]:
    async with Proxy.in_front_of(os.environ.get("KAFKA", "localhost:9092"), seed=7) as running:
        yield running


@pytest.mark.asyncio
async def test_no_order_is_lost_while_there_is_no_leader(proxy: Proxy) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=proxy.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        before = await producer.send_and_wait("orders", b"before")
        proxy.add_fault(
            name="election",
            kind="leader_election",
            match={"topic": "orders", "partition_index": before.partition},
            for_ms=1000,
        )
        sent = [await producer.send("orders", b"%d" % n, partition=before.partition) for n in range(10)]
        told = await asyncio.wait_for(asyncio.gather(*sent), 30)
    finally:
        await producer.stop()

    await proxy.wait_for_hits("election")
    assert [record.offset for record in told] == list(range(before.offset + 1, before.offset + 11))
