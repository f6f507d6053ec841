"""`stall`: nothing moves, until somebody lets go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Hold
from notleader.faults.base import Context, Fault
from notleader.faults.document import SomeMilliseconds


class StallFault(Fault):
    """The request (`before_broker`) or its answer (`after_broker`) is held until the rule is released or removed.

    With `for_ms` it goes on by itself after that time. Answers leave in the order of the requests: later ones of
    the connection wait behind it.
    """

    kind: Literal["stall"] = "stall"
    phase: Literal["before_broker", "after_broker"] = Field(
        "after_broker", description="Whether the request is held, or the answer to it."
    )
    for_ms: SomeMilliseconds | None = Field(None, description="Goes on after this time; else when released or removed.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield self._hold(context)

    def on_response(self, context: Context) -> Iterable[Action]:
        yield self._hold(context)

    def _hold(self, context: Context) -> Hold:
        until_us = None if self.for_ms is None else context.now_us + round(self.for_ms * 1000)
        return Hold(context.rule_name, until_us, context.rule_number)
