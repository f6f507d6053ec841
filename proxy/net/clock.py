"""The time on which everything is decided and recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from notleader.proxy import pump


class Clock:
    """Microseconds since the epoch that never run backwards: wall time once, monotonic from there."""

    def __init__(self, offset_ns: int | None = None) -> None:
        self.offset_ns = time.time_ns() - time.monotonic_ns() if offset_ns is None else offset_ns

    def now_us(self) -> int:
        """The time."""
        return (time.monotonic_ns() + self.offset_ns) // 1000


if not TYPE_CHECKING and pump.IS_NATIVE:
    Clock = pump.native.Clock
