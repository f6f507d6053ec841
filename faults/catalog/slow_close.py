"""`slow_close`: the end comes late."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Shape, Standing
from notleader.faults.base import StandingFault
from notleader.faults.document import SomeMilliseconds


class SlowClose(StandingFault):
    """What closes a matching connection, its broker or another fault, reaches the client `delay_ms` later.

    Meanwhile the client can write and is never answered, as when a FIN is lost and sent again.
    """

    kind: Literal["slow_close"] = "slow_close"

    delay_ms: SomeMilliseconds = Field(description="How much later the client is told.")

    def of_connection(self) -> Iterable[Standing]:
        yield Shape("response", close_delay_us=round(self.delay_ms * 1000))
