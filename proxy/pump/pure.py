"""The pump in Python; `pump` is the same, compiled. See the package for what it promises."""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Final, Protocol

from notleader.proxy.pump import pieces
from notleader.proxy.pump.exchange import Broken, Done, Exchange, Kept, Pass, Step, Stop, Turn, passing
from notleader.proxy.pump.flags import (
    ASSEMBLE_REQUEST,
    ASSEMBLE_RESPONSE,
    ENDPOINTS,
    HEADER_BYTES,
    HOLD_RESPONSE,
    KEEP_REQUEST,
    KEEP_RESPONSE,
    PRODUCE,
    SMALL,
    api_number,
)
from notleader.proxy.pump.interpreter import Probe
from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import Side, WireError
from notleader.proxy.wire.probe import NODE_ENDPOINTS, NOTHING, Frame, acks_program, program

_REQUEST: Final = Struct(">ihhi")  # length, api_key, api_version, correlation_id
_SHORT: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD_BYTES: Final = 14  # of a request: its head, and the client id's length
_ANSWER_HEAD_BYTES: Final = 8  # length and correlation_id
_SMALLEST: Final = 8  # ControlledShutdown v0 has no client_id; everything else is longer
_HIGHEST_API_KEY: Final = 1000
"""Beyond any key in use (Kafka's are below 100): it is no Kafka request."""


class Client(Protocol):
    """Whose requests these are; ``client_id`` is what the last of them said."""

    client_id: str | None


class Table(Protocol):
    """The flags of `notleader.proxy.pump.flags` for each `api_number`, apart from what the rules want."""

    shed_bytes: int
    """Of a frame that passes and is longer, only the facts are kept."""

    def __getitem__(self, key: int, /) -> int: ...


class Rules(Protocol):
    """More flags than the table's: what the rules in force want to see of an API."""

    def interest(self, api_key: int, api_version: int) -> int: ...


class _MissingError(Exception):
    """So many bytes have to be here before there is more to say."""

    def __init__(self, size: int) -> None:
        self.size = size


class _Unread:
    """What came from one side and was not taken yet."""

    __slots__ = ("_held", "_needed", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._held = 0
        self._needed = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def taken_with(self, data: bytes) -> bytes:
        """All there is, this included; nothing where it isn't enough yet."""
        if not self._pieces:
            return data
        if data:
            self._pieces.append(data)
            self._held += len(data)
        if self._held < self._needed:
            return b""
        data = b"".join(self._pieces)
        self._pieces.clear()
        self._held = self._needed = 0
        return data

    def keep(self, data: bytes, needed: int = 0) -> None:
        """Keep this, in front of what is kept, until ``needed`` bytes are here."""
        if data:
            self._pieces.insert(0, data)
            self._held += len(data)
        self._needed = needed


class Pump:
    """Both directions of one conversation."""

    def __init__(self, client: Client, table: Table, rules: Rules, *, max_frame_bytes: int) -> None:
        self.requests = 0
        """How many there were."""
        self.stops_requests = False
        """Every request stops."""
        self.stops_answers = False
        """Every answer stops."""
        self.ignores_requests = False
        """Nothing more of the client is taken: it would never be answered."""
        self.bare_requests = False
        """Frames of the client have no header: each stops."""
        self.bare_answers = False
        """The same of the broker's."""
        self._client = client
        self._table = table
        self._rules = rules
        self._max_frame_bytes = max_frame_bytes
        self._queue: deque[Exchange] = deque()
        self._is_closed = False
        # Of each direction: what isn't taken yet, and how many bytes are missing of the frame that passes.
        self._asked = _Unread()
        self._request_left = 0
        self._request_open: Exchange | None = None
        self._answered = _Unread()
        self._response_left = 0
        self._response_open: Exchange | None = None
        self._endpoints: Probe | None = None  # reads that answer for its node_endpoints

    # ---- the bytes ------------------------------------------------------------------------------

    def feed_client(self, data: bytes, now_us: int) -> list[Step]:
        """Take what the client sent, up to the first frame that stops; without data, go on behind it."""
        if self._is_closed or self.ignores_requests or not (data := self._asked.taken_with(data)):
            return []
        position = 0
        done: list[Exchange] = []
        last: Stop | Broken | None = None
        try:
            while position < len(data):
                if self._request_left:
                    position = self._more_of_request(data, position, done)
                    continue
                stopped = self._request(data, position, now_us, done)
                if isinstance(stopped, Stop):
                    last = stopped
                    break
                position += stopped
        except _MissingError as missing:
            self._asked.keep(data[position:], missing.size)
        except WireError as error:
            last = Broken("client", error.reason)
        if isinstance(last, Stop):
            self._asked.keep(data[position + len(last.frame) :])
        return _steps(data, position, done, last)

    def feed_broker(self, data: bytes, now_us: int) -> list[Step]:
        """The same of what the broker sent."""
        if self._is_closed or not (data := self._answered.taken_with(data)):
            return []
        position = 0
        done: list[Exchange] = []
        last: Stop | Broken | Turn | None = None
        try:
            while position < len(data):
                if self._response_left:
                    data, position = self._more_of_answer(data, position, now_us, done)
                    continue
                stopped, data = self._answer(data, position, now_us, done)
                if isinstance(stopped, Stop):
                    last = stopped
                    break
                position += stopped
        except _MissingError as missing:
            self._answered.keep(data[position:], missing.size)
        except WireError as error:
            last = Broken("broker", error.reason)
        if isinstance(last, Stop):
            self._answered.keep(data[position + len(last.frame) :])
        elif last is None and (head := self.due()) is not None:
            last = Turn(head)
        return _steps(data, position, done, last)

    def put_back(self, side: Side, frame: bytes) -> None:
        """Have a frame that stopped come again: it is another than it was taken for."""
        (self._asked if side == "client" else self._answered).keep(frame)

    def eof(self, side: Side) -> Broken | None:
        """That side will send no more: whether it ends in the middle of a frame."""
        if side == "client" and not self.ignores_requests and (self._asked or self._request_left):
            return Broken("client", "the client closed the connection in the middle of a request")
        if side == "broker" and (self._answered or self._response_left):
            return Broken("broker", "the broker closed the connection in the middle of an answer")
        return None

    def close(self) -> list[Exchange]:
        """End it; all exchanges that are still open, in order."""
        self._is_closed = True
        left: list[Exchange] = []
        if self._response_open is not None:
            self._response_open.outcome = "closed"
            self._response_open.response_bytes -= self._response_left
            left.append(self._response_open)
        if self._request_open is not None and not self._request_open.expects_answer:
            left.append(self._request_open)
        for exchange in self._queue:
            if exchange.outcome == "answered":
                exchange.outcome = "no_response"
            if not exchange.is_copy:
                left.append(exchange)
        return left

    # ---- the queue ------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many exchanges are owed an answer."""
        return len(self._queue)

    def head(self) -> Exchange | None:
        """The exchange whose answer leaves next."""
        return self._queue[0] if self._queue else None

    def due(self) -> Exchange | None:
        """The head, unless the broker is to answer it or an answer before it is leaving."""
        if self._response_left or not self._queue or self._queue[0].awaits_broker:
            return None
        return self._queue[0]

    def add(self, exchange: Exchange) -> None:
        """Queue an exchange that was not to be answered."""
        exchange.expects_answer = True
        self._queue.append(exchange)

    def add_copy(self, exchange: Exchange) -> None:
        """Await one more answer to this exchange's request, which will stop."""
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
        self._queue.insert(self._queue.index(exchange) + 1, copy)

    def answer(self, exchange: Exchange, frame: tuple[bytes, ...]) -> None:
        """Have this answer, in pieces, leave when it is the exchange's turn: `due`."""
        exchange.answer = frame

    def leave(self) -> Exchange:
        """The head has its answer: take it out."""
        return self._queue.popleft()

    def drop(self, exchange: Exchange) -> None:
        """Forget an exchange that will never be answered and holds nothing back."""
        self._queue.remove(exchange)

    def is_due(self, frame: bytes) -> bool:
        """Whether a bare frame is the answer that the broker owes next."""
        awaited = next((exchange for exchange in self._queue if exchange.awaits_broker), None)
        return awaited is not None and frame[4:8] == awaited.correlation_id.to_bytes(4, "big", signed=True)

    # ---- requests -------------------------------------------------------------------------------

    def _more_of_request(self, data: bytes, position: int, done: list[Exchange]) -> int:
        exchange = self._request_open
        assert exchange is not None
        stop = min(position + self._request_left, len(data))
        if exchange.flags & KEEP_REQUEST:
            exchange.request = pieces.appended(exchange.request, pieces.part(data, position, stop))
        self._request_left -= stop - position
        if not self._request_left:
            self._request_open = None
            if not exchange.expects_answer:
                done.append(exchange)
        return stop

    def _request(self, data: bytes, position: int, now_us: int, done: list[Exchange]) -> int | Stop:
        """Begin with a request: how many bytes of it may pass, those included that are still to come."""
        available = len(data) - position
        if self.bare_requests:
            return _bare(data, position, self._max_frame_bytes, "client")
        if available < 4:
            raise _MissingError(4)
        size: int = _INT32.unpack_from(data, position)[0]
        total = size + 4
        if not _SMALLEST <= size <= self._max_frame_bytes:
            raise WireError(pieces.absurd_length(data, position, size))
        if available < min(total, _HEAD_BYTES):
            raise _MissingError(min(total, _HEAD_BYTES))
        _, api_key, api_version, correlation_id = _REQUEST.unpack_from(data, position)
        if not 0 <= api_key <= _HIGHEST_API_KEY or not (0 <= api_version <= 255 or api_key == ApiKey.ApiVersions):
            raise WireError(f"no Kafka request: api key {api_key}, version {api_version}")
        named = _SHORT.unpack_from(data, position + 12)[0] if total >= _HEAD_BYTES else 0
        named = named if 0 < named <= total - _HEAD_BYTES else 0
        flags = self._table[api_number(api_key, api_version)] | self._rules.interest(api_key, api_version)
        stops = flags & ASSEMBLE_REQUEST or self.stops_requests
        needed = total if stops else min(total, _HEAD_BYTES + named)
        if available < needed:
            raise _MissingError(needed)
        expects_answer = not flags & PRODUCE or _has_acks(api_version, data, position, size)
        client = self._client
        if named:
            client.client_id = pieces.client_id_of(data[position + _HEAD_BYTES : position + _HEAD_BYTES + named])
        self.requests += 1
        exchange = Exchange(
            client, self.requests, api_key, api_version, correlation_id, client.client_id, now_us, total, flags
        )
        exchange.expects_answer = expects_answer
        if expects_answer:
            # The broker never answers acks=0: queueing that would pair every later answer wrongly.
            self._queue.append(exchange)
        if stops:
            return Stop(data[position : position + total], exchange)
        exchange.forwarded_at_us = now_us
        exchange.awaits_broker = expects_answer
        here = min(total, available)
        if flags & KEEP_REQUEST:
            exchange.request = self._kept(exchange, True, data, position, here, size)
        elif flags & ASSEMBLE_RESPONSE:
            # Its header will say how the answer is encoded; the body is not needed.
            exchange.request = data[position + 4 : position + min(here, 4 + HEADER_BYTES)]
        if here < total:
            self._request_left = total - here
            self._request_open = exchange
        elif not expects_answer:
            done.append(exchange)
        return here

    # ---- answers --------------------------------------------------------------------------------

    def _more_of_answer(self, data: bytes, position: int, now_us: int, done: list[Exchange]) -> tuple[bytes, int]:
        exchange = self._response_open
        assert exchange is not None
        stop = min(position + self._response_left, len(data))
        if self._endpoints is not None:
            data = _without_endpoints(self._endpoints, data, position, stop)
        if exchange.flags & KEEP_RESPONSE:
            exchange.response = pieces.appended(exchange.response, pieces.part(data, position, stop))
        self._response_left -= stop - position
        if not self._response_left:
            self._response_open = self._endpoints = None
            exchange.response_at_us = now_us
            done.append(exchange)
        return data, stop

    def _answer(self, data: bytes, position: int, now_us: int, done: list[Exchange]) -> tuple[int | Stop, bytes]:
        """Begin with an answer: how many bytes of it may pass; and the data, in which its endpoints are hidden."""
        if self.bare_answers:
            return _bare(data, position, self._max_frame_bytes, "broker"), data
        available = len(data) - position
        if available < 4:
            raise _MissingError(4)
        size: int = _INT32.unpack_from(data, position)[0]
        total = size + 4
        if not 4 <= size <= self._max_frame_bytes:
            raise WireError(f"an answer of {size} bytes")
        if available < _ANSWER_HEAD_BYTES:
            raise _MissingError(_ANSWER_HEAD_BYTES)
        exchange = self._match(_INT32.unpack_from(data, position + 4)[0])
        here = min(total, available)
        stops = exchange is not self._queue[0] or self.stops_answers or exchange.flags & ASSEMBLE_RESPONSE
        endpoints = None
        if exchange.flags & ENDPOINTS and not stops:
            if here < total and (exchange.api_key != ApiKey.Fetch or here == _ANSWER_HEAD_BYTES):
                raise _MissingError(total if exchange.api_key != ApiKey.Fetch else here + 1)
            endpoints = Probe(program(exchange.api_key, exchange.api_version, "response", NODE_ENDPOINTS), size)
            if here == total:
                endpoints.feed(data, position + 4, position + total)
                stops = not endpoints.is_good or endpoints.frame[Frame.ENDPOINTS] != NOTHING
                exchange.flags |= HOLD_RESPONSE if stops else 0
            else:
                data = _without_endpoints(endpoints, data, position + 4, position + here)
        if stops and here < total:
            raise _MissingError(total)
        exchange.awaits_broker = False
        exchange.broker_responded_at_us = now_us
        if exchange.outcome == "no_response":
            exchange.outcome = "answered"
        if stops:
            return Stop(data[position : position + total], exchange), data
        self._queue.popleft()
        exchange.response_bytes = total
        if exchange.flags & KEEP_RESPONSE:
            exchange.response = self._kept(exchange, False, data, position, here, size)
        if here < total:
            self._response_left = total - here
            self._response_open = exchange
            self._endpoints = endpoints
        else:
            exchange.response_at_us = now_us
            done.append(exchange)
        return here, data

    def _match(self, correlation_id: int) -> Exchange:
        """The exchange that this answer belongs to. Kafka answers in order (protocol guide, "Network")."""
        for exchange in self._queue:
            if exchange.awaits_broker:
                if exchange.correlation_id != correlation_id:
                    due = exchange.correlation_id
                    raise WireError(f"the broker answered correlation id {correlation_id} where {due} was due")
                return exchange
        raise WireError(f"the broker sent an answer (correlation id {correlation_id}) that no request waits for")

    def _kept(self, exchange: Exchange, asks: bool, data: bytes, position: int, here: int, size: int) -> Kept:
        """What is kept of a frame that passes, of which so much is here."""
        if here == size + 4 < SMALL:
            return data[position + 4 : position + here]
        start = pieces.part(data, position + 4, position + here)
        if size + 4 <= self._table.shed_bytes:
            return start
        return passing(exchange.api_key, exchange.api_version, asks, start, size)


def _steps(data: bytes, position: int, done: list[Exchange], last: Stop | Broken | Turn | None) -> list[Step]:
    steps: list[Step] = [Pass(pieces.part(data, 0, position))] if position else []
    if done:
        steps.append(Done(done))
    return steps if last is None else [*steps, last]


def _bare(data: bytes, position: int, max_frame_bytes: int, side: Side) -> Stop:
    """A frame without a header."""
    available = len(data) - position
    if available < 4:
        raise _MissingError(4)
    (size,) = _INT32.unpack_from(data, position)
    if not 0 <= size <= max_frame_bytes:
        raise WireError(pieces.absurd_length(data, position, size), side)
    if available < 4 + size:
        raise _MissingError(4 + size)
    return Stop(data[position : position + 4 + size], None)


def _has_acks(api_version: int, data: bytes, position: int, size: int) -> bool:
    """Whether a Produce request of ``size`` bytes, all or the beginning of which is here, is to be answered."""
    probe = Probe(acks_program(api_version), size)
    probe.feed(data, position + 4, min(position + 4 + size, len(data)))
    if probe.broken is not None:
        raise WireError("a Produce request whose acks can't be read")
    if not probe.ended:
        raise _MissingError(min(4 + size, 5 + probe.fed + probe.skip))
    return probe.frame[Frame.ACKS] != 0


def _without_endpoints(probe: Probe, data: bytes, position: int, stop: int) -> bytes:
    """The data, in which the endpoints of the answer that passes there are hidden."""
    before, known = probe.fed - position, probe.frame[Frame.ENDPOINTS]
    probe.feed(data, position, stop)
    if probe.broken is not None:
        raise WireError(f"a Fetch answer: {probe.broken}")
    found = probe.frame[Frame.ENDPOINTS]
    return data if found == known else pieces.hidden(data, found - before)
