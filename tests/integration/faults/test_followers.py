"""Consumers that fetch from the replica next to them (KIP-392), while the leader is moved and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.doors import ManyDoors
from tests.integration.faults.conftest import add, remove
from tests.integration.faults.test_leaders import rows, until
from tests.integration.proxy.conftest import ProxyFor
from tests.tools.programs import need

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def reading(bootstrap: str, topic: str, rack: str) -> AsyncIterator[list[bytes]]:
    """What kcat reads of partition 0, as it comes, from the replica in its rack where it may."""
    settings = [
        "client.rack=" + rack,
        "client.id=" + rack,
        "topic.metadata.refresh.interval.ms=500",
        "fetch.wait.max.ms=50",
    ]
    options = [argument for setting in settings for argument in ("-X", setting)]
    process = await asyncio.create_subprocess_exec(
        *(need("kcat"), "-C", "-q", "-u", "-b", bootstrap, "-t", topic, "-p", "0", "-o", "beginning", *options),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines: list[bytes] = []

    async def collect(output: asyncio.StreamReader) -> None:
        async for line in output:
            lines.extend([line.strip()])

    collecting = asyncio.create_task(collect(process.stdout))
    try:
        yield lines
    finally:
        process.kill()
        await process.wait()
        await collecting


async def test_consumers_leave_their_follower_for_a_moved_leader_and_come_back(
    kafka3: ManyDoors, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    topic = "followed"
    kafka3.create_topic(topic, partitions=1)
    true_leader = kafka3.leader(topic, 0)
    followers = [node for node in kafka3.nodes if node != true_leader]
    racks = {f"rack-{node}": node for node in followers}
    phases: dict[str, float] = {}
    async with (
        proxy_for(kafka3.bootstrap, capture=str(tmp_path)) as proxy,
        AIOKafkaProducer(bootstrap_servers=str(proxy.listen), enable_idempotence=True) as producer,
        reading(str(proxy.listen), topic, f"rack-{followers[0]}") as first,
        reading(str(proxy.listen), topic, f"rack-{followers[1]}") as second,
    ):
        sent: list[bytes] = []

        async def send_until_read(phase: str, count: int = 3) -> None:
            phases[phase] = proxy.now_us()
            for _ in range(count):
                sent.append(b"%d" % len(sent))
                await producer.send_and_wait(topic, sent[-1], partition=0)
                await until(lambda: first == second == sent)

        await send_until_read("before")
        await add(proxy, name="move", kind="leader_move", match={"topic": topic})
        await send_until_read("moved")
        (move,) = proxy.plan.elections.moves()
        await remove(proxy, "move")
        await send_until_read("back")
    captured = rows(tmp_path)

    def served(phase: str, rack: str) -> int:
        """Who gave this consumer its last records of a phase."""
        names = list(phases)
        ends = [*phases.values(), float("inf")][names.index(phase) + 1]
        nodes = [
            row["node_id"]
            for row in captured
            if row["api_name"] == "Fetch" and row["client_id"] == rack and row["request_at_us"] < ends
            for part in row["partitions"] or ()
            if part["record_count"]
        ]
        return nodes[-1]

    for rack, node in racks.items():
        assert [served(phase, rack) for phase in phases] == [node, move.leader_id, node]
