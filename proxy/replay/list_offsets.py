"""ListOffsets: as recorded for who asked then, else what the recorded records say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from notleader.faults.answers import Failure, blank, fields_at, refused_entry
from notleader.proxy.replay.choosing import Asked
from notleader.proxy.replay.exchange import Exchange, Told
from notleader.proxy.replay.log import Key, Log, PartitionLog
from notleader.proxy.replay.reply import Answer, Source, ended, source_of_any
from notleader.proxy.wire.codec import Body, known_versions, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode

_NEWEST: Final = known_versions(ApiKey.ListOffsets)[-1]
LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL = -1, -2, -3, -4
"""What stands for a timestamp (KIP-79, KIP-734, KIP-405)."""


class ListOffsets:
    """Answers with offsets at which Fetch has something, or will not refuse to wait."""

    def __init__(self, exchanges: Iterable[Exchange], log: Log, known: frozenset[Key]) -> None:
        """``known``: partitions of which Metadata has told; they are empty where nothing of them was recorded."""
        self._log = log
        self._known = known
        self._told: defaultdict[tuple[Any, int], list[Told]] = defaultdict(list)
        for exchange in exchanges:
            self._learn(exchange)

    def _learn(self, exchange: Exchange) -> None:
        told = {} if exchange.answer is None else _by_partition(exchange.answer)
        for key, partition in _by_partition(exchange.request).items():
            answer = told.get(key)
            self._told[key, partition["timestamp"]].append(Told(exchange, answer))
            if answer is not None and not answer["error_code"] and partition["timestamp"] == LATEST:
                log = self._log.of(key)
                log.told_end = max(log.told_end or 0, answer["offset"])

    def answer(self, asked: Asked) -> Answer:
        """The offset of each partition for the time that it is asked for."""
        body = blank(ApiKey.ListOffsets, _NEWEST)
        sources: set[Source] = set()
        latency_us = 0
        for topic in asked.body["topics"]:
            told = []
            for partition in topic["partitions"]:
                key = topic.get("name"), partition["partition_index"]
                found = self._recorded(asked, key, partition["timestamp"])
                if found is not None and found.answer is None:
                    if not found.exchange.is_used:
                        found.exchange.is_used = True
                        return ended(found.exchange, False)
                    found = None
                if found is not None:
                    latency_us = max(latency_us, found.exchange.latency_us)
                sources.add(Source.REPEATED if found is None else Source.RECORDED)
                entry = _entry(partition["partition_index"], 0)
                if found is not None and (found.answer or {})["error_code"]:
                    told.append({**entry, **(found.answer or {})})
                elif key not in self._log.partitions and key not in self._known:
                    sources.add(Source.NOTHING)
                    told.append(_entry(partition["partition_index"], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                else:
                    told.append(
                        {**entry, **self._offset(key, partition["timestamp"], None if found is None else found.answer)}
                    )
            body["topics"].append({**topic, "partitions": told})
        return Answer(body, source_of_any(sources), latency_us)

    def _recorded(self, asked: Asked, key: Any, timestamp: int) -> Told | None:
        """The next that this client was told there; nothing where it was told all of it, or it is another client."""
        for told in self._told.get((key, timestamp), ()):
            who = told.exchange
            if not told.is_used and (who.node_id, who.client_id) == (asked.node_id, asked.client_id):
                told.is_used = True
                return told
        return None

    def _offset(self, key: Key, timestamp: int, recorded: Body | None) -> Body:
        log = self._log.partitions.get(key) or PartitionLog()
        if recorded is not None:
            offset = recorded["offset"]
            return {**recorded, "offset": min(max(offset, log.start), log.end) if offset >= 0 else offset}
        if timestamp == LATEST:
            return {"offset": log.end}
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            return {"offset": log.start}
        found = log.newest() if timestamp == NEWEST else log.at_time(timestamp) if timestamp >= 0 else None
        return {"offset": -1, "timestamp": -1} if found is None else {"offset": found[0], "timestamp": found[1]}


def _entry(index: int, error_code: int) -> Body:
    fields = fields_at(response_codec(ApiKey.ListOffsets, _NEWEST).fields, ("topics", "partitions"))
    return refused_entry(fields, {"partition_index": index}, Failure(error_code))


def _by_partition(body: Body) -> dict[Any, Body]:
    return {
        (topic.get("name"), partition["partition_index"]): partition
        for topic in body["topics"]
        for partition in topic["partitions"]
    }
