"""How often the control plane may take a turn on the event loop that carries the traffic."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

REQUESTS_PER_S: Final = 20.0
BURST: Final = 200


class Pace:
    """ASGI middleware that lets a burst pass at once and what comes faster wait its turn; it refuses nothing.

    A request holds the loop for the better part of a millisecond, so at the default pace some hundredth of its time
    goes to whoever polls `/metrics` or `/v1` in a tight loop: p99 of the traffic hardly sees it.
    """

    def __init__(self, app: ASGIApp, requests_per_s: float = REQUESTS_PER_S, burst: int = BURST) -> None:
        self._app = app
        self._interval_s = 1 / requests_per_s
        self._credit_s = burst / requests_per_s
        self._booked_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        now = asyncio.get_running_loop().time()
        self._booked_until = max(self._booked_until, now) + self._interval_s
        wait_s = self._booked_until - now - self._credit_s
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        await self._app(scope, receive, send)
