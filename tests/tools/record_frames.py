"""Records the frames of real clients into tests/golden/frames, through a forwarder that only patches addresses.

    python -m tests.tools.record_frames --kafka 4 NAME "client 1.2.3" COMMAND…

COMMAND is run against a fresh broker with BOOTSTRAP=host:port in its environment; NAME is the file to write.
Of each API version and record format a few small exchanges are kept, as the client and the broker sent them.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.wire.addresses import rewrite_addresses
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.records import iter_batches
from notleader.proxy.wire.view import Request, Response

FRAMES = Path(__file__).resolve().parents[1] / "golden" / "frames"
LARGEST_BYTES = 3000

Exchange = tuple[bytes, bytes | None]


class Forwarder:
    """Passes frames between clients and one broker and keeps what the two sent."""

    def __init__(self, broker_port: int) -> None:
        self.broker_port = broker_port
        self.port = 0
        self.exchanges: list[Exchange] = []

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self.broker_port)
        waiting: dict[int, Request] = {}
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._requests(reader, broker_writer, waiting)),
                    asyncio.ensure_future(self._responses(broker_reader, writer, waiting)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            writer.close()
            broker_writer.close()

    async def _requests(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, waiting: dict[int, Request]
    ) -> None:
        while (frame := await _frame(reader)) is not None:
            request = Request(frame)
            if request.header.api_key == ApiKey.Produce and request.body["acks"] == 0:
                self.exchanges.append((frame, None))
            else:
                waiting[request.header.correlation_id] = request
            broker.write(struct.pack(">i", len(frame)) + frame)

    async def _responses(
        self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, waiting: dict[int, Request]
    ) -> None:
        while (frame := await _frame(broker)) is not None:
            request = waiting.pop(struct.unpack_from(">i", frame)[0])
            self.exchanges.append((request.frame, frame))
            response = Response(frame, request)
            try:
                body = response.body
                if rewrite_addresses(response.codec, body, lambda *_: ("127.0.0.1", self.port)):
                    frame = response.encode(body)
            except WireError as error:
                sys.stderr.write(f"passed on unread: {error}\n")
            client.write(struct.pack(">i", len(frame)) + frame)


async def _frame(reader: asyncio.StreamReader) -> bytes | None:
    try:
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def kind(request: bytes) -> tuple[object, ...]:
    """What makes an exchange unlike others: its API and version, and the formats of the records it carries."""
    view = Request(request)
    formats: set[tuple[int, str]] = set()
    if view.header.api_key == ApiKey.Produce:
        for entry in view.partitions:
            formats |= {(batch.magic, batch.compression) for batch in iter_batches(entry.fields["records"])}
    return (view.header.api_key, view.header.api_version, sorted(formats)[:1])


def kept(exchanges: list[Exchange]) -> list[Exchange]:
    """A few exchanges of each kind, of different sizes, ordered by API and version."""
    chosen: dict[str, dict[tuple[int, int], Exchange]] = {}
    for request, response in sorted(exchanges, key=lambda exchange: kind(exchange[0])):
        size = (len(request), len(response or b""))
        known = chosen.setdefault(str(kind(request)), {})
        if size not in known and (sum(size) <= LARGEST_BYTES or not known):
            known[size] = (request, response)
    rows = []
    for by_size in chosen.values():
        sizes = sorted(by_size)
        # The smallest, the largest and one between.
        rows += [by_size[sizes[pick]] for pick in sorted({0, len(sizes) // 2, len(sizes) - 1})]
    return rows


async def record(kafka_version: str, command: list[str]) -> tuple[str, list[Exchange]]:
    """Runs the command against a broker behind the forwarder; the broker's version and all exchanges."""
    cluster = KafkaCluster(kafka_version)
    with cluster:
        forwarder = Forwarder(int(cluster.bootstrap.rpartition(":")[2]))
        server = await forwarder.serve()
        environment = os.environ | {"BOOTSTRAP": f"127.0.0.1:{forwarder.port}"}
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        if await asyncio.wait_for(process.wait(), 180):
            raise SystemExit(f"{command[0]} ended with {process.returncode}")
        server.close()
    return cluster.version, forwarder.exchanges


def main() -> None:
    """Writes one file of tests/golden/frames."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", default="4", help="the broker's version")
    parser.add_argument("name", help="the file to write, without .jsonl")
    parser.add_argument("client", help="what the frames are from: name and version")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    version, exchanges = asyncio.run(record(arguments.kafka, arguments.command))
    rows = kept(exchanges)
    lines: list[dict[str, Any]] = [{"client": arguments.client, "kafka": version}]
    for request, response in rows:
        api_key, api_version = struct.unpack_from(">hh", request)
        lines.append(
            {
                "api": f"{ApiKey(api_key).name} v{api_version}",
                "request": base64.b64encode(request).decode(),
                "response": None if response is None else base64.b64encode(response).decode(),
            }
        )
    FRAMES.mkdir(parents=True, exist_ok=True)
    path = FRAMES / f"{arguments.name}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    sys.stderr.write(f"{path.name}: {len(rows)} of {len(exchanges)} exchanges, {path.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
