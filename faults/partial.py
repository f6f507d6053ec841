"""A request that is refused in part: what still goes to the broker, and how the answers become one again.

Most requests are rebuilt without the refused partitions. Two are not:

* Metadata: what it says of brokers and other topics only the broker knows, so the request is forwarded as it is
  and the refused topics and partitions of the answer are rewritten.
* Fetch and ShareFetch: a session (KIP-227) lives in the broker; a partition left out of the request that opens
  it would be missing from it for ever, and an incremental request doesn't name the partitions it asks for. So
  the request is forwarded whole, told not to wait (as a broker with an error to report doesn't), and the
  entries of the answer are replaced, or added where the broker had nothing to tell about them. A ShareFetch of which
  all is refused acquires no records (max_records 0, from version 1 on).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from notleader.faults.actions import Action, Answer, Body, Close, Forward, PartitionKey
from notleader.faults.answers import (
    Failure,
    NoPlaceForError,
    blank,
    fields_at,
    merge,
    partition_key,
    refusal,
    refused_entry,
    refuses_by_entry,
    top_key,
    unsupported_version,
)
from notleader.faults.match import Match
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import PartitionEntry, iter_partitions, without_partitions
from notleader.proxy.wire.schemas import Field

if TYPE_CHECKING:
    from notleader.proxy.wire.view import Request

_ALTERED = frozenset((ApiKey.Metadata, ApiKey.Fetch, ApiKey.ShareFetch))


def has_no_response(request: Request) -> bool:
    """Whether the broker won't answer: a Produce with acks=0."""
    return request.header.api_key == ApiKey.Produce and request.body["acks"] == 0


def refuse_whole(request: Request, error_code: int) -> Action:
    """What to do with a request that is refused as a whole; NoPlaceForError when its version can't say so."""
    if has_no_response(request):
        return Close()
    if _is_unsupported_api_versions(request, error_code):
        return Answer(unsupported_version(), api_version=0)
    return Answer(refusal(request, error_code))


def _is_unsupported_api_versions(request: Request, error_code: int) -> bool:
    return request.header.api_key == ApiKey.ApiVersions and error_code == ErrorCode.UNSUPPORTED_VERSION


def is_altered(api_key: int) -> bool:
    """Whether a refusal in part of this API is written into the broker's answer, not around it."""
    return api_key in _ALTERED


def refuse_some(
    request: Request,
    failures: Mapping[PartitionKey, Failure],
    asked: Collection[PartitionEntry],
    body: Body | None = None,
) -> Action:
    """What to do with a request of which these partitions are refused; `body` is forwarded in place of its own.

    `asked` are all that it asks for, those of its session included.
    """
    body = request.body if body is None else body
    api_key, api_version, *_ = request.header
    if api_key in _ALTERED:
        is_whole = {partition_key(entry) for entry in asked} == failures.keys()
        if is_whole and api_key != ApiKey.ShareFetch and not body.get("session_id"):
            return Answer(merge(request, failures, blank(api_key, api_version)))
        nothing = ("max_wait_ms", "min_bytes", *(("max_records",) if is_whole else ()))
        at_once: Body = {name: 0 for name in nothing if name in body}
        return Forward({**body, **at_once}, lambda answer: refuse_fetched(api_version, answer, failures, api_key))
    rest = without_partitions(request.codec, body, lambda entry: partition_key(entry) in failures)
    rest_is_empty = all(partition_key(entry) in failures for entry in request.partitions)
    if has_no_response(request):
        return Close() if rest_is_empty else Forward(rest, close_after=True)
    if rest_is_empty:
        return Answer(merge(request, failures, blank(api_key, api_version)))
    return Forward(rest, lambda answer: merge(request, failures, answer))


def refuse_fetched(
    api_version: int, answer: Body, failures: Mapping[PartitionKey, Failure], api_key: int = ApiKey.Fetch
) -> Body:
    """A Fetch answer in which these partitions are refused, whether the broker spoke of them or not."""
    if answer.get("error_code"):
        return answer
    fields = fetched_fields(api_version, api_key)
    entries = {key: refused_entry(fields, {"partition_index": key[1]}, failure) for key, failure in failures.items()}
    return with_fetched(answer, entries)


def fetched_fields(api_version: int, api_key: int = ApiKey.Fetch) -> tuple[Field, ...]:
    """The definitions of one partition of a Fetch or ShareFetch answer."""
    return fields_at(response_codec(api_key, api_version).fields, ("responses", "partitions"))


def with_fetched(answer: Body, entries: Mapping[PartitionKey, Body]) -> Body:
    """A Fetch answer with these partitions in place of its own, or besides."""
    left = dict(entries)
    topics: list[Body] = []
    for topic in answer["responses"]:
        above = top_key(topic.get("topic"), topic.get("topic_id"))
        partitions = [left.pop((above, partition["partition_index"]), partition) for partition in topic["partitions"]]
        topics.append({**topic, "partitions": partitions})
    places = {top_key(topic.get("topic"), topic.get("topic_id")): topic["partitions"] for topic in topics}
    for (above, _), entry in left.items():
        if above not in places:
            name = "topic" if isinstance(above, str) else "topic_id"
            places[above] = []
            topics.append({name: above, "partitions": places[above]})
        places[above].append(entry)
    return {**answer, "responses": topics}


def asked_topics(request: Request) -> list[tuple[str | None, UUID | None]] | None:
    """The topics that a Metadata request names, None when it asks for all."""
    topics = request.body["topics"]
    if topics is None or (not topics and request.header.api_version == 0):
        return None
    return [(topic.get("name"), topic.get("topic_id")) for topic in topics]


def names_nothing(request: Request, asked: Collection[PartitionEntry]) -> bool:
    """Whether a Metadata or Fetch request is about no topic or partition (`asked`, those of its session included)."""
    if request.header.api_key == ApiKey.Metadata:
        return asked_topics(request) == []
    return is_altered(request.header.api_key) and not asked


Chosen = Callable[[str | None, int], bool]


def topics_and_partitions(match: Match) -> Chosen:
    """Which topics (index -1) and partitions of a Metadata answer a match means.

    A topic as a whole is meant only where the match names no partitions.
    """

    def chosen(topic: str | None, partition_index: int) -> bool:
        if partition_index < 0 and match.partition_index is not None:
            return False
        return match.partition(topic, partition_index)

    return chosen


def refuse_metadata(answer: Body, error_code: int, chosen: Chosen) -> Body:
    """A Metadata answer in which the chosen topics, or only partitions of them, are refused."""
    topics = []
    for topic in answer["topics"] or ():
        name = topic.get("name")
        if chosen(name, -1):
            topics.append({**topic, "error_code": error_code, "partitions": []})
            continue
        partitions = [
            refused_partition(partition, error_code) if chosen(name, partition["partition_index"]) else partition
            for partition in topic["partitions"]
        ]
        topics.append({**topic, "partitions": partitions})
    return {**answer, "topics": topics}


def refuse_answer(
    request: Request,
    answer: Body,
    error_code: int,
    keys: Collection[PartitionKey] | None,
    match: Match,
) -> Body:
    """The answer to a request that the broker has carried out, as if it had refused it, or these partitions of it.

    `keys` of None is the whole exchange. NoPlaceForError when the version can't say so.
    """
    api_key, api_version, *_ = request.header
    if _is_unsupported_api_versions(request, error_code):
        raise NoPlaceForError("a broker that knows the version can't say that it doesn't: use before_broker")
    by_entry = refuses_by_entry(api_key, api_version, error_code)
    if api_key == ApiKey.Metadata and by_entry:
        return refuse_metadata(answer, error_code, topics_and_partitions(match))
    if is_altered(api_key) and (by_entry or keys is not None):
        if keys is None:
            codec = response_codec(api_key, api_version)
            named = {partition_key(entry) for entry in request.partitions}
            keys = named | {partition_key(entry) for entry in iter_partitions(codec, answer)}
        return refuse_fetched(api_version, answer, dict.fromkeys(keys, Failure(error_code)), api_key)
    if keys is None:
        return refusal(request, error_code)
    return merge(request, dict.fromkeys(keys, Failure(error_code)), answer)


def refused_partition(partition: Body, error_code: int) -> Body:
    """A partition of a Metadata answer without a leader; replicas and ISR stay as they are."""
    return {**partition, "error_code": error_code, "leader_id": -1}
