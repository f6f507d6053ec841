"""A coordinator that is gone: real clients find who took over, and groups and transactions go on there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import rows
from tests.integration.proxy.conftest import ProxyFor

pytestmark = pytest.mark.kafka

_GONE = {"name": "gone", "kind": "reset"}
_DOWN = {"name": "down", "kind": "broker_down", "node_id": "struck", "election_ms": 300}


async def test_transactions_and_commits_go_on_with_another_coordinator_and_come_back(
    kafka3: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic, partition = "coordinated", TopicPartition("coordinated", 0)
    kafka3.create_topic(topic, partitions=1)
    async with proxy_for(kafka3.bootstrap, capture=str(tmp_path)) as proxy:
        client = {"bootstrap_servers": str(proxy.listen), "request_timeout_ms": 3000, "metadata_max_age_ms": 500}
        async with (
            asyncio.timeout(120),
            AIOKafkaProducer(transactional_id="coordinated", **client) as producer,
            AIOKafkaConsumer(
                topic,
                group_id="coordinated",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
                **client,
            ) as consumer,
        ):

            async def work(value: bytes) -> bytes | None:
                async with producer.transaction():
                    await producer.send_and_wait(topic, value, partition=0)
                record = await consumer.getone()
                await consumer.commit({partition: record.offset + 1})
                return record.value

            assert await work(b"before") == b"before"
            for api in ("EndTxn", "OffsetCommit"):
                await add(proxy, **_GONE, match={"api_key": api})
                await add(proxy, **_DOWN, trigger={"after_fault": "gone"})
                assert await work(b"during") == b"during"
                assert await work(b"still") == b"still"
                await remove(proxy, "down")
                await remove(proxy, "gone")
                assert await work(b"after") == b"after"
            assert await consumer.committed(partition) == await consumer.position(partition)
    captured = rows(tmp_path)
    for api in ("EndTxn", "OffsetCommit"):
        well = [row for row in captured if row["api_name"] == api and row["outcome"] == "answered" and not wrong(row)]
        nodes = list(dict.fromkeys(row["node_id"] for row in well))
        assert len(nodes) == 2, f"{api} went well at {nodes}"


def wrong(row: dict[str, object]) -> bool:
    """Whether something of it was refused."""
    parts = row["partitions"] or ()
    return bool(row["error_code"] or any(part["error_code"] for part in parts))  # type: ignore[attr-defined]
