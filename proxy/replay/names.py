"""Names in a capture: which topic an id means, and which names were hidden before they were recorded."""

from __future__ import annotations

from typing import Any, Final
from uuid import NAMESPACE_DNS, UUID, uuid5

from notleader.proxy.wire.codec import Body, Codec
from notleader.proxy.wire.partitions import iter_partitions
from notleader.proxy.wire.schemas import NO_UUID

_IDS: Final = uuid5(NAMESPACE_DNS, "notleader.replay")
_TOPIC_NAMES: Final = ("name", "topic", "topic_name")


class Names:
    """Topics by name and id, as Metadata told them; a topic whose id was not recorded gets one from its name."""

    def __init__(self) -> None:
        self._ids: dict[str, UUID] = {}
        self._names: dict[UUID, str] = {}
        self._groups: dict[str, dict[str, None]] = {"group": {}, "transaction": {}}
        self.hidden: set[str] = set()
        """Names of groups and transactions of which a redaction has left asterisks."""

    def learn(self, name: str | None, topic_id: UUID | None) -> None:
        """Take a topic of a Metadata answer."""
        if name and topic_id and topic_id != NO_UUID:
            self._ids.setdefault(name, topic_id)
            self._names.setdefault(topic_id, name)

    def learn_who(self, kind: str, name: str) -> None:
        """Take the name of a recorded "group" or "transaction"."""
        self._groups[kind][name] = None
        if name and not name.strip("*"):
            self.hidden.add(name)

    def recorded(self, kind: str, name: str) -> str:
        """The recorded name whose answers a "group" or "transaction" gets: its own, or one of its length of which only
        asterisks are left, or else the first, for many clients make up another name each time. Itself where none is.
        """
        known = self._groups[kind]
        masked = "*" * len(name.encode("utf-8", "surrogateescape"))
        return next((one for one in (name, masked) if one in known), next(iter(known), name))

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
