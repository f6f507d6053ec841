"""`blackhole`: packets vanish."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Silence, Standing
from notleader.faults.base import StandingFault
from notleader.faults.document import Milliseconds


class Blackhole(StandingFault):
    """The matching listeners and connections fall silent without FIN or RST, as behind a firewall that drops.

    New connections hang in SYN; established ones neither send nor take anything. When the rule goes: `immediate`
    carries on where it stopped, `delayed` does so after another TCP retransmission, as a lifted firewall rule does,
    `discard` resets what was silent, as a host that has rebooted.
    """

    kind: Literal["blackhole"] = "blackhole"

    established: bool = Field(True, description="Whether connections that are open fall silent.")
    new: bool = Field(True, description="Whether new connections get no answer.")
    release: Literal["discard", "immediate", "delayed"] = Field("immediate", description="What happens at the end.")
    release_delay_ms: Milliseconds = Field(3000, description="How much later `delayed` carries on.")

    def of_listener(self) -> Iterable[Standing]:
        if self.new:
            yield self._silence()

    def of_connection(self) -> Iterable[Standing]:
        if self.established:
            yield self._silence()

    def _silence(self) -> Silence:
        delay_us = round(self.release_delay_ms * 1000) if self.release == "delayed" else 0
        return Silence(drop_packets=True, release=self.release, release_delay_us=delay_us)
