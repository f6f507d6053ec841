"""Where topics and partitions sit in a message, derived from the definitions.

A topic is an array element with a field of entity type topicName or a `topic_id`; its partitions are an array
inside it named after partitions, of structs with an index or of bare int32, or the element itself names one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from notleader.proxy.wire.codec import Body, Codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import NO_UUID, Field

# Answers whose point is one offset per partition, and the field that has it.
OFFSET_ANSWERS: Final[Mapping[int, str]] = {ApiKey.ListOffsets: "offset", ApiKey.OffsetFetch: "committed_offset"}
_INDEX_NAMES = ("partition_index", "partition", "partition_id", "index")


class PartitionEntry(NamedTuple):
    """One partition that a message speaks of; `fields` is its own struct, {} for a bare index."""

    topic: str | None
    topic_id: UUID | None
    partition_index: int
    topic_fields: Body
    fields: Body


class TopicEntry(NamedTuple):
    """One topic that a message speaks of, with or without partitions."""

    topic: str | None
    topic_id: UUID | None


class TopicsPlace(NamedTuple):
    """An array of topics: the way to it, and which keys of its elements name what."""

    outer: tuple[str, ...]
    topics: str
    name_key: str | None
    id_key: str | None
    partitions: str | None
    index_key: str | None
    bare: bool


def _index_key(fields: tuple[Field, ...]) -> str | None:
    names = {field.name for field in fields if field.kind == "int32" and not field.is_array}
    return next((name for name in _INDEX_NAMES if name in names), None)


def topics_place(outer: tuple[str, ...], array: Field) -> TopicsPlace | None:
    """What the elements of an array name; None where they name no topic."""
    plain = [field for field in array.fields if not field.is_array]
    name_key = next((field.name for field in plain if field.entity == "topicName"), None)
    id_key = next((field.name for field in plain if field.kind == "uuid" and field.name == "topic_id"), None)
    if name_key is None and id_key is None:
        return None
    place = TopicsPlace(outer, array.name, name_key, id_key, None, None, False)
    for field in array.fields:
        if field.is_array and "partition" in field.name:
            if field.kind == "struct" and (index_key := _index_key(field.fields)):
                return place._replace(partitions=field.name, index_key=index_key)
            if field.kind == "int32":
                return place._replace(partitions=field.name, bare=True)
    if "partition" in array.name and (index_key := _index_key(array.fields)):
        return place._replace(index_key=index_key)
    return place


def _find(fields: tuple[Field, ...], outer: tuple[str, ...]) -> Iterator[TopicsPlace]:
    for field in fields:
        # What a fetch session forgets is not asked for any more.
        if field.kind != "struct" or field.name.startswith("forgotten_"):
            continue
        place = topics_place(outer, field) if field.is_array else None
        if place is not None:
            yield place
        else:
            yield from _find(field.fields, (*outer, field.name))


@cache
def _places(codec: Codec) -> tuple[TopicsPlace, ...]:
    return tuple(_find(codec.fields, ()))


def _holders(body: Any, path: tuple[str, ...]) -> Iterator[Body]:
    """Every struct at the end of `path`, through arrays and past nulls."""
    if body is None:
        return
    if isinstance(body, list):
        for element in body:
            yield from _holders(element, path)
    elif path:
        yield from _holders(body.get(path[0]), path[1:])
    else:
        yield body


def _topic(place: TopicsPlace, topic: Body) -> tuple[str | None, UUID | None]:
    topic_id = topic.get(place.id_key) if place.id_key else None
    return topic.get(place.name_key) if place.name_key else None, None if topic_id == NO_UUID else topic_id


def _entries(place: TopicsPlace, topic: Body) -> list[PartitionEntry]:
    name, topic_id = _topic(place, topic)
    if place.partitions is None:
        if place.index_key is None:
            return []
        return [PartitionEntry(name, topic_id, topic[place.index_key], topic, topic)]
    partitions = topic.get(place.partitions) or ()
    if place.bare:
        return [PartitionEntry(name, topic_id, index, topic, {}) for index in partitions]
    key = place.index_key
    return [PartitionEntry(name, topic_id, fields[key], topic, fields) for fields in partitions]


def names_partitions(codec: Codec) -> bool:
    """Whether this message can speak of partitions at all."""
    return any(place.bare or place.index_key is not None for place in _places(codec))


def speaks_of_partitions(codec: Codec) -> bool:
    """Whether messages of this codec name topics or partitions at all."""
    return bool(_places(codec))


def names_topics(codec: Codec) -> bool:
    """Whether this message can speak of topics at all, with or without partitions."""
    return bool(_places(codec)) or any(_lists_topics(field) for field in codec.fields)


def iter_partitions(codec: Codec, body: Body) -> Iterator[PartitionEntry]:
    """Every partition the message speaks of, in wire order; the entries share the body's own dicts."""
    for place in _places(codec):
        for holder in _holders(body, place.outer):
            for topic in holder.get(place.topics) or ():
                yield from _entries(place, topic)


def iter_topics(codec: Codec, body: Body) -> Iterator[TopicEntry]:
    """Every topic the message speaks of in an array, also where it names no partitions."""
    for place in _places(codec):
        for holder in _holders(body, place.outer):
            for topic in holder.get(place.topics) or ():
                yield TopicEntry(*_topic(place, topic))
    for field in codec.fields:
        if _lists_topics(field):
            for name in body.get(field.name) or ():
                yield TopicEntry(name, None)


def iter_topic_errors(codec: Codec, body: Body) -> Iterator[tuple[str, int]]:
    """The topics that an answer has an error code for as a whole, by name, with that code."""
    for place in _places(codec):
        if place.name_key is not None:
            for holder in _holders(body, place.outer):
                for topic in holder.get(place.topics) or ():
                    if topic[place.name_key] and topic.get("error_code") is not None:
                        yield topic[place.name_key], topic["error_code"]


def _lists_topics(field: Field) -> bool:
    return field.is_array and field.kind == "string" and field.entity == "topicName"


def without_partitions(codec: Codec, body: Body, drop: Callable[[PartitionEntry], bool]) -> Body:
    """A new body without the partitions for which `drop` holds; topics that this leaves empty vanish."""
    for place in _places(codec):
        if place.index_key is not None or place.bare:
            body = _rebuilt(body, place.outer, place, drop)
    return body


def _rebuilt(body: Any, path: tuple[str, ...], place: TopicsPlace, drop: Callable[[PartitionEntry], bool]) -> Any:
    """`body` with the topics at the end of `path` filtered; what needs no change is shared, not copied."""
    if body is None:
        return None
    if isinstance(body, list):
        return [_rebuilt(element, path, place, drop) for element in body]
    if path:
        return {**body, path[0]: _rebuilt(body.get(path[0]), path[1:], place, drop)}
    topics = body.get(place.topics)
    if topics is None:
        return body
    return {
        **body,
        place.topics: [kept for topic in topics if (kept := _kept(place, topic, drop)) is not None],
    }


def _kept(place: TopicsPlace, topic: Body, drop: Callable[[PartitionEntry], bool]) -> Body | None:
    entries = _entries(place, topic)
    left = [entry for entry in entries if not drop(entry)]
    if len(left) == len(entries):
        return topic
    if not left:
        return None
    if place.partitions is None:
        return topic
    values = [entry.partition_index for entry in left] if place.bare else [entry.fields for entry in left]
    return {**topic, place.partitions: values}
