"""Recordings made of bodies, and a client that asks a stand-in in any version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from notleader.proxy.record.rows import COLUMNS
from notleader.proxy.replay.recording import Recording
from notleader.proxy.replay.stand_in import Reply, StandIn
from notleader.proxy.wire.codec import Body, request_codec, response_codec
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.header import encode_request_header, encode_response_header
from notleader.proxy.wire.view import Request, Response

Row = dict[str, Any]
MS = 1000


def row(
    at_ms: int,
    api_key: ApiKey,
    api_version: int,
    request: Body,
    answer: Body | None,
    *,
    client_id: str | None = "shop",
    **columns: Any,
) -> Row:
    """An exchange of connection 1 with broker 1 that took a millisecond; without an answer none left."""
    frame = encode_request_header(api_key, api_version, 7, client_id) + request_codec(api_key, api_version).encode(
        request
    )
    made: Row = {
        **dict.fromkeys(COLUMNS),
        "run_id": "r",
        "proxy_id": "p",
        "connection_id": 1,
        "exchange_seq": at_ms,
        "event": "exchange",
        "node_id": 1,
        "client_id": client_id,
        "api_key": int(api_key),
        "api_name": api_key.name,
        "api_version": api_version,
        "request_at_us": at_ms * MS,
        "forwarded_at_us": at_ms * MS,
        "outcome": "no_response" if answer is None else "answered",
        "fault_names": [],
        "fault_kinds": [],
        "request_frame": frame,
    }
    if answer is not None:
        head = encode_response_header(api_key, api_version, 7)
        made["response_frame"] = head + response_codec(api_key, api_version).encode(answer)
        made["response_at_us"] = (at_ms + 1) * MS
    return {**made, **columns}


def ended(at_ms: int, why: str, connection_id: int = 1) -> Row:
    """The end of a connection."""
    place = {"run_id": "r", "proxy_id": "p", "connection_id": connection_id, "event": "disconnect"}
    return {**dict.fromkeys(COLUMNS), **place, "request_at_us": at_ms * MS, "detail": why}


def metadata(at_ms: int, *topics: str, partitions: int = 1, nodes: Iterable[int] = (1,), leader: int = 1) -> Row:
    """A Metadata answer about these topics, in a version that has no ids of topics."""
    told = [
        {
            "name": name,
            "partitions": [{"partition_index": index, "leader_id": leader} for index in range(partitions)],
        }
        for name in topics
    ]
    brokers = [{"node_id": node, "host": "kafka", "port": 9000 + node, "rack": None} for node in nodes]
    asked = {"topics": [{"name": name} for name in topics], "allow_auto_topic_creation": False}
    return row(at_ms, ApiKey.Metadata, 5, asked, {"brokers": brokers, "controller_id": 1, "topics": told})


def batch(
    *values: bytes,
    base_offset: int = 0,
    producer_id: int = -1,
    sequence: int = -1,
    timestamp: int = 0,
    is_transactional: bool = False,
) -> bytes:
    """One batch, as a producer makes it, or as a broker has it at that offset."""
    builder = DefaultRecordBatchBuilder(
        2, 0, int(is_transactional), producer_id, 0 if producer_id >= 0 else -1, sequence, 1 << 20
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=timestamp + offset, key=None, value=value, headers=[])
    built = bytes(builder.build())
    return base_offset.to_bytes(8, "big") + built[8:]


def produce_request(records: bytes, *indexes: int, acks: int = -1, topic: str = "orders") -> Body:
    partitions = [{"index": index, "records": records} for index in indexes or (0,)]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": 1000,
        "topic_data": [{"name": topic, "partition_data": partitions}],
    }


def produced(
    at_ms: int,
    records: bytes,
    base_offset: int,
    error_code: int = 0,
    *,
    is_answered: bool = True,
    topic: str = "orders",
    **columns: Any,
) -> Row:
    """A Produce v7 to partition 0, and what became of it."""
    told = {"index": 0, "error_code": error_code, "base_offset": base_offset, "log_append_time_ms": -1}
    answer = {"responses": [{"name": topic, "partition_responses": [told]}]}
    return row(
        at_ms,
        ApiKey.Produce,
        7,
        produce_request(records, topic=topic),
        answer if is_answered else None,
        **{"acks": -1, **columns},
    )


def fetch_request(offset: int, *, topic: str = "orders", max_bytes: int = 1 << 20, **more: Any) -> Body:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": max_bytes, "log_start_offset": -1}
    return {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [partition]}],
        **more,
    }


def fetched(
    at_ms: int,
    offset: int,
    records: bytes,
    error_code: int = 0,
    *,
    high_watermark: int = 0,
    is_answered: bool = True,
    **columns: Any,
) -> Row:
    """A Fetch v11 of partition 0 from this offset on."""
    told = {
        "partition_index": 0,
        "error_code": error_code,
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "aborted_transactions": None,
        "records": records,
    }
    answer = {"responses": [{"topic": "orders", "partitions": [told]}]}
    return row(at_ms, ApiKey.Fetch, 11, fetch_request(offset), answer if is_answered else None, **columns)


class Client:
    """Asks a stand-in that was made of these rows."""

    def __init__(self, *rows: Row, at_once: bool = False) -> None:
        self.said: list[str] = []
        self.recording = Recording(rows)
        self.stand_in = StandIn(self.recording, self.said.append, at_once=at_once)

    def reply(
        self, api_key: ApiKey, api_version: int, body: Body, *, node_id: int | None = 1, client_id: str | None = "shop"
    ) -> tuple[Request, Reply]:
        """What comes back, as it comes."""
        head = encode_request_header(api_key, api_version, 4711, client_id)
        request = Request(head + request_codec(api_key, api_version).encode(body))
        return request, self.stand_in.reply(node_id, request.frame, lambda node, host, port: ("here", 100 + node))

    def ask(
        self, api_key: ApiKey, api_version: int, body: Body, *, node_id: int | None = 1, client_id: str | None = "shop"
    ) -> Body:
        """The body of the answer."""
        request, reply = self.reply(api_key, api_version, body, node_id=node_id, client_id=client_id)
        assert reply.frame is not None, reply
        assert reply.frame[:4] == (4711).to_bytes(4, "big")
        return Response(reply.frame, request).body

    def produce(self, records: bytes = b"", *indexes: int, version: int = 9, **who: Any) -> list[tuple[int, int]]:
        """Error code and base offset of each partition of *orders* that this is sent to."""
        body = self.ask(ApiKey.Produce, version, produce_request(records or batch(b"x"), *indexes), **who)
        return [(one["error_code"], one["base_offset"]) for one in body["responses"][0]["partition_responses"]]

    def fetch(self, offset: int, version: int = 12, **asked: Any) -> Body:
        """What comes of partition 0 of *orders* from this offset on."""
        body = self.ask(ApiKey.Fetch, version, fetch_request(offset, **asked))
        assert body["session_id"] == 0
        found: Body = body["responses"][0]["partitions"][0]
        return found
