"""Clients that are programs of their own: the incidents' Go and Java clients, built as these are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from notleader.proxy.lab import clients
from notleader.proxy.lab.incident import Program
from notleader.proxy.lab.stages import Stages
from tests.truth.scenario import Client, Producer

NEWEST = {"java": "4.4.0", "sarama": "1.61.1", "franz-go": "1.22.2", "scala": "0.8.2.2"}
_SOURCES = {
    "java": "java/Producer.java",
    "sarama": "sarama/main.go",
    "franz-go": "franz_go/main.go",
    "scala": "scala/OldProducer.java",
}
_building = asyncio.Lock()


async def run(client: Client, job: dict[str, Any], longest_s: float) -> str:
    """Run the client's program to its end, or for its time; what it said when it failed."""
    async with _building:
        command = await asyncio.to_thread(_command, client)
    said_to = Path(job["file"])
    errors_to = said_to.parents[1] / f"{said_to.stem}.log"
    said, errors = await asyncio.to_thread(said_to.open, "ab"), await asyncio.to_thread(errors_to.open, "ab")
    with said, errors:
        process = await asyncio.create_subprocess_exec(*command, *_arguments(client, job), stdout=said, stderr=errors)
    try:
        code = await asyncio.wait_for(process.wait(), client.kill_ms / 1000 if client.kill_ms else longest_s)
    except TimeoutError:
        process.kill()
        await process.wait()
        return "" if client.kill_ms else f"{client.name} was not done after {longest_s:.0f} s"
    return f"{client.name} ended with code {code}" if code else ""


def _command(client: Client) -> list[str]:
    version = client.version or NEWEST[client.lib]
    program = Program(name=client.name, program=_SOURCES[client.lib], version=version, role="a client")
    return clients.command(program, Stages(quiet=True))


def _arguments(client: Client, job: dict[str, Any]) -> list[str]:
    shared = {"bootstrap": job["bootstrap"], "topic": job["topic"], "client_id": job["client_id"]}
    assert isinstance(client, Producer), "only the producers among the programs are used here"
    if client.lib == "java":
        own = {
            "messages": client.messages,
            "interval_ms": client.interval_ms,
            "wait_ms": client.wait_ms,
            "enable.idempotence": str(client.idempotent).lower(),
            "request.timeout.ms": client.timeout_ms,
            "delivery.timeout.ms": max(client.delivery_ms, client.timeout_ms + 100),
            "max.block.ms": client.delivery_ms,
        }
    elif client.lib == "sarama":
        own = {
            "acks": client.acks,
            "idempotent": str(client.idempotent).lower(),
            "messages": 1,
            "batches": client.messages,
            "interval_ms": client.interval_ms,
            "read_timeout_ms": client.timeout_ms,
            "kafka": "2.8.0",
        }
    elif client.lib == "scala":
        own = {"messages": client.messages, "interval_ms": client.interval_ms}
    else:
        own = {
            "messages": client.messages,
            "interval_ms": client.interval_ms,
            "partitions": client.partitions,
            "idempotent": str(client.idempotent).lower(),
            "request_timeout_ms": client.timeout_ms,
            "delivery_timeout_ms": client.delivery_ms,
            "wait_ms": client.wait_ms,
        }
    given = shared | {name: str(value) for name, value in own.items()} | {k: str(v) for k, v in client.options.items()}
    return [f"{name}={value}" for name, value in given.items()]
