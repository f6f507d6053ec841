"""`delay`: the exchange takes longer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Delay
from notleader.faults.base import Context, Fault
from notleader.faults.durations import Duration, drawn_ms


class DelayFault(Fault):
    """The request reaches the broker later (`before_broker`), or its answer the client (`after_broker`).

    Answers leave in the order of the requests: what is delayed holds back the later ones of its connection.
    """

    kind: Literal["delay"] = "delay"
    phase: Literal["before_broker", "after_broker"] = Field("before_broker", description="Which way is slow.")
    delay_ms: Duration = Field(description="How long: a number, or a distribution to draw each delay from.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield self._delay(context)

    def on_response(self, context: Context) -> Iterable[Action]:
        yield self._delay(context)

    def _delay(self, context: Context) -> Delay:
        return Delay(round(drawn_ms(self.delay_ms, context.random) * 1000))
