"""Witnesses on both sides of the proxy: they forward every byte, and cut the stream into frames by themselves.

They know nothing of `proxy.wire`: a length, four header fields, no more. What the one between proxy and broker saw
is held against what the capture says, and against what the one between client and proxy saw, byte by byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import Node

HOST = "127.0.0.1"
# The proxy advertises this name of the loopback; the ports are its own, and the witness listens on them here.
FRONT_HOST = "127.0.0.2"


class Asked(NamedTuple):
    """One request as it passed: its header, and its size with the length prefix, in bytes."""

    api_key: int
    api_version: int
    correlation_id: int
    request_bytes: int


@dataclass(slots=True)
class Conversation:
    """One connection; `answers` maps correlation ids to sizes with the length prefix, in bytes.

    `sent` and `received` are the frames themselves without their lengths, as the client's side of it sees them;
    `by_watched` says whether the process that the tap was told to watch for is the one that connected.
    """

    by_watched: bool
    asked: list[Asked] = field(default_factory=list)
    answers: dict[int, int] = field(default_factory=dict)
    sent: list[bytes] = field(default_factory=list)
    received: list[bytes] = field(default_factory=list)
    client_id: str | None = None


class Frames:
    """Cuts a stream into frames and gives each to `take` without its length."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        self._rest += data
        while len(self._rest) >= 4:
            (size,) = struct.unpack_from(">i", self._rest)
            if len(self._rest) < 4 + size:
                return
            self._take(bytes(self._rest[4 : 4 + size]))
            del self._rest[: 4 + size]


class Tap:
    """Listens in the place of who listens on `target_port`, and notes every conversation with it.

    Port 0 takes a free one; ``port`` is the one taken once it is started.
    """

    def __init__(self, target_port: int, host: str = HOST, port: int = 0) -> None:
        self.target_port = target_port
        self.host = host
        self.port = port
        self.watched_pid: int | None = None
        self.conversations: list[Conversation] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=f"tap-{target_port}", daemon=True)
        self._started = threading.Event()
        self._stop = asyncio.Event()

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10), "the tap does not listen"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, self.host, self.port)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()

    async def _connection(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        port = to_client.get_extra_info("peername")[1]
        conversation = Conversation(self.watched_pid is not None and port in ports_of(self.watched_pid))
        self.conversations.append(conversation)
        try:
            broker, to_broker = await asyncio.open_connection(HOST, self.target_port)
        except OSError:
            to_client.close()
            return

        def asked(frame: bytes) -> None:
            api_key, version, correlation_id, length = struct.unpack_from(">hhih", frame)
            conversation.asked.append(Asked(api_key, version, correlation_id, len(frame) + 4))
            conversation.sent.append(frame)
            if length >= 0:
                conversation.client_id = frame[10 : 10 + length].decode()

        def answered(frame: bytes) -> None:
            conversation.answers[struct.unpack_from(">i", frame)[0]] = len(frame) + 4
            conversation.received.append(frame)

        async with asyncio.TaskGroup() as both:
            both.create_task(_pump(client, to_broker, Frames(asked)))
            both.create_task(_pump(broker, to_client, Frames(answered)))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: Frames) -> None:
    """Pass on what arrives until its end; an end is passed on too."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            frames.feed(data)
            writer.write(data)
            await writer.drain()
    # Kafka's clients and brokers never close one direction only.
    writer.close()


class TappedCluster(KafkaCluster):
    """Brokers that advertise their taps: whoever follows what they say is seen."""

    def __init__(self, version: str, nodes: int = 1) -> None:
        super().__init__(version, nodes, auto_create_topics=False)
        self.taps: dict[int, Tap] = {}

    @property
    def addresses(self) -> dict[int, str]:
        """`host:port` of each broker as clients are told, by node id."""
        return {node_id: f"{HOST}:{tap.port}" for node_id, tap in self.taps.items()}

    @property
    def tapped(self) -> str:
        """What to bootstrap from."""
        return ",".join(self.addresses.values())

    def _launch(self, node: Node) -> None:
        tap = self.taps[node.node_id] = Tap(node.client_port)
        tap.start()
        advertised = f"CLIENT://{HOST}:{tap.port},INTERNAL://{HOST}:{node.internal_port}"
        with Path(node.config).open("a") as properties:
            properties.write(f"advertised.listeners={advertised}\n")  # the last of two lines counts
        super()._launch(node)

    def stop(self) -> None:
        super().stop()
        for tap in self.taps.values():
            tap.stop()

    def forget(self, watched_pid: int | None = None) -> None:
        """What was seen so far belongs to somebody else; from now on say of each connection if it is that process's."""
        for tap in self.taps.values():
            tap.conversations.clear()
            tap.watched_pid = watched_pid

    def conversations(self, *, but_of: str | None = None) -> list[Conversation]:
        """What was seen, without the connections that said nothing and those of one client id."""
        return [each for each in spoken(self.taps.values()) if but_of is None or each.client_id != but_of]


@contextlib.contextmanager
def before(ports: Iterable[int]) -> Iterator[list[Tap]]:
    """Taps between the clients and a proxy that listens on these ports of the loopback and advertises FRONT_HOST."""
    with contextlib.ExitStack() as stack:
        taps = [Tap(port, FRONT_HOST, port) for port in ports]
        for tap in taps:
            tap.start()
            stack.callback(tap.stop)
        yield taps


def spoken(taps: Iterable[Tap]) -> list[Conversation]:
    """What these taps saw, without the connections that said nothing."""
    return [conversation for tap in taps for conversation in tap.conversations if conversation.asked]


def ports_of(pid: int) -> set[int]:
    """The local TCP ports of the sockets that a process has open now."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = str(entry.readlink())
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports
