"""What each fault of the transport's own does to a client: on real sockets, in front of a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from struct import unpack
from typing import Any, TypeVar

import pyarrow.dataset as ds
import pytest
from aiokafka import AIOKafkaProducer

from notleader.faults.schema import parse_fault_document
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.net.server import Proxy
from notleader.proxy.wire.names import ApiKey
from tests.integration.proxy.conftest import ProxyFor, settled
from tests.integration.proxy.test_round_trip import consumed, produced
from tests.proxy.session.conversation import request

pytestmark = pytest.mark.kafka
T = TypeVar("T")


class Client:
    """A client that knows ApiVersions only."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, number: int = 1, timeout_s: float = 30) -> bytes:
        """Send ApiVersions and read the whole answer."""
        self.writer.write(request(ApiKey.ApiVersions, 0, number))
        return await self.answer(timeout_s)

    async def answer(self, timeout_s: float = 30) -> bytes:
        async with asyncio.timeout(timeout_s):
            (size,) = unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(size)


Dial = Callable[..., Awaitable[Client]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect to a proxy's bootstrap listener; closed at the end."""
    clients = []

    async def connect(proxy: Proxy, timeout_s: float = 30) -> Client:
        async with asyncio.timeout(timeout_s):
            client = Client(*await asyncio.open_connection(*proxy.listen))
        clients.append(client)
        return client

    yield connect
    for client in clients:
        client.writer.close()
        with contextlib.suppress(OSError):
            await client.writer.wait_closed()


async def add(proxy: Proxy, **fault: Any) -> None:
    proxy.plan.replace(fault["name"], parse_fault_document(fault), proxy.now_us())
    proxy.plan_changed()
    await settled(proxy)


async def remove(proxy: Proxy, name: str) -> None:
    proxy.plan.remove(name)
    proxy.plan_changed()
    await settled(proxy)


async def seconds(work: Awaitable[T]) -> tuple[float, T]:
    started = time.monotonic()
    result = await work
    return time.monotonic() - started, result


async def until_open(proxy: Proxy, dial: Dial) -> None:
    """Until a new connection is let in and answered again."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                assert await (await dial(proxy)).ask()
                return
            await asyncio.sleep(0.05)


async def test_refuse_lets_open_connections_live(kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        client = await dial(proxy)
        assert await client.ask()  # before that it may still lie in the kernel's queue, which goes with the listener
        await add(proxy, name="shut", kind="refuse", match={"listener": "bootstrap"})
        with pytest.raises(ConnectionRefusedError):
            await dial(proxy)
        assert await client.ask()
        assert proxy.plan.get("shut").hits == 1
        await remove(proxy, "shut")
        await until_open(proxy, dial)


async def test_a_rule_with_a_window_opens_and_closes_by_itself(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial
) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        started = time.monotonic()
        await add(proxy, name="shut", kind="refuse", trigger={"after_ms": 1000, "for_ms": 1000})
        assert await (await dial(proxy)).ask()
        async with asyncio.timeout(30):
            with pytest.raises(ConnectionRefusedError):
                while True:
                    (await dial(proxy)).writer.close()
                    await asyncio.sleep(0.05)
        assert time.monotonic() - started >= 1
        await until_open(proxy, dial)
        assert time.monotonic() - started >= 2


@pytest.mark.parametrize("release", ["immediate", "delayed", "discard"])
async def test_a_black_hole_for_old_and_new_connections_and_its_end(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, release: str
) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        client = await dial(proxy)
        assert await client.ask(1)
        await add(proxy, name="hole", kind="blackhole", release=release, release_delay_ms=2000)
        with pytest.raises(TimeoutError):
            await client.ask(2, timeout_s=0.5)
        with pytest.raises(TimeoutError):
            await dial(proxy, timeout_s=1)
        await remove(proxy, "hole")
        if release == "discard":
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await client.answer()
        else:
            waited, answer = await seconds(client.answer())
            assert answer
            assert (waited > 1.9) == (release == "delayed")
        assert await (await dial(proxy)).ask()


async def test_the_capture_says_when_a_silence_began_and_when_it_was_over(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, tmp_path: Path
) -> None:
    settings = {"capture": str(tmp_path), "capture_level": "header", "workers": 1}
    async with proxy_for(kafka.bootstrap, **settings) as proxy:
        client = await dial(proxy)
        assert await client.ask(1)
        await add(proxy, name="hole", kind="blackhole", match={"listener": "bootstrap"})
        await remove(proxy, "hole")
        assert await client.ask(2)
        await add(proxy, name="shut", kind="refuse", match={"listener": "bootstrap"})
        await remove(proxy, "shut")
    rows = ds.dataset(tmp_path, format="parquet").to_table().to_pylist()
    told = [row for row in rows if row["event"] == "fault"]
    assert [row["detail"] for row in told if row["connection_id"] is None] == [
        "listener bootstrap is silent: hole",
        "listener bootstrap is open",
        "listener bootstrap is refusing: shut",
        "listener bootstrap is open",
    ]
    assert [row["detail"] for row in told if row["connection_id"] is not None] == ["hole", "goes on"]
    assert [row["fault_names"] for row in told] == [["hole"], ["hole"], [], [], ["shut"], []]


async def test_bandwidth_and_slices_slow_down_and_change_nothing(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial
) -> None:
    async with proxy_for(kafka.bootstrap) as proxy:
        plain = await (await dial(proxy)).ask()
        await add(proxy, name="slow", kind="bandwidth", rate_bytes_per_s=len(plain) * 2, direction="response")
        client = await dial(proxy)
        waited, answer = await seconds(client.ask())
        assert answer == plain
        assert waited > 0.4
        await add(proxy, name="thin", kind="slice", average_bytes=40, variation_bytes=10, delay_us=500)
        waited, answer = await seconds((await dial(proxy)).ask())
        assert answer == plain
        client.writer.write(request(ApiKey.ApiVersions, 0, 1))
        await remove(proxy, "slow")
        await remove(proxy, "thin")
        assert await client.answer() == plain, "what waited leaves when the shape goes"
        assert await client.ask() == plain


async def test_rows_say_which_shape_held_or_cut_off_their_bytes(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, tmp_path: Path
) -> None:
    settings = {"capture": str(tmp_path), "capture_level": "header", "workers": 1}
    async with proxy_for(kafka.bootstrap, **settings) as proxy:
        plain = await (await dial(proxy)).ask()
        await add(proxy, name="slow", kind="bandwidth", rate_bytes_per_s=len(plain) * 4, direction="response")
        client = await dial(proxy)
        assert await client.ask() == plain
        await remove(proxy, "slow")
        await add(proxy, name="few", kind="limit", limit_bytes=len(plain) // 2, direction="response")
        cut = await dial(proxy)
        cut.writer.write(request(ApiKey.ApiVersions, 0, 1))
        async with asyncio.timeout(30):
            assert len(await cut.reader.read(-1)) < len(plain)
    rows = ds.dataset(tmp_path, format="parquet").to_table().to_pylist()
    slow = next(row for row in rows if row["event"] == "exchange" and "slow" in (row["fault_names"] or ()))
    held = next(effect for effect in slow["effects"] if effect["did"] == "held_answer")
    assert slow["response_at_us"] - slow["broker_responded_at_us"] >= held["held_us"] > 150_000
    ended = [row for row in rows if "few" in (row["fault_names"] or ()) and row["event"] != "fault"]
    assert {row["event"]: (row["outcome"], row["effects"][-1]["did"]) for row in ended} == {
        "exchange": ("closed", "cut"),
        "disconnect": (None, "cut"),
    }


async def test_a_torn_answer_ends_in_order(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, tmp_path: Path
) -> None:
    rule = {"kind": "truncate", "after_bytes": 10, "match": {"api_key": "ApiVersions"}}
    async with proxy_for(kafka.bootstrap, faults=[rule], capture=str(tmp_path), workers=1) as proxy:
        client = await dial(proxy)
        client.writer.write(request(ApiKey.ApiVersions, 0, 1))
        async with asyncio.timeout(30):
            assert len(await client.reader.read(-1)) == 10
    rows = ds.dataset(tmp_path, format="parquet").to_table().to_pylist()
    (row,) = [row for row in rows if row["event"] == "exchange"]
    assert (row["outcome"], row["response_at_us"], row["response_bytes"]) == ("closed", None, 10)


async def test_a_reset_in_mid_frame_delivers_the_bytes_before_it(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial
) -> None:
    rule = {"kind": "reset", "phase": "after_broker", "after_bytes": 10, "match": {"api_key": "ApiVersions"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        client = await dial(proxy)
        client.writer.write(request(ApiKey.ApiVersions, 0, 1))
        async with asyncio.timeout(30):
            got = b""
            with pytest.raises(ConnectionResetError):
                while True:
                    got += await client.reader.readexactly(1)
        assert len(got) == 10


@pytest.mark.parametrize("close", [True, False])
async def test_an_absurd_length_in_place_of_an_answer(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, close: bool
) -> None:
    rule = {"kind": "oversized_frame", "close": close, "match": {"api_key": "ApiVersions"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        client = await dial(proxy)
        client.writer.write(request(ApiKey.ApiVersions, 0, 1) + request(ApiKey.ApiVersions, 0, 2))
        async with asyncio.timeout(30):
            assert await client.reader.readexactly(4) == bytes.fromhex("15030300")
        if close:
            async with asyncio.timeout(30):
                assert await client.reader.read() == b""
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await client.reader.read(1)


@pytest.mark.parametrize(("idempotent", "expected"), [(False, [b"v0", b"v0", b"v1"]), (True, [b"v0", b"v1"])])
async def test_a_request_sent_twice_is_in_the_log_twice_unless_idempotent(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial, idempotent: bool, expected: list[bytes]
) -> None:
    topic = f"twice-{idempotent}"
    kafka.create_topic(topic, partitions=3)
    rule = {"kind": "duplicate", "match": {"api_key": "Produce"}}
    async with proxy_for(kafka.bootstrap, faults=[rule]) as proxy:
        await produced(proxy, topic, 2, enable_idempotence=idempotent)
        assert sorted(await consumed(proxy, topic, len(expected))) == expected


async def test_a_muted_throttle_lets_the_answer_pass_and_later_requests_wait(
    kafka: KafkaCluster, proxy_for: ProxyFor, dial: Dial
) -> None:
    kafka.create_topic("muted", partitions=3)
    rule = {"kind": "throttle", "throttle_time_ms": 2000, "muted": True, "match": {"api_key": "Produce"}}
    async with (
        proxy_for(kafka.bootstrap, faults=[rule]) as proxy,
        AIOKafkaProducer(bootstrap_servers=str(proxy.listen)) as producer,
    ):
        first, _ = await seconds(producer.send_and_wait("muted", b"a", partition=0))
        second, _ = await seconds(producer.send_and_wait("muted", b"b", partition=0))
    assert first < 1.8 < second


@pytest.mark.parametrize("how", ["killed", "powered_off"])
async def test_a_broker_that_is_down_has_no_partitions_and_comes_back(
    kafka3: KafkaCluster, proxy_for: ProxyFor, how: str
) -> None:
    topic = f"down-{how.replace('_', '-')}"
    kafka3.create_topic(topic, partitions=3)
    gone = kafka3.leader(topic, 0)
    async with (
        proxy_for(kafka3.bootstrap) as proxy,
        AIOKafkaProducer(
            bootstrap_servers=str(proxy.listen),
            enable_idempotence=True,
            request_timeout_ms=9000,
            metadata_max_age_ms=500,
        ) as producer,
    ):
        await producer.send_and_wait(topic, b"before", partition=0)
        started = time.monotonic()
        await add(proxy, name="down", kind="broker_down", node_id=gone, how=how, trigger={"for_ms": 1500})
        # uvloop closes a connection that was reset a turn before aiokafka hears of it; what aiokafka writes in that
        # turn ends its sender for good. A worker's reset may come as late as the answer that the rule was added.
        await asyncio.sleep(0.2)
        metadata = await producer.send_and_wait(topic, b"after", partition=0)
    assert time.monotonic() - started >= 1.5
    assert metadata.offset == 1
