"""One client↔broker conversation: bytes and the time go in, commands come out.

Pure: no socket, no clock, no randomness of its own. Frames that nothing has to see are cut through, chunk
by chunk, as they came; the others are put together, shown to the fault plan and sent on whole.

Rules it keeps (see ARCHITECTURE.md): answers leave in request order; a held message holds the later ones
of its direction back; an ``acks=0`` Produce never enters the FIFO.
"""

from collections import deque
from struct import Struct
from typing import Final

from faults.actions import (
    Answer,
    AnswerRaw,
    Close,
    Delay,
    Drop,
    Duplicate,
    Forward,
    Hold,
    Mute,
    Relay,
    Reset,
    RewriteResponse,
)
from faults.base import Connection
from faults.plan import NOTHING, Plan
from proxy import handling, pieces, rewrite, sasl
from proxy.capture import passing
from proxy.capture.rows import first_error
from proxy.commands import Commands
from proxy.handling import Handling
from proxy.inflight import ConnectionEvent, Exchange, Inflight
from proxy.relays import Relays
from proxy.wire.addresses import Advertise, with_addresses
from proxy.wire.codec import Body, Codec, response_codec
from proxy.wire.endpoints import FetchWalk, surely_absent
from proxy.wire.errors import BodyTooLarge, WireError
from proxy.wire.header import encode_response_header, response_body_offset
from proxy.wire.names import ApiKey
from proxy.wire.view import Request, Response

_REQUEST_HEAD: Final = Struct(">ihhih")  # length, api_key, api_version, correlation_id, client_id length
_RESPONSE_HEAD: Final = Struct(">ii")  # length, correlation_id
_SMALLEST_REQUEST: Final = 8  # ControlledShutdown v0 has no client_id; everything else is longer
_HIGHEST_API_KEY: Final = 1000  # beyond any key in use (Kafka's are below 100): it is no Kafka request

_ASSEMBLE_REQUEST: Final = handling.ASK_PLAN | handling.REQUEST_BODY | handling.HOLD_REQUEST
_ASSEMBLE_RESPONSE: Final = handling.RESPONSE_BODY | handling.HOLD_RESPONSE
_KEEP_REQUEST: Final = handling.KEEP_REQUEST | _ASSEMBLE_RESPONSE
# Answers that the session itself reads, beyond the addresses in them.
_READ_ANSWERS: Final = {ApiKey.ApiVersions, ApiKey.SaslHandshake}
_PRODUCE: Final = handling.PRODUCE
_KEEP_REQUEST_FRAME: Final = handling.KEEP_REQUEST
_KEEP_RESPONSE_FRAME: Final = handling.KEEP_RESPONSE
_ENDPOINTS: Final = handling.ENDPOINTS
_NOT_PLAIN: Final = _ASSEMBLE_REQUEST | _ASSEMBLE_RESPONSE | _PRODUCE | _ENDPOINTS
_NO_TAGS_NO_ID: Final = b"\0\0"  # of a flexible Produce: no tagged fields in the header, no transactional id
_ACKS_NONE: Final = b"\0\0"
_SMALL: Final = pieces.SMALL
_HEADER_ENOUGH: Final = 64 << 10  # client_id is at most 32 KiB; the rest is tagged fields nobody sends

Held = tuple[Exchange, bytes]


class Session:
    """The state of one client connection and its broker connection.

    ``advertise(node_id, host, port)`` gives the address under which clients reach that broker through
    the proxy. ``max_frame_bytes`` bounds one frame, ``max_held_bytes`` what waits in one direction
    before reading pauses.
    """

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
        keep_secrets: bool = False,
    ) -> None:
        self.connection = connection
        self.exchanges = 0
        self._plan = plan
        self._table = table
        self._commands = commands
        self._advertise = advertise
        self._max_frame_bytes = max_frame_bytes
        self._most_plain = min(_SMALL, max_frame_bytes)
        self._max_held_bytes = max_held_bytes
        self._inflight = Inflight()
        self._closed = False
        self._client_ended = False
        self._broker_ended = False
        # requests: a stash for bytes that can't be parsed yet, a count for a frame being cut through
        self._request_stash: list[bytes] = []
        self._request_stashed = 0
        self._request_needed = 0
        self._request_left = 0
        self._request_open: Exchange | None = None
        self._client_id_raw: bytes | None = None
        self._held: deque[Held] = deque()
        self._held_bytes = 0
        self._muted_until_us = 0
        self._holding = False  # every request waits: one before it does, or the connection is muted
        self._client_paused = False
        self._client_deaf = False  # nothing more is sent to the client
        # answers, likewise
        self._response_stash: list[bytes] = []
        self._response_stashed = 0
        self._response_needed = 0
        self._response_left = 0
        self._response_open: Exchange | None = None
        self._walk: FetchWalk | None = None
        self._answer_bytes = 0
        self._broker_paused = False
        self._sasl = sasl.Handshake()
        self._relays = Relays(commands.to_node, max_frame_bytes)

    # ---- what arrives ---------------------------------------------------------------------------

    def client_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the client sent."""
        if self._closed or self._one_request(data, now_us):
            return
        try:
            self._client_bytes(data, now_us)
        except WireError as error:
            self._fail(error, "client", now_us)

    def broker_bytes(self, data: bytes, now_us: int) -> None:
        """Take what the broker sent."""
        if self._closed or self._one_answer(data, now_us):
            return
        try:
            self._broker_bytes(data, now_us)
        except WireError as error:
            self._fail(error, "broker", now_us)

    def node_bytes(self, node_id: int, data: bytes, now_us: int) -> None:
        """Take what another broker sent, in answer to parts of requests that were relayed to it."""
        if self._closed:
            return
        try:
            for exchange in self._relays.received(node_id, data):
                if not self._closed:
                    self._relayed(exchange, now_us)
        except WireError as error:
            self._fail(error, "broker", now_us)

    def node_gone(self, node_id: int, reason: str, now_us: int) -> None:
        """The connection to another broker ended; what waits for it can't be answered any more."""
        if self._relays.waits_for(node_id):
            self._end(now_us, f"broker {node_id}, to which a request was relayed: {reason}")

    def client_eof(self, now_us: int) -> None:
        """The client will send no more; what it asked for is still answered."""
        if self._closed:
            return
        self._client_ended = True
        if self._request_stashed or self._request_left:
            self._end(now_us, "the client closed the connection in the middle of a request")
        elif not self._held:
            self._commands.end_broker()

    def broker_eof(self, now_us: int) -> None:
        """The broker will send no more; answers that wait here for their time still leave."""
        if self._closed:
            return
        self._broker_ended = True
        self._end_if_drained(now_us)

    def gone(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        """One side vanished, or never came: account for what was open and close the other."""
        self._end(now_us, reason, reset=reset)

    def wake(self, now_us: int) -> None:
        """Go on with whatever waited for this time, or for a rule that changed."""
        if self._closed:
            return
        try:
            self._run_held(now_us)
        except WireError as error:
            self._fail(error, "client", now_us)
            return
        self._flush(now_us)

    # ---- the common case: a chunk is one frame that nobody has to see -----------------------------

    def _one_request(self, data: bytes, now_us: int) -> bool:
        """What `_client_bytes` does with one whole small request that is cut through; False: not that case."""
        total = len(data)
        if (
            self._request_needed
            or self._request_left
            or self._holding
            or not _REQUEST_HEAD.size <= total <= self._most_plain
            or self._sasl.raw
        ):
            return False
        size, api_key, api_version, correlation_id, client_id_bytes = _REQUEST_HEAD.unpack_from(data)
        if size + 4 != total or not (0 <= api_key <= _HIGHEST_API_KEY and 0 <= api_version <= 255):
            return False
        flags = self._table[api_key << 8 | api_version] | self._plan.interest(api_key, api_version)
        if flags & _NOT_PLAIN:
            return False
        connection = self.connection
        if client_id_bytes > 0:
            raw = data[14 : 14 + client_id_bytes]
            if raw != self._client_id_raw and 14 + client_id_bytes <= total:
                self._client_id_raw = raw
                connection.client_id = raw.decode("utf-8", "replace")
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
        exchange.forwarded_at_us = now_us
        if flags & _KEEP_REQUEST_FRAME:
            exchange.request = data[4:]
        exchange.awaits_broker = True
        self._inflight.queue.append(exchange)
        self._commands.to_broker(data)
        return True

    def _one_answer(self, data: bytes, now_us: int) -> bool:
        """What `_broker_bytes` does with one whole small answer to the oldest request; False: not that case."""
        total = len(data)
        inflight = self._inflight.queue
        if (
            self._response_needed
            or self._response_left
            or not inflight
            or not _RESPONSE_HEAD.size <= total <= self._most_plain
            or self._client_deaf
            or self._sasl.raw_answers
        ):
            return False
        size, correlation_id = _RESPONSE_HEAD.unpack_from(data)
        exchange = inflight[0]
        if (
            size + 4 != total
            or exchange.correlation_id != correlation_id
            or not exchange.awaits_broker
            or exchange.flags & _NOT_PLAIN
            or exchange.decision is not None
        ):
            return False
        exchange.awaits_broker = False
        exchange.broker_responded_at_us = exchange.response_at_us = now_us
        exchange.response_bytes = total
        if exchange.outcome == "no_response":
            exchange.outcome = "answered"
        if exchange.flags & _KEEP_RESPONSE_FRAME:
            exchange.response = data[4:]
        inflight.popleft()
        self._commands.to_client(data)
        self._commands.record(exchange)
        if inflight and inflight[0].answer is not None:
            self._flush(now_us)
        return True

    # ---- requests -------------------------------------------------------------------------------

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
            if exchange is not None and exchange.flags & handling.KEEP_REQUEST:
                _keep(exchange, data if position == end else data[:position])
            if not self._request_left:
                self._request_open = None
        while position < end:
            available = end - position
            if self._sasl.raw:
                token_bytes = pieces.frame_length(data, position, self._max_frame_bytes, "client")
                if token_bytes is None or available < 4 + token_bytes:
                    needed = 4 + (token_bytes or 0)
                    sent = self._stash_request(data, sent, position, needed)
                    break
                token = data[position + 4 : position + 4 + token_bytes]
                if self._sasl.is_token(token):
                    self.connection.principal = self._sasl.principal(token) or self.connection.principal
                    position += 4 + token_bytes
                    continue
            if available < _REQUEST_HEAD.size:
                if available >= 4:
                    pieces.frame_length(data, position, self._max_frame_bytes, "client")
                sent = self._stash_request(data, sent, position, _REQUEST_HEAD.size)
                break
            size, api_key, api_version, correlation_id, client_id_bytes = _REQUEST_HEAD.unpack_from(data, position)
            total = size + 4
            if not _SMALLEST_REQUEST <= size <= self._max_frame_bytes:
                raise WireError(pieces.absurd_length(data, position, size), side="client")
            if not (0 <= api_key <= _HIGHEST_API_KEY and 0 <= api_version <= 255):
                raise WireError(f"no Kafka request: api key {api_key}, version {api_version}", side="client")
            flags = self._table[api_key << 8 | api_version] | self._plan.interest(api_key, api_version)
            if flags & _ASSEMBLE_REQUEST or self._holding:
                if available < total:
                    sent = self._stash_request(data, sent, position, total)
                    break
            elif flags & _PRODUCE and available < total:
                # Enough for transactional_id and acks, or the whole where the frame is shorter.
                needed = min(total, 14 + max(client_id_bytes, 0) + 512)
                if available < needed:
                    sent = self._stash_request(data, sent, position, needed)
                    break
            if client_id_bytes > 0:
                raw = data[position + 14 : position + 14 + client_id_bytes]
                if raw != self._client_id_raw and 10 + client_id_bytes <= size:
                    self._client_id_raw = raw
                    connection.client_id = raw.decode("utf-8", "replace")
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
            if flags & _ASSEMBLE_REQUEST or self._holding:
                if sent < position:
                    self._commands.to_broker(pieces.part(data, sent, position))
                self._request(exchange, data[position : position + total], now_us)
                position += total
                sent = position
                if self._closed:
                    return
                continue
            exchange.forwarded_at_us = now_us
            expects = True
            if flags & _PRODUCE:
                acks_at = position + 16 + client_id_bytes
                if api_version >= 9 and client_id_bytes >= 0 and data[acks_at - 2 : acks_at] == _NO_TAGS_NO_ID:
                    expects = data[acks_at : acks_at + 2] != _ACKS_NONE
                else:
                    part = pieces.part(data, position + 4, min(end, position + total))
                    expects = rewrite.produce_acks(part, api_version) != 0
            if flags & _KEEP_REQUEST_FRAME:
                if total <= available and total < _SMALL:
                    exchange.request = data[position + 4 : position + total]
                else:
                    if total > self._table.shed_bytes:
                        exchange.request = passing.for_request(api_key, api_version)
                    _keep(exchange, pieces.part(data, position + 4, min(end, position + total)))
            elif flags & _ASSEMBLE_RESPONSE:
                # Its header will say how the answer is encoded; the body is not needed.
                exchange.request = data[position + 4 : position + min(total, 4 + _HEADER_ENOUGH)]
            if available < total:
                self._request_left = total - available
                self._request_open = exchange
            if expects:
                exchange.awaits_broker = True
                inflight.append(exchange)
            else:
                # acks=0: the broker never answers; queueing this would pair every later answer wrongly.
                self._commands.record(exchange)
            position += total
        else:
            position = end
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
        if exchange.flags & _KEEP_REQUEST:
            exchange.request = frame
        expects = not (exchange.flags & handling.PRODUCE and rewrite.produce_acks(frame, exchange.api_version) == 0)
        request = Request(frame)
        if exchange.api_key in (ApiKey.ApiVersions, ApiKey.SaslHandshake, ApiKey.SaslAuthenticate):
            rewrite.note_client(request, self.connection, self._sasl)
        if exchange.flags & handling.ASK_PLAN:
            exchange.request = frame
            decision = self._plan.on_request(self.connection, request, now_us)
            if decision is not NOTHING:
                exchange.decision = decision
                exchange.hits = decision.hits
                exchange.actions = deque(decision.actions)
        if expects:
            self._inflight.add(exchange)
        if self._holding or not self._act_on_request(exchange, whole, now_us, expects):
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
                    exchange.flags |= handling.RESPONSE_BODY
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
                    self._drop_answer(exchange, action)
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
        exchange.flags |= handling.RESPONSE_BODY
        exchange.close_after = action.close_after
        exchange.forwarded_at_us = now_us
        exchange.relayed = self._relays.send(exchange, action, request)
        if action.body is not None:
            self._to_broker(exchange, pieces.framed(request.encode(action.body)), expects)
        if not expects:
            self._commands.record(exchange)
        if exchange.close_after:
            self._cut(exchange, now_us, Close())

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

    # ---- answers --------------------------------------------------------------------------------

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
            if exchange.flags & handling.KEEP_RESPONSE:
                _keep_response(exchange, data if position == end else data[:position])
            if not self._response_left:
                self._response_open = None
                done.append(exchange)
        while position < end:
            available = end - position
            if self._sasl.raw_answers:
                token_bytes = pieces.frame_length(data, position, self._max_frame_bytes, "broker")
                if token_bytes is None or available < 4 + token_bytes:
                    needed = 4 + (token_bytes or 0)
                    sent = self._stash_response(data, sent, position, needed)
                    break
                if not self._inflight.is_due(data[position + 4 : position + 8]):
                    position += 4 + token_bytes
                    continue
                self._sasl.raw_answers = False
            if available < _RESPONSE_HEAD.size:
                sent = self._stash_response(data, sent, position, _RESPONSE_HEAD.size)
                break
            size, correlation_id = _RESPONSE_HEAD.unpack_from(data, position)
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
                or flags & _ASSEMBLE_RESPONSE
                or (exchange.decision is not None and exchange.decision.on_response)
            )
            if flags & _ENDPOINTS and not whole_needed:
                if available >= total:
                    whole_needed = not surely_absent(
                        exchange.api_key, exchange.api_version, data, position + 4, position + total
                    )
                elif exchange.api_key == ApiKey.Fetch and available > _RESPONSE_HEAD.size:
                    self._walk = FetchWalk()
                    self._walk.feed(data, position + 8, end)
                    if self._walk.hide_at >= 0:
                        data = pieces.hidden(data, self._walk.hide_at)
                else:
                    whole_needed = True
                if whole_needed:
                    exchange.flags = flags | handling.HOLD_RESPONSE
            if whole_needed:
                if available < total:
                    sent = self._stash_response(data, sent, position, total)
                    break
                if sent < position:
                    self._commands.to_client(pieces.part(data, sent, position))
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
            if flags & _KEEP_RESPONSE_FRAME:
                if total <= available and total < _SMALL:
                    exchange.response = data[position + 4 : position + total]
                else:
                    if total > self._table.shed_bytes:
                        exchange.response = passing.for_response(exchange.api_key, exchange.api_version)
                    _keep_response(exchange, pieces.part(data, position + 4, min(end, position + total)))
            inflight.popleft()
            if available < total:
                self._response_left = total - available
                self._response_open = exchange
            else:
                done.append(exchange)
            position += total
        stop = min(position, end)
        if sent < stop:
            self._commands.to_client(data if sent == 0 and stop == end else pieces.part(data, sent, stop))
        record = self._commands.record
        for exchange in done:
            exchange.response_at_us = now_us
            record(exchange)
        if inflight and inflight[0].answer is not None and not self._response_left:
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
        decision = exchange.decision
        asks_plan = bool(exchange.flags & handling.RESPONSE_BODY) or (
            decision is not None and bool(decision.on_response)
        )
        if not asks_plan and exchange.api_key not in _READ_ANSWERS:
            self._answer(exchange, self._with_addresses(exchange, whole), now_us)
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
            self._sasl.accepted(exchange.api_version, response.body["error_code"])
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
        asks_plan = bool(exchange.flags & handling.RESPONSE_BODY) or (
            decision is not None and bool(decision.on_response)
        )
        body: Body | None = None
        exchange.actions = deque()
        if asks_plan:
            after = self._plan.on_response(self.connection, request, response, decision or NOTHING, now_us)
            exchange.hits += after.hits
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
                    self._drop_answer(exchange, action)
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
        self._answer(exchange, whole, now_us)

    def _with_addresses(self, exchange: Exchange, whole: bytes) -> bytes:
        """An answer that only has to name the proxy's addresses: learned from, else as it came."""
        if not exchange.flags & handling.HOLD_RESPONSE:
            return whole
        codec = response_codec(exchange.api_key, exchange.api_version)
        offset = 4 + response_body_offset(exchange.api_key, exchange.api_version, memoryview(whole)[4:])
        if exchange.api_key == ApiKey.Metadata:
            self._learn(exchange, codec, whole, offset)
        changed = with_addresses(codec, whole, offset, self._advertise)
        return whole if changed is None else pieces.framed(changed[4:])

    def _learn(self, exchange: Exchange, codec: Codec, whole: bytes, offset: int) -> None:
        """Take note of a Metadata answer, before any lie is told about it."""
        cluster = self._plan.cluster
        if cluster.is_news(codec.api_version, memoryview(whole)[offset:]):
            try:
                body = codec.decode(whole, offset)
            except BodyTooLarge as error:
                reason = f"{error.side}: {error.reason}: passed on, not learned from"
                at_us = exchange.broker_responded_at_us
                self._commands.record(ConnectionEvent("wire_error", self.connection, at_us, reason))
                return
            cluster.observe_metadata(body)
            self._commands.brokers_seen(set(cluster.brokers))

    def _answer_locally(self, exchange: Exchange, action: Answer, now_us: int) -> None:
        """Answer in the broker's place; the answer waits for its turn like any other."""
        exchange.outcome = "injected"
        version = exchange.api_version if action.api_version is None else action.api_version
        codec = response_codec(exchange.api_key, version)
        exchange.error_code = first_error(action.body)
        rewrite.rewrite(codec, action.body, self._advertise)
        self._answer(exchange, pieces.framed(_encoded(codec, exchange, action.body)), now_us)

    def _answer_raw(self, exchange: Exchange, action: AnswerRaw, now_us: int) -> None:
        exchange.outcome = "altered" if exchange.forwarded_at_us else "injected"
        exchange.afterwards = "close" if action.close_after else "silence"
        self._answer(exchange, action.data, now_us)

    def _drop_answer(self, exchange: Exchange, action: Drop) -> None:
        exchange.outcome = "dropped"
        if not action.hold_later:
            self._inflight.remove(exchange)
            self._commands.record(exchange)

    def _answer(self, exchange: Exchange, whole: bytes, now_us: int) -> None:
        """Queue an answer; it leaves when it is its turn and its time."""
        exchange.answer = whole
        self._answer_bytes += len(whole)
        self._flush(now_us)

    def _flush(self, now_us: int) -> None:
        """Send every answer whose turn has come."""
        while not self._response_left and (exchange := self._inflight.head()) is not None:
            if exchange.answer is None or self._client_deaf:
                break
            while exchange.actions:
                action = exchange.actions[0]
                if isinstance(action, Delay | Hold) and self._waits(exchange, action, now_us):
                    self._pause_broker()
                    return
                exchange.actions.popleft()
            whole, exchange.answer = exchange.answer, None
            self._answer_bytes -= len(whole)
            self._inflight.pop()
            self._commands.to_client(whole)
            exchange.response_at_us = now_us
            exchange.response_bytes = len(whole)
            if exchange.flags & handling.KEEP_RESPONSE:
                exchange.response = whole[4:]
            self._commands.record(exchange)
            if exchange.mute_us:
                self._muted_until_us = now_us + exchange.mute_us
                self._holding = True
                self._commands.wake(self._muted_until_us)
            if exchange.afterwards == "close":
                self._end(now_us, f"closed by fault {_names(exchange)}")
                return
            self._client_deaf = exchange.afterwards == "silence"
        self._pause_broker()
        self._end_if_drained(now_us)

    def _pause_broker(self) -> None:
        full = self._answer_bytes > self._max_held_bytes
        if full != self._broker_paused:
            self._broker_paused = full
            self._commands.pause("broker", full)

    # ---- the end --------------------------------------------------------------------------------

    def _end_if_drained(self, now_us: int) -> None:
        if self._broker_ended and not self._closed:
            if any(exchange.answer is not None for exchange in self._inflight):
                return
            closer = "client" if self._client_ended else "broker"
            self._end(now_us, f"the {closer} closed the connection")

    def _cut(self, exchange: Exchange, now_us: int, action: Close | Reset) -> None:
        """A fault closes the connection at this exchange."""
        exchange.outcome = "closed"
        if exchange not in self._inflight:
            self._commands.record(exchange)
        reset = isinstance(action, Reset)
        self._end(now_us, f"{'reset' if reset else 'closed'} by fault {_names(exchange)}", reset=reset)

    def _fail(self, error: WireError, side: str, now_us: int) -> None:
        if error.side is None:
            error.side = "client" if side == "client" else "broker"
        self._commands.wire_error(error)
        self._commands.record(ConnectionEvent("wire_error", self.connection, now_us, f"{error.side}: {error.reason}"))
        self._end(now_us, f"{error.side} broke the protocol: {error.reason}")

    def _end(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        if self._closed:
            return
        self._closed = True
        if self._response_open is not None:
            self._commands.record(self._response_open)
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


def _names(exchange: Exchange) -> str:
    return ", ".join(hit.rule_name for hit in exchange.hits)


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
        handling.HOLD_RESPONSE,
    )
    copy.is_copy = copy.awaits_broker = True
    return copy


def _encoded(codec: Codec, exchange: Exchange, body: Body) -> bytes:
    """An answer's frame for this exchange, without its length."""
    header = encode_response_header(codec.api_key, codec.api_version, exchange.correlation_id)
    return header + codec.encode(body)


def _keep(exchange: Exchange, part: bytes | memoryview) -> None:
    exchange.request = pieces.appended(exchange.request, part)


def _keep_response(exchange: Exchange, part: bytes | memoryview) -> None:
    exchange.response = pieces.appended(exchange.response, part)
