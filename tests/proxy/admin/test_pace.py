"""Who polls in a tight loop waits; who does not, does not."""

from __future__ import annotations

import asyncio
import time

import httpx
from starlette.responses import PlainTextResponse

from notleader.proxy.admin.pace import Pace


async def ask(pace: Pace, times: int) -> float:
    """Seconds that so many requests at once take."""
    transport = httpx.ASGITransport(pace)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        started = time.monotonic()
        answers = await asyncio.gather(*(client.get("/") for _ in range(times)))
        assert {answer.status_code for answer in answers} == {200}
        return time.monotonic() - started


async def test_a_burst_passes_at_once_and_the_rest_at_the_pace() -> None:
    assert await ask(Pace(PlainTextResponse("ok"), requests_per_s=1, burst=20), 20) < 20
    assert await ask(Pace(PlainTextResponse("ok"), requests_per_s=50, burst=20), 40) >= 0.35


async def test_after_a_pause_there_is_a_burst_again() -> None:
    pace = Pace(PlainTextResponse("ok"), requests_per_s=5, burst=10)
    assert await ask(pace, 15) >= 0.9
    await asyncio.sleep(2)
    assert await ask(pace, 10) < 2
