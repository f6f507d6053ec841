"""`truncate`: the answer ends in the middle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Close
from notleader.faults.base import Context, Fault
from notleader.faults.document import Bytes


class TruncateFault(Fault):
    """The connection is closed in order (FIN) after the first bytes of the request or of its answer.

    `before_broker`: the broker gets a torn request and never answers it. `after_broker`: the broker has carried the
    request out, and the client gets a torn answer. `reset` with `after_bytes` breaks the connection instead.
    """

    kind: Literal["truncate"] = "truncate"
    ends = "exchange"
    phase: Literal["before_broker", "after_broker"] = Field(
        "after_broker", description="Whether the request is torn, or the answer to it."
    )
    after_bytes: Bytes = Field(8, description="How many bytes still pass, length prefix included.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield Close(self.after_bytes)

    def on_response(self, context: Context) -> Iterable[Action]:
        yield Close(self.after_bytes)
