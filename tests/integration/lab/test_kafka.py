"""The embedded brokers start, lose nodes and get them back, fail with a reason and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from notleader.proxy.lab import probe
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import HOST, KafkaError
from notleader.proxy.lab.ports import free_ports

pytestmark = pytest.mark.kafka


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_one_node_takes_a_record(kafka: KafkaCluster) -> None:
    kafka.create_topic("lab-one", partitions=3)
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    try:
        sent = await producer.send_and_wait("lab-one", b"value", partition=2)
    finally:
        await producer.stop()
    assert (sent.partition, sent.offset) == (2, 0)


def test_each_node_advertises_its_own_client_port(kafka3: KafkaCluster) -> None:
    port = kafka3.nodes[2].client_port
    view = probe.cluster_view(HOST, port)
    assert view.brokers == {n.node_id: (HOST, n.client_port) for n in kafka3.nodes.values()}


def test_a_killed_node_loses_its_partition_and_comes_back(kafka3: KafkaCluster) -> None:
    kafka3.create_topic("lab-three", partitions=3)
    lost = kafka3.leader("lab-three", 0)
    kafka3.kill_node(lost)
    try:
        deadline = time.monotonic() + 30
        while kafka3.leader("lab-three", 0) in (lost, -1):
            assert time.monotonic() < deadline, "nobody took the partition over"
            time.sleep(0.1)
    finally:
        kafka3.start_node(lost)
    assert set(kafka3.pids) == {1, 2, 3}


def test_a_port_in_use_is_said(kafka: KafkaCluster) -> None:
    port = kafka.nodes[1].client_port
    with pytest.raises(KafkaError, match=f"port {port} on 127.0.0.1 is in use"), KafkaCluster(port=port):
        pass


def test_kafkas_own_error_is_shown(tmp_path: Path) -> None:
    with (
        pytest.raises(KafkaError, match=r"ended with code 1: .*num\.network\.threads.*log: "),
        KafkaCluster(properties={"num.network.threads": "none"}, folder=tmp_path),
    ):
        pass
    assert (tmp_path / "node-1" / "kafka.log").exists()


def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    program = (
        "import time; from pathlib import Path; from notleader.proxy.lab.kafka import KafkaCluster\n"
        f"cluster = KafkaCluster(port={port}, folder=Path({str(tmp_path)!r})).start()\n"
        "print(cluster.pids[1], flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    broker = int(parent.stdout.readline())
    assert running(broker)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while running(broker):
        assert time.monotonic() < deadline, "the broker outlived its parent"
        time.sleep(0.1)
