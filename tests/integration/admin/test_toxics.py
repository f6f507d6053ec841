"""Toxics over real sockets: what a client feels through a proxy made over the Toxiproxy API's engine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from notleader.proxy.admin.toxics.engine import ToxicProxies, ToxicProxy
from notleader.proxy.admin.toxics.kafka import KafkaToxicError, ToxicRule
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.shaping.kinds import KINDS
from tests.integration.admin.conftest import serve_controls


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def proxy() -> AsyncIterator[ToxicProxy]:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxies = ToxicProxies(seed=7)
    yield await proxies.add("echo", "127.0.0.1:0", f"127.0.0.1:{port}", True)
    await proxies.stop()
    server.close()
    await server.wait_closed()


async def dial(proxy: ToxicProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = proxy.listen.split(":")
    return await asyncio.open_connection(host, int(port))


def rule(kind: str, stream: str = "downstream", toxicity: float = 1.0, **attributes: int) -> ToxicRule:
    wanted = {**KINDS[kind].defaults, **attributes} if kind in KINDS else attributes
    return ToxicRule(f"{kind}_{stream}", kind, stream, toxicity, wanted)  # type: ignore[arg-type]


async def ping(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes = b"ping") -> float:
    """Seconds until the echo of `data` has come back whole."""
    reader, writer = streams
    started = time.monotonic()
    writer.write(data)
    assert await asyncio.wait_for(reader.readexactly(len(data)), 120) == data
    return time.monotonic() - started


async def test_bytes_pass_unchanged_and_both_ends_close(proxy: ToxicProxy) -> None:
    reader, writer = streams = await dial(proxy)
    await ping(streams, bytes(range(256)) * 40_000)  # 10 MB: more than any buffer on the way
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 120) == b""
    writer.close()


async def test_a_toxic_reaches_the_open_connection_and_leaves_it(proxy: ToxicProxy) -> None:
    streams = await dial(proxy)
    await ping(streams)
    latency = rule("latency", latency=200)
    await proxy.add_toxic(latency)
    assert await ping(streams) >= 0.2
    await proxy.update_toxic(latency, {"latency": 600, "jitter": 0}, 1.0)
    assert await ping(streams) >= 0.6
    await proxy.update_toxic(latency, {"latency": 3_600_000, "jitter": 0}, 1.0)
    proxy.remove_toxic(latency)
    await ping(streams)  # before the hour is over
    streams[1].close()


async def test_bandwidth_slows_upstream(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("bandwidth", "upstream", rate=100))
    streams = await dial(proxy)
    assert await ping(streams, b"x" * 50_000) >= 0.4
    streams[1].close()


async def test_timeout_swallows_then_closes_without_a_reset(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("timeout", timeout=200))
    reader, writer = await dial(proxy)
    writer.write(b"lost")
    started = time.monotonic()
    assert await asyncio.wait_for(reader.read(), 120) == b""
    assert time.monotonic() - started >= 0.15
    writer.close()


async def test_reset_peer_resets(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("reset_peer", timeout=20))
    reader, writer = await dial(proxy)
    writer.write(b"x")
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(), 120)
    writer.close()


async def test_limit_data_cuts(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("limit_data", bytes=100))
    reader, writer = await dial(proxy)
    writer.write(b"x" * 1000)
    assert len(await asyncio.wait_for(reader.read(), 120)) == 100
    writer.close()


async def test_slow_close_keeps_the_connection_for_a_while(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("slow_close", "upstream", delay=200))
    reader, writer = streams = await dial(proxy)
    await ping(streams)
    started = time.monotonic()
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 120) == b""
    assert time.monotonic() - started >= 0.2
    writer.close()


async def test_toxicity_is_drawn_per_connection(proxy: ToxicProxy) -> None:
    await proxy.add_toxic(rule("latency", latency=400, toxicity=0.5))
    slow = []
    for _ in range(12):
        streams = await dial(proxy)
        times = [await ping(streams) for _ in range(2)]
        assert (times[0] >= 0.4) == (times[1] >= 0.4), "a connection is struck or it is not"
        slow.append(times[0] >= 0.4)
        streams[1].close()
    assert len(set(slow)) == 2


async def test_disabling_closes_and_enabling_comes_back_at_the_same_port(proxy: ToxicProxy) -> None:
    reader, writer = streams = await dial(proxy)
    await ping(streams)
    listen = proxy.listen
    await proxy.update(proxy.listen, proxy.upstream, enabled=False)
    assert await asyncio.wait_for(reader.read(), 120) == b""
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await dial(proxy)
    await proxy.update(proxy.listen, proxy.upstream, enabled=True)
    assert proxy.listen == listen
    again = await dial(proxy)
    await ping(again)
    for stream in (writer, again[1]):
        stream.close()


async def test_an_unreachable_server_closes_the_client(proxy: ToxicProxy) -> None:
    await proxy.update(proxy.listen, "127.0.0.1:1", enabled=True)
    reader, writer = await dial(proxy)
    assert await asyncio.wait_for(reader.read(), 120) == b""
    writer.close()


async def test_a_reader_that_does_not_read_stops_the_flow(proxy: ToxicProxy) -> None:
    reader, writer = await dial(proxy)
    writer.transport.set_write_buffer_limits(high=0)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 500 << 20:
            writer.write(b"x" * (1 << 20))
            sent += 1 << 20
            await asyncio.wait_for(writer.drain(), 0.5)
    assert sent < 64 << 20
    writer.transport.abort()
    reader.feed_eof()


async def test_a_kafka_fault_needs_a_kafka_proxy(proxy: ToxicProxy) -> None:
    with pytest.raises(KafkaToxicError, match="no Kafka proxy"):
        await proxy.add_toxic(rule("kafka_delay", delay_ms=1))
    assert proxy.toxics == []


@pytest.mark.kafka
async def test_a_proxy_made_here_carries_kafka_faults_and_toxics_at_once(kafka: KafkaCluster) -> None:
    """A real client bootstraps through it: its Metadata is slowed by the rule and all it is told by the toxic."""
    async with (
        serve_controls(kafka.bootstrap) as controlled,
        httpx.AsyncClient(base_url=controlled.url, trust_env=False) as api,
    ):
        made = (await api.post("/proxies", json={"name": "shop", "upstream": kafka.bootstrap})).json()

        async def add(**toxic: object) -> None:
            assert (await api.post("/proxies/shop/toxics", json=toxic)).status_code == 200

        async def bootstrap_s() -> float:
            loop = asyncio.get_running_loop()
            started = loop.time()
            producer = AIOKafkaProducer(bootstrap_servers=made["listen"], client_id="shop")
            await producer.start()
            await producer.stop()
            return loop.time() - started

        await bootstrap_s()
        assert controlled.proxy.connections() == []  # bytes, of which the Kafka proxy sees nothing
        await add(type="latency", attributes={"latency": 200})
        await add(type="kafka_delay", attributes={"delay_ms": 700, "match": {"api_key": "Metadata"}})
        assert await bootstrap_s() >= 0.9
        hits = (await api.get("/v1/faults/shop.kafka_delay_downstream")).json()["hits"]
        assert hits >= 1
        assert (await api.delete("/proxies/shop/toxics/latency_downstream")).status_code == 204
        assert await bootstrap_s() >= 0.7
        assert (await api.get("/v1/faults/shop.kafka_delay_downstream")).json()["hits"] > hits
        assert (await api.delete("/proxies/shop")).status_code == 204
        assert (await api.get("/v1/faults")).json() == []
