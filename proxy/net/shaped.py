"""What a shaped connection records: an answer has left when its last byte has, and the row says which rule held it.

PURE. A session hands over bytes and is done with them; behind it a shape may keep them for seconds, or for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from notleader.faults.actions import Shape
from notleader.faults.decision import Hit, joined
from notleader.faults.effects import Did, Effect
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.wire.schemas import Direction

_MOST_KEPT: Final = 1024

Entry = Exchange | ConnectionEvent


class _Piece(NamedTuple):
    """Bytes that came in at `in_us`, up to byte `end` of the stream; `out_us` is 0 while some of them are here."""

    end: int
    in_us: int
    requests: int
    by: tuple[Hit, ...]
    out_us: int = 0


class Crossing:
    """One direction: when what came in left again. `holding` are the rules that may hold what comes in now."""

    def __init__(self) -> None:
        self.holding: tuple[Hit, ...] = ()
        self.came_bytes = self.went_bytes = 0
        self._here: deque[_Piece] = deque()
        self._gone: deque[_Piece] = deque(maxlen=_MOST_KEPT)

    def came(self, size: int, now_us: int, requests: int = 0) -> None:
        """So many bytes are behind all others now; `requests` had begun by then."""
        self.came_bytes += size
        self._here.append(_Piece(self.came_bytes, now_us, requests, self.holding))

    def went(self, size: int, now_us: int) -> None:
        """So many bytes have left."""
        self.went_bytes += size
        while self._here and self._here[0].end <= self.went_bytes:
            self._gone.append(self._here.popleft()._replace(out_us=now_us))

    def piece_of(self, number: int, from_us: int, before_us: int) -> _Piece | None:
        """The one with the end of the request of that number, forwarded at `from_us`, left before `before_us`."""
        found: _Piece | None = None
        for piece in (*self._gone, *self._here):
            if piece.in_us < from_us:
                continue
            # A large request comes in several; what comes when the next one has begun is that one's.
            if found is not None and (piece.requests != number or piece.out_us > before_us):
                break
            found = piece
        return found


class ShapedRecord:
    """Takes what a connection records and passes it on, in order, when what it says of it has come true."""

    def __init__(self, record: Callable[[Entry], None]) -> None:
        self.crossings: dict[Direction, Crossing] = {"request": Crossing(), "response": Crossing()}
        self._record = record
        self._waiting: deque[tuple[Entry, int]] = deque()
        self._cut_by: tuple[Hit, ...] = ()

    def shaped(self, direction: Direction, shapes: Iterable[tuple[Shape, Hit]]) -> None:
        """These shapes are the direction's from now on."""
        holding = [hit for shape, hit in shapes if shape.bytes_per_s or shape.slice_delay_us]
        self.crossings[direction].holding = tuple(dict.fromkeys(holding))

    def cut(self, by: Iterable[Hit]) -> None:
        """The connection ends by these rules: what had no answer yet gets none."""
        self._cut_by = tuple(by)

    def add(self, entry: Entry, now_us: int) -> None:
        """An exchange or event for the capture; of an answer the last byte has just come in."""
        self._waiting.append((entry, self.crossings["response"].came_bytes))
        self.tell(now_us)

    def tell(self, now_us: int, *, for_good: bool = False) -> None:
        """Record what is over; `for_good`: nothing leaves any more, and what still waits never arrived."""
        while self._waiting:
            entry, end = self._waiting[0]
            crossing = self.crossings["response"]
            is_here = crossing.went_bytes < end
            if isinstance(entry, ConnectionEvent):
                if entry.event == "disconnect":
                    entry.at_us = max(entry.at_us, now_us)
                    entry.hits = joined(entry.hits, tuple(_with(hit, "cut") for hit in self._cut_by))
            elif not entry.response_at_us:
                self._unanswered(entry, now_us)
            elif is_here and not (self._cut_by or for_good):
                return
            else:
                self._answered(entry, now_us, arrived=not is_here)
            self._waiting.popleft()
            self._record(entry)

    def _answered(self, exchange: Exchange, now_us: int, *, arrived: bool) -> None:
        hits = self._held_request(exchange, now_us)
        in_us = exchange.response_at_us
        if now_us > in_us:
            hits += [_with(hit, "held_answer", now_us - in_us) for hit in self.crossings["response"].holding]
        exchange.response_at_us = now_us if arrived else 0
        if not arrived:
            exchange.outcome = "closed" if self._cut_by else "no_response"
            hits += [_with(hit, "cut") for hit in self._cut_by]
        _touch(exchange, hits)

    def _unanswered(self, exchange: Exchange, now_us: int) -> None:
        hits = self._held_request(exchange, now_us)
        if exchange.awaits_broker or exchange.broker_responded_at_us:
            hits += [_with(hit, "cut") for hit in self._cut_by]
        _touch(exchange, hits)

    def _held_request(self, exchange: Exchange, now_us: int) -> list[Hit]:
        if not exchange.forwarded_at_us:
            return []
        in_us, answered_us = exchange.forwarded_at_us, exchange.broker_responded_at_us or now_us
        piece = self.crossings["request"].piece_of(exchange.seq, in_us, answered_us)
        if piece is None:
            return []
        exchange.forwarded_at_us = piece.out_us and max(piece.out_us, in_us)
        held_us = (piece.out_us or now_us) - in_us
        held = held_us if (piece.out_us or now_us) > piece.in_us else 0
        return [_with(hit, "held_request", held) for hit in piece.by if held > 0]


def _touch(exchange: Exchange, hits: list[Hit]) -> None:
    for hit in hits:
        exchange.hits = joined(exchange.hits, (hit,))


def _with(hit: Hit, did: Did, held_us: int | None = None) -> Hit:
    return hit._replace(
        phase="before_broker" if did == "held_request" else "after_broker", effects=(Effect(did, held_us=held_us),)
    )
