"""How late an event loop is."""

from __future__ import annotations

import asyncio

from proxy.metrics import Counters


async def sample_loop_lag(counters: Counters, interval_s: float = 0.1) -> None:
    """Measure for ever how late the event loop wakes a sleeper, in µs, into `counters`."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        lag_us = max(0, int((loop.time() - due) * 1e6))
        counters.loop_lag_us = lag_us
        counters.loop_lag_max_us = max(counters.loop_lag_max_us, lag_us)
        counters.loop_lag_sum_us += lag_us
        counters.loop_ticks += 1
