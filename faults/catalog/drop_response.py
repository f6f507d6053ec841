"""`drop_response`: applied, but the client never hears of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Drop
from notleader.faults.base import Context, Fault


class DropResponse(Fault):
    """The broker applies the request and answers, and the answer is thrown away: the client can't know what happened.

    Clients pair answers with requests by their order, so later answers of the connection wait behind the
    lost one until the client gives the connection up; `later: pass` lets them overtake, which no broker
    would do.
    """

    kind: Literal["drop_response"] = "drop_response"
    ends = "exchange"
    phase: Literal["after_broker"] = "after_broker"
    later: Literal["hold", "pass"] = Field("hold", description="What becomes of later answers of the connection.")

    def on_response(self, context: Context) -> Iterable[Action]:
        yield Drop(hold_later=self.later == "hold")
