"""`corrupt`: bytes change on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from notleader.faults.actions import Action, Body, Outcome, RewriteRequest, RewriteResponse
from notleader.faults.answers import partition_key, top_key
from notleader.faults.base import Context, Fault, NotApplicableError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.records import BatchHeader, crc_of, iter_batches

_Part = Literal["crc", "records", "length", "compression"]
# Where things are in a batch (format v2, KIP-98) and in a message of the formats before it.
_LENGTH_OFFSET = 8
_CRC_OFFSET = {0: 12, 1: 12, 2: 17}
_ATTRIBUTES_OFFSET = {0: 17, 1: 17, 2: 22}
_UNKNOWN_CODEC = 0x07


class CorruptFault(Fault):
    """The record batches of the matching partitions are damaged: of a Produce (`before_broker`) or a Fetch answer.

    A broker finds the damage and refuses (CORRUPT_MESSAGE, 2); a consumer should, where it checks the CRC. `length`
    makes the first batch claim one byte more than it has, `compression` names a codec that doesn't exist, under a
    checksum that is right.
    """

    kind: Literal["corrupt"] = "corrupt"
    phase: Literal["before_broker", "after_broker"] = Field(
        "after_broker", description="Whether a Produce is damaged, or what a Fetch gets."
    )
    reads_request = True
    default_api_keys = frozenset((ApiKey.Produce, ApiKey.Fetch))

    part: _Part = Field("crc", description="What is damaged: the checksum, the records, the length or the codec.")

    @property
    def acts_on(self) -> frozenset[int]:
        return frozenset({int(ApiKey.Produce if self.phase == "before_broker" else ApiKey.Fetch)})

    def on_request(self, context: Context) -> Iterable[Outcome]:
        keys = None if context.partitions is None else {partition_key(entry) for entry in context.partitions}
        body = context.body
        yield RewriteRequest({**body, "topic_data": self._topics(body["topic_data"], "partition_data", keys)})

    def on_response(self, context: Context) -> Iterable[Action]:
        answer = context.answer
        yield RewriteResponse(
            {**answer, "responses": self._topics(answer["responses"], "partitions", context.hit_partitions)}
        )

    def _topics(self, topics: list[Body], array: str, keys: Iterable[object] | None) -> list[Body]:
        wanted = None if keys is None else set(keys)
        damaged = []
        found_any = False
        for topic in topics:
            above = top_key(topic.get("name") or topic.get("topic"), topic.get("topic_id"))
            partitions = []
            for partition in topic[array]:
                index = partition["index"] if "index" in partition else partition["partition_index"]
                if partition.get("records") and (wanted is None or (above, index) in wanted):
                    found_any = True
                    partition = {**partition, "records": self._damaged(partition["records"])}
                partitions.append(partition)
            damaged.append({**topic, array: partitions})
        if not found_any:
            raise NotApplicableError("there are no records to damage")
        return damaged

    def _damaged(self, records: bytes | memoryview) -> bytes:
        damaged = bytearray(records)
        batches = list(iter_batches(records))
        if not batches:
            raise NotApplicableError("the records hold no whole batch")
        for batch in batches[:1] if self.part == "length" else batches:
            self._damage(damaged, batch)
        return bytes(damaged)

    def _damage(self, records: bytearray, batch: BatchHeader) -> None:
        if self.part == "crc":
            records[batch.start + _CRC_OFFSET[batch.magic]] ^= 0xFF
        elif self.part == "records":
            records[batch.start + batch.size - 1] ^= 0xFF
        elif self.part == "length":
            place = slice(batch.start + _LENGTH_OFFSET, batch.start + _LENGTH_OFFSET + 4)
            records[place] = (int.from_bytes(records[place], "big") + 1).to_bytes(4, "big")
        else:
            records[batch.start + _ATTRIBUTES_OFFSET[batch.magic]] |= _UNKNOWN_CODEC
            place = slice(batch.start + _CRC_OFFSET[batch.magic], batch.start + _CRC_OFFSET[batch.magic] + 4)
            records[place] = crc_of(bytes(records), batch).to_bytes(4, "big")
