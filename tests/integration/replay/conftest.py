"""A cluster that was recorded and is gone, and `notleader run` and `replay` as processes of their own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster

TOPIC = "replayed"
VALUES = sorted(b"v%d" % number for number in range(12))
LOST_LEADER = {
    "kind": "error",
    "error_code": "NOT_LEADER_OR_FOLLOWER",
    "match": {"api_key": "Produce", "topic": TOPIC, "partition_index": 1},
    "trigger": {"times": 2},
}


class Served(NamedTuple):
    """A process that listens."""

    process: subprocess.Popen[str]
    bootstrap: str
    brokers: dict[str, str]
    errors: Path

    def end(self, number: signal.Signals = signal.SIGINT) -> str:
        """Stop it; what it has said on stderr."""
        self.process.send_signal(number)
        assert self.process.wait(30) == 0
        return self.errors.read_text()


@contextmanager
def serve(errors: Path, *arguments: str) -> Iterator[Served]:
    """`notleader ARGUMENTS --json`, once it is ready; killed at the end, where it still runs."""
    with errors.open("w") as sink:
        command = [sys.executable, "-m", "notleader", *arguments, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, errors.read_text()
        ready = json.loads(line)
        assert (ready["event"], ready["admin"]) == ("ready", None)
        yield Served(process, ready["listen"], ready["brokers"], errors)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def produce(bootstrap: str) -> list[tuple[int, int]]:
    """Twelve records over three partitions; where each landed."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, client_id="shop", enable_idempotence=True) as producer:
        sent = [await producer.send_and_wait(TOPIC, b"v%d" % one, partition=one % 3) for one in range(12)]
    return [(one.partition, one.offset) for one in sent]


async def consume(bootstrap: str) -> list[bytes]:
    """The values of twelve records, by a group that commits."""
    async with AIOKafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, client_id="till", group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        found = [(await consumer.getone()).value for _ in range(12)]
        await consumer.commit()
    return sorted(found)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What aiokafka said to three brokers, of which one had lost a partition twice; by now they are killed."""
    folder = tmp_path_factory.mktemp("recorded")
    config = folder / "faults.json"
    config.write_text(json.dumps({"faults": [LOST_LEADER]}))
    with KafkaCluster("4", nodes=3, auto_create_topics=False) as cluster:
        cluster.create_topic(TOPIC, partitions=3)
        flags = ["--kafka", cluster.bootstrap, "--listen", "127.0.0.1:0", "--admin", "none", "--config", str(config)]
        level = ["--capture", str(folder / "traffic"), "--capture-level", "payload"]
        with serve(folder / "stderr.txt", "run", *flags, *level) as proxy:
            assert asyncio.run(produce(proxy.bootstrap)) == [(one % 3, one // 3) for one in range(12)]
            assert asyncio.run(consume(proxy.bootstrap)) == VALUES
            proxy.end()
    return folder / "traffic"


@pytest.fixture
def replay(capture: Path, tmp_path: Path) -> Iterator[Served]:
    """The recorded cluster."""
    with serve(tmp_path / "replay.txt", "replay", str(capture), "--listen", "127.0.0.1:0") as served:
        yield served
