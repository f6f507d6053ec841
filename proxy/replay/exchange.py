"""One recorded exchange, as far as it answers anything, and what a request is about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from notleader.proxy.wire.codec import Body, Codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.partitions import iter_partitions, iter_topics
from notleader.proxy.wire.schemas import Field

Subject = frozenset[tuple[str, Any]]
"""What a request names, by kind: topic, partition, group, transaction (its id), resource."""

WHO: Final = ("group", "transaction")
"""The kinds of which clients make up names."""
_ENTITIES: Final = {"groupId": "group", "transactionalId": "transaction"}
_NAMES: Final = {"resource_name": "resource"}


class Ending(StrEnum):
    """What became of a recorded request."""

    ANSWERED = "answered"
    UNANSWERED = "unanswered"
    """This one was not answered, later ones were."""
    SILENT = "silent"
    """Nothing was answered on this connection any more."""
    CLOSED = "closed"
    RESET = "reset"


@dataclass(slots=True, eq=False)
class Exchange:
    """A recorded request with its answer, which is None where none left for the client.

    ``latency_us`` is from the request to the answer, or to the end of the connection. ``was_forwarded``: the broker has
    seen the request. Bodies are in the shapes of `shapes`.
    """

    order: int
    api_key: int
    api_version: int
    node_id: int | None
    client_id: str | None
    subject: Subject
    request: Body
    answer: Body | None
    latency_us: int = 0
    ending: Ending = Ending.ANSWERED
    was_forwarded: bool = True
    is_used: bool = False
    """Whether it has answered something already."""

    @property
    def has_answer(self) -> bool:
        """Whether it was answered."""
        return self.answer is not None

    @property
    def member_id(self) -> str | None:
        """Of a group's member, where the request names one."""
        return member_id_of(self.request)


@dataclass(slots=True, eq=False)
class Told:
    """What a recorded exchange told of one of the things that it was about; ``answer`` is None where nothing."""

    exchange: Exchange
    answer: Body | None
    is_used: bool = False
    """Whether it has answered something already."""

    @property
    def has_answer(self) -> bool:
        """Whether the client was told."""
        return self.answer is not None


def member_id_of(body: Body) -> str | None:
    """The member of a group that a request is from; "" for one that has no id yet."""
    found = body.get("member_id")
    return found if isinstance(found, str) else None


def subject_of(codec: Codec, body: Body, topic_name: Callable[[UUID], str | None]) -> Subject:
    """What a request names; a topic that it names by id goes by its name, where ``topic_name`` knows one."""

    def name_of(topic: str | None, topic_id: UUID | None) -> Any:
        return topic if topic is not None or topic_id is None else topic_name(topic_id) or topic_id

    found: set[tuple[str, Any]] = set(_named(codec.fields, body))
    if codec.api_key == ApiKey.FindCoordinator:
        found |= {(coordinated(body), key) for key in body.get("coordinator_keys", [body.get("key")])}
    found |= {("topic", name_of(*entry)) for entry in iter_topics(codec, body)}
    found |= {
        ("partition", (name_of(entry.topic, entry.topic_id), entry.partition_index))
        for entry in iter_partitions(codec, body)
    }
    return frozenset(found)


def coordinated(body: Body) -> str:
    """What a FindCoordinator asks for: "group" or "transaction" (KIP-98)."""
    return WHO[body.get("key_type") == 1]


def _named(fields: tuple[Field, ...], body: Body) -> Iterator[tuple[str, Any]]:
    for field in fields:
        value = body.get(field.name)
        if value is None:
            continue
        if field.kind == "struct":
            for element in value if field.is_array else (value,):
                yield from _named(field.fields, element)
        elif field.kind == "string" and (kind := _ENTITIES.get(field.entity or "") or _NAMES.get(field.name)):
            for name in value if field.is_array else (value,):
                yield kind, name
