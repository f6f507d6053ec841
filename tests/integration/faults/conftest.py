"""The same proxy as in tests/integration/proxy, and how the tests here change its plan."""

from __future__ import annotations

from typing import Any

from notleader.faults.schema import parse_fault_document
from notleader.proxy.net.server import Proxy
from tests.integration.proxy.conftest import proxy_for, pytest_asyncio_loop_factories, settled

__all__ = ["add", "proxy_for", "pytest_asyncio_loop_factories", "remove"]


async def add(proxy: Proxy, **fault: Any) -> None:
    """Put a fault in force now."""
    proxy.plan.replace(fault["name"], parse_fault_document(fault), proxy.now_us())
    proxy.plan_changed()
    await settled(proxy)


async def remove(proxy: Proxy, name: str) -> None:
    """Take a fault out now."""
    proxy.plan.remove(name)
    proxy.plan_changed()
    await settled(proxy)
