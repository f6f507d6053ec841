"""`close`: the broker hangs up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Close
from notleader.faults.base import ConnectContext, Context, Fault


class CloseFault(Fault):
    """The connection is closed in order (FIN) in place of forwarding the request, answering it or greeting the client.

    `before_broker`: the request is lost. `after_broker`: it was applied, the answer is lost. `connection`:
    right after the client was accepted.
    """

    kind: Literal["close"] = "close"
    ends = "exchange"
    phase: Literal["before_broker", "after_broker", "connection"] = Field(
        "before_broker", description="At which step the connection is closed."
    )

    def on_connect(self, context: ConnectContext) -> Iterable[Action]:
        yield Close()

    def on_request(self, context: Context) -> Iterable[Action]:
        yield Close()

    def on_response(self, context: Context) -> Iterable[Action]:
        yield Close()
