"""`limit`: the connection ends after so many bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Shape, Standing
from notleader.faults.base import StandingFault
from notleader.faults.document import Bytes


class Limit(StandingFault):
    """The matching connections are closed once so many bytes have passed since the rule began to touch them."""

    kind: Literal["limit"] = "limit"

    limit_bytes: Bytes = Field(description="How many bytes still pass, in each direction on its own.")
    direction: Literal["request", "response", "both"] = Field("both", description="Which way is counted.")

    def of_connection(self) -> Iterable[Standing]:
        for direction in ("request", "response"):
            if self.direction in (direction, "both"):
                yield Shape(direction, limit_bytes=self.limit_bytes)
