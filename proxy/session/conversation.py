"""What both directions of a conversation share: its state, waiting, pausing, the end."""

from collections import deque

from notleader.faults.actions import Answer, AnswerRaw, Close, Delay, Hold, Relay, Reset
from notleader.faults.base import Connection
from notleader.faults.plan import Plan
from notleader.proxy.plain import Plain
from notleader.proxy.session.commands import Commands
from notleader.proxy.session.handling import Handling
from notleader.proxy.session.inflight import ConnectionEvent, Exchange, Inflight
from notleader.proxy.session.relays import Relays
from notleader.proxy.session.sasl import Handshake
from notleader.proxy.wire.addresses import Advertise
from notleader.proxy.wire.errors import OwnMistake, Side, WireError

Held = tuple[Exchange, bytes]


class Conversation(Plain):
    """The state of one client connection and its broker connection; see Session."""

    def __init__(
        self,
        connection: Connection,
        plan: Plan,
        table: Handling,
        commands: Commands,
        advertise: Advertise,
        *,
        max_frame_bytes: int = 100 << 20,
        max_held_bytes: int = 4 << 20,
    ) -> None:
        inflight = Inflight()
        super().__init__(connection, plan, table, commands, inflight.queue, max_frame_bytes=max_frame_bytes)
        self._sasl = Handshake()
        self._advertise = advertise
        self._max_frame_bytes = max_frame_bytes
        self._max_held_bytes = max_held_bytes
        self._inflight = inflight
        self._broker_ended = False
        # Bytes that can't be parsed yet, of each direction.
        self._request_stash: list[bytes] = []
        self._request_stashed = 0
        self._response_stash: list[bytes] = []
        self._response_stashed = 0
        # None until one is: hardly any connection needs it, and empty it takes 760 bytes.
        self._held: deque[Held] | None = None
        self._held_bytes = 0
        self._muted_until_us = 0
        self._client_paused = False
        self._answer_bytes = 0
        self._broker_paused = False
        self._relays = Relays(commands.to_node, max_frame_bytes)

    def _waits(self, exchange: Exchange, action: Delay | Hold, now_us: int) -> bool:
        """Whether this exchange still has to wait; asks for a wake-up where the time is known."""
        if isinstance(action, Hold):
            if action.until_us is not None and now_us >= action.until_us:
                held = False
            else:
                held = self._plan.is_held(action.rule_name)
            if held and action.until_us is not None:
                self._commands.wake(action.until_us)
            exchange.held_by = action.rule_name if held else None
            return held
        if not exchange.release_at_us:
            exchange.release_at_us = now_us + action.delay_us
        if now_us < exchange.release_at_us:
            self._commands.wake(exchange.release_at_us)
            return True
        exchange.release_at_us = 0
        return False

    def _pause_client(self) -> None:
        full = self._held_bytes > self._max_held_bytes
        if full != self._client_paused:
            self._client_paused = full
            self._commands.pause("client", full)

    def _pause_broker(self) -> None:
        full = self._answer_bytes > self._max_held_bytes
        if full != self._broker_paused:
            self._broker_paused = full
            self._commands.pause("broker", full)

    # ---- the end --------------------------------------------------------------------------------

    def _end_if_drained(self, now_us: int) -> None:
        """End once one side has ended and there is nothing left for the other, or nothing that could ever leave."""
        if self._client_ended and self._is_stuck():
            self._end(now_us, "the client closed the connection")
        elif self._broker_ended and not self._closed and not self._can_leave():
            closer = "client" if self._client_ended else "broker"
            self._end(now_us, f"the {closer} closed the connection")

    def _is_stuck(self) -> bool:
        """Whether no answer will leave any more: a dropped one holds the later ones back, or the client is deaf."""
        head = self._inflight.head()
        return self._client_deaf or (head is not None and head.outcome == "dropped")

    def _can_leave(self) -> bool:
        """Whether an answer can still leave now that the broker is gone: the head's own, or one made here for it.

        What waits behind a request that only the broker could have answered never gets its turn.
        """
        head = self._inflight.head()
        if head is None or head.awaits_broker or self._response_left or self._is_stuck():
            return False
        if head.answer is not None or head.relayed is not None:
            return True
        return any(isinstance(action, Answer | AnswerRaw | Relay) for action in head.actions or ())

    def _cut(self, exchange: Exchange, now_us: int, action: Close | Reset) -> None:
        """A fault closes the connection at this exchange."""
        exchange.outcome = "closed"
        if exchange not in self._inflight:
            self._commands.record(exchange)
        reset = isinstance(action, Reset)
        self._end(now_us, f"{'reset' if reset else 'closed'} by fault {names_of(exchange)}", reset=reset)

    def _fail(self, error: Exception, side: Side, now_us: int) -> None:
        """Close over what one side sent, with the reason; a mistake of our own closes this one connection too."""
        if not isinstance(error, WireError):
            error = OwnMistake(error, side)
        if error.side is None:
            error.side = side
        self._commands.wire_error(error)
        self._commands.record(ConnectionEvent("wire_error", self.connection, now_us, f"{error.side}: {error.reason}"))
        self._end(now_us, error.sentence)

    def _end(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        if (torn := self._response_open) is not None:
            torn.outcome = "closed"
            torn.response_bytes -= self._response_left
            self._commands.record(torn)
        if self._request_open is not None and wants_no_answer(self._request_open):
            self._commands.record(self._request_open)
        for exchange in self._inflight:
            if exchange.is_copy:
                continue
            if exchange.outcome == "answered":
                exchange.outcome = "no_response"
            self._commands.record(exchange)
        self._commands.record(ConnectionEvent("disconnect", self.connection, now_us, reason))
        if reset:
            self._commands.reset(reason)
        else:
            self._commands.close(reason)


def wants_no_answer(exchange: Exchange) -> bool:
    """Whether this request, passed on at least in part, is one with acks=0."""
    return not exchange.awaits_broker and exchange.outcome == "no_response"


def names_of(exchange: Exchange) -> str:
    """The rules that touched this exchange."""
    return ", ".join(hit.rule_name for hit in exchange.hits)
