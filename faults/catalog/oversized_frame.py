"""`oversized_frame`: an answer of absurd length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, AnswerRaw
from notleader.faults.base import Context, Fault


class OversizedFrame(Fault):
    """In place of the answer the client gets a length that no frame has, and then nothing, or the end.

    The default is what a TLS alert (15 03 03 00) is for a client that expects a frame: 352 million bytes to come.
    """

    kind: Literal["oversized_frame"] = "oversized_frame"
    ends = "exchange"
    phase: Literal["before_broker", "after_broker"] = Field(
        "before_broker", description="Whether the broker gets the request at all."
    )
    length: int = Field(0x15030300, ge=-(2**31), le=2**31 - 1, description="The length, as a signed 32-bit number.")
    close: bool = Field(False, description="Whether the connection is closed behind it, or stays open and silent.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield self._answer()

    def on_response(self, context: Context) -> Iterable[Action]:
        yield self._answer()

    def _answer(self) -> AnswerRaw:
        return AnswerRaw(self.length.to_bytes(4, "big", signed=True), self.close)
