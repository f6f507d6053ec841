"""`slice`: bytes come in crumbs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Shape, Standing
from notleader.faults.base import StandingFault
from notleader.faults.document import YEAR_MS, Bytes, SomeBytes


class Slice(StandingFault):
    """What passes the matching connections is cut into small pieces with a pause behind each.

    Frames arrive in any number of reads, torn anywhere, as TCP may do but rarely does on a fast network.
    """

    kind: Literal["slice"] = "slice"

    average_bytes: SomeBytes = Field(64, description="Mean size of a piece.")
    variation_bytes: Bytes = Field(0, description="How far above or below that a piece may be.")
    delay_us: int = Field(0, ge=0, le=1000 * YEAR_MS, description="Pause behind each piece.")
    direction: Literal["request", "response", "both"] = Field("both", description="Which way is cut.")

    def of_connection(self) -> Iterable[Standing]:
        for direction in ("request", "response"):
            if self.direction in (direction, "both"):
                yield Shape(
                    direction,
                    slice_bytes=self.average_bytes,
                    slice_variation_bytes=min(self.variation_bytes, self.average_bytes - 1),
                    slice_delay_us=self.delay_us,
                )
