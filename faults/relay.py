"""A request to a broker that is only shown to lead: its parts for the true leaders, and one answer out of theirs.

Requests are cut by partition. A Fetch is not: its session (KIP-227) lives in the broker that the client fetches
from, so that broker gets the whole request, as always, and the true leaders are asked without a session for what
they lead; their entries replace those of the first. No broker can be told that another has something to say, so
where several are asked each waits only shortly for data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from notleader.faults.actions import Body, Lost, PartitionKey, Relay
from notleader.faults.answers import Failure, blank, merge, partition_key, refused_entry, top_key
from notleader.faults.election_state import Elsewhere
from notleader.faults.partial import fetched_fields, has_no_response, refuse_fetched, with_fetched
from notleader.proxy.wire.names import ApiKey, ErrorCode
from notleader.proxy.wire.partitions import without_partitions

if TYPE_CHECKING:
    from notleader.proxy.wire.partitions import PartitionEntry
    from notleader.proxy.wire.view import Request

_SHORT_WAIT_MS = 50
_NO_SESSION_EPOCH = -1
Lower = Callable[[Body], Body]


def relayed(
    request: Request,
    body: Body,
    asked: Collection[PartitionEntry],
    leaders: Mapping[PartitionKey, Elsewhere],
    failures: Mapping[PartitionKey, Failure],
    lower: Lower,
) -> Relay:
    """What to do with a request of which some partitions go to other brokers, and some are refused.

    `body` is the request as brokers are to get it, `asked` are all partitions it means, `lower` gives a body made of
    those the leader epochs that brokers know. Of a Produce whose true leader is gone nobody knows whether it was
    appended; everything else is refused as by one that leads no more.
    """
    is_produce = request.header.api_key == ApiKey.Produce
    code = int(ErrorCode.REQUEST_TIMED_OUT if is_produce else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    lost = _lost(leaders, code)
    relays = {key: leader.node_id for key, leader in leaders.items()}
    if request.header.api_key == ApiKey.Fetch:
        return _relayed_fetch(request, body, asked, relays, failures, lower, lost, code)
    codec = request.codec
    elsewhere = relays.keys() | failures.keys()
    own = without_partitions(codec, body, lambda entry: partition_key(entry) in elsewhere)
    parts = {
        node_id: without_partitions(codec, body, lambda entry: relays.get(partition_key(entry)) != node_id)  # noqa: B023
        for node_id in sorted(set(relays.values()))
    }
    own_body = own if any(partition_key(entry) not in elsewhere for entry in request.partitions) else None
    if has_no_response(request):
        return Relay(parts, own_body, None, close_after=bool(failures))

    def merged(answers: Mapping[int | None, Body]) -> Body:
        api_key, api_version, *_ = request.header
        joined = _joined(list(answers.values())) if answers else blank(api_key, api_version)
        return merge(request, {**failures, **_unasked(relays, answers, code)}, joined)

    return Relay(parts, own_body, merged, lost=lost)


def _lost(leaders: Mapping[PartitionKey, Elsewhere], error_code: int) -> dict[int, tuple[Lost, ...]]:
    """By broker what is said if it can't be asked."""
    parts: dict[Elsewhere, set[PartitionKey]] = {}
    for key, leader in leaders.items():
        parts.setdefault(leader, set()).add(key)
    lost: dict[int, tuple[Lost, ...]] = {}
    for leader, keys in parts.items():
        lost[leader.node_id] = (*lost.get(leader.node_id, ()), Lost(*leader.by, error_code, frozenset(keys)))
    return lost


def _unasked(
    relays: Mapping[PartitionKey, int], answers: Mapping[int | None, Body], error_code: int
) -> dict[PartitionKey, Failure]:
    """The partitions of brokers that couldn't be asked, refused."""
    return {key: Failure(error_code) for key, node_id in relays.items() if node_id not in answers}


def _joined(answers: list[Body]) -> Body:
    """Answers of one API to parts of one request, as one; the order of partitions is anybody's."""
    joined = dict(answers[0])
    array = "responses" if "responses" in joined else "topics"
    topics: dict[object, Body] = {}
    for answer in answers:
        for topic in answer[array]:
            inner = "partition_responses" if "partition_responses" in topic else "partitions"
            above = top_key(topic.get("name") or topic.get("topic"), topic.get("topic_id"))
            known = topics.setdefault(above, {**topic, inner: []})
            known[inner] = [*known[inner], *topic[inner]]
        if "throttle_time_ms" in answer:
            joined["throttle_time_ms"] = max(joined["throttle_time_ms"], answer["throttle_time_ms"])
    return {**joined, array: list(topics.values())}


def _relayed_fetch(
    request: Request,
    body: Body,
    asked: Collection[PartitionEntry],
    relays: Mapping[PartitionKey, int],
    failures: Mapping[PartitionKey, Failure],
    lower: Lower,
    lost: Mapping[int, tuple[Lost, ...]],
    lost_code: int,
) -> Relay:
    api_version = request.header.api_version
    elsewhere = relays.keys() | failures.keys()
    has_own = any(partition_key(entry) not in elsewhere for entry in asked)
    own: Body | None = body
    if body.get("session_epoch", _NO_SESSION_EPOCH) == _NO_SESSION_EPOCH:
        own = None
        if has_own:
            own = without_partitions(request.codec, body, lambda entry: partition_key(entry) in elsewhere)
    several = has_own or len(set(relays.values())) > 1
    wait_ms = 0 if failures else min(body["max_wait_ms"], _SHORT_WAIT_MS) if several else body["max_wait_ms"]
    if own is not None:
        own = {**own, "max_wait_ms": wait_ms} if has_own else {**own, "max_wait_ms": 0, "min_bytes": 0}
    parts = {
        node_id: lower(
            {
                **body,
                "max_wait_ms": wait_ms,
                "session_id": 0,
                "session_epoch": _NO_SESSION_EPOCH,
                "topics": _topics([entry for entry in asked if relays.get(partition_key(entry)) == node_id]),
                "forgotten_topics_data": [],
            }
        )
        for node_id in sorted(set(relays.values()))
    }

    def merged(answers: Mapping[int | None, Body]) -> Body:
        answer = answers.get(None)
        if answer is None:
            answer = blank(ApiKey.Fetch, api_version)
        elif answer.get("error_code"):
            return answer
        entries: dict[PartitionKey, Body] = {}
        for key, node_id in relays.items():
            if code := answers.get(node_id, {}).get("error_code"):
                entries[key] = refused_entry(fetched_fields(api_version), {"partition_index": key[1]}, Failure(code))
        for part in [part for node_id, part in answers.items() if node_id is not None]:
            for topic in part["responses"]:
                above = top_key(topic.get("topic"), topic.get("topic_id"))
                for partition in topic["partitions"]:
                    entries[above, partition["partition_index"]] = partition
        unasked = _unasked(relays, answers, lost_code)
        return refuse_fetched(api_version, with_fetched(answer, entries), {**failures, **unasked})

    return Relay(parts, own, merged, lost=lost)


def _topics(entries: Collection[PartitionEntry]) -> list[Body]:
    """The topics of a Fetch request for these partitions, as they were asked for before."""
    topics: dict[object, Body] = {}
    for entry in entries:
        topic = topics.setdefault(top_key(entry.topic, entry.topic_id), {**entry.topic_fields, "partitions": []})
        topic["partitions"].append(entry.fields)
    return list(topics.values())
