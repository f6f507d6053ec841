"""`drop_request`: lost on the way to the broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Drop
from notleader.faults.base import Context, Fault


class DropRequest(Fault):
    """The request is swallowed: the broker never sees it, the client never gets an answer.

    Clients pair answers with requests by their order, so later answers of the connection wait behind the missing
    one until the client gives the connection up; `later: pass` lets them overtake, which no broker would do.
    """

    kind: Literal["drop_request"] = "drop_request"
    phase: Literal["before_broker"] = "before_broker"
    later: Literal["hold", "pass"] = Field("hold", description="What becomes of later answers of the connection.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield Drop(hold_later=self.later == "hold")
