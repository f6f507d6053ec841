"""`throttle`: the broker says that the client is over its quota."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Mute, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError


class ThrottleFault(Fault):
    """The answer names a `throttle_time_ms`, and with `muted` the connection is then not read for that long.

    Brokers from 2.0 on answer at once and mute (KIP-219); a client that sends all the same isn't heard until the
    time is over. A version without the field can't be throttled.
    """

    kind: Literal["throttle"] = "throttle"
    phase: Literal["after_broker"] = "after_broker"
    throttle_time_ms: int = Field(ge=1, le=2**31 - 1, description="What the answer says.")
    muted: bool = Field(False, description="Whether the connection is muted for that time.")

    def on_response(self, context: Context) -> Iterable[Action]:
        assert context.response is not None
        if all(found.name != "throttle_time_ms" for found in context.response.codec.fields):
            raise NotApplicableError("this version of the answer has no throttle_time_ms")
        yield RewriteResponse({**context.answer, "throttle_time_ms": self.throttle_time_ms})
        if self.muted:
            yield Mute(self.throttle_time_ms * 1000)
