"""Names in a capture: which topic an id means, and which names were hidden before they were recorded."""

from __future__ import annotations

from typing import Any, Final
from uuid import NAMESPACE_DNS, UUID, uuid5

from notleader.proxy.wire.codec import Body, Codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.schemas import NO_UUID

_IDS: Final = uuid5(NAMESPACE_DNS, "notleader.replay")
_OF_MEMBERS: Final = frozenset(
    (ApiKey.JoinGroup, ApiKey.ConsumerGroupHeartbeat, ApiKey.ShareGroupHeartbeat, ApiKey.StreamsGroupHeartbeat)
)
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")


class Names:
    """Topics by name and id, as Metadata told them; a topic whose id was not recorded gets one from its name."""

    def __init__(self) -> None:
        self._ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._groups: dict[str, dict[str, set[int]]] = {"group": {}, "transaction": {}}
        self._lent: dict[tuple[str, str], str] = {}
        self.hidden: set[str] = set()
        """Names of groups and transactions of which a redaction has left asterisks."""

    def learn(self, name: str | None, topic_id: UUID | None) -> bool:
        """Take a topic of a Metadata answer; says whether it is another than the one that had the name before."""
        if not name or not topic_id or topic_id == NO_UUID or topic_id in self._names:
            return False
        is_another = name in self._ids
        self._ids[name] = topic_id
        self._names[topic_id] = name
        return is_another

    def learn_who(self, kind: str, name: str, api_key: int) -> None:
        """Take the name of a recorded "group" or "transaction", which this API was asked about."""
        self._groups[kind].setdefault(name, set()).add(api_key)
        if name and not name.strip("*"):
            self.hidden.add(name)

    def recorded(self, kind: str, name: str, api_key: int) -> str:
        """The recorded name whose answers a "group" or "transaction" gets from this API. Itself where none is.

        Its own, or one of its length of which only asterisks are left. Many clients make up another name each time:
        these get one that this API was asked about, the same as before where they can, a group that had members first.
        """
        known = self._groups[kind]
        masked = "*" * len(name.encode("utf-8", "surrogateescape"))
        own = next((one for one in (name, masked) if one in known), None)
        if own is not None or not known:
            return own or name
        lent = self._lent.get((kind, name))

        def fits(one: str) -> tuple[bool, ...]:
            apis = known[one]
            return api_key in apis, one == lent, not apis.isdisjoint(_OF_MEMBERS)

        found = max(known, key=fits)  # of several the first
        if api_key in _OF_MEMBERS:
            self._lent[kind, name] = found
        return found

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name of a topic, None for an id that nobody has told or got."""
        return self._names.get(topic_id)

    def topic_id(self, name: str) -> UUID:
        """The id of a topic."""
        found = self._ids.get(name)
        if found is None:
            found = self._ids[name] = uuid5(_IDS, name)
            self._names[found] = name
        return found

    def complete(self, codec: Codec, body: Body) -> Body:
        """Give every topic with partitions both its name and its id, in place: versions differ in which they have."""
        for entry in iter_partitions(codec, body):
            fields: dict[str, Any] = entry.topic_fields
            name, topic_id = entry.topic, entry.topic_id
            if name is None and topic_id is not None:
                name = self.topic_name(topic_id)
            if name is not None:
                fields.update(dict.fromkeys(_TOPIC_NAMES, name), topic_id=topic_id or self.topic_id(name))
        return body
