"""From the client to the broker: requests that stop are decided on, held, and sent on in their turn."""

from __future__ import annotations

from collections import deque
from typing import final

from notleader.faults.actions import (
    Action,
    Answer,
    AnswerRaw,
    Close,
    Delay,
    Drop,
    Duplicate,
    Forward,
    Hold,
    Relay,
    Reset,
)
from notleader.faults.plan import NOTHING
from notleader.proxy.pump import Exchange, pieces
from notleader.proxy.pump.flags import ASK_PLAN, ASSEMBLE_RESPONSE, KEEP_REQUEST, RESPONSE_BODY
from notleader.proxy.session import rewrite
from notleader.proxy.session.answers import Answering
from notleader.proxy.session.conversation import Backlog, Conversation
from notleader.proxy.session.copies import copied_frames
from notleader.proxy.session.life import WAITING, Event, Requests
from notleader.proxy.session.relays import Relays
from notleader.proxy.session.sasl import is_token
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request

_TELL_WHO_ASKS = (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate)


@final
class Requesting:
    """The half of a conversation that takes requests; some it has answered here."""

    __slots__ = ("_answers", "_backlog", "_conversation", "_held", "_relays")

    def __init__(self, conversation: Conversation, answers: Answering, relays: Relays, *, max_held_bytes: int) -> None:
        self._conversation = conversation
        self._answers = answers
        self._relays = relays
        # None until one is: hardly any connection needs it, and empty it takes 760 bytes.
        self._held: deque[tuple[Exchange | None, bytes]] | None = None
        self._backlog = Backlog(conversation.commands, "client", max_held_bytes)

    def token(self, frame: bytes, now_us: int) -> None:
        """Take a frame where a bare token is expected; the first request ends that."""
        here = self._conversation
        if is_token(frame[4:]):
            here.sasl.asked(frame[4:], here.connection)
            if here.life.requests in WAITING:
                self._hold(None, frame)
            else:
                here.commands.to_broker(frame)
            return
        here.life.happens(Event.FIRST_REQUEST)
        if now_us < here.muted_until_us:
            here.life.happens(Event.MUTED)
        here.pump.put_back("client", frame)

    def take(self, exchange: Exchange, whole: bytes, now_us: int) -> None:
        """Decide on a request that is here as a whole, and do what was decided, in its turn."""
        here = self._conversation
        frame = whole[4:]
        if exchange.flags & (KEEP_REQUEST | ASSEMBLE_RESPONSE):
            exchange.request = frame
        request = Request(frame)
        if exchange.api_key in _TELL_WHO_ASKS:
            rewrite.note_client(request, here.connection, here.sasl)
        if exchange.flags & ASK_PLAN:
            exchange.request = frame
            decision = here.plan.on_request(here.connection, request, now_us)
            if decision is not NOTHING:
                exchange.decision = decision
                exchange.hits = decision.hits
                exchange.actions = deque(decision.actions)
                here.begin_delays(exchange, now_us)
                if decision.on_response:
                    exchange.flags |= RESPONSE_BODY
        if here.life.requests in WAITING or not self._act(exchange, whole, now_us):
            self._hold(exchange, whole)

    def _hold(self, exchange: Exchange | None, whole: bytes) -> None:
        """Let a request wait, or a bare token behind one."""
        if self._held is None:
            self._held = deque()
        self._held.append((exchange, whole))
        self._backlog.waiting_bytes += len(whole)
        self._conversation.life.happens(Event.REQUEST_HELD)
        self._backlog.settle()

    def run_held(self, now_us: int) -> None:
        """Send on what need not wait any more."""
        here = self._conversation
        if here.life.requests not in WAITING:
            return
        if now_us < here.muted_until_us:
            here.commands.wake(here.muted_until_us)
            return
        while self._held and not here.life.is_closed:
            exchange, whole = self._held[0]
            if exchange is None:
                here.commands.to_broker(whole)
            elif not self._act(exchange, whole, now_us):
                return
            self._held.popleft()
            self._backlog.waiting_bytes -= len(whole)
        if here.life.is_closed:
            return
        here.life.happens(Event.ALL_SENT)
        self._backlog.settle()
        if here.life.requests is Requests.ENDED:
            here.commands.end_broker()
        here.end_if_drained(now_us)

    def end(self, now_us: int) -> None:
        """The client will send no more; what it asked for is still answered."""
        here = self._conversation
        if (broken := here.pump.eof("client")) is not None:
            here.end(now_us, broken.reason)
        elif self._held:
            here.life.happens(Event.CLIENT_ENDED_EARLY)
        else:
            here.life.happens(Event.CLIENT_ENDED)
            here.commands.end_broker()
        here.end_if_drained(now_us)

    # ---- what was decided -----------------------------------------------------------------------

    def _act(self, exchange: Exchange, whole: bytes, now_us: int) -> bool:
        """Carry out what was decided; False while the request has to wait."""
        while exchange.actions:
            action = exchange.actions[0]
            if isinstance(action, Delay | Hold):
                if self._conversation.waits(exchange, action, now_us):
                    return False
                exchange.actions.popleft()
                continue
            exchange.actions.popleft()
            if isinstance(action, Forward):
                exchange.merge = action.merge
                exchange.close_after = action.close_after
                if action.merge is not None:
                    exchange.flags |= RESPONSE_BODY
                whole = pieces.framed(Request(whole[4:]).encode(action.body))
                if exchange.hits:
                    exchange.outcome = "altered"
            elif not isinstance(action, Duplicate):
                self._end_of(exchange, action, whole, now_us)
                return True
        exchange.forwarded_at_us = now_us
        self._to_broker(exchange, whole)
        self._sent(exchange, now_us)
        return True

    def _end_of(self, exchange: Exchange, action: Action, whole: bytes, now_us: int) -> None:
        """Carry out what leaves nothing of the request to be sent on as it is."""
        here = self._conversation
        if isinstance(action, Relay):
            self._relay(exchange, action, Request(whole[4:]), now_us)
        elif isinstance(action, Answer):
            self._answers.answer_locally(exchange, action, now_us)
        elif isinstance(action, Drop):
            if exchange.expects_answer:
                self._answers.drop(exchange, action, now_us)
            else:
                exchange.outcome = "dropped"
                here.commands.record(exchange)
        elif isinstance(action, AnswerRaw):
            if not exchange.expects_answer:
                here.pump.add(exchange)
            self._answers.answer_raw(exchange, action, now_us)
        elif isinstance(action, Close | Reset):
            if action.after_bytes is not None:
                here.commands.to_broker(whole[: action.after_bytes])
            here.cut(exchange, now_us, action, is_queued=exchange.expects_answer)
        else:
            raise AssertionError(f"{action} is not an action on a request")

    def _to_broker(self, exchange: Exchange, whole: bytes) -> None:
        """Send a whole request to the connection's own broker, as often as was decided."""
        here = self._conversation
        exchange.awaits_broker = exchange.expects_answer
        here.commands.to_broker(whole)
        for copy in copied_frames(exchange, whole):
            here.commands.to_broker(copy)
            if exchange.expects_answer:
                here.pump.add_copy(exchange)

    def _relay(self, exchange: Exchange, action: Relay, request: Request, now_us: int) -> None:
        """Send every broker its part of a request, the connection's own broker included where it has one."""
        if exchange.hits:
            exchange.outcome = "altered"
        exchange.flags |= RESPONSE_BODY
        exchange.close_after = action.close_after
        exchange.forwarded_at_us = now_us
        exchange.relayed = self._relays.send(exchange, action, request, now_us)
        if action.body is not None:
            self._to_broker(exchange, pieces.framed(request.encode(action.body)))
        self._sent(exchange, now_us)

    def _sent(self, exchange: Exchange, now_us: int) -> None:
        if exchange.close_after:
            self._conversation.cut(exchange, now_us, Close(), is_queued=exchange.expects_answer)
        elif not exchange.expects_answer:
            self._conversation.commands.record(exchange)
