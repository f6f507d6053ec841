"""An exchange, what is kept of its frames, and what a pump says becomes of them; `pump` has the same, compiled."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final, Literal, final

from notleader.proxy.pump.interpreter import Probe
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import Side
from notleader.proxy.wire.probe import facts_program

Outcome = Literal["answered", "injected", "altered", "dropped", "closed", "no_response"]

_SHORT: Final = Struct(">h")
_HEAD_BYTES: Final = 1024  # beside the client id: a header's fixed part, and tagged fields that nobody sends
_ALL: Final = 1 << 62


class Passing:
    """Stands where a frame would be kept that is too large for it, and reads its facts as it passes."""

    __slots__ = ("head", "probe", "said")

    def __init__(self, probe: Probe | None = None, said: object = None) -> None:
        self.probe = probe
        """What reads it; None where nothing is told of it."""
        self.said = said
        """What the capture made of it."""
        self.head = b""
        """The beginning of a request: its header is in it."""

    @property
    def skip(self) -> int:
        """How many bytes from here on tell nothing: so much may pass unseen (`pass_over`)."""
        return _ALL if self.probe is None else self.probe.skip

    def pass_over(self, size: int) -> None:
        """Take note of so many bytes of what `skip` says."""
        if self.probe is not None:
            self.probe.pass_over(size)

    def feed(self, piece: bytes | memoryview) -> None:
        """Take the next piece of the frame."""
        if self.probe is not None:
            self.probe.feed(piece)


# A frame as it came, in one piece or several, or what is told of it while it passes.
Kept = bytes | memoryview | list[bytes | memoryview] | Passing | None


def passing(api_key: int, api_version: int, asks: bool, start: bytes | memoryview, size: int) -> Passing:
    """What takes the place of a frame of ``size`` bytes (without its length), of which ``start`` is here."""
    code = None
    if api_key == (ApiKey.Produce if asks else ApiKey.Fetch):
        code = facts_program(api_key, api_version, "request" if asks else "response")
    kept = Passing(None if code is None else Probe(code, size))
    kept.feed(start)
    if asks:
        client_id_bytes = _SHORT.unpack_from(start, 8)[0] if len(start) >= 10 else 0
        kept.head = bytes(start[: _HEAD_BYTES + max(client_id_bytes, 0)])
    return kept


class _Exchange:
    """What every exchange has; the slots are set for each, so there are no more than needed."""

    __slots__ = (
        "api_key",
        "api_version",
        "awaits_broker",
        "broker_responded_at_us",
        "client_id",
        "connection",
        "correlation_id",
        "expects_answer",
        "flags",
        "forwarded_at_us",
        "outcome",
        "request",
        "request_at_us",
        "request_bytes",
        "response",
        "response_at_us",
        "response_bytes",
        "seq",
    )


class Exchange(_Exchange):
    """One request and what became of it. Times are µs since the epoch, 0 where it never happened.

    What only a few exchanges have stands on the class until it is set; the pump doesn't look at it.
    """

    # What the faults decided, and where its execution stands.
    decision: Any = None
    hits: tuple[Any, ...] = ()
    actions: deque[Any] | None = None
    merge: Any = None
    relayed: Any = None  # the answers of other brokers, while some are missing
    answer: tuple[bytes, ...] | None = None  # a whole frame that waits for its turn, in pieces
    release_at_us: int = 0
    is_copy: bool = False  # of a request that the broker gets again: its answer is thrown away
    close_after: bool = False  # the connection ends once the request is with the broker
    error_code: int = 0  # of an answer that a fault gave or changed
    mute_us: int = 0  # how long later requests wait once the answer has left
    afterwards: Literal["", "close", "silence"] = ""  # what follows the answer

    def __init__(
        self,
        connection: Any,
        seq: int,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_at_us: int,
        request_bytes: int,
        flags: int,
    ) -> None:
        self.connection = connection
        self.seq = seq
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_at_us = request_at_us
        self.request_bytes = request_bytes
        self.flags = flags
        self.forwarded_at_us = self.broker_responded_at_us = self.response_at_us = self.response_bytes = 0
        self.outcome: Outcome = "no_response"
        # The frames, as they were on the client's side of the wire, for whoever asked to keep them.
        self.request: Kept = None
        self.response: Kept = None
        self.expects_answer = True  # not an acks=0 Produce
        self.awaits_broker = False


@final
@dataclass(slots=True)
class Pass:
    """These bytes go on to the other side as they are."""

    span: bytes | memoryview


@final
@dataclass(slots=True)
class Stop:
    """A whole frame, its length in front, that goes nowhere until somebody has seen it.

    ``exchange`` is None while frames are bare (`Pump.bare_requests`).
    """

    frame: bytes
    exchange: Exchange | None


@final
@dataclass(slots=True)
class Turn:
    """The oldest exchange waits for nothing that this broker could send: it is whose turn it is."""

    exchange: Exchange


@final
@dataclass(slots=True)
class Done:
    """These exchanges have ended; their bytes are in what was passed before."""

    exchanges: list[Exchange]


@final
@dataclass(slots=True)
class Broken:
    """That side doesn't keep to the protocol; what it sent from there on goes nowhere."""

    side: Side
    reason: str


Step = Pass | Stop | Turn | Done | Broken
