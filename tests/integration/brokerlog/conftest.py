"""A proxy, for what keeps a reader from the log."""

from tests.integration.proxy.conftest import proxy_for, pytest_asyncio_loop_factories

__all__ = ["proxy_for", "pytest_asyncio_loop_factories"]
