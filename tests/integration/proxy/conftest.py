"""A proxy inside the test's own loop, on uvloop as users run it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvloop

from notleader.proxy.config.settings import Settings, load
from notleader.proxy.control.workers.control import ControlPlane
from notleader.proxy.net.server import Proxy

ProxyFor = Callable[..., AbstractAsyncContextManager[Proxy]]
WORKERS = int(os.environ.get("NOTLEADER_TEST_WORKERS", "1"))
"""How many processes the proxies of the tests have: `make test-workers` runs the same tests with two."""


def proxy_of(settings: Settings) -> Proxy:
    """The proxy that these settings ask for, in one process or in several."""
    return ControlPlane(settings) if settings.workers > 1 else Proxy(settings)


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


async def settled(proxy: Proxy) -> None:
    """Every process of the proxy has done what it was told."""
    if isinstance(proxy, ControlPlane):
        await proxy.settled()


async def told(proxy: Proxy) -> Proxy:
    """The proxy, once it knows what every process of it has counted, and its connections."""
    if isinstance(proxy, ControlPlane):
        await proxy.gather(connections=True)
    return proxy


@pytest.fixture
def proxy_for() -> ProxyFor:
    """``async with proxy_for(bootstrap, faults=[…]) as proxy``; ports are free ones."""

    @asynccontextmanager
    async def start(bootstrap: str, **settings: Any) -> AsyncIterator[Proxy]:
        quiet = {"listen": "127.0.0.1:0", "admin": None, "seed": 7, "workers": WORKERS}
        proxy = proxy_of(load({"kafka": bootstrap, **quiet, **settings}))
        await proxy.start()
        try:
            yield proxy
        finally:
            await proxy.stop()

    return start
