"""`reset`: the connection breaks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Reset
from notleader.faults.base import ConnectContext, Context, Fault
from notleader.faults.document import Bytes


class ResetFault(Fault):
    """The client's connection is reset (RST), as when a broker's host or a firewall in between gives it up.

    `before_broker`: in place of forwarding the request. `after_broker`: the request was applied, the answer is
    lost. `connection`: right after the client was accepted. With `after_bytes` the break comes in the middle of
    the request or the answer: that much of it still passes.
    """

    kind: Literal["reset"] = "reset"
    ends = "exchange"
    phase: Literal["before_broker", "after_broker", "connection"] = Field(
        "before_broker", description="At which step the connection breaks."
    )
    after_bytes: Bytes | None = Field(
        None, description="How many bytes of the request or answer (length included) pass before the break."
    )

    def on_connect(self, context: ConnectContext) -> Iterable[Action]:
        yield Reset()

    def on_request(self, context: Context) -> Iterable[Action]:
        yield Reset(self.after_bytes)

    def on_response(self, context: Context) -> Iterable[Action]:
        yield Reset(self.after_bytes)
