"""Outcome lines: one JSON object per word of a client, `pending` first, so that a kill at any moment loses none.

The format is that of the analysis (docs/analysis.md): `called_at_us` → `returned_at_us` is how long the call held its
caller, `completed_at_us` when the client said what became of it; all times in µs since the epoch, UTC.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HEADER = "notleader-id"
"""The record header that carries a message's id; the proxy's capture (level `record`) and every consumer read it."""

REFUSED = frozenset({10, 12, 17, 18, 21, 28, 29, 30, 31, 32, 35, 42, 43, 44, 53, 76, 87})
"""Kafka's error codes that surely kept a record (or a commit) out: refused before anything was appended, and no retry
gets past them. NOT_LEADER_OR_FOLLOWER (6) is none of them: it can come after the append (KAFKA-13574)."""

Headers = list[tuple[str, bytes]]


class Lines:
    """The outcome lines of one client. Several clients, threads and processes may append to one file."""

    def __init__(self, file: str | Path, client: str, client_version: str, **always: Any) -> None:
        """`always` goes into every line (say `group_id`, `budget_ms`); OSError when `file` can't be appended to."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        given = {name: value for name, value in always.items() if value is not None}
        self._always = {"client": client, "client_version": client_version, **given}
        self._ids = (f"{client}-{os.getpid():x}-{time.time_ns():x}-{number}" for number in itertools.count())

    def new_id(self) -> str:
        """An id for a message, which no other message has."""
        return next(self._ids)

    def called(self, operation: str, **fields: Any) -> dict[str, Any]:
        """A call begins: write `pending`, and return the line to finish with `returned`, `ok`, `failed`, `unsent`."""
        line = self.line(operation, now_us(), **fields)
        self._write({**line, "outcome": "pending"})
        return line

    def line(self, operation: str, called_at_us: int, **fields: Any) -> dict[str, Any]:
        """The line of a call of which nothing was written yet."""
        fields.setdefault("thread", threading.current_thread().name)
        return {**self._always, "operation": operation, **fields, "called_at_us": called_at_us}

    def ok(self, line: dict[str, Any], offset: int | None = None, **fields: Any) -> None:
        """The client confirmed the operation, at `offset` unless it was told none (acks=0)."""
        if offset is not None and offset >= 0:
            fields["offset"] = offset
        self._write({**line, **fields, "completed_at_us": now_us(), "outcome": "ok"})

    def failed(self, line: dict[str, Any], error: object) -> None:
        """The client reported an error: `fail` when it surely kept the operation from happening, else `info`."""
        self._ended(line, "fail" if refused(error) else "info", error)

    def unsent(self, line: dict[str, Any], error: object) -> None:
        """The call itself raised, before the client had taken the record: it never left."""
        self._ended(line, "fail", error)

    def _ended(self, line: dict[str, Any], outcome: str, error: object) -> None:
        said = f"{type(error).__name__}: {error}"
        self._write({**line, "completed_at_us": now_us(), "outcome": outcome, "error": said})

    def got(self, records: Iterable[dict[str, Any]]) -> None:
        """Records that a consumer was handed: `message_id`, `topic`, `partition`, `offset` of each."""
        at, thread = now_us(), threading.current_thread().name
        common = {**self._always, "operation": "poll", "completed_at_us": at, "outcome": "ok", "thread": thread}
        self._write(*({**common, **record} for record in records))

    def sought(self, places: Iterable[tuple[str, int]], offset: int | None = None) -> None:
        """The application moved a consumer in these places (topic, partition), to `offset` or to one nobody named.

        To be called before the client does it: what it reads there comes after.
        """
        at, thread = now_us(), threading.current_thread().name
        common = {**self._always, "operation": "seek", "called_at_us": at, "completed_at_us": at, "outcome": "ok"}
        where = {} if offset is None else {"offset": offset}
        lines = [{**common, "thread": thread, "topic": topic, "partition": number, **where} for topic, number in places]
        self._write(*lines)

    def _write(self, *lines: dict[str, Any]) -> None:
        # One write per call: appended whole, whoever else appends.
        if lines:
            os.write(self._file, "".join(json.dumps(line) + "\n" for line in lines).encode())


class Consumed:
    """What a consumer handed out, and so what a commit that names no offsets commits.

    A place is a topic and a partition, as the clients' TopicPartition is; a record has the attributes that aiokafka's
    and kafka-python's have.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._reached: dict[tuple[str, int], int] = {}

    def got(self, records: Iterable[Any]) -> None:
        """These were handed out."""
        told = []
        for record in records:
            place = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
            told.append({"message_id": id_in(record.headers), **place})
        self.handed_out(told)

    def handed_out(self, told: Iterable[dict[str, Any]]) -> None:
        """As `got`, of records that have no such attributes: as `Lines.got` takes them."""
        told = list(told)
        for record in told:
            self._reached[record["topic"], record["partition"]] = record["offset"] + 1
        self._lines.got(told)

    def reached(self, assigned: Container[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Up to where was handed out what is assigned."""
        return {place: at for place, at in self._reached.items() if place in assigned}

    def committing(
        self, offsets: Mapping[tuple[str, int], int] | None, assigned: Callable[[], Container[tuple[str, int]]]
    ) -> list[dict[str, Any]]:
        """A commit begins, of these offsets or of all that was handed out of what is assigned: its lines."""
        if offsets is None:
            offsets = self.reached(assigned())
        return [
            self._lines.called("commit", topic=topic, partition=partition, offset=at)
            for (topic, partition), at in offsets.items()
        ]

    def settle(self, lines: Iterable[dict[str, Any]], error: Exception | None = None) -> None:
        """How the commit of these lines ended."""
        for line in lines:
            line.setdefault("returned_at_us", now_us())
            if error is None:
                self._lines.ok(line)
            else:
                self._lines.failed(line, error)


def returned(line: dict[str, Any]) -> None:
    """The call gave its caller back; whatever is written of it from now on says when."""
    line["returned_at_us"] = now_us()


def refused(error: object) -> bool:
    """True for an error of Kafka's that surely kept the operation from happening; a timeout never is one.

    Clients in Python have the code as `errno` (aiokafka, kafka-python) or `code()` (librdkafka).
    """
    code = getattr(error, "errno", None)
    if code is None and callable(told := getattr(error, "code", None)):
        code = told()
    return code in REFUSED


def named(lines: Lines, headers: Sequence[tuple[str, bytes]] | None) -> tuple[str, Headers]:
    """The message's id and its headers with the id among them: the application's own id when it has one."""
    had = list(headers or ())
    found = id_in(had)
    if found is not None:
        return found, had
    message_id = lines.new_id()
    return message_id, [*had, (HEADER, message_id.encode())]


def id_in(headers: Iterable[tuple[str, bytes | str | None]] | None) -> str | None:
    """The id in a record's headers, or None."""
    for name, value in headers or ():
        if name == HEADER and value is not None:
            return value if isinstance(value, str) else value.decode(errors="replace")
    return None


def key_hash(key: object) -> int | None:
    """CRC-32 of a key of bytes or text, as the proxy's capture has it; None for any other."""
    data = key.encode() if isinstance(key, str) else key
    return zlib.crc32(data) if isinstance(data, bytes | bytearray | memoryview) else None


def now_us() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000
