"""The toxics, as Toxiproxy 2 defines them, over virtual time; the shapes of notleader's own faults are some of them.

PURE. A toxic does not sleep: it says when a piece of data would have left it. `at_us` never runs backwards
within one link, so a chain of toxics is a fold over the pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final, NamedTuple, Protocol

NEVER_US: Final = 1 << 62
_LATE_US: Final = 20_000
"""Timers fire late, and a source pauses while much waits: what comes that much later has lost no time of a rate."""


class Piece(NamedTuple):
    """Bytes on their way, or the end of the stream (`data` None; `reset`: by RST).

    `at_us` is where it has got to; `since_us` when it came to the chain, and later for each latency that it has had.
    """

    at_us: int
    data: bytes | None
    reset: bool = False
    since_us: int = NEVER_US


class Draw(Protocol):
    """A source of numbers in [0, 1)."""

    def random(self) -> float: ...


class Toxic:
    """One kind at work in one direction of one connection; a subclass declares its attributes with defaults.

    `feed` is given the pieces in order and yields what comes out. When `deadline_us` passes, the link ends
    here. Attributes are integers, as in Toxiproxy.
    """

    type: ClassVar[str]
    defaults: ClassVar[dict[str, int]] = {}
    buffer_bytes: ClassVar[int] = 0
    """How much a link with this toxic may hold beyond the usual."""
    ends_when_removed: ClassVar[bool] = False

    def __init__(self, attributes: dict[str, int], draw: Draw, now_us: int) -> None:
        self.draw = draw
        self.deadline_us = NEVER_US
        self._free_us = now_us
        self.update(attributes, now_us)

    def update(self, attributes: dict[str, int], now_us: int) -> None:
        """Take new attributes; what has been counted so far stays counted."""
        self.attributes = attributes

    def feed(self, piece: Piece) -> Iterator[Piece]:
        """What becomes of one piece."""
        raise NotImplementedError

    def after_earlier(self, at_us: int) -> int:
        """`at_us`, or the time at which this toxic let the previous piece go where that is later."""
        self._free_us = max(self._free_us, at_us)
        return self._free_us


class Noop(Toxic):
    """Does nothing: what Toxiproxy's own tests stand in for a toxic with."""

    type = "noop"

    def feed(self, piece: Piece) -> Iterator[Piece]:
        yield piece._replace(at_us=self.after_earlier(piece.at_us))


class Latency(Toxic):
    """Delays data by `latency` ± `jitter` ms; the end of the stream only waits for the data before it.

    As in Toxiproxy, what an earlier toxic took has been waited already: behind a slow bandwidth a shorter latency adds
    nothing.
    """

    type = "latency"
    defaults: ClassVar[dict[str, int]] = {"latency": 0, "jitter": 0}
    buffer_bytes = 4 << 20

    def feed(self, piece: Piece) -> Iterator[Piece]:
        if piece.data is None:
            yield piece._replace(at_us=self.after_earlier(piece.at_us))
            return
        delay_ms = float(self.attributes["latency"])
        jitter_ms = self.attributes["jitter"]
        if jitter_ms > 0:
            delay_ms += (self.draw.random() * 2 - 1) * jitter_ms
        ready_us = min(piece.since_us, piece.at_us) + max(0, round(delay_ms * 1000))
        yield piece._replace(at_us=self.after_earlier(max(piece.at_us, ready_us)), since_us=ready_us)


class Rate(Toxic):
    """Lets `bytes_per_s` bytes a second pass, in steps of a hundredth of a second."""

    type = "rate"
    defaults: ClassVar[dict[str, int]] = {"bytes_per_s": 1}
    steps_per_s: ClassVar[int] = 100

    def feed(self, piece: Piece) -> Iterator[Piece]:
        if piece.data is None:
            yield piece._replace(at_us=self.after_earlier(piece.at_us))
            return
        if piece.at_us > self._free_us + _LATE_US:
            self._free_us = piece.at_us
        bytes_per_s = self.bytes_per_s()
        if bytes_per_s <= 0:
            self._free_us = NEVER_US
            yield piece._replace(at_us=NEVER_US)
            return
        step_bytes = max(bytes_per_s // self.steps_per_s, 1)
        for offset in range(0, len(piece.data), step_bytes):
            data = piece.data[offset : offset + step_bytes]
            self._free_us += round(len(data) * 1_000_000 / bytes_per_s)
            yield piece._replace(at_us=max(self._free_us, piece.at_us), data=data)

    def bytes_per_s(self) -> int:
        """How fast it lets pass; nothing passes at 0."""
        return self.attributes["bytes_per_s"]


class Bandwidth(Rate):
    """Lets `rate` KB (1000 bytes) a second pass, in steps of a tenth of a second; rate 0 lets nothing pass."""

    type = "bandwidth"
    defaults: ClassVar[dict[str, int]] = {"rate": 0}
    steps_per_s = 10

    def bytes_per_s(self) -> int:
        return self.attributes["rate"] * 1000


class SlowClose(Toxic):
    """Delays the end of the stream by `delay` ms."""

    type = "slow_close"
    defaults: ClassVar[dict[str, int]] = {"delay": 0}

    def feed(self, piece: Piece) -> Iterator[Piece]:
        if piece.data is None:
            piece = piece._replace(at_us=piece.at_us + max(0, self.attributes["delay"]) * 1000)
        yield piece


class Timeout(Toxic):
    """Swallows all data and ends the stream after `timeout` ms without any; 0 holds it until removed."""

    type = "timeout"
    defaults: ClassVar[dict[str, int]] = {"timeout": 0}
    ends_when_removed = True

    def update(self, attributes: dict[str, int], now_us: int) -> None:
        super().update(attributes, now_us)
        self._rearm(now_us)

    def feed(self, piece: Piece) -> Iterator[Piece]:
        if piece.data is None:
            yield piece
            return
        self._rearm(piece.at_us)

    def _rearm(self, at_us: int) -> None:
        timeout_ms = self.attributes["timeout"]
        self.deadline_us = at_us + timeout_ms * 1000 if timeout_ms > 0 else NEVER_US


class ResetPeer(Toxic):
    """Swallows all data and ends both sides with RST `timeout` ms after the first piece; 0 at once."""

    type = "reset_peer"
    defaults: ClassVar[dict[str, int]] = {"timeout": 0}

    def feed(self, piece: Piece) -> Iterator[Piece]:
        yield Piece(piece.at_us + max(0, self.attributes["timeout"]) * 1000, None, reset=True)


class Slicer(Toxic):
    """Cuts data into pieces of `average_size` ± `size_variation` bytes, `delay` µs after each."""

    type = "slicer"
    defaults: ClassVar[dict[str, int]] = {"average_size": 0, "size_variation": 0, "delay": 0}

    def feed(self, piece: Piece) -> Iterator[Piece]:
        start_us = self.after_earlier(piece.at_us)
        if piece.data is None:
            yield piece._replace(at_us=start_us)
            return
        for data in self._cut(piece.data):
            yield piece._replace(at_us=self._free_us, data=data)
            self._free_us += max(0, self.attributes["delay"])

    def _cut(self, data: bytes) -> Iterator[bytes]:
        average = max(1, self.attributes["average_size"])
        variation = min(max(0, self.attributes["size_variation"]), average - 1)
        start = 0
        while start < len(data):
            size = average + round((self.draw.random() * 2 - 1) * variation)
            yield data[start : start + size]
            start += size


class LimitData(Toxic):
    """Ends the stream once `bytes` bytes have passed."""

    type = "limit_data"
    defaults: ClassVar[dict[str, int]] = {"bytes": 0}

    def __init__(self, attributes: dict[str, int], draw: Draw, now_us: int) -> None:
        self._passed_bytes = 0
        super().__init__(attributes, draw, now_us)

    def feed(self, piece: Piece) -> Iterator[Piece]:
        if piece.data is None:
            yield piece
            return
        data = piece.data[: max(0, self.attributes["bytes"] - self._passed_bytes)]
        self._passed_bytes += len(data)
        if data:
            yield piece._replace(data=data)
        if self._passed_bytes >= self.attributes["bytes"]:
            yield Piece(piece.at_us, None)


KINDS: Final[dict[str, type[Toxic]]] = {
    kind.type: kind for kind in (Noop, Latency, Bandwidth, SlowClose, Timeout, ResetPeer, Slicer, LimitData)
}
