"""Metadata: the recorded answers in their order, with the topics that this client asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from notleader.faults.answers import Failure, blank, fields_at, refused_entry
from notleader.proxy.replay.choosing import Asked, Choosing
from notleader.proxy.replay.exchange import Ending, Exchange
from notleader.proxy.replay.log import Key
from notleader.proxy.replay.names import Names
from notleader.proxy.replay.reply import Answer, Source, ended, source_of
from notleader.proxy.wire.codec import Body, known_versions, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode

_NEWEST = known_versions(ApiKey.Metadata)[-1]


class Metadata:
    """Answers who leads what. Every broker tells the same, so which one was asked makes no difference."""

    def __init__(self, exchanges: Iterable[Exchange], names: Names, brokers: Mapping[int, tuple[str, int]]) -> None:
        self._names = names
        self._brokers = brokers
        self._choosing = Choosing()
        self._topics: dict[str, Body] = {}
        """Each topic as it was told last, in the recording at first and then to clients."""
        self.partitions: set[Key] = set()
        for exchange in exchanges:
            self._choosing.exchanges.append(exchange)
            for topic in (exchange.answer or {}).get("topics", ()):
                if topic["name"] is None or topic["error_code"]:
                    continue
                if topic["partitions"]:
                    self._topics.setdefault(topic["name"], topic)
                self.partitions |= {(topic["name"], one["partition_index"]) for one in topic["partitions"]}

    def answer(self, asked: Asked, api_version: int) -> Answer:
        """Brokers and topics: all of them where the request names none."""
        topics = asked.body["topics"]
        wants_all = topics is None or (api_version == 0 and not topics)
        chosen = self._choosing.choose(asked, of_anything=True)
        if chosen is None:
            body = blank(ApiKey.Metadata, _NEWEST)
            body["brokers"] = [
                {"node_id": node_id, "host": host or "recorded", "port": port, "rack": None}
                for node_id, (host, port) in sorted(self._brokers.items())
            ]
            return Answer({**body, "topics": [self._unknown(topic) for topic in topics or ()]}, Source.NOTHING)
        exchange, is_again = chosen
        if exchange.ending is not Ending.ANSWERED or exchange.answer is None:
            return ended(exchange, is_again)
        told = {topic["name"]: topic for topic in exchange.answer["topics"]}
        self._topics |= {name: topic for name, topic in told.items() if name and topic["partitions"]}
        names = sorted(self._topics.keys() | told.keys()) if wants_all else [self._name(topic) for topic in topics]
        found = [told.get(name) or self._topics.get(name) for name in names]
        is_known = all(found)
        listed = [entry or self._unknown(topic) for entry, topic in zip(found, topics or found, strict=True)]
        source = source_of(is_again) if is_known else Source.NOTHING
        return Answer(
            {**exchange.answer, "topics": [self._with_id(one) for one in listed]}, source, exchange.latency_us
        )

    def _name(self, topic: Body) -> Any:
        return topic.get("name") or self._names.topic_name(topic["topic_id"])

    def _with_id(self, topic: Body) -> Body:
        return {**topic, "topic_id": self._names.topic_id(topic["name"])} if topic["name"] else topic

    def _unknown(self, topic: Body) -> Body:
        fields = fields_at(response_codec(ApiKey.Metadata, _NEWEST).fields, ("topics",))
        by_id = not topic.get("name")
        code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused_entry(fields, topic, Failure(code))
