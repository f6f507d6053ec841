"""`reorder`: the answer speaks of its partitions in another order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from notleader.faults.actions import Action, Body, RewriteResponse
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.proxy.wire.names import ApiKey


class Reorder(Fault):
    """The topics of an answer, and the partitions of each, come in reverse order: no broker promises any.

    A client that pairs answers with what it asked for by position takes one partition's result for another's.
    """

    kind: Literal["reorder"] = "reorder"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset(
        (
            ApiKey.Produce,
            ApiKey.Fetch,
            ApiKey.ListOffsets,
            ApiKey.Metadata,
            ApiKey.OffsetCommit,
            ApiKey.OffsetFetch,
            ApiKey.OffsetForLeaderEpoch,
            ApiKey.TxnOffsetCommit,
            ApiKey.DeleteRecords,
        )
    )

    def on_response(self, context: Context) -> Iterable[Action]:
        answer = context.answer
        reversed_answer = {**answer, **_reversed(answer)}
        if "groups" in answer:  # OffsetFetch from version 8 on
            reversed_answer["groups"] = [{**group, **_reversed(group)} for group in reversed(answer["groups"])]
        if reversed_answer == answer:
            raise NotApplicableError("the answer has nothing to reorder")
        yield RewriteResponse(reversed_answer)


def _reversed(holder: Body) -> Body:
    found = {}
    for array in ("responses", "topics"):
        if holder.get(array):
            found[array] = [_topic(topic) for topic in reversed(holder[array])]
    return found


def _topic(topic: Body) -> Body:
    arrays = ("partitions", "partition_responses")
    return {**topic, **{name: topic[name][::-1] for name in arrays if topic.get(name)}}
