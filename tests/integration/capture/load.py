"""A client that asks and asks: pipelined ApiVersions requests, and when each was answered."""

from __future__ import annotations

import asyncio
import time
from struct import unpack

from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.names import ApiKey
from tests.proxy.session.conversation import request


class Load:
    """``answered_s[n]`` is when (wall time, s) the answer to request ``n`` was here."""

    def __init__(self, address: Endpoint, pause_s: float = 0.001, client_id: str = "load") -> None:
        self._address = address
        self._pause_s = pause_s
        self._client_id = client_id
        self.answered_s: dict[int, float] = {}

    async def run(self, requests: int | None = None, seconds: float | None = None) -> None:
        """Ask until the connection breaks, or so often, or so long."""
        reader, writer = await asyncio.open_connection(*self._address)
        until = None if seconds is None else time.monotonic() + seconds
        number = 0
        try:
            while (requests is None or number < requests) and (until is None or time.monotonic() < until):
                writer.write(request(ApiKey.ApiVersions, 0, number, client_id=self._client_id))
                await writer.drain()
                (size,) = unpack(">i", await reader.readexactly(4))
                await reader.readexactly(size)
                self.answered_s[number] = time.time()
                number += 1
                await asyncio.sleep(self._pause_s)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
