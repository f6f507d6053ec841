"""Work beside the event loop, in a thread that lets the loop have its turns."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Final, TypeVar

_Result = TypeVar("_Result")
_SWITCH_S: Final = 0.0002  # for which loop and thread may keep the interpreter from each other: ADR 0008


def share_interpreter() -> None:
    """Have threads that wait for the interpreter ask for it sooner than Python lets them by default."""
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))


async def aside(work: Callable[..., _Result], *arguments: object) -> _Result:
    """Do what takes milliseconds and changes nothing that the loop works with; raises what it raises."""
    share_interpreter()
    return await asyncio.to_thread(work, *arguments)
