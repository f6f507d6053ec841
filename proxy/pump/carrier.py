"""Who carries out what a pump says, in Python; `pump` has the same, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from notleader.proxy.pump.exchange import Broken, Done, Exchange, Pass, Stop, Turn
from notleader.proxy.pump.flags import MOST_OPEN, MOST_STOPS
from notleader.proxy.pump.pure import Pump
from notleader.proxy.wire.errors import Side


class Outlet(Protocol):
    """Where bytes go: a transport, or what stands for one."""

    @property
    def write(self) -> Callable[[bytes | memoryview], None]: ...


class Records(Protocol):
    """Who is told of the exchanges that have ended."""

    def record_all(self, exchanges: list[Exchange]) -> None: ...


class Clock(Protocol):
    """The time, in µs since the epoch."""

    def now_us(self) -> int: ...


class Decides(Protocol):
    """Whoever is shown what doesn't just pass."""

    def requested(self, step: Stop | Turn | Broken, now_us: int) -> None: ...
    def answered(self, step: Stop | Turn | Broken, now_us: int) -> None: ...
    def rests(self, side: Side, now_us: int) -> None: ...
    def failed(self, error: Exception, side: Side, now_us: int) -> None: ...


class Carrier:
    """Carries out what a pump says: bytes go where these attributes say, the rest to whoever decides.

    A side ``rests`` when it has had its turn, and the client when too much of what it asked for is not answered: then
    nothing more of it should come until `client_bytes` or `broker_bytes` has taken, without data, what is still here.
    """

    __slots__ = ("_decides", "broker", "client", "clock", "is_crowded", "pump", "records", "too_early")

    client: Outlet
    broker: Outlet
    records: Records
    clock: Clock
    too_early: Callable[[bytes], None] | None
    """Where there is no broker yet, who takes what the client sends at this moment."""

    def __init__(self, pump: Pump, decides: Decides) -> None:
        self.pump = pump
        self._decides = decides
        self.too_early = None
        self.is_crowded = False
        """Whether the client rests until it has answers."""

    def client_received(self, data: bytes) -> None:
        """Take what the client sent, at this moment."""
        if self.too_early is None:
            self.client_bytes(data, self.clock.now_us())
        else:
            self.too_early(data)

    def broker_received(self, data: bytes) -> None:
        """Take what the broker sent, at this moment."""
        self.broker_bytes(data, self.clock.now_us())

    def client_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the client sent."""
        self._carry("client", data, now_us)

    def broker_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the broker sent."""
        self._carry("broker", data, now_us)

    def ease(self, now_us: int) -> None:
        """Let the client go on if it has enough answers by now."""
        if self.is_crowded and len(self.pump) <= MOST_OPEN // 2:
            self.is_crowded = False
            self._decides.rests("client", now_us)

    def _carry(self, side: Side, data: bytes, now_us: int) -> None:
        asks = side == "client"
        take = self.pump.feed_client if asks else self.pump.feed_broker
        decide = self._decides.requested if asks else self._decides.answered
        stops = 0
        try:
            steps = take(data, now_us)
            while steps:
                for step in steps:
                    if isinstance(step, Pass):
                        (self.broker if asks else self.client).write(step.span)
                    elif isinstance(step, Done):
                        self.records.record_all(step.exchanges)
                    else:
                        decide(step, now_us)
                stops += isinstance(step, Stop)
                if not isinstance(step, Stop) or stops == MOST_STOPS:
                    break
                steps = take(b"", now_us)
            if asks:
                self.is_crowded = len(self.pump) > MOST_OPEN and not self.pump.ignores_requests
            else:
                self.ease(now_us)
            if stops == MOST_STOPS or (asks and self.is_crowded):
                self._decides.rests(side, now_us)
        except Exception as error:
            self._decides.failed(error, side, now_us)
