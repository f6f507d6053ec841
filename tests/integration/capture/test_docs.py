"""The page "see what your client really does": its commands run, and find what they promise to find."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.capture.conftest import RunProxy

pytestmark = pytest.mark.kafka
PAGE = Path(__file__).parents[3] / "docs" / "see-what-your-client-does.md"


def commands() -> list[list[str]]:
    """The page's commands that look at the capture, as argument lists."""
    found = [
        shlex.split(line)[1:]
        for block in re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
        for line in block.replace("$ ", "").splitlines()
    ]
    return [arguments for arguments in found if arguments[0] == "capture" and "traffic/" in arguments]


def run(folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "notleader", *arguments]
    env = {"PYTHONPATH": str(PAGE.parents[1] / "src"), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False, env=env)


@pytest.fixture
async def folder(kafka: KafkaCluster, run_proxy: RunProxy, tmp_path: Path) -> Path:
    """A folder with `traffic/`: a careless producer, one that batches badly, a group that a second member joins."""
    for topic in ("metrics", "orders"):
        kafka.create_topic(topic, partitions=2)
    with run_proxy("--kafka", kafka.bootstrap, "--capture", str(tmp_path / "traffic")) as running:
        address = str(running.listen)
        async with AIOKafkaProducer(bootstrap_servers=address, client_id="metrics-agent", acks=0) as careless:
            for number in range(10):
                await careless.send_and_wait("metrics", b"%d" % number)
        async with AIOKafkaProducer(bootstrap_servers=address, client_id="shop", acks="all") as producer:
            for number in range(20):
                await producer.send_and_wait("orders", b"%d" % number)

        def member(name: str) -> AIOKafkaConsumer:
            return AIOKafkaConsumer(
                "orders",
                bootstrap_servers=address,
                group_id="billing",
                client_id=name,
                heartbeat_interval_ms=200,
                auto_offset_reset="earliest",
            )

        async with member("billing-1") as first:
            await first.getone()
            polling = asyncio.create_task(_poll(first))
            async with member("billing-2"):
                await asyncio.sleep(2)
            polling.cancel()
        running.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(running.process.wait, 30) == 0
    return tmp_path


async def _poll(consumer: AIOKafkaConsumer) -> None:
    while True:
        await consumer.getmany(timeout_ms=100)


async def test_the_commands_of_the_page_answer_its_questions(folder: Path) -> None:
    outputs = {}
    for arguments in commands():
        done = await asyncio.to_thread(run, folder, arguments)
        assert done.returncode == 0, (arguments, done.stderr)
        outputs[" ".join(arguments)] = done.stdout
    assert len(outputs) >= 10

    careless = outputs["capture show traffic/ api == Produce and acks == 0 --limit 5"].splitlines()
    assert len(careless) == 5
    assert all("\tmetrics-agent\t" in line and "acks=0 metrics-" in line for line in careless)

    tiny = outputs["capture show traffic/ api == Produce and records == 1 and batch_bytes < 300 --limit 20"]
    assert "shop" in tiny

    membership = outputs["capture show traffic/ group == billing and api in {JoinGroup, SyncGroup, LeaveGroup}"]
    assert {"billing-1", "billing-2"} == {line.split("\t")[2] for line in membership.splitlines()}
    assert "REBALANCE_IN_PROGRESS" in outputs["capture show traffic/ group == billing and error != 0"]
    assert (folder / "requests.csv").read_text().startswith("run_id,proxy_id,")

    told = json.loads((await asyncio.to_thread(run, folder, ["capture", "stats", "traffic/", "--json"])).stdout)
    producers = {one["client"]: one for one in told["producers"]}
    assert producers["metrics-agent"]["acks"] == {"0": 10}
    assert producers["shop"]["acks"] == {"-1": 20}
    assert producers["shop"]["records_per_batch"] == 1
    (group,) = told["groups"]
    assert group["joins"] >= 3
    assert group["heartbeats"] > 3
    assert group["errors"]["REBALANCE_IN_PROGRESS"] >= 1
