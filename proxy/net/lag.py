"""How late an event loop is."""

from __future__ import annotations

import asyncio

from notleader.proxy.session.metrics import Counters


async def sample_loop_lag(counters: Counters, interval_s: float = 0.1, resting_s: float = 1.0) -> None:
    """Measure for ever how late the event loop wakes a sleeper, in µs, into `counters`.

    Only every ``resting_s`` while nothing passes: waking an idle core is what the proxy then costs.
    """
    loop = asyncio.get_running_loop()
    passed = -1
    while True:
        before, passed = passed, counters.traffic.client_bytes + counters.traffic.broker_bytes
        pause_s = resting_s if passed == before else interval_s
        due = loop.time() + pause_s
        await asyncio.sleep(pause_s)
        lag_us = max(0, int((loop.time() - due) * 1e6))
        counters.loop_lag_us = lag_us
        counters.loop_lag_max_us = max(counters.loop_lag_max_us, lag_us)
        counters.loop_lag_sum_us += lag_us
        counters.loop_ticks += 1
