"""The names that a filter knows: every column of a capture row, its partitions' fields, and what follows from them.

A field reads (row, partition): the partition is one element of the row's ``partitions``, or None where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from notleader.proxy.record.rows import COLUMNS, PARTITION_FIELDS

RowLike = Mapping[str, Any]
Read = Callable[[RowLike, RowLike | None], Any]


class Kind(Enum):
    """What values a field has, and so what it can be compared with."""

    NUMBER = "a number"
    TEXT = "text"
    TEXTS = "a list of texts"
    NUMBERS = "a list of numbers"
    API = "an API's name or number"
    ERROR = "an error code's name or number"
    TIME = "a time such as 2026-03-01T12:00:00"


@dataclass(frozen=True, slots=True)
class Field:
    """A name, what it means, and how it is read."""

    name: str
    kind: Kind
    meaning: str
    read: Read
    of_partition: bool = False


def _column(name: str) -> Read:
    return lambda row, partition: row.get(name)


def _of_partition(name: str) -> Read:
    return lambda row, partition: None if partition is None else partition.get(name)


def _error(row: RowLike, partition: RowLike | None) -> Any:
    code = None if partition is None else partition.get("error_code")
    return row.get("error_code") if code is None else code


def _between_ms(first: str, last: str) -> Read:
    def read(row: RowLike, partition: RowLike | None) -> float | None:
        begin, end = row.get(first), row.get(last)
        return None if begin is None or end is None or row.get("event") != "exchange" else (end - begin) / 1000

    return read


def _did(row: RowLike, partition: RowLike | None) -> list[str]:
    return [effect["did"] for effect in row.get("effects") or ()]


def _bytes(row: RowLike, partition: RowLike | None) -> int | None:
    request = row.get("request_bytes")
    return None if request is None else request + (row.get("response_bytes") or 0)


_NUMBERS: Final = {
    "connection_id", "exchange_seq", "node_id", "api_version", "correlation_id", "request_bytes", "response_bytes",
    "throttle_time_ms", "seed", "acks", "partition_index", "producer_id", "producer_epoch", "base_sequence",
    "record_count", "batch_bytes", "base_offset", "leader_epoch",
}  # fmt: skip
_LEFT_OUT: Final = {"partitions", "effects", "request_frame", "response_frame"}
_KINDS: Final = {
    "api_key": Kind.API,
    "api_name": Kind.API,
    "error_code": Kind.ERROR,
    "fault_names": Kind.TEXTS,
    "fault_kinds": Kind.TEXTS,
    "message_ids": Kind.TEXTS,
    "key_hashes": Kind.NUMBERS,
}


def _kind(name: str) -> Kind:
    if name.endswith("_at_us"):
        return Kind.TIME
    return _KINDS.get(name) or (Kind.NUMBER if name in _NUMBERS else Kind.TEXT)


def _listed() -> Iterable[Field]:
    yield Field("api", Kind.API, "the API: Produce, Fetch, 18, …", _column("api_key"))
    yield Field("error", Kind.ERROR, "the partition's error code, else the exchange's", _error, of_partition=True)
    yield Field("did", Kind.TEXTS, "what faults did: answered, swallowed_answer, held_request, cut, …", _did)
    yield Field("latency_ms", Kind.NUMBER, "from request to answer", _between_ms("request_at_us", "response_at_us"))
    yield Field(
        "broker_ms",
        Kind.NUMBER,
        "what the broker took of it",
        _between_ms("forwarded_at_us", "broker_responded_at_us"),
    )
    yield Field("bytes", Kind.NUMBER, "request and answer together", _bytes)
    yield Field("at", Kind.TIME, "when the request came", _column("request_at_us"))
    for alias, column in (("client", "client_id"), ("node", "node_id"), ("group", "group_id")):
        yield Field(alias, _kind(column), f"short for {column}", _column(column))
    for alias, column in (("fault", "fault_names"), ("fault_kind", "fault_kinds")):
        yield Field(alias, Kind.TEXTS, f"short for {column}", _column(column))
    for alias, name in (("partition", "partition_index"), ("records", "record_count"), ("message_id", "message_ids")):
        yield Field(alias, _kind(name), f"short for {name}", _of_partition(name), of_partition=True)
    for name in COLUMNS:
        if name not in _LEFT_OUT:
            read = _column("api_key") if name == "api_name" else _column(name)
            yield Field(name, _kind(name), f"the row's {name}", read)
    for name in PARTITION_FIELDS:
        if name not in COLUMNS:
            yield Field(name, _kind(name), f"the partition's {name}", _of_partition(name), of_partition=True)


FIELDS: Final[dict[str, Field]] = {field.name: field for field in _listed()}
