"""What one frame of a journal says, as bytes and back: numbers that were read in passing, and records. Pure.

journal.md is the format. This is the only module that knows it: a proxy packs, the recorder unpacks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from notleader.faults.base import Connection
from notleader.faults.decision import Hit
from notleader.faults.effects import Effect
from notleader.proxy.pump import Exchange, Kept, Passing
from notleader.proxy.record.block import Block, Summary, Tables, Unread
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import Level
from notleader.proxy.record.skim import Batches, Skimmed, skim_request, skim_response, skimmed
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.secret_fields import without_secrets

_SIZES: Final = Struct("<5I")  # tables' number, partitions that shapes tell, exchanges, their partitions, bytes of both
_RECORD: Final = Struct("<3I")  # bytes of the JSON, of a request, of an answer
_PRODUCE: Final = int(ApiKey.Produce)
_FETCH: Final = int(ApiKey.Fetch)
_ROWS_THEMSELVES: Final = (b'["exchange",', b'["event",', b'["gap",')
_write: Final = json.JSONEncoder(separators=(",", ":")).encode

ABSENT, WHOLE, SKIMMED, PASSED, HIDDEN = range(5)
"""What there is of a frame: nothing, all its bytes, what was read of it in passing, no more than that it passed, or
nothing because it holds secrets that can't be hidden one by one."""
WHO_FIELDS: Final = (
    "connection_id",
    "client_addr",
    "listener",
    "node_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "principal",
)


class PackedExchange(NamedTuple):
    """An exchange as it was packed, and how much of it was left out."""

    exchange: Exchange
    is_hidden: bool


class Gap(NamedTuple):
    """Rows that are missing: how many and why, and when the first and the last of them began (µs), where known."""

    detail: str
    first_us: int | None
    last_us: int | None


def told_loss(reason: str, rows: int) -> str:
    """What a gap's detail says of so many."""
    return f"lost {rows} {'row' if rows == 1 else 'rows'}: {reason}"


class Unpacked(NamedTuple):
    """One frame. Those with the same number of ``tables`` point into the same ones, of which a later one knows more."""

    tables: int
    told: int
    rows: int
    parts: int
    numbers: memoryview
    whos: list[list[Any]]
    """Each begins with its place; so do the others."""
    whats: list[list[Any]]
    unread: list[tuple[int, Exchange]]
    templates: list[list[Any]]
    topics: list[tuple[UUID, str]]
    entries: list[PackedExchange | ConnectionEvent | Gap]


# ---- packing --------------------------------------------------------------------------------------


def pack_exchange(exchange: Exchange, level: Level) -> bytes:
    """The record of an exchange that has to be read in full: its numbers, hits, and what was kept of its frames.

    Secrets never get there, and nor do a Produce's or a Fetch's records below the level that wants to see them.
    """
    api_key, version = exchange.api_key, exchange.api_version
    request, asked, request_kind = _packed(exchange.request)
    response, answered, response_kind = _packed(exchange.response)
    if request_kind == WHOLE:
        if api_key in (_PRODUCE, _FETCH):
            told = None if level.reads_records else skim_request(api_key, version, request)
            told_answer = skim_response(api_key, version, response) if response_kind == WHOLE else None
            if told is not None and (response_kind != WHOLE or told_answer is not None):
                request, asked, request_kind = b"", _facts(told), SKIMMED
                if response_kind == WHOLE:
                    response, answered, response_kind = b"", _facts(told_answer), SKIMMED
        else:
            whole = response if response_kind == WHOLE else None
            shown, shown_answer = without_secrets(api_key, version, request, whole)
            if shown is None:
                request, request_kind = b"", HIDDEN
            else:
                request = shown
            if response_kind == WHOLE:
                response, response_kind = (b"", HIDDEN) if shown_answer is None else (shown_answer, WHOLE)
    text = _write(
        [
            "exchange",
            exchange.seq,
            api_key,
            version,
            exchange.correlation_id,
            exchange.request_at_us,
            exchange.forwarded_at_us,
            exchange.broker_responded_at_us,
            exchange.response_at_us,
            exchange.request_bytes,
            exchange.response_bytes,
            exchange.outcome,
            exchange.client_id,
            _who(exchange.connection),
            _hits(exchange.hits),
            request_kind,
            asked,
            response_kind,
            answered,
        ]
    ).encode()
    return b"".join((_RECORD.pack(len(text), len(request), len(response)), text, request, response))


def pack_event(event: ConnectionEvent) -> bytes:
    """The record of something that happened to a connection, or to the proxy."""
    who = None if event.connection is None else _who(event.connection)
    return _record(["event", event.event, event.at_us, event.detail, who, _hits(event.hits)])


def pack_gap(gap: Gap) -> bytes:
    """The record of rows that are missing."""
    return _record(["gap", *gap])


def pack_topic(topic_id: UUID, name: str) -> bytes:
    """The record of a topic id's name."""
    return _record(["topic", topic_id.hex, name])


class Entries:
    """Which entries of a block's tables a journal has by now."""

    def __init__(self) -> None:
        self._tables: Tables | None = None
        self._number = 0
        self._known: tuple[set[int], set[int], set[int]] = (set(), set(), set())

    def pack(self, block: Block) -> tuple[bytes, list[bytes], tuple[set[int], set[int], set[int]]]:
        """The sizes, the records of the entries that are new, and what to tell `added` once they are written."""
        if block.tables is not self._tables:
            self._tables = block.tables
            self._number += 1
            self._known = (set(), set(), set())
        tables = block.tables
        whos, whats, templates = [{*used} - known for used, known in zip(block.used, self._known, strict=True)]
        records = [_record(["who", place, *tables.whos[place]]) for place in whos]
        records += [_what(place, tables.whats[place]) for place in whats]
        records += [_record(["part", place, *tables.templates[place]]) for place in templates]
        sizes = _SIZES.pack(self._number, block.told, block.rows, block.parts, len(block.numbers))
        return sizes, records, (whos, whats, templates)

    def added(self, places: tuple[set[int], set[int], set[int]]) -> None:
        """These have been written."""
        for known, more in zip(self._known, places, strict=True):
            known |= more


NO_BLOCK: Final = _SIZES.pack(*(0,) * 5)
"""The beginning of a frame that has records alone."""


def _what(place: int, what: Summary) -> bytes:
    if isinstance(what, Unread):
        api_key, _, version, outcome, *_ = what.values
        return _record(["unread", place, api_key, version, outcome], what.request, what.response)
    return _record(["what", place, *what.values, what.partitions])


def _record(said: list[Any], request: bytes = b"", response: bytes = b"") -> bytes:
    text = _write(said).encode()
    return b"".join((_RECORD.pack(len(text), len(request), len(response)), text, request, response))


def _packed(frame: Kept) -> tuple[bytes, Any, int]:
    """A frame's bytes, what was read of it in passing, and which of the two there is."""
    if frame is None:
        return b"", None, ABSENT
    if isinstance(frame, Passing):
        said = skimmed(frame)
        return b"", _facts(said), PASSED if said is None else SKIMMED
    if isinstance(frame, list):
        return b"".join(frame), None, WHOLE
    return bytes(frame), None, WHOLE


def _facts(skimmed: Skimmed | None) -> Any:
    if skimmed is None:
        return None
    parts = [
        [name, None if topic_id is None else bytes(topic_id).hex(), *others]
        for name, topic_id, *others in skimmed.parts
    ]
    return [parts, *skimmed[1:]]


def _who(connection: Connection) -> list[Any]:
    return [getattr(connection, name) for name in WHO_FIELDS]


def _hits(hits: Iterable[Hit]) -> list[Any]:
    return [[hit.rule_name, hit.kind, hit.phase, list(map(_effect, hit.effects))] for hit in hits]


def _effect(effect: Effect) -> list[Any]:
    before = [[str(topic), index, offset] for (topic, index), offset in effect.offsets_before]
    return [effect.did, effect.error_code, _chosen(effect.partitions), effect.held_us, before]


def _chosen(chosen: Iterable[tuple[Any, int]] | None) -> list[Any] | None:
    return None if chosen is None else [[str(topic), index] for topic, index in chosen]


# ---- unpacking ------------------------------------------------------------------------------------


def unpack(content: bytes) -> Unpacked:
    """What a frame says. Raises ValueError, LookupError or struct.error on bytes that `pack` didn't write."""
    view = memoryview(content)
    number, told, rows, parts, numbers_bytes = _SIZES.unpack_from(view)
    rest = view[_SIZES.size :]
    found = Unpacked(number, told, rows, parts, rest[:numbers_bytes], [], [], [], [], [], [])
    for said, request, response in _records(rest[numbers_bytes:]):
        kind, *values = said
        if kind == "exchange":
            found.entries.append(_exchange(values, request, response))
        elif kind == "event":
            event, at_us, detail, who, hits = values
            connection = None if who is None else _connection(who)
            found.entries.append(ConnectionEvent(event, connection, at_us, detail, _read_hits(hits)))
        elif kind == "gap":
            found.entries.append(Gap(*values))
        elif kind == "topic":
            found.topics.append((UUID(values[0]), values[1]))
        elif kind == "who":
            found.whos.append(values)
        elif kind == "what":
            found.whats.append(values)
        elif kind == "unread":
            place, api_key, version, outcome = values
            exchange = Exchange(_NOBODY, 0, api_key, version, 0, None, 0, 0, 0)
            exchange.outcome = outcome
            exchange.request, exchange.response = bytes(request), bytes(response)
            found.unread.append((place, exchange))
        elif kind == "part":
            found.templates.append(values)
        else:
            raise ValueError(f"a record of kind {kind!r}")
    return found


def rows_in(content: bytes) -> int:
    """How many rows a frame has, told without reading any of them."""
    rows: int
    _, _, rows, _, numbers_bytes = _SIZES.unpack_from(content)
    at = _SIZES.size + numbers_bytes
    while at + _RECORD.size <= len(content):
        sizes = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        rows += content.startswith(_ROWS_THEMSELVES, at)
        at += sum(sizes)
    return rows


_NOBODY: Final = Connection(0, 0, "", None, "")


def _records(data: memoryview) -> Iterator[tuple[list[Any], memoryview, memoryview]]:
    at = 0
    while at < len(data):
        text, request, response = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        ends = at + text, at + text + request, at + text + request + response
        yield json.loads(bytes(data[at : ends[0]])), data[ends[0] : ends[1]], data[ends[1] : ends[2]]
        at = ends[2]


def _exchange(values: Sequence[Any], request: memoryview, response: memoryview) -> PackedExchange:
    (seq, api_key, version, correlation_id, request_at, forwarded_at, responded_at, answered_at) = values[:8]
    request_bytes, response_bytes, outcome, client_id, who, hits = values[8:14]
    request_kind, asked, response_kind, answered = values[14:]
    exchange = Exchange(
        _connection(who), seq, api_key, version, correlation_id, client_id, request_at, request_bytes, 0
    )
    exchange.forwarded_at_us = forwarded_at
    exchange.broker_responded_at_us = responded_at
    exchange.response_at_us = answered_at
    exchange.response_bytes = response_bytes
    exchange.outcome = outcome
    exchange.hits = _read_hits(hits)
    exchange.request = _kept(request_kind, asked, request)
    exchange.response = _kept(response_kind, answered, response)
    return PackedExchange(exchange, HIDDEN in (request_kind, response_kind))


def _kept(kind: int, facts: Any, frame: memoryview) -> Kept:
    if kind == WHOLE:
        return bytes(frame)
    if kind in (SKIMMED, PASSED):
        return Passing(said=None if facts is None else _read_facts(facts))
    return None


def _read_facts(facts: Any) -> Skimmed:
    parts, *others = facts
    read = [
        (
            name,
            None if topic_id is None else bytes.fromhex(topic_id),
            *numbers,
            None if batches is None else Batches(*batches),
        )
        for name, topic_id, *numbers, batches in parts
    ]
    return Skimmed(read, *others)


def _connection(who: Sequence[Any]) -> Connection:
    values = dict(zip(WHO_FIELDS, who, strict=True))
    return Connection(nth=0, **values)


def _read_hits(hits: Iterable[Any]) -> tuple[Hit, ...]:
    return tuple(
        Hit(
            name,
            kind,
            phase,
            effects=tuple(map(read_effect, effects)),
        )
        for name, kind, phase, effects in hits
    )


def read_effect(effect: Sequence[Any]) -> Effect:
    """What a rule did, as `_effect` wrote it; a journal of an older version ends it earlier."""
    did, code, chosen, *later = effect
    held_us, before = (*later, None, None)[:2]
    offsets = tuple(((topic, index), offset) for topic, index, offset in before or ())
    return Effect(did, code, _read_chosen(chosen), held_us, offsets)


def _read_chosen(chosen: list[Any] | None) -> frozenset[tuple[str, int]] | None:
    return None if chosen is None else frozenset((topic, index) for topic, index in chosen)
