"""One conversation, played on what this process has of `notleader.proxy.pump`; what is told of it is plain data.

As a program it plays for another process: pickled conversations on stdin, what became of each on stdout.
"""

from __future__ import annotations

import pickle
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from notleader.faults.decision import Decision, Hit
from notleader.proxy.pump import IS_NATIVE, Exchange, Passing, exchange, pieces
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import Level, Row, Rows
from notleader.proxy.record.sink import ExchangeSink, Traffic
from notleader.proxy.record.skim import skimmed
from tests.proxy.session.conversation import Conversation

_COLUMNS = sorted({*exchange._Exchange.__slots__, *exchange.Exchange.__annotations__})


@dataclass
class Play:
    """What both sides say, and in which portions; ``steps`` are ``(who, bytes, ms until the next)``.

    The broker answers every whole frame that it gets, copies too, with what ``answers`` has under the frame's
    correlation id (its bytes 8 to 12) or, without one, not at all. Who else there is: ``client_eof``, ``broker_eof``,
    ``gone``, and ``wake``, which only lets the time pass.
    """

    sent: bytes
    answers: dict[bytes, bytes] = field(default_factory=dict)
    steps: list[tuple[str, int, float]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    level: str | None = None
    most_kept_bytes: int = 64 << 20
    limits: dict[str, int] = field(default_factory=dict)


def play(script: Play) -> tuple[bool, list[Any]]:
    """Whether that was the compiled one; and of each step the commands, the records, and who the client then is.

    Last come all the records once more, and what a sink and the capture make of them.
    """
    talk = Conversation(*script.faults, **script.limits)
    talk.table.record_at(None if script.level is None else Level(script.level), script.most_kept_bytes)
    session = talk.session
    unsent, unanswered, asked = script.sent, b"", b""
    told: list[Any] = []
    entries: list[Exchange | ConnectionEvent] = []
    for who, size, ms in script.steps:
        commands: list[Any] = []
        if who == "client" and unsent[:size]:
            commands = talk.client(unsent[:size])
            unsent = unsent[size:]
        elif who == "broker" and unanswered[:size]:
            commands = talk.broker(unanswered[:size])
            unanswered = unanswered[size:]
        elif who == "wake":
            commands = talk.at(talk.now_ms)
        elif who in ("client_eof", "broker_eof"):
            getattr(session, who)(talk.now_us)
            commands = talk.commands()
        elif who == "gone":
            session.gone(talk.now_us, "gone")
            commands = talk.commands()
        asked += b"".join(command[1] for command in commands if command[0] == "to_broker")
        while len(asked) >= 4 and 0 <= (whole := 4 + int.from_bytes(asked[:4], "big")) <= len(asked):
            unanswered += script.answers.get(asked[8:12], b"")
            asked = asked[whole:]
        told.append((who, _said(commands), [_told(entry) for entry in talk.records], repr(session.connection)))
        entries += talk.records
        talk.records.clear()
        talk.now_ms += ms
    # Of an acks=0 Produce that came in pieces there is more now than when it was recorded.
    return IS_NATIVE, [*told, [_told(entry) for entry in entries], _counted(entries), _rows(entries, script.level)]


def _counted(entries: list[Exchange | ConnectionEvent]) -> Any:
    noticed: list[Any] = []
    recorded: list[Any] = []
    sink = ExchangeSink(Traffic(), lambda entry: noticed.append(_told(entry)))
    half = len(entries) // 2
    for entry in entries[:half]:
        sink.record(entry)
    sink.capture = lambda entry: recorded.append(_told(entry))
    for place, entry in enumerate(entries[half:]):
        sink.is_awake = place > 0
        sink.record(entry)
    return noticed, recorded, values_of(sink.traffic)


def _rows(entries: list[Exchange | ConnectionEvent], level: str | None) -> list[Row]:
    """What the capture says of the exchanges, from what was kept of them."""
    if level is None:
        return []
    rows = Rows("run", "proxy", 7, Level(level))
    return [rows.of(entry) for entry in entries if isinstance(entry, Exchange)]


def values_of(traffic: Traffic) -> dict[str, Any]:
    """What was counted, as plain data."""
    names = ("broker_bytes", "client_bytes", "latency_sum_us", "latency_us", "unanswered")
    values = {name: getattr(traffic, name) for name in names}
    return {name: dict(value) if isinstance(value, dict) else value for name, value in values.items()}


def _said(commands: list[Any]) -> list[Any]:
    """The commands, with what goes one way in a row as one: how many calls that took is nobody's concern."""
    said: list[Any] = []
    for name, *values in commands:
        if said and name in ("to_broker", "to_client") and said[-1][0] == name:
            said[-1] = (name, said[-1][1] + values[0])
        else:
            said.append((name, *map(str, values)) if name == "newer_versions" else (name, *values))
    return said


def _told(entry: Exchange | ConnectionEvent) -> Any:
    if isinstance(entry, ConnectionEvent):
        return (entry.event, entry.at_us, entry.detail)
    return {name: _plain(getattr(entry, name)) for name in _COLUMNS if name != "connection"}


def _plain(value: Any) -> Any:
    """A column's value as something that can be compared from one process to another."""
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, Passing):
        return (value.head, repr(skimmed(value)))
    if isinstance(value, memoryview | list):
        return bytes(pieces.joined(value))
    if isinstance(value, Decision):
        return (_hits(value.hits), [type(action).__name__ for action in value.actions], len(value.on_response))
    if isinstance(value, tuple) and value and isinstance(value[0], Hit):
        return _hits(value)
    if isinstance(value, deque | tuple):
        return repr(value)
    return type(value).__name__  # a function, a Relayed


def _hits(hits: tuple[Hit, ...]) -> str:
    """Hits as text; a set's order is another one in each process."""
    told = [
        (
            hit._replace(effects=()),
            [(one._replace(partitions=None), sorted(map(repr, one.partitions or ()))) for one in hit.effects],
        )
        for hit in hits
    ]
    return repr(told)


if __name__ == "__main__":
    while True:
        try:
            script = pickle.load(sys.stdin.buffer)
        except EOFError:
            break
        pickle.dump(play(script), sys.stdout.buffer)
        sys.stdout.buffer.flush()
