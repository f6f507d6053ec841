"""Topics and partitions are found wherever the definitions put them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from notleader.proxy.wire.codec import Codec, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.partitions import iter_partitions, iter_topics, without_partitions
from notleader.proxy.wire.schemas import Field
from tests.proxy.wire.frames import all_codecs

TOPIC_ID = UUID(int=7)


def named(codec: Codec, body: dict[str, Any]) -> list[tuple[str | None, UUID | None, int]]:
    return [(entry.topic, entry.topic_id, entry.partition_index) for entry in iter_partitions(codec, body)]


CASES: list[tuple[Codec, dict[str, Any], list[tuple[str | None, UUID | None, int]]]] = [
    (
        request_codec(ApiKey.Produce, 9),
        {"topic_data": [{"name": "a", "partition_data": [{"index": 1}, {"index": 4}]}]},
        [("a", None, 1), ("a", None, 4)],
    ),
    (
        request_codec(ApiKey.Produce, 13),
        {"topic_data": [{"topic_id": TOPIC_ID, "partition_data": [{"index": 1}]}]},
        [(None, TOPIC_ID, 1)],
    ),
    (
        request_codec(ApiKey.Fetch, 4),
        {"topics": [{"topic": "a", "partitions": [{"partition": 2}]}]},
        [("a", None, 2)],
    ),
    (
        # What a session forgets is not asked for.
        request_codec(ApiKey.Fetch, 11),
        {
            "topics": [{"topic": "a", "partitions": [{"partition": 2}]}],
            "forgotten_topics_data": [{"topic": "b", "partitions": [3]}],
        },
        [("a", None, 2)],
    ),
    (
        response_codec(ApiKey.Metadata, 12),
        {"topics": [{"name": "a", "topic_id": TOPIC_ID, "partitions": [{"partition_index": 0}]}]},
        [("a", TOPIC_ID, 0)],
    ),
    (
        request_codec(ApiKey.OffsetFetch, 8),
        {"groups": [{"group_id": "g", "topics": [{"name": "a", "partition_indexes": [5, 6]}]}]},
        [("a", None, 5), ("a", None, 6)],
    ),
    (request_codec(ApiKey.OffsetFetch, 8), {"groups": [{"group_id": "g", "topics": None}]}, []),
    (
        request_codec(ApiKey.AddPartitionsToTxn, 4),
        {"transactions": [{"topics": [{"name": "a", "partitions": [1]}]}]},
        [("a", None, 1)],
    ),
    (
        response_codec(ApiKey.AddPartitionsToTxn, 3),
        {"results_by_topic_v3_and_below": [{"name": "a", "results_by_partition": [{"partition_index": 1}]}]},
        [("a", None, 1)],
    ),
    (
        response_codec(ApiKey.StopReplica, 0),
        {"partition_errors": [{"topic_name": "a", "partition_index": 1}]},
        [("a", None, 1)],
    ),
    (
        # Replicas that an operator chose: no partition is spoken of that exists.
        request_codec(ApiKey.CreateTopics, 5),
        {"topics": [{"name": "a", "assignments": [{"partition_index": 0}]}]},
        [],
    ),
    (
        response_codec(ApiKey.ConsumerGroupHeartbeat, 0),
        {"assignment": {"topic_partitions": [{"topic_id": TOPIC_ID, "partitions": [3]}]}},
        [(None, TOPIC_ID, 3)],
    ),
    (response_codec(ApiKey.ConsumerGroupHeartbeat, 0), {"assignment": None}, []),
    (request_codec(ApiKey.Heartbeat, 0), {}, []),
]


@pytest.mark.parametrize(("codec", "body", "expected"), CASES, ids=[repr(codec) for codec, _, _ in CASES])
def test_partitions(codec: Codec, body: dict[str, Any], expected: list[tuple[str, UUID, int]]) -> None:
    assert named(codec, codec.decode(codec.encode(body))) == expected


@pytest.mark.parametrize(("codec", "body", "expected"), CASES, ids=[repr(codec) for codec, _, _ in CASES])
def test_dropping_every_partition_in_turn(
    codec: Codec, body: dict[str, Any], expected: list[tuple[str, UUID, int]]
) -> None:
    whole = codec.decode(codec.encode(body))
    before = codec.encode(whole)
    for gone in expected:
        left = without_partitions(codec, whole, lambda entry, gone=gone: (*entry[:2], entry[2]) == gone)  # type: ignore[misc]
        assert named(codec, left) == [other for other in expected if other != gone]
        codec.encode(left)
    assert codec.encode(whole) == before


def test_a_topic_left_empty_vanishes_and_an_empty_one_stays() -> None:
    codec = request_codec(ApiKey.Produce, 9)
    topics = [
        {"name": "a", "partition_data": [{"index": 1}]},
        {"name": "b", "partition_data": []},
        {"name": "c", "partition_data": [{"index": 1}, {"index": 2}]},
    ]
    left = without_partitions(codec, {"acks": 1, "topic_data": topics}, lambda entry: entry.partition_index == 1)
    assert left == {"acks": 1, "topic_data": [topics[1], {"name": "c", "partition_data": [{"index": 2}]}]}
    assert len(topics) == 3


def test_topics_without_partitions() -> None:
    metadata = request_codec(ApiKey.Metadata, 12)
    assert list(iter_topics(metadata, {"topics": [{"name": "a"}, {"topic_id": TOPIC_ID}]})) == [
        ("a", None),
        (None, TOPIC_ID),
    ]
    assert list(iter_topics(metadata, {"topics": None})) == []
    assert list(iter_topics(request_codec(ApiKey.DeleteTopics, 1), {"topic_names": ["a", "b"]})) == [
        ("a", None),
        ("b", None),
    ]
    assert list(iter_topics(request_codec(ApiKey.CreateTopics, 5), {"topics": [{"name": "a"}]})) == [("a", None)]


# Arrays of partitions that stand under no topic, and why that is right.
WITHOUT_TOPIC = {
    "active_tasks": "Streams tasks: a subtopology, not a topic",
    "standby_tasks": "Streams tasks",
    "warmup_tasks": "Streams tasks",
    "task_offsets": "Streams tasks",
    "task_end_offsets": "Streams tasks",
    "assignments": "CreateTopics: replicas to be",
    "forgotten_topics_data": "left out on purpose",
}


def partition_indexes(fields: tuple[Field, ...], path: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = []
    for field in fields:
        if field.kind == "int32" and field.name in ("partition_index", "partition", "partitions", "partition_indexes"):
            found.append((*path, field.name))
        found += partition_indexes(field.fields, (*path, field.name))
    return found


def test_no_partition_index_is_overlooked() -> None:
    """Every field named like a partition index is reached: one partition in each array is found as often."""
    for codec in all_codecs():
        paths = [
            path
            for path in partition_indexes(codec.fields, ())
            if not set(path) & set(WITHOUT_TOPIC) and "cursor" not in path[-2:][0]
        ]
        body = _filled(codec.fields)
        expected = sum(1 for path in paths if _is_index(codec.fields, path))
        assert len(list(iter_partitions(codec, body))) >= expected, codec


def _is_index(fields: tuple[Field, ...], path: tuple[str, ...]) -> bool:
    """Whether the field is an index inside arrays, not the count that Streams topics carry by the same name."""
    for name in path[:-1]:
        (field,) = (field for field in fields if field.name == name)
        fields = field.fields
    (last,) = (field for field in fields if field.name == path[-1])
    return last.is_array or last.name != "partitions"


def _filled(fields: tuple[Field, ...]) -> dict[str, Any]:
    """A body with one element in every array and every nullable struct present."""
    body: dict[str, Any] = {}
    for field in fields:
        value: Any = _filled(field.fields) if field.kind == "struct" else field.default
        if field.kind != "struct" and field.default in (None, ()):
            value = {"string": "", "int32": 0}.get(field.kind)
        body[field.name] = [value] if field.is_array else value
    return body
