"""Produce: of each partition the recorded outcomes in their order, and base offsets that follow one another."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

from notleader.faults.answers import Failure, blank, fields_at, refused_entry
from notleader.proxy.replay.choosing import Asked, nearest, next_of
from notleader.proxy.replay.exchange import Ending, Exchange, Told
from notleader.proxy.replay.log import Key, Log, count_of
from notleader.proxy.replay.reply import Answer, Source, ended, source_of, source_of_all
from notleader.proxy.wire.codec import Body, known_versions, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.records import iter_batches

_NEWEST: Final = known_versions(ApiKey.Produce)[-1]


class _Outcome(Told):
    """What a recorded Produce did to one of its partitions."""

    __slots__ = ()

    @property
    def was_appended(self) -> bool:
        """Whether the broker took it, as far as one knows."""
        return not self.answer["error_code"] if self.answer is not None else self.exchange.was_forwarded


class Produce:
    """Answers what producers send. What they send is acknowledged and not kept: Fetch hands out what was recorded."""

    def __init__(self, exchanges: Iterable[Exchange], log: Log, known: frozenset[Key]) -> None:
        """``known``: partitions of which Metadata has told, which take records though nobody had sent them any."""
        self._log = log
        self._known = known
        self._outcomes: defaultdict[Key, list[_Outcome]] = defaultdict(list)
        self._next: dict[Key, int] = {}
        """Where each partition goes on; at first, where the first recorded Produce wrote."""
        self._unplaced: Counter[Key] = Counter()
        self._sequences: dict[tuple[Key, int, int, int], int] = {}
        for exchange in exchanges:
            self._learn(exchange)

    def _learn(self, exchange: Exchange) -> None:
        told = {} if exchange.answer is None else _by_partition(exchange.answer["responses"], "partition_responses")
        for key, partition in _by_partition(exchange.request["topic_data"], "partition_data").items():
            if self._log.is_of_the_past(key[0], exchange.order):
                continue
            answer = told.get(key)
            outcome = _Outcome(exchange, answer)
            self._outcomes[key].append(outcome)
            records = partition["records"] or b""
            if outcome.was_appended and answer is not None and answer["base_offset"] >= 0:
                self._log.of(key).produced(answer["base_offset"], records, exchange.order)
                self._next.setdefault(key, max(answer["base_offset"] - self._unplaced[key], 0))
            elif outcome.was_appended:
                self._unplaced[key] += count_of(records)

    def answer(self, asked: Asked) -> Answer:
        """What a producer is told; nothing at acks=0."""
        body = blank(ApiKey.Produce, _NEWEST)
        sources: list[Source] = []
        latency_us = 0
        end: Answer | None = None
        for topic in asked.body["topic_data"]:
            told = []
            for partition in topic["partition_data"]:
                key = topic.get("name") or topic.get("topic_id"), partition["index"]
                outcome, source = self._outcome(asked, key)
                sources.append(source)
                told.append(self._told(key, partition, outcome, source))
                if outcome is None:
                    continue
                exchange = outcome.exchange
                if exchange.ending is not Ending.ANSWERED and (source is Source.REPEATED or not exchange.is_used):
                    exchange.is_used = True
                    end = ended(exchange, source is Source.REPEATED)
                elif exchange.answer is not None:
                    latency_us = max(latency_us, exchange.latency_us)
                    body["node_endpoints"] = exchange.answer.get("node_endpoints") or body.get("node_endpoints") or []
            body["responses"].append({**topic, "partition_responses": told})
        if asked.body["acks"] == 0:
            return Answer(None, source_of_all(sources))
        return end or Answer(body, source_of_all(sources), latency_us)

    def _outcome(self, asked: Asked, key: Any) -> tuple[_Outcome | None, Source]:
        found = self._outcomes.get(key)
        if not found:
            return None, Source.NOTHING
        alike = nearest(
            found, lambda one: (one.exchange.node_id == asked.node_id, one.exchange.client_id == asked.client_id)
        )
        outcome, is_again = next_of(alike)
        return outcome, source_of(is_again)

    def _told(self, key: Any, partition: Body, outcome: _Outcome | None, source: Source) -> Body:
        """One partition of the answer."""
        if outcome is None and key not in self._known:
            return _entry(partition["index"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if outcome is not None and not outcome.was_appended:
            return {**_entry(partition["index"], 0), **(outcome.answer or {})}
        recorded = -1
        if outcome is not None and outcome.answer is not None and source is Source.RECORDED:
            recorded = outcome.answer["base_offset"]
        told = {**_entry(partition["index"], 0), **((outcome and outcome.answer) or {})}
        return {**told, "base_offset": self._appended(key, partition["records"] or b"", recorded)}

    def _appended(self, key: Key, records: memoryview | bytes, recorded: int) -> int:
        """The offset of the first of these records; ``recorded`` is that of the exchange that answers, -1 for none.

        A batch with the producer id, epoch and sequence of one before is that one (KIP-98).
        """
        sequence = _sequence(records)
        if sequence is not None and (known := self._sequences.get((key, *sequence))) is not None:
            return known
        base = max(self._next.get(key, -1), recorded)
        if base < 0:
            base = self._log.of(key).end
        self._next[key] = base + count_of(records)
        if sequence is not None:
            self._sequences[key, *sequence] = base
        return base


def _sequence(records: memoryview | bytes) -> tuple[int, int, int] | None:
    """Producer id, epoch and sequence of the first batch; None where the producer is not idempotent."""
    try:
        batch = next(iter_batches(records), None)
    except WireError:
        return None
    if batch is None or batch.producer_id < 0:
        return None
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


def _entry(index: int, error_code: int) -> Body:
    fields = fields_at(response_codec(ApiKey.Produce, _NEWEST).fields, ("responses", "partition_responses"))
    return refused_entry(fields, {"index": index}, Failure(error_code))


def _by_partition(topics: Iterable[Body], partitions: str) -> dict[Any, Body]:
    return {
        (topic.get("name") or topic.get("topic_id"), one["index"]): one for topic in topics for one in topic[partitions]
    }
