"""What both directions of a conversation share: where its life stands, waiting, the end."""

from __future__ import annotations

from typing import final

from notleader.faults.actions import Answer, AnswerRaw, Close, Delay, Hold, Relay, Reset
from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.pump import Exchange, Pump
from notleader.proxy.pump.flags import KEEP_RESPONSE
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.skim import told_error
from notleader.proxy.session.commands import Commands
from notleader.proxy.session.life import CLIENT_IS_OVER, Answers, Event, Life
from notleader.proxy.session.sasl import Handshake
from notleader.proxy.wire.errors import OwnMistake, Side, WireError
from notleader.proxy.wire.names import ApiKey


@final
class Backlog:
    """How many bytes wait here of what one side sent; beyond ``most_bytes`` that side isn't read."""

    __slots__ = ("_commands", "_is_paused", "_most_bytes", "_side", "waiting_bytes")

    def __init__(self, commands: Commands, side: Side, most_bytes: int) -> None:
        self.waiting_bytes = 0
        self._commands = commands
        self._side = side
        self._most_bytes = most_bytes
        self._is_paused = False

    def settle(self) -> None:
        """Stop reading, or go on, if it has come to that."""
        is_full = self.waiting_bytes > self._most_bytes
        if is_full != self._is_paused:
            self._is_paused = is_full
            self._commands.pause(self._side, is_full)


@final
class Conversation:
    """One client connection and its broker connection, as both directions of it know it."""

    __slots__ = ("client_left_us", "commands", "connection", "life", "muted_until_us", "plan", "pump", "sasl")

    def __init__(self, connection: Connection, plan: Plan, commands: Commands, pump: Pump) -> None:
        self.connection = connection
        self.plan = plan
        self.commands = commands
        self.pump = pump
        self.sasl = Handshake()
        self.life = Life(pump)
        self.muted_until_us = 0
        self.client_left_us: int | None = None  # when it closed its side, whatever was still open then

    def begin_delays(self, exchange: Exchange, now_us: int) -> None:
        """Let the delays that come first begin now, also where the exchange has to wait for others: not one by one."""
        actions, delay_us = exchange.actions, 0
        while actions and isinstance(actions[0], Delay):
            delay_us += actions.popleft().delay_us
        if actions is not None and delay_us:
            actions.appendleft(Delay(delay_us))
            exchange.release_at_us = now_us + delay_us

    def waits(self, exchange: Exchange, action: Delay | Hold, now_us: int) -> bool:
        """Whether this exchange still has to wait; asks for a wake-up where the time is known."""
        if isinstance(action, Hold):
            if action.until_us is not None and now_us >= action.until_us:
                held = False
            else:
                held = self.plan.is_held(action.rule_name, action.number)
            if held and action.until_us is not None:
                self.commands.wake(action.until_us)
            return held
        if not exchange.release_at_us:
            exchange.release_at_us = now_us + action.delay_us
        if now_us < exchange.release_at_us:
            self.commands.wake(exchange.release_at_us)
            return True
        exchange.release_at_us = 0
        return False

    # ---- the end --------------------------------------------------------------------------------

    def end_if_drained(self, now_us: int) -> None:
        """End once one side has ended and there is nothing left for the other, or nothing that could ever leave."""
        if self.life.requests in CLIENT_IS_OVER and self.is_stuck():
            self.end(now_us, "the client closed the connection")
        elif self.life.answers is Answers.ENDED and not self._can_leave():
            self.end_with_broker(now_us)

    def end_with_broker(self, now_us: int) -> None:
        """The broker has ended, and nothing more will leave."""
        if self.life.requests in CLIENT_IS_OVER:
            self.end(now_us, "the client closed the connection")
        else:
            broken = self.pump.eof("broker")
            self.end(now_us, "the broker closed the connection" if broken is None else broken.reason)

    def is_stuck(self) -> bool:
        """Whether no answer will leave any more: a dropped one holds the later ones back, or the answers are over."""
        head = self.pump.head()
        return self.life.answers is Answers.SILENT or (head is not None and head.outcome == "dropped")

    def _can_leave(self) -> bool:
        """Whether an answer can still leave now that the broker is gone: the head's own, or one made here for it.

        What waits behind a request that only the broker could have answered never gets its turn.
        """
        head = self.pump.due()
        if head is None or self.is_stuck():
            return False
        if head.answer is not None or head.relayed is not None:
            return True
        return any(isinstance(action, Answer | AnswerRaw | Relay) for action in head.actions or ())

    def cut(self, exchange: Exchange, now_us: int, action: Close | Reset, *, is_queued: bool) -> None:
        """A fault closes the connection at this exchange; ``is_queued``: the pump knows of it."""
        exchange.outcome = "closed"
        if not is_queued:
            self.commands.record(exchange)
        reset = isinstance(action, Reset)
        self.end(now_us, f"{'reset' if reset else 'closed'} by fault {names_of(exchange)}", reset=reset)

    def fail(self, error: Exception, side: Side, now_us: int) -> None:
        """Close over what one side sent, with the reason; a mistake of our own closes this one connection too."""
        if not isinstance(error, WireError):
            error = OwnMistake(error, side)
        if error.side is None:
            error.side = side
        self.commands.wire_error(error)
        self.commands.record(ConnectionEvent("wire_error", self.connection, now_us, f"{error.side}: {error.reason}"))
        self.end(now_us, error.sentence)

    def end(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        """Close both sides, and account for what was open; harmless when called again.

        The connection has ended for the capture when its client closed its side: answers that left afterwards found
        nobody, unless it half closed, which Kafka's clients don't.
        """
        if self.life.is_closed:
            return
        self.life.happens(Event.CLOSED)
        left = self.pump.close()
        for exchange in left:
            if exchange.outcome == "no_response":
                keep_answer(exchange)  # what the broker said is known, here alone
            elif exchange.outcome in ("altered", "injected"):
                exchange.outcome = "no_response"  # what a rule made of it never left
        ended_us = now_us if self.client_left_us is None else self.client_left_us
        self.commands.record_last([*left, ConnectionEvent("disconnect", self.connection, ended_us, reason)])
        if reset:
            self.commands.reset(reason)
        else:
            self.commands.close(reason)


def keep_answer(exchange: Exchange) -> None:
    """Give the capture, where it wants one, the frame of the answer that waits or leaves; of a login only its error."""
    if exchange.api_key == ApiKey.SaslAuthenticate:
        is_told = exchange.answer is not None and not exchange.afterwards
        exchange.request = exchange.response = told_error(exchange.error_code) if is_told else None
    elif exchange.flags & KEEP_RESPONSE and (whole := exchange.answer) is not None:
        exchange.response = whole[1] if len(whole) > 1 else whole[0][4:]


def names_of(exchange: Exchange) -> str:
    """The rules that touched this exchange."""
    return ", ".join(hit.rule_name for hit in exchange.hits)
