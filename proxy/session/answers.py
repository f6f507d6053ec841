"""From the broker to the client: answers cut through, or put together, shown to the plan, and sent in their turn."""

from collections import deque
from struct import Struct
from typing import Final

from notleader.faults.actions import (
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
from notleader.proxy import pieces
from notleader.proxy.capture import passing
from notleader.proxy.plain.flags import ASSEMBLE_RESPONSE, ENDPOINTS, HOLD_RESPONSE, KEEP_RESPONSE, RESPONSE_BODY
from notleader.proxy.plain.pure import SMALL
from notleader.proxy.pump.endpoints import FetchWalk, surely_absent
from notleader.proxy.record.rows import first_error
from notleader.proxy.session import rewrite
from notleader.proxy.session.conversation import Conversation, names_of
from notleader.proxy.session.inflight import ConnectionEvent, Exchange
from notleader.proxy.session.sasl import makes_bare
from notleader.proxy.wire.addresses import with_addresses
from notleader.proxy.wire.codec import Body, Codec, response_codec
from notleader.proxy.wire.errors import BodyTooLarge, WireError
from notleader.proxy.wire.header import encode_response_header, response_body_offset
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request, Response

_HEAD: Final = Struct(">ii")  # length, correlation_id
# Answers that the session itself reads, beyond the addresses in them.
_READ_ANSWERS: Final = {ApiKey.ApiVersions, ApiKey.SaslHandshake}


class Answers(Conversation):
    """The half of a conversation that answers requests, whoever made the answer."""

    def _broker_bytes(self, data: bytes, now_us: int) -> None:
        if self._response_needed:
            self._response_stash.append(data)
            self._response_stashed += len(data)
            if self._response_stashed < self._response_needed:
                return
            data = b"".join(self._response_stash)
            self._response_stash.clear()
            self._response_stashed = self._response_needed = 0
        position = sent = 0
        end = len(data)
        done: list[Exchange] = []
        exchange: Exchange | None
        inflight = self._inflight.queue
        if self._response_left:
            position = min(self._response_left, end)
            self._response_left -= position
            exchange = self._response_open
            assert exchange is not None
            if self._walk is not None:
                self._walk.feed(data, 0, position)
                if self._walk.hide_at >= 0:
                    data = pieces.hidden(data, self._walk.hide_at)
                if not self._response_left:
                    self._walk = None
            if exchange.flags & KEEP_RESPONSE:
                _keep(exchange, data if position == end else data[:position])
            if not self._response_left:
                self._response_open = None
                done.append(exchange)
        try:
            while position < end:
                available = end - position
                if self._bare_answers:
                    token_bytes = pieces.frame_length(data, position, self._max_frame_bytes, "broker")
                    if token_bytes is None or available < 4 + token_bytes:
                        needed = 4 + (token_bytes or 0)
                        sent = self._stash_response(data, sent, position, needed)
                        break
                    if not self._inflight.is_due(data[position + 4 : position + 8]):
                        position += 4 + token_bytes
                        continue
                    self._bare_answers = False
                if available < _HEAD.size:
                    sent = self._stash_response(data, sent, position, _HEAD.size)
                    break
                size, correlation_id = _HEAD.unpack_from(data, position)
                total = size + 4
                if not 4 <= size <= self._max_frame_bytes:
                    raise WireError(f"an answer of {size} bytes", side="broker")
                head = inflight[0] if inflight else None
                if head is not None and head.correlation_id == correlation_id and head.awaits_broker:
                    exchange = head
                else:
                    exchange = self._inflight.match(correlation_id)
                flags = exchange.flags
                whole_needed = (
                    head is not exchange
                    or self._client_deaf
                    or flags & ASSEMBLE_RESPONSE
                    or (exchange.decision is not None and exchange.decision.on_response)
                )
                if flags & ENDPOINTS and not whole_needed:
                    if available >= total:
                        whole_needed = not surely_absent(
                            exchange.api_key, exchange.api_version, data, position + 4, position + total
                        )
                    elif exchange.api_key == ApiKey.Fetch and available > _HEAD.size:
                        self._walk = FetchWalk(exchange.api_version, size)
                        self._walk.feed(data, position + 4, end)
                        if self._walk.hide_at >= 0:
                            data = pieces.hidden(data, self._walk.hide_at)
                    else:
                        whole_needed = True
                    if whole_needed:
                        exchange.flags = flags | HOLD_RESPONSE
                if whole_needed:
                    if available < total:
                        sent = self._stash_response(data, sent, position, total)
                        break
                    if sent < position:
                        self._commands.to_client(pieces.part(data, sent, position))
                        sent = position
                    self._account(done, now_us)
                    self._response(exchange, data[position : position + total], now_us)
                    position += total
                    sent = position
                    if self._closed:
                        return
                    continue
                exchange.awaits_broker = False
                exchange.broker_responded_at_us = now_us
                exchange.response_bytes = total
                if exchange.outcome == "no_response":
                    exchange.outcome = "answered"
                if flags & KEEP_RESPONSE:
                    if total <= available and total < SMALL:
                        exchange.response = data[position + 4 : position + total]
                    else:
                        start = pieces.part(data, position + 4, min(end, position + total))
                        if total > self._table.shed_bytes:
                            exchange.response = passing.for_response(
                                exchange.api_key, exchange.api_version, start, size
                            )
                        else:
                            exchange.response = start
                inflight.popleft()
                if available < total:
                    self._response_left = total - available
                    self._response_open = exchange
                else:
                    done.append(exchange)
                position += total
        except WireError:
            # What came before it is as good as ever, and counts as answered.
            if sent < position:
                self._commands.to_client(pieces.part(data, sent, position))
            self._account(done, now_us)
            raise
        stop = min(position, end)
        if sent < stop:
            self._commands.to_client(data if sent == 0 and stop == end else pieces.part(data, sent, stop))
        record = self._commands.record
        for exchange in done:
            exchange.response_at_us = now_us
            record(exchange)
        if inflight and (inflight[0].answer is not None or self._client_ended) and not self._response_left:
            self._flush(now_us)

    def _account(self, done: list[Exchange], now_us: int) -> None:
        for exchange in done:
            exchange.response_at_us = now_us
            self._commands.record(exchange)
        done.clear()

    def _stash_response(self, data: bytes, sent: int, position: int, needed: int) -> int:
        if sent < position:
            self._commands.to_client(pieces.part(data, sent, position))
        self._response_stash.append(data[position:])
        self._response_stashed = len(data) - position
        self._response_needed = needed
        return len(data)

    def _response(self, exchange: Exchange, whole: bytes, now_us: int) -> None:
        """Take an answer that is here as a whole: let the faults and the rewriting see it."""
        if exchange.is_copy:
            self._inflight.remove(exchange)
            self._flush(now_us)
            return
        exchange.awaits_broker = False
        exchange.broker_responded_at_us = now_us
        if exchange.outcome == "no_response":
            exchange.outcome = "answered"
        if not _asks_plan(exchange) and exchange.api_key not in _READ_ANSWERS:
            self._answer(exchange, now_us, *self._with_addresses(exchange, whole))
            return
        assert exchange.request is not None
        request = Request(pieces.joined(exchange.request))
        response = Response(whole[4:], request)
        if exchange.api_key == ApiKey.Metadata:
            self._learn(exchange, response.codec, whole, 4 + response.body_offset)
        elif exchange.api_key == ApiKey.ApiVersions:
            if newer := rewrite.newer_versions(response.body):
                self._commands.newer_versions(newer)
        elif exchange.api_key == ApiKey.SaslHandshake:
            self._bare = self._bare_answers = makes_bare(exchange.api_version, response.body["error_code"])
        if exchange.relayed is not None:
            if exchange.relayed.add(None, response.body):
                self._relayed(exchange, now_us)
            return
        if exchange.merge is not None:
            response = Response(_encoded(response.codec, exchange, exchange.merge(response.body)), request)
            whole = b""
        self._judge(exchange, response, whole, now_us)

    def _judge(self, exchange: Exchange, response: Response, whole: bytes, now_us: int) -> None:
        """Let the faults and the rewriting see an answer; ``whole`` is its frame, empty where it has to be encoded."""
        request, decision = response.request, exchange.decision
        body: Body | None = None
        exchange.actions = deque()
        if _asks_plan(exchange):
            after = self._plan.on_response(self.connection, request, response, decision or NOTHING, now_us)
            exchange.hits = joined(exchange.hits, after.hits)
            for action in after.actions:
                if isinstance(action, Delay | Hold):
                    exchange.actions.append(action)
                elif isinstance(action, RewriteResponse):
                    if exchange.hits:
                        exchange.outcome = "altered"
                    body = action.body
                elif isinstance(action, Mute):
                    exchange.mute_us = action.for_us
                elif isinstance(action, AnswerRaw):
                    self._answer_raw(exchange, action, now_us)
                    return
                elif isinstance(action, Drop):
                    if exchange.flags & KEEP_RESPONSE:
                        exchange.response = bytes(response.frame)  # what the broker said is known, here alone
                    self._drop_answer(exchange, action, now_us)
                    return
                elif isinstance(action, Close | Reset):
                    if action.after_bytes is not None and exchange is self._inflight.head():
                        self._commands.to_client(whole[: action.after_bytes])
                    self._cut(exchange, now_us, action)
                    return
                else:
                    raise AssertionError(f"{action} is not an action on an answer")
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

    def _relayed(self, exchange: Exchange, now_us: int) -> None:
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

    def _learn(self, exchange: Exchange, codec: Codec, whole: bytes, offset: int) -> None:
        """Take note of a Metadata answer, before any lie is told about it."""
        cluster = self._plan.cluster
        if cluster.is_news(codec.api_version, whole, offset):
            encoded = codec.api_version, whole[offset:]
            try:
                body = codec.decode(whole, offset)
            except BodyTooLarge as error:
                reason = f"{error.side}: {error.reason}: passed on, not learned from"
                at_us = exchange.broker_responded_at_us
                self._commands.record(ConnectionEvent("wire_error", self.connection, at_us, reason))
                cluster.pass_over(*encoded)
                return
            cluster.observe_metadata(body, encoded)
            self._commands.brokers_seen(set(cluster.brokers))

    def _answer_locally(self, exchange: Exchange, action: Answer, now_us: int) -> None:
        """Answer in the broker's place; the answer waits for its turn like any other."""
        exchange.outcome = "injected"
        version = exchange.api_version if action.api_version is None else action.api_version
        codec = response_codec(exchange.api_key, version)
        exchange.error_code = first_error(action.body)
        rewrite.rewrite(codec, action.body, self._advertise)
        self._answer(exchange, now_us, pieces.framed(_encoded(codec, exchange, action.body)))

    def _answer_raw(self, exchange: Exchange, action: AnswerRaw, now_us: int) -> None:
        exchange.outcome = "altered" if exchange.forwarded_at_us else "injected"
        exchange.afterwards = "close" if action.close_after else "silence"
        self._answer(exchange, now_us, action.data)

    def _drop_answer(self, exchange: Exchange, action: Drop, now_us: int) -> None:
        exchange.outcome = "dropped"
        if not action.hold_later:
            self._inflight.remove(exchange)
            self._commands.record(exchange)
        self._end_if_drained(now_us)

    def _answer(self, exchange: Exchange, now_us: int, *whole: bytes) -> None:
        """Queue an answer, in one piece or behind its length; it leaves when it is its turn and its time."""
        exchange.answer = whole
        self._answer_bytes += sum(map(len, whole))
        self._flush(now_us)

    def _flush(self, now_us: int) -> None:
        """Send every answer whose turn has come."""
        while not (self._response_left or self._closed) and (exchange := self._inflight.head()) is not None:
            if exchange.answer is None or self._client_deaf:
                break
            while exchange.actions:
                action = exchange.actions[0]
                if isinstance(action, Delay | Hold) and self._waits(exchange, action, now_us):
                    self._pause_broker()
                    return
                exchange.actions.popleft()
            whole, exchange.answer = exchange.answer, None
            size = sum(map(len, whole))
            self._answer_bytes -= size
            self._inflight.pop()
            for part in whole:
                if not self._closed:  # by a shape whose limit the part before it reached
                    self._commands.to_client(part)
            exchange.response_at_us = now_us
            exchange.response_bytes = size
            if exchange.flags & KEEP_RESPONSE:
                exchange.response = whole[1] if len(whole) > 1 else whole[0][4:]
            self._commands.record(exchange)
            if exchange.mute_us:
                self._muted_until_us = now_us + exchange.mute_us
                self._holding = True
                self._commands.wake(self._muted_until_us)
            if exchange.afterwards == "close":
                self._end(now_us, f"closed by fault {names_of(exchange)}")
                return
            self._client_deaf = exchange.afterwards == "silence"
        self._pause_broker()
        self._end_if_drained(now_us)


def _asks_plan(exchange: Exchange) -> bool:
    """Whether the plan has to see the answer to this exchange."""
    decision = exchange.decision
    return bool(exchange.flags & RESPONSE_BODY) or (decision is not None and bool(decision.on_response))


def _encoded(codec: Codec, exchange: Exchange, body: Body) -> bytes:
    """An answer's frame for this exchange, without its length."""
    header = encode_response_header(codec.api_key, codec.api_version, exchange.correlation_id)
    return header + codec.encode(body)


def _keep(exchange: Exchange, part: bytes | memoryview) -> None:
    exchange.response = pieces.appended(exchange.response, part)
