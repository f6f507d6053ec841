"""Where a conversation's life stands: one state of its requests, one of its answers, and a table of what changes them.

All that decides what becomes of the next frame of a direction is here; `life.md` draws it from these
tables. What a state means for single messages (who is held, what is delayed) is the session's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, final

from notleader.proxy.pump import Pump


class Requests(Enum):
    """What becomes of what the client sends."""

    PASSING = "Requests go to the broker, those first to the faults that these ask for."
    TOKENS = "Bare SASL tokens go to the broker (SaslHandshake v0, KIP-43)."
    HELD = "A request waits, for its time or a rule; those behind it wait too."
    AGREED = "Requests wait, and bare SASL tokens behind them."
    MUTED = "An answer told the client to be quiet for a time (KIP-219): all requests wait."
    ENDING = "The client will send no more, and requests of it still wait."
    ENDED = "The client will send no more, and the broker has been told."
    CLOSED = "It is over."


class Answers(Enum):
    """What becomes of what the broker sends, and of answers that are made here."""

    PASSING = "Answers leave in the order of their requests, whoever made them."
    TOKENS = "Bare SASL tokens go to the client."
    SILENT = "A fault has the client wait: nothing more leaves."
    ENDED = "The broker will send no more; what is here still leaves when it is its time."
    CLOSED = "It is over."


class Event(Enum):
    """What can happen to a conversation."""

    TOKENS_AGREED = "the broker agreed to bare tokens"
    FIRST_REQUEST = "a request instead of a token"
    FIRST_ANSWER = "an answer instead of a token"
    REQUEST_HELD = "a request has to wait"
    MUTED = "an answer mutes the client"
    ALL_SENT = "no request waits any more"
    CLIENT_ENDED = "the client ends, nothing waits"
    CLIENT_ENDED_EARLY = "the client ends, requests wait"
    SILENCED = "a fault ends the answers"
    BROKER_ENDED = "the broker ends"
    CLOSED = "closed"


REQUESTS: Final[Mapping[Requests, Mapping[Event, Requests]]] = {
    Requests.PASSING: {
        Event.TOKENS_AGREED: Requests.TOKENS,
        Event.REQUEST_HELD: Requests.HELD,
        Event.MUTED: Requests.MUTED,
        Event.CLIENT_ENDED: Requests.ENDED,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.TOKENS: {
        Event.TOKENS_AGREED: Requests.TOKENS,
        Event.FIRST_REQUEST: Requests.PASSING,
        Event.MUTED: Requests.TOKENS,
        Event.CLIENT_ENDED: Requests.ENDED,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.HELD: {
        Event.TOKENS_AGREED: Requests.AGREED,
        Event.REQUEST_HELD: Requests.HELD,
        Event.MUTED: Requests.MUTED,
        Event.ALL_SENT: Requests.PASSING,
        Event.CLIENT_ENDED_EARLY: Requests.ENDING,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.AGREED: {
        Event.TOKENS_AGREED: Requests.AGREED,
        Event.FIRST_REQUEST: Requests.HELD,
        Event.REQUEST_HELD: Requests.AGREED,
        Event.MUTED: Requests.AGREED,
        Event.ALL_SENT: Requests.TOKENS,
        Event.CLIENT_ENDED: Requests.ENDED,
        Event.CLIENT_ENDED_EARLY: Requests.ENDING,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.MUTED: {
        Event.TOKENS_AGREED: Requests.AGREED,
        Event.REQUEST_HELD: Requests.MUTED,
        Event.MUTED: Requests.MUTED,
        Event.ALL_SENT: Requests.PASSING,
        Event.CLIENT_ENDED: Requests.ENDED,
        Event.CLIENT_ENDED_EARLY: Requests.ENDING,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.ENDING: {
        Event.TOKENS_AGREED: Requests.ENDING,
        Event.REQUEST_HELD: Requests.ENDING,
        Event.MUTED: Requests.ENDING,
        Event.ALL_SENT: Requests.ENDED,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.ENDED: {
        Event.TOKENS_AGREED: Requests.ENDED,
        Event.MUTED: Requests.ENDED,
        Event.CLOSED: Requests.CLOSED,
    },
    Requests.CLOSED: {},
}

ANSWERS: Final[Mapping[Answers, Mapping[Event, Answers]]] = {
    Answers.PASSING: {
        Event.TOKENS_AGREED: Answers.TOKENS,
        Event.SILENCED: Answers.SILENT,
        Event.BROKER_ENDED: Answers.ENDED,
        Event.CLOSED: Answers.CLOSED,
    },
    Answers.TOKENS: {
        Event.TOKENS_AGREED: Answers.TOKENS,
        Event.FIRST_ANSWER: Answers.PASSING,
        Event.SILENCED: Answers.SILENT,
        Event.BROKER_ENDED: Answers.ENDED,
        Event.CLOSED: Answers.CLOSED,
    },
    # Whoever ends now is the last: then it is closed.
    Answers.SILENT: {Event.TOKENS_AGREED: Answers.SILENT, Event.CLOSED: Answers.CLOSED},
    Answers.ENDED: {Event.CLOSED: Answers.CLOSED},
    Answers.CLOSED: {},
}

WAITING: Final = frozenset((Requests.HELD, Requests.AGREED, Requests.MUTED, Requests.ENDING))
"""Requests that come now wait."""
CLIENT_IS_OVER: Final = frozenset((Requests.ENDING, Requests.ENDED))
_OF_REQUESTS: Final = frozenset(event for row in REQUESTS.values() for event in row)
_OF_ANSWERS: Final = frozenset(event for row in ANSWERS.values() for event in row)


@final
class Life:
    """The states of one conversation; what they mean to frames its pump is told as they change."""

    __slots__ = ("_pump", "answers", "requests")

    def __init__(self, pump: Pump) -> None:
        self.requests = Requests.PASSING
        self.answers = Answers.PASSING
        self._pump = pump

    @property
    def is_closed(self) -> bool:
        """Whether it is over."""
        return self.requests is Requests.CLOSED

    def happens(self, event: Event) -> None:
        """Go where the tables lead from here. KeyError where this can't happen now: a mistake of our own."""
        if event in _OF_REQUESTS:
            self.requests = REQUESTS[self.requests][event]
            self._pump.stops_requests = self.requests in WAITING
            self._pump.bare_requests = self.requests in (Requests.TOKENS, Requests.AGREED)
        if event in _OF_ANSWERS:
            self.answers = ANSWERS[self.answers][event]
            self._pump.stops_answers = self.answers is Answers.SILENT
            self._pump.bare_answers = self.answers is Answers.TOKENS
