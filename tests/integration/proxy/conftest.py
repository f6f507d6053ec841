"""A proxy inside the test's own loop, on uvloop as users run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import uvloop

from proxy.config import load
from proxy.server import Proxy

ProxyFor = Callable[..., AbstractAsyncContextManager[Proxy]]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
def proxy_for() -> ProxyFor:
    """``async with proxy_for(bootstrap, faults=[…]) as proxy``; ports are free ones."""

    @asynccontextmanager
    async def start(bootstrap: str, **settings: Any) -> AsyncIterator[Proxy]:
        proxy = Proxy(load({"kafka": bootstrap, "listen": "127.0.0.1:0", "admin": None, "seed": 7, **settings}))
        await proxy.start()
        try:
            yield proxy
        finally:
            await proxy.stop()

    return start
