"""`offset_lie`: ListOffsets says something else than the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Body, RewriteResponse
from notleader.faults.answers import top_key
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.faults.document import LARGEST_INT64
from notleader.proxy.wire.names import ApiKey


class OffsetLie(Fault):
    """ListOffsets answers name an offset `add` away from the true one, or `offset` itself; never below 0.

    What a replica does that lags behind, or was made leader without the newest records: an end before what the
    group has committed makes clients start over, or call their position out of range. For the error itself:
    `kind: error` with OFFSET_OUT_OF_RANGE on Fetch.
    """

    kind: Literal["offset_lie"] = "offset_lie"
    phase: Literal["after_broker"] = "after_broker"
    default_api_keys = frozenset((ApiKey.ListOffsets,))

    add: int = Field(
        0, ge=-LARGEST_INT64, le=LARGEST_INT64, description="How far from the true offset; negative is before it."
    )
    offset: int | None = Field(None, ge=0, le=LARGEST_INT64, description="The offset to name, whatever the true one.")
    asked: Literal["earliest", "latest", "any"] = Field(
        "latest", description="Which questions are answered wrongly: the log's begin, its end, or all."
    )

    def on_response(self, context: Context) -> Iterable[Action]:
        asked: dict[tuple[object, int], int] = {
            (top_key(entry.topic, entry.topic_id), entry.partition_index): entry.fields["timestamp"]
            for entry in context.request.partitions
        }
        answer = context.answer
        topics = [
            {
                **topic,
                "partitions": [
                    self._told(partition)
                    if self._means(context, topic["name"], partition["partition_index"], asked)
                    else partition
                    for partition in topic["partitions"]
                ],
            }
            for topic in answer["topics"]
        ]
        if topics == answer["topics"]:
            raise NotApplicableError("the answer names no offset that is meant")
        yield RewriteResponse({**answer, "topics": topics})

    def _means(self, context: Context, topic: str, index: int, asked: dict[tuple[object, int], int]) -> bool:
        hit = context.hit_partitions
        if hit is not None and (topic, index) not in hit:
            return False
        timestamp = asked.get((topic, index))
        # ListOffsets: -1 is the end, -2 the begin (KIP-79).
        return self.asked == "any" or timestamp == (-1 if self.asked == "latest" else -2)

    def _told(self, partition: Body) -> Body:
        if partition["error_code"]:
            return partition
        if "old_style_offsets" in partition:  # version 0: a list of offsets, newest first
            return {**partition, "old_style_offsets": [self._lie(each) for each in partition["old_style_offsets"]]}
        return {**partition, "offset": self._lie(partition["offset"])} if partition["offset"] >= 0 else partition

    def _lie(self, offset: int) -> int:
        return min(max(0, offset + self.add), LARGEST_INT64) if self.offset is None else self.offset
