"""What a shaped connection records: an answer has left when its last byte has, and the row says which rule held it.

PURE. A session hands over bytes and is done with them; behind it a shape may keep them for seconds, or for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from notleader.faults.actions import Shape
from notleader.faults.decision import Hit, joined
from notleader.faults.effects import Did, Effect
from notleader.proxy.net.shaping import Alone
from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.wire.schemas import Direction

_MOST_KEPT: Final = 1024

Entry = Exchange | ConnectionEvent


class _Piece(NamedTuple):
    """Bytes that came in at `in_us`, up to byte `end` of the stream; `out_us` is 0 while some of them are here.

    `by` are the rules that may hold them, each with when they would have left if it had been alone; 0 where it is.
    `unread_us` is for how long, until then, whoever sends here had not been read, as too much waited.
    """

    end: int
    in_us: int
    requests: int
    by: tuple[tuple[Hit, int], ...]
    unread_us: int
    out_us: int = 0


@dataclass(slots=True)
class _Waiting:
    """What is recorded once byte `end` of the answers has left; the piece that it came with ended at `came`."""

    entry: Entry
    came: int
    end: int


class Crossing:
    """One direction: when what came in left again, and by when each of the rules that hold it would have let it go."""

    def __init__(self) -> None:
        self.came_bytes = self.went_bytes = 0
        self._unread_us = self._crowded_us = 0
        self._shapes: tuple[tuple[Shape, Hit], ...] = ()
        self._alone: dict[Hit, Alone | None] = {}
        self._here: deque[_Piece] = deque()
        self._gone: deque[_Piece] = deque(maxlen=_MOST_KEPT)

    def shaped(self, shapes: tuple[tuple[Shape, Hit], ...]) -> None:
        """These shapes are the direction's from now on."""
        if shapes != self._shapes:
            self._shapes = shapes
            holding = [(shape, hit) for shape, hit in shapes if shape.bytes_per_s or shape.slice_delay_us]
            several = len({hit for _, hit in holding}) > 1
            self._alone = {hit: Alone(shape) if several else None for shape, hit in holding}

    def came(self, size: int, now_us: int, requests: int = 0) -> None:
        """So many bytes are behind all others now; `requests` had begun by then."""
        self.came_bytes += size
        by = tuple((hit, 0 if alone is None else alone.out_us(size, now_us)) for hit, alone in self._alone.items())
        self._here.append(_Piece(self.came_bytes, now_us, requests, by, self._unread_us))

    def crowded(self, crowded: bool, now_us: int) -> None:
        """Whoever sends here is read no more, or again."""
        if crowded:
            self._crowded_us = now_us
        else:
            self._unread_us += now_us - self._crowded_us

    def went(self, size: int, now_us: int) -> None:
        """So many bytes have left."""
        self.went_bytes += size
        while self._here and self._here[0].end <= self.went_bytes:
            self._gone.append(self._here.popleft()._replace(out_us=now_us))

    def piece_up_to(self, end: int) -> _Piece | None:
        """The one in which byte `end` of the stream came; None where that is too long ago."""
        return next((piece for piece in (*self._gone, *self._here) if piece.end >= end), None)

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
        self._waiting: deque[_Waiting] = deque()
        self._cut_by: tuple[Hit, ...] = ()

    def shaped(self, direction: Direction, shapes: Iterable[tuple[Shape, Hit]]) -> None:
        """These shapes are the direction's from now on."""
        self.crossings[direction].shaped(tuple(shapes))

    def cut(self, by: Iterable[Hit]) -> None:
        """The connection ends by these rules: what had no answer yet gets none."""
        self._cut_by = tuple(by)

    def add(self, entry: Entry, now_us: int) -> None:
        """An exchange or event for the capture; of an answer the last byte has just come in."""
        came = self.crossings["response"].came_bytes
        if isinstance(entry, Exchange):
            # Answers that came in one piece end before those behind them begin.
            for other in reversed(self._waiting):
                if other.came != came:
                    break
                other.end -= entry.response_bytes
        self._waiting.append(_Waiting(entry, came, came))
        self.tell(now_us)

    def tell(self, now_us: int, *, for_good: bool = False) -> None:
        """Record what is over; `for_good`: nothing leaves any more, and what still waits never arrived."""
        while self._waiting:
            entry, end = self._waiting[0].entry, self._waiting[0].end
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
                self._answered(entry, end, now_us, arrived=not is_here)
            self._waiting.popleft()
            self._record(entry)

    def _answered(self, exchange: Exchange, end: int, now_us: int, *, arrived: bool) -> None:
        hits = self._held_request(exchange, now_us)
        in_us = out_us = exchange.response_at_us
        piece = self.crossings["response"].piece_up_to(end)
        if piece is not None:
            # What comes behind the last that was shaped leaves as it comes.
            out_us = max(in_us, piece.out_us or now_us) if arrived else now_us
            # Without the shape a large answer would have been read sooner.
            first = self.crossings["response"].piece_up_to(end - exchange.response_bytes + 1)
            unread_us = piece.unread_us - first.unread_us if first is not None else 0
            if exchange.broker_responded_at_us:
                exchange.broker_responded_at_us -= unread_us
            hits += _held(piece, "held_answer", in_us, out_us, unread_us)
        exchange.response_at_us = out_us if arrived else 0
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
        out_us = piece.out_us or now_us
        return _held(piece, "held_request", in_us, out_us) if out_us > piece.in_us else []


def _held(piece: _Piece, did: Did, in_us: int, out_us: int, unread_us: int = 0) -> list[Hit]:
    """The rules that held what came in at `in_us` until `out_us`, each for as long as it would have done alone.

    And that `unread_us` before, each as much of it as it has of that.
    """
    held = [(hit, min(out_us, alone_us or out_us) - in_us) for hit, alone_us in piece.by]
    whole_us = max(out_us - in_us, 1)
    return [_with(hit, did, us + unread_us * us // whole_us) for hit, us in held if us > 0]


def _touch(exchange: Exchange, hits: list[Hit]) -> None:
    for hit in hits:
        exchange.hits = joined(exchange.hits, (hit,))


def _with(hit: Hit, did: Did, held_us: int | None = None) -> Hit:
    return hit._replace(
        phase="before_broker" if did == "held_request" else "after_broker", effects=(Effect(did, held_us=held_us),)
    )
