"""One direction of one connection: a chain of toxics, and what is planned to leave it.

PURE: the caller brings the bytes and the time, and sends what `due` hands out. A chain is a fold over the pieces, so it
makes no difference when a piece goes through it: only some of what waits is cut up and planned beforehand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from notleader.proxy.net.shaping.kinds import NEVER_US, Piece, Toxic

BUFFER_BYTES: Final = 64 << 10
_BITE_BYTES: Final = 4 << 10
_AHEAD_PIECES: Final = 64  # a chain may make a piece of every byte


class Pipe:
    """Bytes in by `receive` and `end`, planned pieces out by `due`; the chain may change at any time.

    A None in the chain is a toxic whose toxicity spared this connection.
    """

    __slots__ = ("_chain", "_ended", "_incoming", "_incoming_bytes", "_planned", "_planned_bytes")

    def __init__(self, chain: Iterable[Toxic | None] = ()) -> None:
        self._chain: list[Toxic | None] = list(chain)
        self._planned: deque[Piece] = deque()
        self._planned_bytes = 0
        self._incoming: deque[Piece] = deque()
        self._incoming_bytes = 0
        self._ended = False

    @property
    def waiting_bytes(self) -> int:
        """How much is on its way."""
        return self._planned_bytes + self._incoming_bytes

    @property
    def is_full(self) -> bool:
        """Whether the source should pause: this much is waiting already."""
        extra = sum(toxic.buffer_bytes for toxic in self._chain if toxic is not None)
        return self.waiting_bytes >= BUFFER_BYTES + extra

    def receive(self, data: bytes, now_us: int) -> None:
        """Bytes came from the source."""
        self._incoming.append(Piece(now_us, data, since_us=now_us))
        self._incoming_bytes += len(data)
        self._admit()

    def end(self, now_us: int) -> None:
        """The source said that no more will come."""
        self._incoming.append(Piece(now_us, None))
        self._admit()

    def due(self, now_us: int) -> list[Piece]:
        """The pieces whose time has come, in order; after one that ends the stream there is nothing more."""
        self._pass_deadlines(now_us)
        leaving: list[Piece] = []
        while self._planned and self._planned[0].at_us <= now_us:
            piece = self._planned.popleft()
            self._planned_bytes -= len(piece.data or b"")
            leaving.append(piece)
            self._admit()
        return leaving

    def drain(self) -> list[bytes]:
        """All that is on its way, in order, whatever the chain would make of it: the pipe is given up."""
        rest = [piece.data for piece in (*self._planned, *self._incoming) if piece.data is not None]
        self._planned.clear()
        self._incoming.clear()
        self._planned_bytes = self._incoming_bytes = 0
        return rest

    def next_due_us(self) -> int | None:
        """When `due` has something again if nothing else happens; None when only new bytes can change that."""
        times = [self._planned[0].at_us] if self._planned else []
        if not self._ended:
            times += [toxic.deadline_us for toxic in self._chain if toxic is not None]
        soonest = min(times, default=NEVER_US)
        return None if soonest >= NEVER_US else soonest

    def add(self, toxic: Toxic | None) -> None:
        """Append a toxic; what is on its way goes through it too."""
        self._chain.append(toxic)
        planned = list(self._planned)
        self._planned.clear()
        self._planned_bytes = 0
        self._ended = self._ended and all(piece.data is not None for piece in planned)
        self._plan(planned if toxic is None else _through(toxic, planned))
        self._admit()

    def replace(self, index: int, toxic: Toxic | None, now_us: int) -> None:
        """Put another toxic (or the same with other attributes) at `index`; what was on its way leaves now."""
        self._chain[index] = toxic
        self._hurry(now_us)

    def toxic_at(self, index: int) -> Toxic | None:
        """The toxic at `index` of the chain, None where toxicity spared this connection."""
        return self._chain[index]

    def remove(self, index: int, now_us: int) -> None:
        """Take a toxic out; what was on its way leaves now."""
        toxic = self._chain.pop(index)
        self._hurry(now_us)
        if toxic is not None and toxic.ends_when_removed:
            self._feed([Piece(now_us, None)], index)

    def _hurry(self, now_us: int) -> None:
        self._planned = deque(piece._replace(at_us=min(piece.at_us, now_us)) for piece in self._planned)
        self._admit()

    def _admit(self) -> None:
        """Let what came in through the chain, as far as it is soon its turn."""
        while self._incoming and (len(self._planned) < _AHEAD_PIECES or self._ended):
            piece = self._incoming.popleft()
            if piece.data is not None and len(piece.data) > _BITE_BYTES and not self._ended:
                self._incoming.appendleft(piece._replace(data=piece.data[_BITE_BYTES:]))
                piece = piece._replace(data=piece.data[:_BITE_BYTES])
            self._incoming_bytes -= len(piece.data or b"")
            self._feed([piece], 0)

    def _pass_deadlines(self, now_us: int) -> None:
        for index, toxic in enumerate(self._chain):
            if toxic is not None and toxic.deadline_us <= now_us and not self._ended:
                deadline_us, toxic.deadline_us = toxic.deadline_us, NEVER_US
                self._feed([Piece(deadline_us, None)], index + 1)

    def _feed(self, pieces: list[Piece], index: int) -> None:
        if self._ended:
            return
        for toxic in self._chain[index:]:
            if toxic is not None:
                pieces = _through(toxic, pieces)
        self._plan(pieces)

    def _plan(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if self._ended:
                return
            if self._planned and piece.at_us < self._planned[-1].at_us:
                piece = piece._replace(at_us=self._planned[-1].at_us)
            self._planned.append(piece)
            self._planned_bytes += len(piece.data or b"")
            self._ended = piece.data is None


def _through(toxic: Toxic, pieces: Iterable[Piece]) -> list[Piece]:
    """What comes out of one toxic; nothing comes after the end of the stream."""
    out: list[Piece] = []
    for piece in pieces:
        for product in toxic.feed(piece):
            out.append(product)
            if product.data is None:
                return out
    return out
