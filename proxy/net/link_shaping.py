"""The shapes of one connection: its bytes wait here for their time, and what it records until that has come true."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from notleader.faults.actions import Shape
from notleader.faults.decision import Hit
from notleader.proxy.net.shaped import Entry, ShapedRecord
from notleader.proxy.net.shaping import Shaper
from notleader.proxy.pump import Exchange
from notleader.proxy.session.commands import Side
from notleader.proxy.session.session import Session
from notleader.proxy.wire.schemas import Direction

_CROWDED_BYTES: Final = 64 << 10


class Shaped(Protocol):
    """The connection; ``transport.Link`` is it."""

    session: Session
    is_over: bool

    @property
    def now_us(self) -> Callable[[], int]: ...
    @property
    def record(self) -> Callable[[Entry], None]: ...
    def aim(self) -> None: ...
    def write(self, direction: Direction, data: bytes | memoryview) -> None: ...
    def hold_reading(self, side: Side, change: int) -> None: ...
    def call_at(self, at_us: int, do: Callable[..., None], *arguments: object) -> asyncio.TimerHandle: ...
    def close(self, reason: str) -> None: ...


@final
class LinkShaping:
    """Made when a connection is first shaped; it stays, for what was recorded may still wait here."""

    def __init__(self, link: Shaped, uniform: Callable[[float, float], float]) -> None:
        self._link = link
        self._uniform = uniform
        self._shapers: dict[Direction, Shaper] = {}
        self._recorded = ShapedRecord(link.record)
        self._limits: dict[Direction, tuple[Hit, ...]] = {}
        self._close_late: dict[Direction, tuple[tuple[int, Hit], ...]] = {}
        self._pacing: dict[Direction, asyncio.TimerHandle] = {}
        self._crowded: set[Direction] = set()

    @property
    def is_on(self) -> bool:
        """Whether anything is shaped now."""
        return bool(self._shapers)

    @property
    def close_late(self) -> list[tuple[int, Hit]]:
        """The rules that keep the end from the client, and for how long (µs)."""
        return [entry for entries in self._close_late.values() for entry in entries]

    def waits(self, direction: Direction) -> bool:
        """Whether bytes of that direction are here."""
        shaper = self._shapers.get(direction)
        return shaper is not None and bool(shaper.waiting_bytes)

    def shape(self, direction: Direction, shaped_by: Sequence[tuple[Shape, Hit]]) -> None:
        """These are the direction's shapes from now on; what waited for others leaves."""
        shapes = tuple(shape for shape, _ in shaped_by)
        shaper = self._shapers.get(direction)
        if shaper is not None and shaper.shapes != shapes:
            del self._shapers[direction]
            self._link.aim()
            self._set_crowded(direction, False)
            self._sent(direction, shaper.drain())
            shaper = None
        if shaper is None and shapes:
            self._shapers[direction] = Shaper(shapes, self._uniform, self._link.now_us())
            self._link.aim()
        self._recorded.shaped(direction, shaped_by)
        self._limits[direction] = tuple(hit for shape, hit in shaped_by if shape.limit_bytes is not None)
        late = ((shape.close_delay_us, hit) for shape, hit in shaped_by if shape.close_delay_us)
        self._close_late[direction] = tuple(late)

    def put(self, direction: Direction, data: bytes | memoryview) -> None:
        """Send these bytes when it is their time."""
        shaper = self._shapers.get(direction)
        if shaper is None:
            self._link.write(direction, data)
            return
        now_us = self._link.now_us()
        self._recorded.crossings[direction].came(len(data), now_us, self._link.session.exchanges)
        self._went_on(direction, shaper, shaper.put(data, now_us))

    def record(self, entry: Entry) -> None:
        """Record an exchange or event once what it says has come true."""
        self._recorded.add(entry, self._link.now_us())

    def record_all(self, exchanges: list[Exchange]) -> None:
        """The same of several, in their order."""
        for exchange in exchanges:
            self.record(exchange)

    def end(self) -> None:
        """Nothing leaves any more."""
        for handle in self._pacing.values():
            handle.cancel()
        self._pacing.clear()
        self._recorded.tell(self._link.now_us(), for_good=True)

    # ---- inside ---------------------------------------------------------------------------------

    def _sent(self, direction: Direction, pieces: list[bytes]) -> None:
        """These left a shaper."""
        # Whoever gets them may be quicker than whoever sent them: its clock must not show an earlier time.
        now_us = self._link.now_us()
        for piece in pieces:
            self._link.write(direction, piece)
        self._recorded.crossings[direction].went(sum(map(len, pieces)), now_us)
        self._recorded.tell(now_us)

    def _went_on(self, direction: Direction, shaper: Shaper, pieces: list[bytes]) -> None:
        self._sent(direction, pieces)
        if shaper.is_over:
            self._shapers.clear()
            self._link.aim()
            self._recorded.cut(self._limits[direction])
            self._link.session.gone(self._link.now_us(), "closed at the limit of a shape")
            return
        self._set_crowded(direction, shaper.waiting_bytes > _CROWDED_BYTES)
        at_us = shaper.next_us()
        if at_us is not None and direction not in self._pacing:
            self._pacing[direction] = self._link.call_at(at_us, self._pace, direction)
        elif at_us is None and self._link.is_over and direction == "response":
            self._link.close("the last shaped byte was sent")

    def _pace(self, direction: Direction) -> None:
        del self._pacing[direction]
        shaper = self._shapers.get(direction)
        if shaper is not None:
            self._went_on(direction, shaper, shaper.take(self._link.now_us()))

    def _set_crowded(self, direction: Direction, crowded: bool) -> None:
        """Stop reading the side whose bytes pile up."""
        if crowded != (direction in self._crowded):
            self._crowded ^= {direction}
            self._recorded.crossings[direction].crowded(crowded, self._link.now_us())
            self._link.hold_reading("client" if direction == "request" else "broker", 1 if crowded else -1)
