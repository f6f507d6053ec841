"""Fault decisions as scripts: a client's request, a broker that answers, and what each of them got to see."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from notleader.faults.actions import (
    Action,
    Answer,
    Close,
    Delay,
    Drop,
    Duplicate,
    Forward,
    Hold,
    Mute,
    Relay,
    Reset,
    RewriteResponse,
)
from notleader.faults.base import Connection, Fault
from notleader.faults.decision import joined
from notleader.faults.needs import REQUEST, RESPONSE_BODY
from notleader.faults.plan import NOTHING, Decision, Hit, Plan
from notleader.faults.schema import parse_fault_document
from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.schemas import Field
from notleader.proxy.wire.view import Request, Response
from tests.faults.workers import Seen, seen_by_a_worker, seen_here

Body = dict[str, Any]
seen: Seen = seen_by_a_worker if os.environ.get("NOTLEADER_TEST_WORKERS", "1") != "1" else seen_here
"""Through whose eyes the scripts look at their plan: `make test-workers` runs the same ones through two workers'."""
ORDERS_ID = UUID(int=0x0DE25)
PAYMENTS_ID = UUID(int=0x9A7)


class ScriptedRandom:
    """Random numbers in a given order; drawing more than were given is an error."""

    def __init__(self, *numbers: float) -> None:
        self.numbers: Iterator[float] = iter(numbers)

    def random(self) -> float:
        return next(self.numbers)


def fault(**document: Any) -> Fault:
    """A fault from its document, checked as one that a user wrote."""
    return parse_fault_document(document)


def connection(nth: int = 1, **other: Any) -> Connection:
    """A connection to broker 1."""
    settings: Body = {"listener": "broker-1", "node_id": 1, "client_addr": f"10.0.0.{nth}:4000", **other}
    return Connection(connection_id=nth, nth=nth, **settings)


def request(api_key: ApiKey, version: int, body: Body, client_id: str | None = "me") -> Request:
    """A request frame as a client sends it, the fields it doesn't name at their defaults."""
    made = Request(encode_request_header(api_key, version, 1, client_id))
    return Request(made.frame + made.codec.encode(body))


def response(to: Request, body: Body) -> Response:
    """A broker's answer to that request."""
    api_key, version, *_ = to.header
    frame = encode_response_header(api_key, version, 1) + response_codec(api_key, version).encode(body)
    return Response(frame, to)


@dataclass
class Exchange:
    """What came of one request: what reached the broker, what reached the client, and who did it."""

    sent: Body | None = None
    relayed: dict[int, Body] = field(default_factory=dict)
    answer: Body | None = None
    delays_us: list[int] = field(default_factory=list)
    held: list[Hold] = field(default_factory=list)
    cut: Action | None = None
    hits: tuple[Hit, ...] = ()
    decision: Decision = NOTHING

    @property
    def hit_names(self) -> list[str]:
        return [hit.rule_name for hit in self.hits]


def exchange(
    plan: Plan,
    asked: Request,
    broker: Callable[[Request], Body] | None = None,
    *,
    now_ms: float = 0,
    answered_ms: float | None = None,
    on: Connection | None = None,
) -> Exchange:
    """Do with one request what a session does with it; delays and holds are noted, not waited for."""
    on = on or connection()
    plan = seen(plan, on)
    now_us = round(now_ms * 1000)
    flags = plan.interest(asked.header.api_key, asked.header.api_version)
    done = Exchange()
    sent: Request | None = asked
    merge: Callable[[Body], Body] | None = None
    relay: Relay | None = None
    if flags & REQUEST:
        done.decision = plan.on_request(on, asked, now_us)
        done.hits = done.decision.hits
        for action in done.decision.actions:
            match action:
                case Delay():
                    done.delays_us.append(action.delay_us)
                case Hold():
                    done.held.append(action)
                case Forward():
                    sent = Request(asked.encode(action.body))
                    merge = action.merge
                    done.cut = Close() if action.close_after else None
                case Relay():
                    relay = action
                    sent = None if action.body is None else Request(asked.encode(action.body))
                    done.relayed = {node: Request(asked.encode(body)).body for node, body in action.parts.items()}
                    done.cut = Close() if action.close_after else None
                case Answer():
                    sent, done.answer = None, _sent_to_client(asked, action.body, action.api_version)
                case Drop() | Close() | Reset():
                    sent, done.cut = None, action
                case Duplicate():
                    pass
                case _:
                    raise AssertionError(action)
    if sent is not None:
        done.sent = sent.body
    if broker is None or (sent is None and relay is None):
        return done
    if relay is not None:
        if relay.merge is None:
            return done
        asked_of: dict[int | None, Request] = {
            node: Request(asked.encode(body)) for node, body in relay.parts.items()
        } | ({None: sent} if sent is not None else {})
        answers = {node: response(part, broker(part)).body for node, part in asked_of.items()}
        answer = response(asked, relay.merge(answers))
    elif sent is not None:
        answer = response(sent, broker(sent))
    if merge is not None:
        answer = response(asked, merge(answer.body))
    if flags & RESPONSE_BODY or done.decision.on_response:
        at_us = now_us if answered_ms is None else round(answered_ms * 1000)
        after = plan.on_response(on, asked, answer, done.decision, at_us)
        done.hits = joined(done.hits, after.hits, after.undone)
        for action in after.actions:
            match action:
                case Delay():
                    done.delays_us.append(action.delay_us)
                case Hold():
                    done.held.append(action)
                case RewriteResponse():
                    answer = response(asked, action.body)
                case Drop() | Close() | Reset():
                    done.cut = action
                    return done
                case Mute():
                    pass
                case _:
                    raise AssertionError(action)
    done.answer = answer.body
    return done


def _sent_to_client(asked: Request, body: Body, version: int | None) -> Body:
    codec = response_codec(asked.header.api_key, asked.header.api_version if version is None else version)
    return codec.decode(codec.encode(body))


def produce(*partitions: tuple[str, int], version: int = 9, acks: int = -1, records: bytes = b"batch") -> Request:
    """A Produce of one batch to each of these partitions; topics by name, or by id from version 13 on."""
    topics: dict[str, list[Body]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append({"index": index, "records": records})
    named = [{**topic_key(name, version >= 13), "partition_data": data} for name, data in topics.items()]
    return request(ApiKey.Produce, version, {"acks": acks, "timeout_ms": 1000, "topic_data": named})


def batch(count: int = 3) -> bytes:
    """A record batch as a producer sends it."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset in range(count):
        builder.append(offset, timestamp=1, key=b"k", value=b"value", headers=[])
    return bytes(builder.build())


def produced(sent: Request) -> Body:
    """A broker's answer to a Produce: every batch is appended at offset 100 + partition index."""
    return {
        "responses": [
            {
                **{key: topic[key] for key in ("name", "topic_id") if key in topic},
                "partition_responses": [
                    {"index": data["index"], "base_offset": 100 + data["index"], "log_start_offset": 0}
                    for data in topic["partition_data"]
                ],
            }
            for topic in sent.body["topic_data"]
        ]
    }


def topic_key(name: str, by_id: bool, name_key: str = "name") -> Body:
    """How a topic is named in a message."""
    if not by_id:
        return {name_key: name}
    return {"topic_id": {"orders": ORDERS_ID, "payments": PAYMENTS_ID}[name]}


def metadata(*topics: str, version: int = 12) -> Request:
    """A Metadata request for these topics, for all without any."""
    asked = [{"name": topic} for topic in topics] or None
    return request(ApiKey.Metadata, version, {"topics": asked if version or asked else []})


def metadata_answer(epoch: int = 5, partitions: int = 3) -> Body:
    """A cluster of brokers 1 and 2 in which broker 1 leads orders and broker 2 leads payments."""
    return {
        "brokers": [
            {"node_id": 1, "host": "b1", "port": 9092, "rack": None},
            {"node_id": 2, "host": "b2", "port": 9092, "rack": None},
        ],
        "cluster_id": "c",
        "controller_id": 1,
        "topics": [
            {
                "error_code": 0,
                "name": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "error_code": 0,
                        "partition_index": index,
                        "leader_id": leader,
                        "leader_epoch": epoch,
                        "replica_nodes": [1, 2],
                        "isr_nodes": [1, 2],
                        "offline_replicas": [],
                    }
                    for index in range(partitions)
                ],
            }
            for name, topic_id, leader in (("orders", ORDERS_ID, 1), ("payments", PAYMENTS_ID, 2))
        ],
    }


def knowing_plan(*faults: Fault, epoch: int = 5, **other: Any) -> Plan:
    """A plan whose cluster has seen `metadata_answer`."""
    plan = Plan(faults=faults, **other)
    plan.cluster.observe_metadata(metadata_answer(epoch))
    return plan


def fetch(
    *partitions: tuple[str, int],
    version: int = 12,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[tuple[str, int], ...] = (),
    epoch: int = -1,
) -> Request:
    """A Fetch of these partitions; `session` is (session_id, session_epoch)."""
    by_id = version >= 13
    topics: dict[str, list[Body]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(
            {"partition": index, "fetch_offset": 7, "current_leader_epoch": epoch, "partition_max_bytes": 1000}
        )
    dropped: dict[str, list[int]] = {}
    for topic, index in forgotten:
        dropped.setdefault(topic, []).append(index)
    body = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [{**topic_key(name, by_id, "topic"), "partitions": asked} for name, asked in topics.items()],
        "forgotten_topics_data": [
            {**topic_key(name, by_id, "topic"), "partitions": indexes} for name, indexes in dropped.items()
        ],
    }
    return request(ApiKey.Fetch, version, body)


def fetched(session_id: int = 0) -> Callable[[Request], Body]:
    """A broker that has records for each partition that a Fetch names."""

    def answer(sent: Request) -> Body:
        return {
            "session_id": session_id,
            "responses": [
                {
                    **{key: topic[key] for key in ("topic", "topic_id") if key in topic},
                    "partitions": [
                        {"partition_index": asked["partition"], "high_watermark": 9, "records": b"data"}
                        for asked in topic["partitions"]
                    ],
                }
                for topic in sent.body["topics"]
            ],
        }

    return answer


def random_body(fields: tuple[Field, ...], random: Random) -> Body:
    """A body with something in every field that isn't tagged; arrays have one to three elements."""

    def one(found: Field) -> Any:
        match found.kind:
            case "struct":
                return random_body(found.fields, random)
            case "string":
                return f"{random.choice('abcdef')}{random.randrange(100)}"
            case "uuid":
                return UUID(int=random.getrandbits(128))
            case "bool":
                return random.random() < 0.5
            case "bytes" | "records":
                return random.randbytes(5)
            case "int8":
                return random.randrange(3)
            case "float64":
                return 1.5
            case _:
                return random.randrange(1000)

    return {
        found.name: [one(found) for _ in range(random.randrange(1, 4))] if found.is_array else one(found)
        for found in fields
        if found.tag is None
    }


def entries(body: Body, topics: str = "responses", partitions: str = "partitions") -> list[tuple[Any, int, int]]:
    """(topic or id, index, error code) of each partition of an answer, in order."""
    return [
        (
            topic.get("name") or topic.get("topic") or topic.get("topic_id"),
            partition["index"] if "index" in partition else partition["partition_index"],
            partition["error_code"],
        )
        for topic in body[topics]
        for partition in topic[partitions]
    ]
