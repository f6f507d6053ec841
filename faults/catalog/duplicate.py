"""`duplicate`: the broker gets it twice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Duplicate
from notleader.faults.base import Context, Fault
from notleader.proxy.wire.names import ApiKey


class DuplicateFault(Fault):
    """The broker receives the request again, or its matching partitions; the client gets the first answer only.

    What a retry of the network looks like to a broker: without idempotence a Produce is appended twice, with it the
    broker recognises the sequence number.
    """

    kind: Literal["duplicate"] = "duplicate"
    phase: Literal["before_broker"] = "before_broker"
    default_api_keys = frozenset(
        (ApiKey.Produce, ApiKey.OffsetCommit, ApiKey.AddPartitionsToTxn, ApiKey.TxnOffsetCommit, ApiKey.EndTxn)
    )

    copies: int = Field(1, ge=1, le=100, description="How often the broker gets it besides.")

    def on_request(self, context: Context) -> Iterable[Action]:
        yield Duplicate(self.copies, context.keys)
