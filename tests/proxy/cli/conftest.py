"""The proxy that the commands talk to: the one of the API's tests."""

from tests.proxy.admin.conftest import proxy

__all__ = ["proxy"]
