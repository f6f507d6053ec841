"""FindCoordinator and OffsetFetch: each key or group that a request names, as it was answered, alone or with others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

from notleader.faults.answers import Failure, blank, fields_at, refused_entry
from notleader.proxy.replay.choosing import Asked, nearest, next_of
from notleader.proxy.replay.exchange import Exchange, Told, coordinated
from notleader.proxy.replay.names import Names
from notleader.proxy.replay.reply import Answer, Source, ended, source_of, source_of_all
from notleader.proxy.wire.codec import Body, known_versions, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.schemas import Field


class ByName:
    """Answers an API whose requests name several things, of which each was told something."""

    def __init__(self, api_key: int, entries: str, name: str, exchanges: Iterable[Exchange], names: Names) -> None:
        """``entries`` is the array of the answer, ``name`` the field by which its elements are told apart."""
        self._api_key = api_key
        self._newest = known_versions(api_key)[-1]
        self._entries = entries
        self._name = name
        self._names = names
        self._told: defaultdict[str, list[Told]] = defaultdict(list)
        for exchange in exchanges:
            told = {one[name]: one for one in (exchange.answer or {}).get(entries, ())}
            for asked in asked_for(api_key, exchange.request):
                self._told[asked].append(Told(exchange, told.get(asked)))

    def answer(self, asked: Asked) -> Answer:
        """An entry for each name that is asked for."""
        body = blank(self._api_key, self._newest)
        sources: list[Source] = []
        latency_us = 0
        kind = coordinated(asked.body) if self._api_key == ApiKey.FindCoordinator else "group"
        for name in asked_for(self._api_key, asked.body):
            found = self._told.get(self._names.recorded(kind, name, self._api_key))
            if not found:
                sources.append(Source.NOTHING)
                body[self._entries].append(self._unheard(name))
                continue
            told, is_again = next_of(nearest(found, lambda one: one.exchange.client_id == asked.client_id))
            sources.append(source_of(is_again))
            if told.answer is None:
                return ended(told.exchange, is_again)
            latency_us = max(latency_us, told.exchange.latency_us)
            body[self._entries].append({**told.answer, self._name: name})
        if self._api_key == ApiKey.OffsetFetch:
            body[self._entries] = list(map(_committed, asked.body["groups"], body[self._entries]))
        return Answer(body, source_of_all(sources), latency_us)

    def _unheard(self, name: str) -> Body:
        """What is said of a name that was not recorded: who coordinates others, or that nothing is committed."""
        if self._api_key == ApiKey.FindCoordinator:
            others = (told.answer for found in self._told.values() for told in found if told.answer is not None)
            coordinator = next((one for one in others if not one["error_code"]), None)
            if coordinator is not None:
                return {**coordinator, self._name: name}
        return refused_entry(self._fields, {self._name: name}, Failure(_UNHEARD[self._api_key]))

    @property
    def _fields(self) -> tuple[Field, ...]:
        return fields_at(response_codec(self._api_key, self._newest).fields, (self._entries,))


def asked_for(api_key: int, body: Body) -> list[Any]:
    """The keys or groups of a request in the newer shape."""
    return (
        list(body["coordinator_keys"])
        if api_key == ApiKey.FindCoordinator
        else [one["group_id"] for one in body["groups"]]
    )


def _committed(group: Body, told: Body) -> Body:
    """A group's offsets with the partitions that are asked for: those of which none was told have none committed."""
    if group["topics"] is None or told["error_code"]:
        return told
    offsets = {
        (topic["name"], one["partition_index"]): one for topic in told["topics"] or () for one in topic["partitions"]
    }
    topics = []
    for topic in group["topics"]:
        partitions = [
            offsets.get((topic.get("name"), index), {"partition_index": index, **_NONE_COMMITTED})
            for index in topic["partition_indexes"]
        ]
        topics.append({**topic, "partitions": partitions})
    return {**told, "topics": topics}


_NONE_COMMITTED: Final = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": "", "error_code": 0}
_UNHEARD: Final[dict[int, int]] = {
    ApiKey.FindCoordinator: ErrorCode.INVALID_GROUP_ID,
    ApiKey.OffsetFetch: 0,
}
"""What is said of a key or group that was not recorded: of a group that nothing is committed, as brokers do."""
