"""Ten thousand connections at once, through `notleader run` as users start it, to a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from pathlib import Path
from struct import unpack
from urllib.request import urlopen

import pytest

from benchmarks.proxy.processes import family
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.process import Child
from tests.integration.proxy.test_effects import Client

pytestmark = pytest.mark.kafka

CONNECTIONS = 10_000
AT_ONCE = 100  # fewer than wait in a listener's queue
SPARE = 500


def allow_descriptors(wanted: int) -> None:
    """Let this process, and those it starts, have this many open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.fail(f"needs {wanted} open files, and the limit is {hard}: ulimit -n {wanted} before the tests")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors(pid: int) -> int:
    """The open files of a process and those it started."""
    return sum(len(os.listdir(f"/proc/{member}/fd")) for member in family(pid))


async def ask(client: Client, number: int) -> None:
    """One ApiVersions and its answer."""
    answer = await client.ask(number, timeout_s=60)
    assert unpack(">i", answer[:4]) == (number,)


async def dial(port: int, number: int) -> Client:
    async with asyncio.timeout(60):
        client = Client(*await asyncio.open_connection("127.0.0.1", port, limit=4096))
    await ask(client, number)
    return client


def open_connections(admin: str) -> int:
    with urlopen(f"http://{admin}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("notleader_open_connections{")))


async def test_ten_thousand_connections_are_held_and_all_answer(kafka: KafkaCluster, tmp_path: Path) -> None:
    """By two processes: one would need more than 20,000 open files, which not every machine allows."""
    argv = [
        sys.executable,
        "-m",
        "notleader.proxy",
        "run",
        "--json",
        f"--kafka={kafka.bootstrap}",
        "--listen=127.0.0.1:0",
    ]
    argv += ["--admin=127.0.0.1:0", "--workers=2", f"--capture={tmp_path / 'capture'}"]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allow_descriptors(CONNECTIONS + SPARE)
    child = Child(argv, log=tmp_path / "log", stdout="pipe")
    clients: list[Client] = []
    try:
        assert child.popen.stdout is not None
        ready = json.loads(await asyncio.to_thread(child.popen.stdout.readline))
        port = int(ready["listen"].rpartition(":")[2])
        at_rest = descriptors(child.pid)
        for first in range(0, CONNECTIONS, AT_ONCE):
            clients += await asyncio.gather(*(dial(port, first + place) for place in range(AT_ONCE)))
        assert descriptors(child.pid) >= at_rest + 2 * CONNECTIONS  # one towards each side
        assert await asyncio.to_thread(open_connections, ready["admin"]) == CONNECTIONS
        for first in range(0, CONNECTIONS, AT_ONCE):
            together = clients[first : first + AT_ONCE]
            await asyncio.gather(*(ask(client, first + place) for place, client in enumerate(together)))
        for client in clients:
            client.writer.close()
        async with asyncio.timeout(120):
            while await asyncio.to_thread(open_connections, ready["admin"]):
                await asyncio.sleep(0.2)
            while descriptors(child.pid) > at_rest + SPARE // 10:
                await asyncio.sleep(0.2)
    finally:
        for client in clients:
            client.writer.close()
        code = await asyncio.to_thread(child.stop, 60.0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert code == 0, child.log.read_text()
