"""`bandwidth`: a thin line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Shape, Standing
from notleader.faults.base import StandingFault
from notleader.faults.document import SomeBytes


class Bandwidth(StandingFault):
    """The matching connections pass no more than so many bytes a second, towards the broker, the client, or both."""

    kind: Literal["bandwidth"] = "bandwidth"

    rate_bytes_per_s: SomeBytes = Field(description="Bytes a second, for each connection and direction on its own.")
    direction: Literal["request", "response", "both"] = Field("both", description="Which way is slow.")

    def of_connection(self) -> Iterable[Standing]:
        if self.direction != "response":
            yield Shape("request", bytes_per_s=self.rate_bytes_per_s)
        if self.direction != "request":
            yield Shape("response", bytes_per_s=self.rate_bytes_per_s)
