"""A listener that refuses, falls silent and comes back, as a client's kernel sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from notleader.proxy.lab.ports import free_ports
from notleader.proxy.net.directory import Directory, Fate, Listener
from notleader.proxy.wire.endpoint import Endpoint


@pytest.fixture
async def directory() -> AsyncIterator[Directory]:
    """A directory whose listeners accept and say hello."""

    class Hello(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            cast(asyncio.Transport, transport).write(b"hello")

    tasks: set[asyncio.Task[None]] = set()

    def accept(listener: Listener) -> None:
        tasks.add(asyncio.get_running_loop().create_task(listener.serve(Hello)))

    directory = Directory(Endpoint("127.0.0.1", 0), None, accept)
    directory.open_bootstrap(0)
    yield directory
    directory.close()
    await asyncio.gather(*tasks)


async def greeting(listener: Listener, timeout_s: float = 30) -> bytes:
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*listener.address)
    try:
        async with asyncio.timeout(timeout_s):
            return await reader.readexactly(5)
    finally:
        writer.close()


async def test_a_listener_through_all_its_fates_and_back(directory: Directory) -> None:
    entry = directory.endpoint(4, "real", 9092)
    listener = directory.listeners[4]
    assert entry.listen_port == listener.port

    async def become(fate: Fate) -> None:
        listener.fate = fate
        listener.update()
        await asyncio.sleep(0.01)

    assert await greeting(listener) == b"hello"
    for _ in range(2):
        await become("refusing")
        with pytest.raises(ConnectionRefusedError):
            await greeting(listener)
        await become("silent")
        with pytest.raises(TimeoutError):
            await greeting(listener, timeout_s=1)
        await become("open")
        assert await greeting(listener) == b"hello"
    assert listener.port == entry.listen_port


async def test_a_port_that_refuses_is_never_free(directory: Directory) -> None:
    """A socket that is closed and made anew may lose its port to somebody's connection in between."""
    listener = directory.listeners[None]
    fates: list[Fate] = ["refusing", "open", "refusing", "open"]
    for fate in fates:
        kept = listener.socket
        listener.fate = fate
        listener.update()
        assert listener.socket is kept
        assert listener.socket.getsockname()[1] == listener.port


async def test_a_broker_that_leaves_is_refused_and_keeps_its_port(directory: Directory) -> None:
    port = directory.endpoint(1, "real", 9092).listen_port
    directory.endpoint(2, "real", 9093)
    directory.seen({2})
    with pytest.raises(ConnectionRefusedError):
        await greeting(directory.listeners[1])
    assert await greeting(directory.listeners[2]) == b"hello"
    directory.seen({1, 2})
    await asyncio.sleep(0.01)
    assert await greeting(directory.listeners[1]) == b"hello"
    assert directory.endpoint(1, "elsewhere", 9092).listen_port == port
    assert directory.brokers[1].host == "elsewhere"


async def test_a_taken_port_is_an_error_at_start_and_passed_over_later(directory: Directory) -> None:
    taken = directory.listeners[None].port
    other = Directory(Endpoint("127.0.0.1", 0), [taken], lambda listener: None)
    with pytest.raises(OSError, match=f"broker 1: can't listen on 127.0.0.1:{taken}: .*, with --broker-ports"):
        other.endpoint(1, "real", 9092, strict=True)
    other = Directory(Endpoint("127.0.0.1", 0), [taken], lambda listener: None)
    assert other.endpoint(1, "real", 9092).listen_port != taken
    other.close()


async def test_no_broker_gets_the_port_of_the_http_api_unless_it_is_asked_for() -> None:
    bootstrap, admin, after = free_ports(3)
    for ports, wanted in ((None, after), ([admin], admin)):
        directory = Directory(Endpoint("127.0.0.1", bootstrap), ports, lambda listener: None, spared_port=admin)
        directory.open_bootstrap(bootstrap)
        try:
            assert directory.endpoint(1, "real", 9092).listen_port == wanted
        finally:
            directory.close()
