"""Fetch: recorded records by offset, and once each what else became of a recorded Fetch from there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from notleader.faults.answers import Failure, blank, refused_entry
from notleader.faults.partial import fetched_fields
from notleader.proxy.replay.choosing import Asked
from notleader.proxy.replay.exchange import Exchange
from notleader.proxy.replay.log import Batch, Key, Log
from notleader.proxy.replay.reply import Answer, Source, ended, source_of_any
from notleader.proxy.wire.codec import Body, known_versions
from notleader.proxy.wire.enums import ApiKey, ErrorCode

_NEWEST: Final = known_versions(ApiKey.Fetch)[-1]
_READ_COMMITTED: Final = 1
_MOST_BYTES: Final = 0x7FFFFFFF
_FROM_THERE: Final = frozenset((ErrorCode.OFFSET_OUT_OF_RANGE,))
"""Errors that are about the very offset; others are met by whoever gets as far."""


@dataclass(slots=True, eq=False)
class _Mishap:
    """A recorded Fetch of this partition that was refused, not answered, or answered with a batch that is damaged.

    That one is met by who asks for an offset of it; ``last`` is its last.
    """

    exchange: Exchange
    offset: int
    answer: Body | None
    last: int | None = None

    def meets(self, asked: Asked, offset: int) -> bool:
        """Whether a consumer that asks for this offset is to meet it."""
        if self.exchange.node_id != asked.node_id:
            return False
        if self.answer is not None and self.answer["error_code"] in _FROM_THERE:
            return offset == self.offset
        if self.last is not None:
            return self.offset <= offset <= self.last
        return offset >= self.offset

    @property
    def records(self) -> Body:
        """The records of the answer: none with an error, as the broker sent them where one of them is damaged."""
        return {} if self.last is not None else {"records": b""}


class Fetch:
    """Answers consumers, without fetch sessions: the session id is always 0 (KIP-227)."""

    def __init__(self, exchanges: Iterable[Exchange], log: Log, known: frozenset[Key]) -> None:
        """``known``: partitions of which Metadata has told; they are empty where nothing of them was recorded."""
        self._log = log
        self._known = known
        self._mishaps: defaultdict[Key, list[_Mishap]] = defaultdict(list)
        self._handed_out: set[tuple[Key, int]] = set()
        for exchange in exchanges:
            self._learn(exchange)

    def _learn(self, exchange: Exchange) -> None:
        offsets: dict[Key, int] = exchange.request["fetch_offsets"]
        if exchange.answer is None:
            for key, offset in offsets.items():
                self._mishaps[key].append(_Mishap(exchange, offset, None))
            return
        held_us = max(exchange.latency_us - exchange.request["max_wait_ms"] * 1000, 0)
        for topic in exchange.answer["responses"]:
            for partition in topic["partitions"]:
                key = topic.get("topic") or topic.get("topic_id"), partition["partition_index"]
                if self._log.is_of_the_past(key[0], exchange.order):
                    continue
                log = self._log.of(key)
                if partition["error_code"]:
                    self._mishaps[key].append(_Mishap(exchange, offsets.get(key, 0), partition))
                elif partition["high_watermark"] >= 0:
                    log.told_end = partition["high_watermark"]
                for batch in log.fetched(partition["records"] or b"", held_us):
                    if not batch.is_whole:
                        self._mishaps[key].append(_Mishap(exchange, batch.first, partition, batch.last))

    def answer(self, asked: Asked) -> Answer:
        """Records where there are some, what went wrong where something did, else nothing once the wait is over."""
        request = asked.body
        body = blank(ApiKey.Fetch, _NEWEST)
        if request.get("session_epoch", -1) > 0:
            body["error_code"] = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            return Answer(body, Source.NOTHING)
        sources: set[Source] = set()
        latency_us, left = 0, request.get("max_bytes", _MOST_BYTES)
        for topic in request["topics"]:
            told = []
            for asked_partition in topic["partitions"]:
                key = topic.get("topic") or topic.get("topic_id"), asked_partition["partition"]
                mishap = self._mishap(asked, key, asked_partition["fetch_offset"])
                if mishap is not None and mishap.answer is None:
                    mishap.exchange.is_used = True
                    return ended(mishap.exchange, False)
                if mishap is not None:
                    latency_us = max(latency_us, mishap.exchange.latency_us)
                    body["node_endpoints"] = (mishap.exchange.answer or {}).get("node_endpoints") or []
                    sources.add(Source.RECORDED)
                    told.append({**_entry(key, 0), **(mishap.answer or {}), **mishap.records})
                    continue
                entry, batches = self._read(key, asked_partition, left, request.get("isolation_level", 0))
                told.append(entry)
                left -= sum(len(batch.data) for batch in batches)
                latency_us = max([latency_us, *(batch.held_us for batch in batches)])
                sources.add(self._source(key, batches, entry))
            body["responses"].append({**topic, "partitions": told})
        is_empty = not any(
            one["error_code"] or one["records"] for topic in body["responses"] for one in topic["partitions"]
        )
        return Answer(body, source_of_any(sources), latency_us, request["max_wait_ms"] * 1000 if is_empty else 0)

    def _mishap(self, asked: Asked, key: Any, offset: int) -> _Mishap | None:
        """What this consumer is to meet now, if anything; it meets it once."""
        waiting = self._mishaps.get(key, [])
        for mishap in waiting:
            if mishap.meets(asked, offset):
                waiting.remove(mishap)
                if mishap.last is not None and not self._log.of(key).is_whole(mishap.offset):
                    return self._mishap(asked, key, offset)  # it is all that there is
                if mishap.answer is None and mishap.exchange.is_used:
                    return self._mishap(asked, key, offset)  # met when another partition of it was asked for
                return mishap
        return None

    def _read(self, key: Any, asked: Body, left: int, isolation_level: int) -> tuple[Body, list[Batch]]:
        log = self._log.partitions.get(key)
        if log is None:
            code = 0 if key in self._known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return _entry(key, code, high_watermark=0, last_stable_offset=0, log_start_offset=0), []
        bounds = {"high_watermark": log.end, "last_stable_offset": log.end, "log_start_offset": log.start}
        offset = asked["fetch_offset"]
        if not log.start <= offset <= log.end:
            return _entry(key, ErrorCode.OFFSET_OUT_OF_RANGE, **bounds), []
        batches = log.read(offset, min(asked["partition_max_bytes"], left)) if left > 0 else []
        aborted = log.aborted(batches[0].first, batches[-1].last) if batches else []
        entry = _entry(key, 0, **bounds)
        entry["records"] = b"".join(batch.data for batch in batches)
        told = [{"producer_id": one.producer_id, "first_offset": one.first} for one in aborted]
        entry["aborted_transactions"] = told if isolation_level == _READ_COMMITTED else None
        return entry, batches

    def _source(self, key: Any, batches: list[Batch], entry: Body) -> Source:
        if entry["error_code"]:
            return Source.NOTHING
        new = {(key, batch.first) for batch in batches} - self._handed_out
        self._handed_out |= new
        return Source.RECORDED if new else Source.REPEATED


def _entry(key: Any, error_code: int, **values: int) -> Body:
    return {**refused_entry(fetched_fields(_NEWEST), {"partition_index": key[1]}, Failure(error_code)), **values}
