"""Connections that a load balancer announces: the capture says who the client is, and TLS may follow the header."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme
from aiokafka import AIOKafkaProducer

from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.proxy_protocol import HEAD_BYTES
from notleader.proxy.net.server import Proxy
from tests.clients.comparison import captured
from tests.clients.raw import address_of
from tests.integration.proxy.conftest import ProxyFor, told
from tests.proxy.net.test_proxy_protocol import addresses, header

# The balancer's addresses: the proxy advertises this name of the loopback, with its own ports.
BALANCER = "127.0.0.2"


@asynccontextmanager
async def balancer(proxy: Proxy, announcement: bytes) -> AsyncIterator[str]:
    """A TCP load balancer before every port of the proxy; its bootstrap address."""
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def serve(port: int) -> asyncio.Server:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            behind, onward = await asyncio.open_connection("127.0.0.1", port)
            # Cut in two, and the second part together with whatever the client says first.
            onward.write(announcement[:HEAD_BYTES])
            await onward.drain()
            await asyncio.sleep(0.01)
            onward.write(announcement[HEAD_BYTES:] + await reader.read(1 << 16))
            for task in (asyncio.create_task(pump(reader, onward)), asyncio.create_task(pump(behind, writer))):
                tasks.add(task)

        return await asyncio.start_server(connected, BALANCER, port)

    ports = [proxy.listen.port, *(broker.listen_port for broker in proxy.brokers())]
    servers = [await serve(port) for port in ports]
    try:
        yield f"{BALANCER}:{ports[0]}"
    finally:
        for server in servers:
            server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.kafka
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "TLS"])
@pytest.mark.parametrize(("client", "said"), [("192.0.2.7", "192.0.2.7:50001"), ("2001:db8::7", "[2001:db8::7]:50001")])
async def test_a_real_client_behind_a_balancer(
    tls: bool, client: str, said: str, kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    kafka.create_topic("announced")
    settings: dict[str, object] = {"proxy_protocol": True, "advertise": BALANCER, "capture": str(tmp_path / "capture")}
    options: dict[str, object] = {}
    if tls:
        authority = trustme.CA()
        server = authority.issue_cert(BALANCER)
        server.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
        settings["tls_cert"] = str(tmp_path / "server.pem")
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)
        options = {"security_protocol": "SSL", "ssl_context": trusting}
    announcement = header(1, 2 if ":" in client else 1, addresses(client, 50001))
    async with (
        proxy_for(kafka.bootstrap, **settings) as proxy,
        balancer(proxy, announcement) as bootstrap,
        AIOKafkaProducer(bootstrap_servers=bootstrap, **options) as producer,
    ):
        await producer.send_and_wait("announced", b"x" * 100_000)
    rows = captured(tmp_path / "capture")
    assert {row["client_addr"] for row in rows if row["event"] == "exchange"} == {said}
    assert not [row for row in rows if row["event"] == "wire_error"]


@pytest.mark.kafka
async def test_whoever_is_not_announced_is_closed_and_written_down(
    kafka: KafkaCluster, proxy_for: ProxyFor, tmp_path: Path
) -> None:
    capture = tmp_path / "capture"
    async with proxy_for(kafka.bootstrap, proxy_protocol=True, capture=str(capture)) as proxy:
        for opening in (b"\x00\x00\x00\x14\x00\x12\x00\x03" + bytes(16), b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n"):
            reader, writer = await asyncio.open_connection(*address_of(proxy.bootstrap))
            writer.write(opening)
            async with asyncio.timeout(10):
                with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                    await reader.readexactly(1)
            writer.close()
        assert not proxy.connections()
        assert (await told(proxy)).counters.wire_errors["client"] == 2
    details = [row["detail"] for row in captured(capture) if row["event"] == "wire_error"]
    assert len(details) == 2
    assert all("no PROXY protocol header, version 2" in detail for detail in details)
    assert "text form" in details[1]
