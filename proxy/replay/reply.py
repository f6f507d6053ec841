"""What a client gets for a request, before it is a frame."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final, NamedTuple

from notleader.proxy.replay.exchange import Ending, Exchange
from notleader.proxy.wire.codec import Body


class Source(StrEnum):
    """Where an answer comes from."""

    RECORDED = "as recorded"
    REPEATED = "repeated"
    NOTHING = "from nothing"


class Answer(NamedTuple):
    """A body in the newer shape of `shapes`, None where there is none by design; the rest is the client's to meet.

    ``latency_us`` was recorded, ``wait_us`` is what the request itself allows the broker to wait for records.
    """

    body: Body | None
    source: Source
    latency_us: int = 0
    wait_us: int = 0
    ending: Ending = Ending.ANSWERED


_AS_RECORDED: Final = (Source.NOTHING, Source.REPEATED, Source.RECORDED)
_ONCE_MORE: Final = (Source.NOTHING, Source.RECORDED, Source.REPEATED)


def source_of_all(parts: Collection[Source]) -> Source:
    """Of an answer of several parts: as recorded only where all of it is."""
    return next((source for source in _AS_RECORDED if source in parts), Source.RECORDED)


def source_of_any(parts: Collection[Source]) -> Source:
    """Of one whose parts may be met in several requests: repeated only where all of it is."""
    return next((source for source in _ONCE_MORE if source in parts), Source.REPEATED)


def source_of(is_again: bool) -> Source:
    """Of what was recorded, for the first time or again."""
    return Source.REPEATED if is_again else Source.RECORDED


def ended(exchange: Exchange, is_again: bool) -> Answer:
    """The end of a recorded exchange that was not answered."""
    return Answer(None, source_of(is_again), exchange.latency_us, ending=exchange.ending)
