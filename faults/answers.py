"""The answer that a real broker gives when it refuses, built from the definitions for every API and version.

A broker refuses at one of two levels: entry by entry (each topic, partition, group … of the request comes back
with the code), or once for the request. Entries are the arrays of the response that carry error codes; each is
filled from the array of the request that it answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from uuid import UUID

from notleader.faults.actions import Body, PartitionKey
from notleader.proxy.wire.codec import known_versions, request_codec, response_codec
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import PartitionEntry
from notleader.proxy.wire.schemas import NO_UUID, Field
from notleader.proxy.wire.view import Request


class NoPlaceForError(Exception):
    """The response of this API and version has nowhere to put an error code for this request."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one entry is refused; `fields` are set besides where the version has them (such as `current_leader`)."""

    error_code: int
    fields: Mapping[str, Any] = field(default_factory=dict)


_CODES = frozenset({"error_code", "partition_error_code"})
_TOPIC_NAMES = ("name", "topic", "topic_name")
_INDEXES = ("partition_index", "partition", "partition_id", "index")
# What names an entry, and so is repeated from the request.
_IDENTITY = frozenset(
    (
        *_TOPIC_NAMES,
        *_INDEXES,
        "topic_id",
        "group_id",
        "transactional_id",
        "member_id",
        "group_instance_id",
        "key",
        "producer_id",
        "resource_type",
        "resource_name",
        "entity",
        "feature",
        "user",
        "id",
    )
)
_NO_FAILURE = Failure(0)
# What brokers put where there is nothing to tell, as far as the definitions' defaults say otherwise.
_NOTHING_TO_TELL: dict[str, Any] = {
    "base_offset": -1,
    "log_append_time_ms": -1,
    "log_start_offset": -1,
    "high_watermark": -1,
    "last_stable_offset": -1,
    "offset": -1,
    "timestamp": -1,
    "end_offset": -1,
    "committed_offset": -1,
    "committed_leader_epoch": -1,
    "low_watermark": -1,
    "leader_epoch": -1,
    "leader_id": -1,
    "node_id": -1,
    "port": -1,
    "producer_id": -1,
    "producer_epoch": -1,
    "generation_id": -1,
    "preferred_read_replica": -1,
    "records": b"",
}
# Both levels exist, and the refusals that clients meet come entry by entry.
_ENTRIES_FIRST = frozenset(
    (ApiKey.Fetch, ApiKey.Metadata, ApiKey.AddPartitionsToTxn, ApiKey.ShareFetch, ApiKey.ShareAcknowledge)
)
_SESSION_CODES = frozenset(
    ErrorCode[name]
    for name in (
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "FETCH_SESSION_TOPIC_ID_ERROR",
        "INCONSISTENT_CLUSTER_ID",
        "SHARE_SESSION_NOT_FOUND",
        "INVALID_SHARE_SESSION_EPOCH",
        "SHARE_SESSION_LIMIT_REACHED",
        "UNSUPPORTED_VERSION",
        "INVALID_REQUEST",
    )
)
_PARTITION_CODES = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
# Both levels exist, and these codes speak of single entries.
_ENTRY_CODES: dict[int, frozenset[int]] = {
    ApiKey.LeaveGroup: frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)),
    ApiKey.OffsetFetch: _PARTITION_CODES,
    ApiKey.DescribeShareGroupOffsets: _PARTITION_CODES,
}


def top_key(topic: str | None, topic_id: UUID | None) -> str | UUID:
    """How a topic is told apart within one message: by its name where it has one."""
    return topic if topic is not None else topic_id or NO_UUID


def partition_key(entry: PartitionEntry) -> PartitionKey:
    """How a partition is told apart within one exchange, request and response alike."""
    return top_key(entry.topic, entry.topic_id), entry.partition_index


def refusal(request: Request, error_code: int) -> Body:
    """The answer of a broker that refuses the whole request; NoPlaceForError when the version has no place for it.

    A Metadata answer made here names no brokers; `notleader.faults.partial` asks the broker for those.
    """
    api_key, api_version = request.header.api_key, request.header.api_version
    arrays = _entry_arrays(api_key, api_version)
    body = blank(api_key, api_version)
    if body.get("member_id") is not None and isinstance(request.body.get("member_id"), str):
        body["member_id"] = request.body["member_id"]
    by_entry = refuses_by_entry(api_key, api_version, error_code)
    if by_entry:
        failure = Failure(error_code)
        deepest = error_code in _ENTRY_CODES.get(api_key, ())
        for array in arrays:
            body[array.name] = _refused(array, request.body, failure, deepest)
        by_entry = any(body[array.name] for array in arrays)
    if not by_entry:
        if "error_code" not in body:
            raise NoPlaceForError(f"{ApiKey(api_key).name} v{api_version} has no entry to carry an error code")
        body["error_code"] = error_code
    return body


def unsupported_version(api_versions: range | None = None) -> Body:
    """The body, always in version 0, that refuses an ApiVersions request of an unknown version (KIP-511)."""
    versions = api_versions or known_versions(ApiKey.ApiVersions)
    return {
        "error_code": int(ErrorCode.UNSUPPORTED_VERSION),
        "api_keys": [{"api_key": int(ApiKey.ApiVersions), "min_version": versions[0], "max_version": versions[-1]}],
    }


def refuses_by_entry(api_key: int, api_version: int, error_code: int) -> bool:
    """Whether a broker refuses with this code entry by entry, in this version of the response."""
    if not _entry_arrays(api_key, api_version):
        return False
    if not any(found.name == "error_code" for found in response_codec(api_key, api_version).fields):
        return True
    if api_key in _ENTRY_CODES:
        return error_code in _ENTRY_CODES[api_key]
    return api_key in _ENTRIES_FIRST and error_code not in _SESSION_CODES


def refused_entry(fields: tuple[Field, ...], identity: Mapping[str, Any], failure: Failure) -> Body:
    """One entry of a response as a broker that refuses it fills it in; `identity` holds what names the entry."""
    entry = _filled(fields)
    for found in fields:
        if found.name in _CODES:
            entry[found.name] = failure.error_code
        elif found.name in failure.fields:
            entry[found.name] = failure.fields[found.name]
        elif found.name in _IDENTITY and found.name in identity:
            entry[found.name] = identity[found.name]
    return entry


def merge(request: Request, failures: Mapping[PartitionKey, Failure], answer: Body) -> Body:
    """The broker's answer to the rest of a request, and the refused partitions, in the order of the request."""
    merged = dict(answer)
    for array in _entry_arrays(request.header.api_key, request.header.api_version):
        if answer.get("error_code") and not answer[array.name]:
            return answer  # refused as a whole by the broker itself: there is nothing to merge into
        merged[array.name] = _merged(array, request.body, answer[array.name], failures, NO_UUID)
    return merged


def blank(api_key: int, api_version: int) -> Body:
    """A response that tells nothing."""
    return _filled(response_codec(api_key, api_version).fields)


def _filled(fields: tuple[Field, ...]) -> Body:
    """A struct that tells nothing: the definitions' defaults, as far as brokers send them."""
    body: Body = {}
    for found in fields:
        if found.tag is not None:
            continue
        if found.is_array:
            body[found.name] = []
        elif found.kind == "struct":
            body[found.name] = None if found.nullable and found.default is None else _filled(found.fields)
        elif found.name in ("protocol_name", "error_message"):
            body[found.name] = None if found.nullable else ""
        else:
            body[found.name] = _NOTHING_TO_TELL.get(found.name, found.default)
    return body


def _carries_code(found: Field) -> bool:
    return any(inner.name in _CODES or (inner.kind == "struct" and _carries_code(inner)) for inner in found.fields)


@dataclass(frozen=True, slots=True)
class _Entries:
    """An array of a response whose elements carry codes, and the ways to what it answers in the request."""

    name: str
    fields: tuple[Field, ...]
    has_code: bool
    paths: tuple[tuple[str, ...], ...]
    inner: tuple[_Entries, ...]


_ODD_SOURCES: dict[tuple[int, str], tuple[tuple[str, ...], ...]] = {
    (ApiKey.AlterReplicaLogDirs, "results"): (("dirs", "topics"),),
    (ApiKey.AlterUserScramCredentials, "results"): (("deletions",), ("upsertions",)),
    (ApiKey.DescribeLogDirs, "results"): (),  # one entry per directory, which only the broker knows
}
_NEVER_A_SOURCE = ("forgotten_", "leader_endpoints", "live_leaders")


@cache
def _entry_arrays(api_key: int, api_version: int) -> tuple[_Entries, ...]:
    request, response = request_codec(api_key, api_version), response_codec(api_key, api_version)
    return tuple(_paired(api_key, response.fields, request.fields))


def _paired(api_key: int, fields: tuple[Field, ...], source: tuple[Field, ...]) -> Iterator[_Entries]:
    for array in fields:
        if not array.is_array or array.kind != "struct" or not _carries_code(array):
            continue
        paths = _ODD_SOURCES.get((api_key, array.name))
        if paths is None:
            names = [found.name for found in source if found.is_array and not found.name.startswith(_NEVER_A_SOURCE)]
            names.sort(key=lambda name: name != array.name)
            paths = tuple((name,) for name in names[:1])
        if paths:
            inner = tuple(_paired(api_key, array.fields, fields_at(source, paths[0])))
            has_code = any(found.name in _CODES for found in array.fields)
            yield _Entries(array.name, array.fields, has_code, paths, inner)


def fields_at(fields: tuple[Field, ...], path: Iterable[str]) -> tuple[Field, ...]:
    """The definitions of one element of an array in a message, which the names of `path` lead to."""
    for name in path:
        fields = next(found.fields for found in fields if found.name == name)
    return fields


def _elements(body: Body, paths: tuple[tuple[str, ...], ...]) -> Iterator[Any]:
    for path in paths:
        level: list[Any] = [body]
        for name in path:
            level = [element for holder in level for element in holder.get(name) or ()]
        yield from level


def _identity(element: Any) -> Body:
    """What names an element of a request, under every name that a response may give it."""
    if isinstance(element, int):
        return dict.fromkeys(_INDEXES, element)
    if isinstance(element, str):
        return dict.fromkeys((*_TOPIC_NAMES, "key", "group_id", "transactional_id", "user"), element)
    identity: Body = dict(element)
    for aliases in (_TOPIC_NAMES, _INDEXES):
        for alias in aliases:
            if alias in element:
                identity.update(dict.fromkeys(aliases, element[alias]))
                break
    identity.setdefault("user", identity.get("name"))
    return identity


def _topic_of(identity: Body, above: str | UUID) -> str | UUID:
    name, topic_id = identity.get("topic"), identity.get("topic_id")
    if isinstance(name, str):
        return name
    return topic_id if isinstance(topic_id, UUID) and topic_id != NO_UUID else above


def _refused(array: _Entries, body: Body, failure: Failure, deepest: bool) -> list[Body]:
    """The entries of one array, all refused; `deepest` goes past entries that have a code above others."""
    entries: list[Body] = []
    for element in _elements(body, array.paths):
        above = bool(array.inner) and (deepest or not array.has_code)
        entry = refused_entry(array.fields, _identity(element), _NO_FAILURE if above else failure)
        if above:
            for inner in array.inner:
                entry[inner.name] = _refused(inner, element, failure, deepest)
        entries.append(entry)
    return entries


def _merged(
    array: _Entries,
    body: Body,
    answered: list[Body],
    failures: Mapping[PartitionKey, Failure],
    above: str | UUID,
) -> list[Body]:
    """The entries of one array: refused here, or as the broker answered them, in the order of the request."""
    merged: list[Body] = []
    by_identity: dict[tuple[Any, ...], Body] = {}
    names: list[str] | None = None
    for element in _elements(body, array.paths):
        identity = _identity(element)
        if names is None:
            names = [found.name for found in array.fields if found.name in _IDENTITY & identity.keys()]
            by_identity = {tuple(entry[name] for name in names): entry for entry in answered}
        broker_entry = by_identity.get(tuple(identity[name] for name in names))
        topic = _topic_of(identity, above)
        if not array.inner:
            failure = failures.get((topic, identity.get("index", -1)))
            if failure is not None:
                merged.append(refused_entry(array.fields, identity, failure))
            elif broker_entry is not None:
                merged.append(broker_entry)
        elif broker_entry is not None and broker_entry.get("error_code"):
            merged.append(broker_entry)  # refused by the broker above the partitions
        else:
            entry = dict(broker_entry or refused_entry(array.fields, identity, _NO_FAILURE))
            for inner in array.inner:
                entry[inner.name] = _merged(inner, element, entry[inner.name], failures, topic)
            merged.append(entry)
    return merged
