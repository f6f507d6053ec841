"""How late an event loop is."""

from __future__ import annotations

import asyncio
from typing import Final

from proxy.metrics import Counters

_INTERVAL_S: Final = 0.1
_RESTING_S: Final = 1.0


async def sample_loop_lag(counters: Counters) -> None:
    """Measure for ever how late the event loop wakes a sleeper, in µs, into `counters`.

    Ten times a second, and once while nothing passes: to wake an idle core is what the proxy then costs.
    """
    loop = asyncio.get_running_loop()
    passed = -1
    while True:
        before, passed = passed, counters.client_bytes + counters.broker_bytes
        interval_s = _RESTING_S if passed == before else _INTERVAL_S
        due = loop.time() + interval_s
        await asyncio.sleep(interval_s)
        lag_us = max(0, int((loop.time() - due) * 1e6))
        counters.loop_lag_us = lag_us
        counters.loop_lag_max_us = max(counters.loop_lag_max_us, lag_us)
        counters.loop_lag_sum_us += lag_us
        counters.loop_ticks += 1
