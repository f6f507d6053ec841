"""The broker goes away under producers of which a rule answers some requests: no connection is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from notleader.proxy.lab.kafka import KafkaCluster
from tests.clients.builds import python
from tests.clients.comparison import notleader_run

pytestmark = pytest.mark.kafka

_ESTABLISHED = "01"
_ENOUGH_S = 60  # a connection that is left behind stays for ever
RULE = {
    "kind": "error",
    "error_code": "REQUEST_TIMED_OUT",
    "match": {"api_key": "Produce"},
    "trigger": {"probability": 0.3, "times": "forever"},
}


def established(ports: set[int]) -> set[tuple[int, int]]:
    """The connections that the kernel has open to these ports: each with the client's port."""
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        ends = tuple(int(end.rpartition(":")[2], 16) for end in (local, remote))
        if state == _ESTABLISHED and ends[0] in ports:
            found.add((ends[0], ends[1]))
    return found


def test_no_connection_is_neither_answered_nor_closed(tmp_path: Path) -> None:
    config = tmp_path / "rules.yaml"
    config.write_text(json.dumps({"faults": [RULE]}))
    command, environment = python("many_producers.py")
    with (
        KafkaCluster("4", auto_create_topics=False) as kafka,
        notleader_run(kafka.bootstrap, tmp_path / "capture", tmp_path / "log", "--config", str(config)) as proxy,
    ):
        kafka.create_topic("many-orders", partitions=3)
        variables = {"BOOTSTRAP": proxy.listen, "PREFIX": "many", "CODECS": "none", "REPLICAS": "1"}
        clients = subprocess.Popen(
            command,
            env={**os.environ, **environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            text=True,
        )
        with clients:
            assert clients.stdout is not None
            assert clients.stdin is not None
            assert clients.stdout.readline(), "every producer has sent some"
            before = established(set(proxy.broker_ports.values()))
            assert len(before) >= 30
            kafka.stop_node(1)
            stop = time.monotonic() + _ENOUGH_S
            while (left := before & established(set(proxy.broker_ports.values()))) and time.monotonic() < stop:
                time.sleep(0.2)
            clients.stdin.close()
            assert left == set()
