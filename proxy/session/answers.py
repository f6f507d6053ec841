"""From the broker to the client: answers that stop are shown to the plan, rewritten, and sent in their turn."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from notleader.faults.actions import (
    Action,
    Answer,
    AnswerRaw,
    Close,
    Delay,
    Drop,
    Hold,
    Mute,
    Reset,
    RewriteResponse,
)
from notleader.faults.decision import joined
from notleader.faults.plan import NOTHING
from notleader.proxy.pump import Exchange, pieces
from notleader.proxy.pump.flags import HOLD_RESPONSE, KEEP_RESPONSE, RESPONSE_BODY
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import first_error
from notleader.proxy.session import rewrite
from notleader.proxy.session.conversation import Backlog, Conversation, keep_answer, names_of
from notleader.proxy.session.life import Answers, Event
from notleader.proxy.session.sasl import makes_bare
from notleader.proxy.wire.addresses import Advertise, with_addresses
from notleader.proxy.wire.codec import Body, Codec, response_codec
from notleader.proxy.wire.errors import BodyTooLarge, WireError
from notleader.proxy.wire.header import encode_response_header, response_body_offset
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response

# Answers that the session itself reads, beyond the addresses in them.
_READ_ANSWERS: Final = {ApiKey.ApiVersions, ApiKey.SaslHandshake}


@final
class Answering:
    """The half of a conversation that answers requests, whoever made the answer.

    ``advertise(node_id, host, port)`` gives the address under which clients reach that broker through the proxy.
    """

    __slots__ = ("_advertise", "_backlog", "_conversation")

    def __init__(self, conversation: Conversation, advertise: Advertise, *, max_held_bytes: int) -> None:
        self._conversation = conversation
        self._advertise = advertise
        self._backlog = Backlog(conversation.commands, "broker", max_held_bytes)

    def token(self, frame: bytes) -> None:
        """Take a frame where a bare token is expected; the answer to the first request ends that."""
        here = self._conversation
        if here.pump.is_due(frame):
            here.life.happens(Event.FIRST_ANSWER)
            here.pump.put_back("broker", frame)
        else:
            here.sasl.answered(frame[4:], here.connection)
            here.commands.to_client(frame)

    def take(self, exchange: Exchange, whole: bytes, now_us: int) -> None:
        """Take an answer that is here as a whole: let the faults and the rewriting see it."""
        here = self._conversation
        if exchange.is_copy:
            here.pump.drop(exchange)
            self.flush(now_us)
            return
        if exchange.api_key == ApiKey.SaslAuthenticate:
            self._note_login(exchange, whole)
        if not exchange.flags & RESPONSE_BODY and exchange.api_key not in _READ_ANSWERS:
            self._answer(exchange, now_us, *self._with_addresses(exchange, whole))
            return
        assert exchange.request is not None
        request = Request(pieces.joined(exchange.request))
        response = Response(whole[4:], request)
        if exchange.api_key == ApiKey.Metadata:
            self._learn(exchange, response.codec, whole, 4 + response.body_offset)
        elif exchange.api_key == ApiKey.ApiVersions:
            if newer := rewrite.newer_versions(response.body):
                here.commands.newer_versions(newer)
        elif exchange.api_key == ApiKey.SaslHandshake and makes_bare(exchange.api_version, response.body["error_code"]):
            here.life.happens(Event.TOKENS_AGREED)
        if exchange.relayed is not None:
            if exchange.relayed.add(None, response.body):
                self.relayed(exchange, now_us)
            return
        if exchange.merge is not None:
            response = Response(_encoded(response.codec, exchange, exchange.merge(response.body)), request)
            whole = b""
        self._judge(exchange, response, whole, now_us)

    def _judge(self, exchange: Exchange, response: Response, whole: bytes, now_us: int) -> None:
        """Let the faults and the rewriting see an answer; ``whole`` is its frame, empty where it has to be encoded."""
        here = self._conversation
        body: Body | None = None
        exchange.actions = deque()
        if exchange.flags & RESPONSE_BODY:
            for action in self._decided(exchange, response, now_us):
                if isinstance(action, Delay | Hold):
                    exchange.actions.append(action)
                elif isinstance(action, RewriteResponse):
                    if exchange.hits:
                        exchange.outcome = "altered"
                    body = action.body
                elif isinstance(action, Mute):
                    exchange.mute_us = action.for_us
                else:
                    self._end_of(exchange, action, response, whole, now_us)
                    return
        here.begin_delays(exchange, now_us)
        codec = response.codec
        if body is None:
            changed = rewrite.rewrite(codec, response.body, self._advertise)
            body = response.body if changed or not whole else None
        else:
            rewrite.rewrite(codec, body, self._advertise)
        if exchange.hits:
            exchange.error_code = first_error(response.body if body is None else body)
        if body is not None:
            whole = pieces.framed(_encoded(codec, exchange, body))
        self._answer(exchange, now_us, whole)

    def _decided(self, exchange: Exchange, response: Response, now_us: int) -> tuple[Action, ...]:
        """What the plan says to an answer."""
        here = self._conversation
        after = here.plan.on_response(here.connection, response.request, response, exchange.decision or NOTHING, now_us)
        exchange.hits = joined(exchange.hits, after.hits, after.undone)
        return after.actions

    def _end_of(self, exchange: Exchange, action: Action, response: Response, whole: bytes, now_us: int) -> None:
        """Carry out what leaves nothing of the answer to be sent on as it is."""
        here = self._conversation
        if isinstance(action, AnswerRaw):
            self.answer_raw(exchange, action, now_us)
        elif isinstance(action, Drop):
            if exchange.flags & KEEP_RESPONSE:
                exchange.response = bytes(response.frame)  # what the broker said is known, here alone
            self.drop(exchange, action, now_us)
        elif isinstance(action, Close | Reset):
            if action.after_bytes is not None and exchange is here.pump.head():
                torn = whole[: action.after_bytes]
                here.commands.to_client(torn)
                exchange.response_bytes = len(torn)
            here.cut(exchange, now_us, action, is_queued=True)
        else:
            raise AssertionError(f"{action} is not an action on an answer")

    def relayed(self, exchange: Exchange, now_us: int) -> None:
        """Every broker has answered its part of this exchange's request."""
        assert exchange.request is not None
        assert exchange.relayed is not None
        request = Request(pieces.joined(exchange.request))
        codec = response_codec(exchange.api_key, exchange.api_version)
        exchange.broker_responded_at_us = now_us
        if exchange.outcome == "no_response":
            exchange.outcome = "answered"
        merged, exchange.relayed = exchange.relayed.merged(), None
        self._judge(exchange, Response(_encoded(codec, exchange, merged), request), b"", now_us)

    def _with_addresses(self, exchange: Exchange, whole: bytes) -> tuple[bytes, ...]:
        """An answer that only has to name the proxy's addresses: learned from, else as it came."""
        if not exchange.flags & HOLD_RESPONSE:
            return (whole,)
        codec = response_codec(exchange.api_key, exchange.api_version)
        offset = response_body_offset(exchange.api_key, exchange.api_version, whole, 4)
        if exchange.api_key == ApiKey.Metadata:
            self._learn(exchange, codec, whole, offset)
        changed = with_addresses(codec, whole, offset, self._advertise)
        return (whole,) if changed is None else pieces.behind_length(memoryview(whole)[4:offset], *changed)

    def _note_login(self, exchange: Exchange, whole: bytes) -> None:
        """Learn whether the broker lets a client in. An answer that can't be read teaches nothing."""
        try:
            offset = response_body_offset(exchange.api_key, exchange.api_version, whole, 4)
            body = response_codec(exchange.api_key, exchange.api_version).decode(whole, offset)
        except WireError:
            return
        exchange.error_code = body["error_code"]
        here = self._conversation
        here.sasl.answered(bytes(body["auth_bytes"]), here.connection, exchange.error_code)

    def _learn(self, exchange: Exchange, codec: Codec, whole: bytes, offset: int) -> None:
        """Take note of a Metadata answer, before any lie is told about it."""
        here = self._conversation
        cluster = here.plan.cluster
        if cluster.is_news(codec.api_version, whole, offset):
            encoded = codec.api_version, whole[offset:]
            try:
                body = codec.decode(whole, offset)
            except BodyTooLarge as error:
                reason = f"{error.side}: {error.reason}: passed on, not learned from"
                at_us = exchange.broker_responded_at_us
                here.commands.record(ConnectionEvent("wire_error", here.connection, at_us, reason))
                cluster.pass_over(*encoded)
                return
            cluster.observe_metadata(body, encoded)
            here.commands.brokers_seen(set(cluster.brokers))

    def answer_locally(self, exchange: Exchange, action: Answer, now_us: int) -> None:
        """Answer in the broker's place; the answer waits for its turn like any other."""
        exchange.outcome = "injected"
        version = exchange.api_version if action.api_version is None else action.api_version
        codec = response_codec(exchange.api_key, version)
        exchange.error_code = first_error(action.body)
        rewrite.rewrite(codec, action.body, self._advertise)
        self._answer(exchange, now_us, pieces.framed(_encoded(codec, exchange, action.body)))

    def answer_raw(self, exchange: Exchange, action: AnswerRaw, now_us: int) -> None:
        exchange.outcome = "altered" if exchange.forwarded_at_us else "injected"
        exchange.afterwards = "close" if action.close_after else "silence"
        self._answer(exchange, now_us, action.data)

    def drop(self, exchange: Exchange, action: Drop, now_us: int) -> None:
        """Give the client no answer."""
        here = self._conversation
        exchange.outcome = "dropped"
        if not action.hold_later:
            here.pump.drop(exchange)
            here.commands.record(exchange)
        else:
            here.commands.struck(exchange)
        here.end_if_drained(now_us)

    def _answer(self, exchange: Exchange, now_us: int, *whole: bytes) -> None:
        """Queue an answer, in one piece or behind its length; it leaves when it is its turn and its time."""
        self._conversation.pump.answer(exchange, whole)
        self._backlog.waiting_bytes += sum(map(len, whole))
        self.flush(now_us)

    def flush(self, now_us: int) -> None:
        """Send every answer whose turn has come."""
        here = self._conversation
        while not here.life.is_closed and (exchange := here.pump.due()) is not None:
            if exchange.answer is None or here.life.answers is Answers.SILENT:
                break
            while exchange.actions:
                action = exchange.actions[0]
                if isinstance(action, Delay | Hold) and here.waits(exchange, action, now_us):
                    self._backlog.settle()
                    return
                exchange.actions.popleft()
            self._leave(exchange, now_us)
            if exchange.mute_us:
                here.muted_until_us = now_us + exchange.mute_us
                here.life.happens(Event.MUTED)
                here.commands.wake(here.muted_until_us)
            if exchange.afterwards == "close":
                here.end(now_us, f"closed by fault {names_of(exchange)}")
                return
            if exchange.afterwards == "silence":
                if here.life.answers is Answers.ENDED:
                    here.end_with_broker(now_us)
                    return
                here.life.happens(Event.SILENCED)
        self._backlog.settle()
        here.end_if_drained(now_us)

    def _leave(self, exchange: Exchange, now_us: int) -> None:
        """Send the answer of the head."""
        here = self._conversation
        keep_answer(exchange)
        whole, exchange.answer = exchange.answer, None
        assert whole is not None
        size = sum(map(len, whole))
        self._backlog.waiting_bytes -= size
        here.pump.leave()
        for part in whole:
            if not here.life.is_closed:  # by a shape whose limit the part before it reached
                here.commands.to_client(part)
        exchange.response_at_us = now_us
        exchange.response_bytes = size
        here.commands.record(exchange)


def _encoded(codec: Codec, exchange: Exchange, body: Body) -> bytes:
    """An answer's frame for this exchange, without its length."""
    header = encode_response_header(codec.api_key, codec.api_version, exchange.correlation_id)
    return header + codec.encode(body)
