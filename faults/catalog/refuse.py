"""`refuse`: nobody listens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from notleader.faults.actions import Refuse, Standing
from notleader.faults.base import StandingFault


class RefuseFault(StandingFault):
    """The ports of the matching listeners refuse connections, as where no process listens; open ones live on.

    Name one broker by `node_id`, bootstrapping by `listener: bootstrap`, or nothing for all.
    """

    kind: Literal["refuse"] = "refuse"

    def of_listener(self) -> Iterable[Standing]:
        yield Refuse()
