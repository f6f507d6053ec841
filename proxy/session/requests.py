"""From the client to the broker: requests cut through, or put together, decided on, held and sent on in their turn."""

from collections import deque
from struct import Struct
from typing import Final

from notleader.faults.actions import (
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
from notleader.proxy import pieces
from notleader.proxy.capture import passing
from notleader.proxy.plain.flags import (
    ASK_PLAN,
    ASSEMBLE_REQUEST,
    ASSEMBLE_RESPONSE,
    HOLD_RESPONSE,
    KEEP_REQUEST,
    PRODUCE,
    RESPONSE_BODY,
)
from notleader.proxy.plain.pure import HIGHEST_API_KEY, SMALL, client_id_of
from notleader.proxy.session import rewrite
from notleader.proxy.session.answers import Answers
from notleader.proxy.session.conversation import wants_no_answer
from notleader.proxy.session.inflight import Exchange
from notleader.proxy.session.sasl import is_token
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.names import ApiKey
from notleader.proxy.wire.view import Request

_HEAD: Final = Struct(">ihhih")  # length, api_key, api_version, correlation_id, client_id length
_SMALLEST: Final = 8  # ControlledShutdown v0 has no client_id; everything else is longer
_NO_TAGS_NO_ID: Final = b"\0\0"  # of a flexible Produce: no tagged fields in the header, no transactional id
_ACKS_NONE: Final = b"\0\0"
_HEADER_ENOUGH: Final = 64 << 10  # client_id is at most 32 KiB; the rest is tagged fields nobody sends


class Requests(Answers):
    """The half of a conversation that takes requests; some it answers itself."""

    def _client_bytes(self, data: bytes, now_us: int) -> None:
        if self._request_needed:
            self._request_stash.append(data)
            self._request_stashed += len(data)
            if self._request_stashed < self._request_needed:
                return
            data = b"".join(self._request_stash)
            self._request_stash.clear()
            self._request_stashed = self._request_needed = 0
        position = sent = 0
        end = len(data)
        connection = self.connection
        inflight = self._inflight.queue
        if self._request_left:
            position = min(self._request_left, end)
            self._request_left -= position
            exchange = self._request_open
            if exchange is not None and exchange.flags & KEEP_REQUEST:
                _keep(exchange, data if position == end else data[:position])
            if not self._request_left:
                if exchange is not None and wants_no_answer(exchange):
                    self._commands.record(exchange)
                self._request_open = None
        try:
            while position < end:
                available = end - position
                if self._bare:
                    token_bytes = pieces.frame_length(data, position, self._max_frame_bytes, "client")
                    if token_bytes is None or available < 4 + token_bytes:
                        needed = 4 + (token_bytes or 0)
                        sent = self._stash_request(data, sent, position, needed)
                        break
                    token = data[position + 4 : position + 4 + token_bytes]
                    self._bare = is_token(token)
                    if self._bare:
                        self.connection.principal = self._sasl.principal(token) or self.connection.principal
                        position += 4 + token_bytes
                        continue
                if available < _HEAD.size:
                    if available >= 4:
                        pieces.frame_length(data, position, self._max_frame_bytes, "client")
                    sent = self._stash_request(data, sent, position, _HEAD.size)
                    break
                size, api_key, api_version, correlation_id, client_id_bytes = _HEAD.unpack_from(data, position)
                total = size + 4
                if not _SMALLEST <= size <= self._max_frame_bytes:
                    raise WireError(pieces.absurd_length(data, position, size), side="client")
                if not (0 <= api_key <= HIGHEST_API_KEY and 0 <= api_version <= 255):
                    raise WireError(f"no Kafka request: api key {api_key}, version {api_version}", side="client")
                flags = self._table[api_key << 8 | api_version] | self._plan.interest(api_key, api_version)
                needed = min(total, _HEAD.size + max(client_id_bytes, 0))
                whole_needed = flags & ASSEMBLE_REQUEST or self._holding
                if whole_needed:
                    needed = total
                elif flags & PRODUCE:
                    # Enough for most transactional ids and acks, or the whole where the frame is shorter.
                    needed = min(total, needed + 512)
                if available < needed:
                    sent = self._stash_request(data, sent, position, needed)
                    break
                expects = True
                if flags & PRODUCE and not whole_needed:
                    try:
                        expects = _expects_answer(
                            data, position, min(end, position + total), api_version, client_id_bytes
                        )
                    except WireError:
                        if available >= total:
                            raise
                        sent = self._stash_request(data, sent, position, min(total, 2 * available))
                        break
                if 0 < client_id_bytes <= size - 10:
                    connection.client_id = client_id_of(data[position + 14 : position + 14 + client_id_bytes])
                self.exchanges += 1
                exchange = Exchange(
                    connection,
                    self.exchanges,
                    api_key,
                    api_version,
                    correlation_id,
                    connection.client_id,
                    now_us,
                    total,
                    flags,
                )
                if whole_needed:
                    if sent < position:
                        self._commands.to_broker(pieces.part(data, sent, position))
                        sent = position
                    self._request(exchange, data[position : position + total], now_us)
                    position += total
                    sent = position
                    if self._closed:
                        return
                    continue
                exchange.forwarded_at_us = now_us
                if flags & KEEP_REQUEST:
                    if total <= available and total < SMALL:
                        exchange.request = data[position + 4 : position + total]
                    else:
                        start = pieces.part(data, position + 4, min(end, position + total))
                        if total > self._table.shed_bytes:
                            exchange.request = passing.for_request(api_key, api_version, start, size)
                        else:
                            exchange.request = start
                elif flags & ASSEMBLE_RESPONSE:
                    # Its header will say how the answer is encoded; the body is not needed.
                    exchange.request = data[position + 4 : position + min(total, 4 + _HEADER_ENOUGH)]
                if available < total:
                    self._request_left = total - available
                    self._request_open = exchange
                if expects:
                    exchange.awaits_broker = True
                    inflight.append(exchange)
                elif total <= available:
                    # acks=0: the broker never answers; queueing this would pair every later answer wrongly.
                    self._commands.record(exchange)
                position += total
            else:
                position = end
        except WireError:
            # What came before it is as good as ever, and counts as passed on.
            if sent < position:
                self._commands.to_broker(pieces.part(data, sent, position))
            raise
        if sent < min(position, end):
            stop = min(position, end)
            self._commands.to_broker(data if sent == 0 and stop == end else pieces.part(data, sent, stop))

    def _stash_request(self, data: bytes, sent: int, position: int, needed: int) -> int:
        """Keep ``data[position:]`` until ``needed`` bytes are there; the part before it leaves now."""
        if sent < position:
            self._commands.to_broker(pieces.part(data, sent, position))
        self._request_stash.append(data[position:])
        self._request_stashed = len(data) - position
        self._request_needed = needed
        return len(data)

    def _request(self, exchange: Exchange, whole: bytes, now_us: int) -> None:
        """Decide on a request that is here as a whole, and do what was decided, in its turn."""
        frame = whole[4:]
        if exchange.flags & (KEEP_REQUEST | ASSEMBLE_RESPONSE):
            exchange.request = frame
        expects = not (exchange.flags & PRODUCE and rewrite.produce_acks(frame, exchange.api_version) == 0)
        request = Request(frame)
        if exchange.api_key in (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate):
            rewrite.note_client(request, self.connection, self._sasl)
        if exchange.flags & ASK_PLAN:
            exchange.request = frame
            decision = self._plan.on_request(self.connection, request, now_us)
            if decision is not NOTHING:
                exchange.decision = decision
                exchange.hits = decision.hits
                exchange.actions = deque(decision.actions)
        if expects:
            self._inflight.add(exchange)
        if self._holding or not self._act_on_request(exchange, whole, now_us, expects):
            if self._held is None:
                self._held = deque()
            self._held.append((exchange, whole))
            self._held_bytes += len(whole)
            self._holding = True
            self._pause_client()

    def _act_on_request(self, exchange: Exchange, whole: bytes, now_us: int, expects: bool) -> bool:
        """Carry out what was decided; False while the request has to wait."""
        while exchange.actions:
            action = exchange.actions[0]
            if isinstance(action, Delay | Hold):
                if self._waits(exchange, action, now_us):
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
            elif isinstance(action, Relay):
                self._relay(exchange, action, Request(whole[4:]), now_us, expects)
                return True
            elif isinstance(action, Answer):
                self._answer_locally(exchange, action, now_us)
                return True
            elif isinstance(action, Drop):
                if expects:
                    self._drop_answer(exchange, action, now_us)
                else:
                    exchange.outcome = "dropped"
                    self._commands.record(exchange)
                return True
            elif isinstance(action, Duplicate):
                exchange.copies = action.copies
            elif isinstance(action, AnswerRaw):
                if not expects:
                    self._inflight.add(exchange)
                self._answer_raw(exchange, action, now_us)
                return True
            elif isinstance(action, Close | Reset):
                if action.after_bytes is not None:
                    self._commands.to_broker(whole[: action.after_bytes])
                self._cut(exchange, now_us, action)
                return True
            else:
                raise AssertionError(f"{action} is not an action on a request")
        exchange.forwarded_at_us = now_us
        self._to_broker(exchange, whole, expects)
        if not expects:
            self._commands.record(exchange)
        if exchange.close_after:
            self._cut(exchange, now_us, Close())
        return True

    def _to_broker(self, exchange: Exchange, whole: bytes, expects: bool) -> None:
        """Send a whole request to the connection's own broker, as often as was decided."""
        exchange.awaits_broker = expects
        self._commands.to_broker(whole)
        for _ in range(exchange.copies):
            self._commands.to_broker(whole)
            if expects:
                self._inflight.add_behind(exchange, _copy_of(exchange))

    def _relay(self, exchange: Exchange, action: Relay, request: Request, now_us: int, expects: bool) -> None:
        """Send every broker its part of a request, the connection's own broker included where it has one."""
        if exchange.hits:
            exchange.outcome = "altered"
        exchange.flags |= RESPONSE_BODY
        exchange.close_after = action.close_after
        exchange.forwarded_at_us = now_us
        exchange.relayed = self._relays.send(exchange, action, request)
        if action.body is not None:
            self._to_broker(exchange, pieces.framed(request.encode(action.body)), expects)
        if not expects:
            self._commands.record(exchange)
        if exchange.close_after:
            self._cut(exchange, now_us, Close())

    def _run_held(self, now_us: int) -> None:
        if now_us < self._muted_until_us:
            self._commands.wake(self._muted_until_us)
            return
        while self._held and not self._closed:
            exchange, whole = self._held[0]
            expects = exchange in self._inflight
            if not self._act_on_request(exchange, whole, now_us, expects):
                return
            if self._held:
                self._held.popleft()
                self._held_bytes -= len(whole)
        self._holding = False
        self._pause_client()
        if self._client_ended and not self._closed:
            self._commands.end_broker()
        self._end_if_drained(now_us)


def _expects_answer(data: bytes, start: int, end: int, api_version: int, client_id_bytes: int) -> bool:
    """Whether a Produce request, all or the beginning of which is here, is to be answered. Raises WireError."""
    acks_at = start + 16 + client_id_bytes
    if api_version >= 9 and client_id_bytes >= 0 and data[acks_at - 2 : acks_at] == _NO_TAGS_NO_ID:
        return data[acks_at : acks_at + 2] != _ACKS_NONE
    return rewrite.produce_acks(pieces.part(data, start + 4, end), api_version) != 0


def _copy_of(exchange: Exchange) -> Exchange:
    """An exchange that waits for the answer to a copy of a request, to throw it away."""
    copy = Exchange(
        exchange.connection,
        exchange.seq,
        exchange.api_key,
        exchange.api_version,
        exchange.correlation_id,
        exchange.client_id,
        exchange.request_at_us,
        exchange.request_bytes,
        HOLD_RESPONSE,
    )
    copy.is_copy = copy.awaits_broker = True
    return copy


def _keep(exchange: Exchange, part: bytes | memoryview) -> None:
    exchange.request = pieces.appended(exchange.request, part)
