"""Work beside the event loop, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")


async def aside(work: Callable[..., _Result], *arguments: object) -> _Result:
    """Do what takes milliseconds and changes nothing that the loop works with; raises what it raises."""
    return await asyncio.to_thread(work, *arguments)
