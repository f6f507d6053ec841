"""The steps of a timeline, taken when they are due."""

import asyncio
from collections.abc import Callable

from notleader.faults.plan import Plan
from notleader.faults.timeline import Timeline

_LOOK_S = 0.02  # steps that wait for hits are looked at this often: a hit does not wake anybody


async def play(
    timeline: Timeline,
    plan: Plan,
    now_us: Callable[[], int],
    changed: Callable[[], None],
    in_force: Callable[[], Timeline | None],
) -> None:
    """Run a timeline from now on, until its last step or until another is in force. ``changed`` follows each step."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while in_force() is timeline and not timeline.finished:
        elapsed_ms = (loop.time() - started) * 1000
        if timeline.run_due(plan, elapsed_ms, now_us()):
            changed()
        wake_ms = timeline.next_wake_ms(elapsed_ms)
        pause_s = _LOOK_S if wake_ms is None else min(max((wake_ms - elapsed_ms) / 1000, 0.001), _LOOK_S)
        await asyncio.sleep(pause_s)
