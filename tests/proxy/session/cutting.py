"""Exchanges whose bytes come in pieces: what passes, and what the capture says of it, must not depend on the cuts.

As a program it plays every case of `session.cut_frames` on what this process has of `notleader.proxy.pump`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.faults.schema import parse_faults
from notleader.proxy.pump import IS_NATIVE, Exchange
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.rows import Level, Rows
from notleader.proxy.record.sink import IS_COMPILED
from notleader.proxy.session.commands import Script
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.session import Session
from notleader.proxy.wire.names import ApiKey
from tests.proxy.record.blocks import rows_of
from tests.proxy.session.conversation import request, response

# What is said behind the frames that are looked at: whoever is lost in those takes these for something else.
_LATER: Final = request(ApiKey.Heartbeat, 3, 0x7A7A7A7A, {"group_id": "later"})
_LATER_ANSWER: Final = response(ApiKey.Heartbeat, 3, 0x7A7A7A7A, {"error_code": 27})
# What a session may ask for besides, once, where nothing is wrong.
_HARMLESS: Final = frozenset(("brokers_seen", "newer_versions"))


@dataclass(frozen=True)
class Said:
    """One request and its answer, whole frames with their lengths; the answer is empty where none is due."""

    name: str
    request: bytes
    answer: bytes
    rewritten: bool = False
    """Whether the client gets another answer than the broker gave: one with the proxy's addresses."""
    hidden: bytes = b""
    """The answer in which a client finds no endpoints, for it skips what it knows no tag number for."""


@dataclass(frozen=True)
class Seen:
    """What became of it: what either side got, and the rows of the capture, read in full and in passing."""

    to_broker: bytes
    to_client: bytes
    others: tuple[Any, ...]
    rows: tuple[Any, ...]
    passing: tuple[Any, ...]


class Stage:
    """Where exchanges are played, each on a connection of its own, in front of one plan and one capture."""

    def __init__(self, level: Level | None, rules: Sequence[dict[str, Any]] = (), most_kept_bytes: int = 64 << 20):
        self._plan = Plan(seed=7, faults=parse_faults(list(rules)))
        self._table = Handling(level)
        self._table.record_at(level, most_kept_bytes)
        self._rows = Rows("run", "proxy", 7, level or Level.HEADER)
        self._blocks = None
        if IS_COMPILED and level in (Level.HEADER, Level.PARTITION):
            self._blocks = Blocks(level, self._rows.topics)

    def play(self, said: Said, asked_at: Sequence[int] = (), answered_at: Sequence[int] = ()) -> Seen:
        """One exchange and a heartbeat behind it, each direction cut at these places."""
        script = Script()
        connection = Connection(1, 1, "bootstrap", None, "127.0.0.1:5")
        session = Session(
            connection, self._plan, self._table, script, lambda node_id, _host, _port: ("proxy", 9000 + node_id)
        )
        for piece in _cut(said.request + _LATER, asked_at):
            session.client_bytes(piece, 1_000_000)
        for piece in _cut(said.answer + _LATER_ANSWER, answered_at):
            session.broker_bytes(piece, 1_000_500)
        to_broker, to_client = bytearray(), bytearray()
        others: list[Any] = []
        entries: list[Exchange] = []
        for name, *values in script.log:
            if name == "to_broker":
                to_broker += values[0]
            elif name == "to_client":
                to_client += values[0]
            elif name == "record" and isinstance(values[0], Exchange):
                entries.append(values[0])
            elif name not in _HARMLESS:
                others.append((name, *values))
        # An acks=0 Produce is recorded in its own time; who tells its row looks at the whole.
        entries.sort(key=lambda entry: entry.seq)
        return Seen(
            bytes(to_broker),
            bytes(to_client),
            tuple(others),
            tuple(tuple(map(_plain, self._rows.of(entry))) for entry in entries),
            tuple(self._in_passing(entry) for entry in entries),
        )

    def _in_passing(self, entry: Exchange) -> Any:
        if self._blocks is None:
            return None
        if not self._blocks.writer.take(entry):
            self._blocks.remember(entry)
            if not self._blocks.writer.take(entry):
                return None
        (row,) = rows_of(self._blocks.swap(), "run", "proxy", 7)
        return repr(tuple(map(_plain, row)))


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview | bytearray) else value


def _cut(data: bytes, at: Iterable[int]) -> Iterator[bytes]:
    for start, stop in pairwise([0, *at, len(data)]):
        yield data[start:stop]


def differences(stage: Stage, said: Said, cuts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Iterator[str]:
    """What isn't as it is where the same comes whole: one sentence for each cut, (of the request, of the answer).

    An answer with endpoints may pass in one of two ways: with the proxy's addresses in it, or, where it had begun to
    leave before these came, with the endpoints hidden. Each has rows of its own.
    """
    whole = stage.play(said)
    if whole.others:
        yield f"{said.name}, whole: {whole.others}"
        return
    if whole.to_broker != said.request + _LATER:
        yield f"{said.name}, whole: the broker got something else"
    if not said.rewritten and whole.to_client != said.answer + _LATER_ANSWER:
        yield f"{said.name}, whole: the client got something else"
    if len(whole.rows) != 2:
        yield f"{said.name}, whole: {len(whole.rows)} rows"
    ways = {whole.to_client: whole}
    hidden = said.hidden + _LATER_ANSWER if said.hidden else None
    for asked_at, answered_at in cuts:
        seen = stage.play(said, asked_at, answered_at)
        if seen.to_client == hidden:
            ways.setdefault(hidden, seen)
        way = ways.get(seen.to_client, whole)
        wrong = [
            f"{name}: {_first_difference(getattr(way, name), getattr(seen, name))}"
            for name in ("to_broker", "to_client", "others", "rows")
            if getattr(seen, name) != getattr(way, name)
        ]
        # What is not known yet is not taken in passing; what is taken says the same.
        if any(None not in both and both[0] != both[1] for both in zip(way.passing, seen.passing, strict=False)):
            wrong.append("in passing")
        if wrong:
            sizes = f"{len(said.request)} and {len(said.answer)} bytes"
            yield f"{said.name} of {sizes}, cut at {asked_at} and {answered_at}: {', '.join(wrong)}"


def _first_difference(wanted: Any, got: Any) -> str:
    """Where two values differ: a tuple's first element that does, in it likewise."""
    if isinstance(wanted, tuple) and isinstance(got, tuple) and len(wanted) == len(got):
        return next(
            f"[{place}] {_first_difference(*both)}"
            for place, both in enumerate(zip(wanted, got, strict=True))
            if both[0] != both[1]
        )
    return f"{str(wanted)[:200]} became {str(got)[:200]}"


def main() -> None:
    """Play all; what differs is printed, and the last line says how many were played."""
    from tests.proxy.session.cut_frames import plays

    played, found = 0, 0
    for stage, said, cuts in plays("all" in sys.argv[1:]):
        cuts = list(cuts)
        played += len(cuts)
        for difference in differences(stage, said, cuts):
            found += 1
            if found <= 50:
                print(difference)
    print(f"{'compiled' if IS_NATIVE else 'pure'}: {played} played, {found} differ")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
