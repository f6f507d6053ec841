"""Run inside a network namespace of its own: a client's time to error behind a firewall's DROP and behind `blackhole`.

Two proxies stand before one real Kafka: the ports of the first are walled, the second has the fault. Prints JSON: what
was measured → [seconds behind DROP, seconds behind blackhole].
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable
from pathlib import Path

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import ApiVersionRequest

from notleader.faults.schema import parse_fault_document
from notleader.proxy.config.settings import load
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy

# Both of this namespace alone: the kernel gives up a connection after seven seconds odd, an attempt after three.
_GIVE_UP_SOON = {"tcp_retries2": 3, "tcp_syn_retries": 1}
_PATIENT_MS = 30_000
_SEND_TIMEOUT_MS = 4000
# A producer that loses its broker may dial it, and then again, before it looks at its batch's time: the soonest counts.
_PRODUCERS = 6


async def until_error(work: Awaitable[object]) -> float:
    """How long a client believes in something that is never answered, in seconds."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(60):
            await work
    except (KafkaError, OSError) as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            raise
        return time.monotonic() - started
    raise AssertionError("somebody answered")


async def connection(proxy: Proxy) -> AIOKafkaConnection:
    return await create_conn(proxy.listen.host, proxy.listen.port, request_timeout_ms=_PATIENT_MS)


def producer(proxy: Proxy, timeout_ms: int) -> AIOKafkaProducer:
    return AIOKafkaProducer(bootstrap_servers=str(proxy.listen), request_timeout_ms=timeout_ms)


def drop(ports: set[int]) -> None:
    """What an administrator types."""
    rules = f"""
        table inet wall {{
            chain input {{
                type filter hook input priority 0
                tcp dport {{ {", ".join(map(str, sorted(ports)))} }} drop
            }}
        }}
    """
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


async def measured(bootstrap: str) -> dict[str, list[float]]:
    proxies = [Proxy(load({"kafka": bootstrap, "listen": "127.0.0.1:0", "admin": None})) for _ in range(2)]
    for proxy in proxies:
        await proxy.start()
    connections = [await connection(proxy) for proxy in proxies]
    producers = [[producer(proxy, _SEND_TIMEOUT_MS) for _ in range(_PRODUCERS)] for proxy in proxies]
    for each in (*producers[0], *producers[1]):
        await each.start()
        await each.send_and_wait("walled", b"before")
    walled, holed = proxies
    drop({walled.listen.port, *(entry.listen_port for entry in walled.brokers())})
    holed.plan.add(parse_fault_document({"kind": "blackhole"}), holed.now_us())
    holed.plan_changed()
    dialling = [producer(proxy, _PATIENT_MS) for proxy in proxies]
    works: dict[str, list[list[Awaitable[object]]]] = {
        "an established connection": [[each.send(ApiVersionRequest())] for each in connections],
        "a producer that has sent before": [
            [one.send_and_wait("walled", b"after") for one in each] for each in producers
        ],
        "a new connection": [[connection(proxy)] for proxy in proxies],
        "a new producer": [[each.start()] for each in dialling],
    }
    tasks = {
        name: [[asyncio.create_task(until_error(work)) for work in each] for each in both]
        for name, both in works.items()
    }
    return {name: [min(await asyncio.gather(*each)) for each in both] for name, both in tasks.items()}


def main() -> None:
    for name, value in _GIVE_UP_SOON.items():
        Path("/proc/sys/net/ipv4", name).write_text(str(value))
    with KafkaCluster("4", auto_create_topics=False) as kafka:
        kafka.create_topic("walled")
        print(json.dumps(asyncio.run(measured(kafka.bootstrap))), flush=True)


if __name__ == "__main__":
    main()
