# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""`pure`, compiled."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from collections import deque

from notleader.proxy.pump import flags as _flags, pieces
from notleader.proxy.wire import probe as _probe

from notleader.proxy.pump.probe cimport ACKS, ENDPOINTS_AT, Bytes, Probe

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* at)
    int CLOCK_MONOTONIC
    int CLOCK_REALTIME

cdef extern from *:
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef int ASSEMBLE_REQUEST = _flags.ASSEMBLE_REQUEST
cdef int ASSEMBLE_RESPONSE = _flags.ASSEMBLE_RESPONSE
cdef int HOLD_RESPONSE = _flags.HOLD_RESPONSE
cdef int KEEP_REQUEST = _flags.KEEP_REQUEST
cdef int KEEP_RESPONSE = _flags.KEEP_RESPONSE
cdef int PRODUCE = _flags.PRODUCE
cdef int ENDPOINTS = _flags.ENDPOINTS
cdef Py_ssize_t SMALL = _flags.SMALL
cdef Py_ssize_t HEADER_BYTES = _flags.HEADER_BYTES
cdef Py_ssize_t MOST_OPEN = _flags.MOST_OPEN
cdef int MOST_STOPS = _flags.MOST_STOPS
cdef long long NOTHING = _probe.NOTHING
cdef long long ALL = 1 << 62

cdef enum:
    HEAD = 14  # of a request: length, api_key, api_version, correlation_id, client_id length
    SMALLEST = 8
    ANSWER_HEAD = 8  # length and correlation_id
    HIGHEST_API_KEY = 1000
    API_VERSIONS = 18  # of which a broker answers whatever version it is asked
    BARE_HEAD = 1024
    FETCH = 1
    # What becomes of the frame that begins here.
    PASSES = 0
    STOPS = 1
    MISSING = 2
    BREAKS = 3

INTERFACE = 13

cdef object ANSWERED = "answered"
cdef object NO_RESPONSE = "no_response"
cdef dict PROGRAMS = {}  # Produce version → for its acks; -1 - (API and version in one number) → for endpoints
cdef Probe READER = Probe(b"\0", 0)  # of one frame at a time


cdef inline int int16_at(Bytes p) noexcept nogil:
    return <short>((p[0] << 8) | p[1])


cdef inline int int32_at(Bytes p) noexcept nogil:
    return <int>((<unsigned int>p[0] << 24) | (p[1] << 16) | (p[2] << 8) | p[3])


@cython.final
cdef class Clock:
    cdef readonly long long offset_ns

    def __init__(self, offset_ns=None):
        cdef timespec wall, steady
        if offset_ns is None:
            clock_gettime(CLOCK_REALTIME, &wall)
            clock_gettime(CLOCK_MONOTONIC, &steady)
            self.offset_ns = (wall.tv_sec - steady.tv_sec) * 1_000_000_000 + wall.tv_nsec - steady.tv_nsec
        else:
            self.offset_ns = offset_ns

    cpdef long long now_us(self):
        cdef timespec at
        clock_gettime(CLOCK_MONOTONIC, &at)
        return (<long long>at.tv_sec * 1_000_000_000 + at.tv_nsec + self.offset_ns) // 1000


@cython.freelist(256)
cdef class Exchange:
    def __cinit__(self):
        self.outcome = NO_RESPONSE
        self.hits = ()
        self.afterwards = ""
        self.expects_answer = True

    def __init__(
        self, connection, seq, api_key, api_version, correlation_id, client_id, request_at_us, request_bytes, flags
    ):
        self.connection = connection
        self.seq = seq
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_at_us = request_at_us
        self.request_bytes = request_bytes
        self.flags = flags

    @property
    def request(self):
        if self.request_in is not None:
            self._request = self.request_in[self.request_at : self.request_at + self.request_size]
            self.request_in = None
        return self._request

    @request.setter
    def request(self, frame):
        self._request, self.request_in = frame, None

    @property
    def response(self):
        if self.response_in is not None:
            self._response = self.response_in[self.response_at : self.response_at + self.response_size]
            self.response_in = None
        return self._response

    @response.setter
    def response(self, frame):
        self._response, self.response_in = frame, None


cdef class Passing:
    def __cinit__(self):
        self.head = b""

    def __init__(self, Probe probe=None, said=None):
        self.probe = probe
        self.said = said

    @property
    def skip(self):
        return ALL if self.probe is None else self.probe.skip

    def pass_over(self, long long size):
        if self.probe is not None:
            self.probe.pass_over(size)

    def feed(self, piece):
        if self.probe is not None:
            self.probe.read_piece(piece)


@cython.freelist(8)
cdef class Pass:
    cdef readonly object span

    def __init__(self, span):
        self.span = span


@cython.freelist(8)
cdef class Stop:
    cdef readonly bytes frame
    cdef readonly Exchange exchange

    def __init__(self, frame, exchange):
        self.frame, self.exchange = frame, exchange


@cython.freelist(8)
cdef class Turn:
    cdef readonly Exchange exchange

    def __init__(self, exchange):
        self.exchange = exchange


@cython.freelist(8)
cdef class Done:
    cdef readonly list exchanges

    def __init__(self, exchanges):
        self.exchanges = exchanges


cdef class Broken:
    cdef readonly str side, reason

    def __init__(self, side, reason):
        self.side, self.reason = side, reason


@cython.final
cdef class Unread:
    """What came from one side and was not taken yet: the end of ``data``, and what has come since."""

    cdef bytes data
    cdef Py_ssize_t at
    cdef list pieces
    cdef long long held, needed

    cdef bytes taken_with(self, bytes data, Py_ssize_t* at):
        """All there is, from ``at`` on, this included; None where it isn't enough yet."""
        at[0] = 0
        if PyBytes_GET_SIZE(data):
            if self.pieces is None:
                self.pieces = []
            self.pieces.append(data)
            self.held += PyBytes_GET_SIZE(data)
        if self.held < self.needed:
            return None
        if self.pieces:
            data = b"".join([self.data[self.at :], *self.pieces])
            self.pieces = None
        else:
            data = self.data
            at[0] = self.at
        return data


cdef Unread kept_back(bytes data, Py_ssize_t at, long long needed):
    """What is behind ``at``, until so many bytes of it are here; None where that is nothing."""
    cdef Unread unread
    if at >= PyBytes_GET_SIZE(data):
        return None
    if needed and at:
        data, at = data[at:], 0  # which may take a while: not all of the chunk for its end
    unread = Unread.__new__(Unread)
    unread.data, unread.at = data, at
    unread.held, unread.needed = PyBytes_GET_SIZE(data) - at, needed
    return unread


@cython.final
cdef class Pump:
    cdef public long long requests
    cdef public bint stops_requests, stops_answers, ignores_requests, bare_requests, bare_answers
    cdef object _client, _table, _rules, _queue
    cdef long long _max_frame_bytes
    cdef bint _is_closed
    cdef Unread _asked, _answered
    cdef long long _request_left, _response_left
    cdef Exchange _request_open, _response_open
    cdef Probe _endpoints
    # Of the frame at hand: what became of it.
    cdef Exchange _exchange
    cdef long long _needed
    cdef str _reason
    cdef bytes _data  # in which endpoints are hidden, if any were
    # Of what was taken last: the bytes that pass, the exchanges that ended, and what comes behind.
    cdef object _passed, _last
    cdef list _done

    def __init__(self, client, table, rules, *, max_frame_bytes):
        self._client = client
        self._table = table
        self._rules = rules
        self._max_frame_bytes = max_frame_bytes
        self._queue = deque()

    # ---- the bytes ------------------------------------------------------------------------------

    def feed_client(self, bytes data not None, long long now_us):
        self._take_client(data, now_us)
        return self._steps()

    cdef int _take_client(self, bytes data, long long now_us) except -1:
        cdef list done = None
        cdef Py_ssize_t start, at, end, stop
        cdef long long total = 0
        cdef int fate = PASSES, api = -1, flags = 0
        if self._is_closed or self.ignores_requests:
            return 0
        start = 0
        if self._asked is not None:
            data = self._asked.taken_with(data, &start)
            if data is None:
                return 0
            self._asked = None
        at = start
        end = PyBytes_GET_SIZE(data)
        if self._request_left and at < end:
            stop = <Py_ssize_t>min(self._request_left, <long long>(end - at)) + at
            if self._request_open.flags & KEEP_REQUEST:
                self._request_open.request = with_more(self._request_open.request, data, at, stop)
            self._request_left -= stop - at
            at = stop
            if not self._request_left:
                if not self._request_open.expects_answer:
                    done = [self._request_open]
                self._request_open = None
        while at < end:
            fate = self._request(data, at, end, now_us, &total, &api, &flags)
            if fate != PASSES:
                break
            if total > end - at:
                self._request_left = total - (end - at)
                self._request_open = self._exchange
                at = end
            else:
                at += total
                if not self._exchange.expects_answer:
                    if done is None:
                        done = []
                    done.append(self._exchange)
        if at > start:
            self._passed = part(data, start, at)
        self._done = done
        if fate == STOPS:
            self._last = Stop(data[at : at + total], self._exchange)
            self._asked = kept_back(data, at + total, 0)
        elif fate == MISSING:
            self._asked = kept_back(data, at, self._needed)
        elif fate == BREAKS:
            self._last = Broken("client", self._reason)
        self._exchange = None
        return 0

    def feed_broker(self, bytes data not None, long long now_us):
        self._take_broker(data, now_us)
        return self._steps()

    cdef int _take_broker(self, bytes data, long long now_us) except -1:
        cdef list done = None
        cdef Py_ssize_t start, at, end, stop
        cdef long long total = 0
        cdef int fate = PASSES
        cdef Exchange exchange
        if self._is_closed:
            return 0
        start = 0
        if self._answered is not None:
            data = self._answered.taken_with(data, &start)
            if data is None:
                return 0
            self._answered = None
        at = start
        end = PyBytes_GET_SIZE(data)
        if self._response_left and at < end:
            exchange = self._response_open
            stop = <Py_ssize_t>min(self._response_left, <long long>(end - at)) + at
            if self._endpoints is not None:
                data = self._without_endpoints(self._endpoints, data, at, stop)
                if data is None:
                    self._last = Broken("broker", self._reason)
                    return 0
            if exchange.flags & KEEP_RESPONSE:
                exchange.response = with_more(exchange.response, data, at, stop)
            self._response_left -= stop - at
            at = stop
            if not self._response_left:
                exchange.response_at_us = now_us
                done = [exchange]
                self._response_open = self._endpoints = None
        while at < end:
            fate = self._answer(data, at, end, now_us, &total)
            if self._data is not None:
                data, self._data = self._data, None
            if fate != PASSES:
                break
            if total > end - at:
                self._response_left = total - (end - at)
                self._response_open = self._exchange
                at = end
            else:
                at += total
                self._exchange.response_at_us = now_us
                if done is None:
                    done = []
                done.append(self._exchange)
        if at > start:
            self._passed = part(data, start, at)
        self._done = done
        if fate == STOPS:
            self._last = Stop(data[at : at + total], self._exchange)
            self._answered = kept_back(data, at + total, 0)
        elif fate == BREAKS:
            self._last = Broken("broker", self._reason)
        else:
            if fate == MISSING:
                self._answered = kept_back(data, at, self._needed)
            exchange = self.due()
            if exchange is not None:
                self._last = Turn(exchange)
        self._exchange = None
        return 0

    cdef list _steps(self):
        """What was taken last, as it is told."""
        cdef list steps = []
        if self._passed is not None:
            steps.append(Pass(self._passed))
        if self._done is not None:
            steps.append(Done(self._done))
        if self._last is not None:
            steps.append(self._last)
        self._passed = self._done = self._last = None
        return steps

    def put_back(self, str side, bytes frame not None):
        cdef Unread unread = self._asked if side == "client" else self._answered
        if unread is not None:
            frame += unread.data[unread.at :]
        if side == "client":
            self._asked = kept_back(frame, 0, 0)
        else:
            self._answered = kept_back(frame, 0, 0)

    def eof(self, str side):
        if side == "client" and not self.ignores_requests and (self._asked is not None or self._request_left):
            return Broken("client", "the client closed the connection in the middle of a request")
        if side == "broker" and (self._answered is not None or self._response_left):
            return Broken("broker", "the broker closed the connection in the middle of an answer")
        return None

    def close(self):
        cdef Exchange exchange
        cdef list left = []
        self._is_closed = True
        if self._response_open is not None:
            self._response_open.outcome = "closed"
            self._response_open.response_bytes -= self._response_left
            left.append(self._response_open)
        if self._request_open is not None and not self._request_open.expects_answer:
            left.append(self._request_open)
        for exchange in self._queue:
            if exchange.outcome == ANSWERED:
                exchange.outcome = NO_RESPONSE
            if not exchange.is_copy:
                left.append(exchange)
        return left

    # ---- the queue ------------------------------------------------------------------------------

    def __len__(self):
        return len(self._queue)

    def head(self):
        return self._queue[0] if self._queue else None

    cpdef Exchange due(self):
        cdef Exchange head
        if self._response_left or not self._queue:
            return None
        head = self._queue[0]
        return None if head.awaits_broker else head

    def add(self, Exchange exchange not None):
        exchange.expects_answer = True
        self._queue.append(exchange)

    def add_copy(self, Exchange exchange not None):
        cdef Exchange copy = Exchange(
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

    def answer(self, Exchange exchange not None, tuple frame):
        exchange.answer = frame

    def leave(self):
        return self._queue.popleft()

    def drop(self, Exchange exchange not None):
        self._queue.remove(exchange)

    def is_due(self, bytes frame not None):
        cdef Exchange exchange
        if PyBytes_GET_SIZE(frame) >= ANSWER_HEAD:
            for exchange in self._queue:
                if exchange.awaits_broker:
                    return exchange.correlation_id == int32_at(<Bytes>PyBytes_AS_STRING(frame) + 4)
        return False

    # ---- requests -------------------------------------------------------------------------------

    cdef int _request(
        self, bytes data, Py_ssize_t at, Py_ssize_t end, long long now_us, long long* total_, int* seen, int* flags_
    ) except -1:
        """Begin with the request at ``at``; ``seen`` is the API and version of the one before, whose flags these are."""
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(data) + at
        cdef Py_ssize_t available = end - at, here
        cdef long long total
        cdef int size, api_key, api_version, named, flags, api, acks
        cdef bint stops, expects_answer = True
        cdef Exchange exchange
        if self.bare_requests:
            return self._bare(data, at, end, total_)
        if available < 4:
            self._needed = 4
            return MISSING
        size = int32_at(p)
        total = total_[0] = <long long>size + 4
        if not SMALLEST <= size <= self._max_frame_bytes:
            self._reason = pieces.absurd_length(data, at, size)
            return BREAKS
        if available < HEAD and available < total:
            self._needed = min(total, HEAD)
            return MISSING
        api_key = int16_at(p + 4)
        api_version = int16_at(p + 6)
        if api_key < 0 or api_key > HIGHEST_API_KEY or (not 0 <= api_version <= 255 and api_key != API_VERSIONS):
            self._reason = f"no Kafka request: api key {api_key}, version {api_version}"
            return BREAKS
        named = int16_at(p + 12) if total >= HEAD else 0
        if named < 0 or named > total - HEAD:
            named = 0
        api = api_number(api_key, api_version)
        if api != seen[0]:
            flags_[0] = self._table[api] | self._rules.interest(api_key, api_version)
            seen[0] = api
        flags = flags_[0]
        stops = flags & ASSEMBLE_REQUEST or self.stops_requests
        self._needed = total if stops else min(total, HEAD + named)
        if available < self._needed:
            return MISSING
        here = <Py_ssize_t>min(total, <long long>available)
        if flags & PRODUCE:
            acks = self._acks(api_version, p + 4, here - 4, size)
            if acks > 1:
                return acks
            expects_answer = acks
        client_id = self._client.client_id
        if named and not is_text(client_id, <const char*>p + HEAD, named):
            client_id = self._client.client_id = pieces.client_id_of((<const char*>p)[HEAD : HEAD + named])
        self.requests += 1
        exchange = self._exchange = Exchange.__new__(Exchange)
        exchange.connection = self._client
        exchange.seq = self.requests
        exchange.api_key = api_key
        exchange.api_version = api_version
        exchange.correlation_id = int32_at(p + 8)
        exchange.client_id = client_id
        exchange.request_at_us = now_us
        exchange.request_bytes = total
        exchange.flags = flags
        exchange.expects_answer = expects_answer
        if expects_answer:
            # The broker never answers acks=0: queueing that would pair every later answer wrongly.
            self._queue.append(exchange)
        if stops:
            seen[0] = -1  # whoever sees it may change what is wanted
            return STOPS
        exchange.forwarded_at_us = now_us
        exchange.awaits_broker = expects_answer
        if flags & KEEP_REQUEST:
            if here == total and here < SMALL:
                exchange.request_in, exchange.request_at, exchange.request_size = data, at + 4, size
            else:
                exchange._request = self._kept(exchange, True, data, at, here, size)
        elif flags & ASSEMBLE_RESPONSE:
            # Its header will say how the answer is encoded; the body is not needed.
            exchange._request = PyBytes_FromStringAndSize(<const char*>p + 4, min(here - 4, HEADER_BYTES))
        return PASSES

    cdef int _acks(self, int api_version, Bytes p, Py_ssize_t here, int size) except -1:
        """0 or 1: whether a Produce request, of which so much is here, is to be answered; else its fate."""
        code = PROGRAMS.get(api_version)
        if code is None:
            code = PROGRAMS[api_version] = _probe.acks_program(api_version)
        READER.begin(code, size)
        READER.read(p, here)
        if READER._reason != NULL:
            self._reason = "a Produce request whose acks can't be read"
            return BREAKS
        if not READER.ended:
            self._needed = min(4 + <long long>size, 5 + READER.fed + READER.skip)
            return MISSING
        return READER.places[ACKS] != 0

    # ---- answers --------------------------------------------------------------------------------

    cdef int _answer(self, bytes data, Py_ssize_t at, Py_ssize_t end, long long now_us, long long* total_) except -1:
        """Begin with the answer at ``at``."""
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(data) + at
        cdef Py_ssize_t here, available = end - at
        cdef long long total
        cdef int size
        cdef bint stops
        cdef Exchange exchange
        cdef Probe endpoints = None
        if self.bare_answers:
            return self._bare(data, at, end, total_)
        if available < ANSWER_HEAD:
            # An impossible length may be all that ever comes.
            self._needed = 4 if available < 4 else ANSWER_HEAD
            if available < 4 or 4 <= int32_at(p) <= self._max_frame_bytes:
                return MISSING
        size = int32_at(p)
        total = total_[0] = <long long>size + 4
        if not 4 <= size <= self._max_frame_bytes:
            self._reason = f"an answer of {size} bytes"
            return BREAKS
        here = <Py_ssize_t>min(total, <long long>available)
        stops = False
        exchange = self._queue[0] if self._queue else None
        if exchange is None or not exchange.awaits_broker or exchange.correlation_id != int32_at(p + 4):
            exchange = self._match(int32_at(p + 4))
            if exchange is None:
                return BREAKS
            stops = exchange is not self._queue[0]
        self._exchange = exchange
        stops = stops or self.stops_answers or exchange.flags & ASSEMBLE_RESPONSE
        if exchange.flags & ENDPOINTS and not stops:
            if here < total and (exchange.api_key != FETCH or here == ANSWER_HEAD):
                self._needed = total if exchange.api_key != FETCH else here + 1
                return MISSING
            if here == total:
                READER.begin(endpoints_program(exchange), size)
                READER.read(p + 4, size)
                if not READER.good() or READER.places[ENDPOINTS_AT] != NOTHING:
                    stops = True
                    exchange.flags |= HOLD_RESPONSE
            else:
                endpoints = Probe(endpoints_program(exchange), size)
                data = self._without_endpoints(endpoints, data, at + 4, at + here)
                if data is None:
                    return BREAKS
                self._data = data
        if stops and here < total:
            self._needed = total
            return MISSING
        exchange.awaits_broker = False
        exchange.broker_responded_at_us = now_us
        if exchange.outcome is NO_RESPONSE or exchange.outcome == NO_RESPONSE:
            exchange.outcome = ANSWERED
        if stops:
            return STOPS
        self._queue.popleft()
        exchange.response_bytes = total
        if exchange.flags & KEEP_RESPONSE:
            if here == total and here < SMALL:
                exchange.response_in, exchange.response_at, exchange.response_size = data, at + 4, size
            else:
                exchange._response = self._kept(exchange, False, data, at, here, size)
        if here < total:
            self._endpoints = endpoints
        return PASSES

    cdef Exchange _match(self, int correlation_id):
        """The exchange that this answer belongs to; None where it is no such answer."""
        cdef Exchange exchange
        for exchange in self._queue:
            if exchange.awaits_broker:
                if exchange.correlation_id == correlation_id:
                    return exchange
                due = exchange.correlation_id
                self._reason = f"the broker answered correlation id {correlation_id} where {due} was due"
                return None
        self._reason = f"the broker sent an answer (correlation id {correlation_id}) that no request waits for"
        return None

    cdef bytes _without_endpoints(self, Probe probe, bytes data, Py_ssize_t at, Py_ssize_t stop):
        """The data, in which the endpoints of the answer that passes there are hidden; None where it is none."""
        cdef long long before = probe.fed - at, known = probe.places[ENDPOINTS_AT]
        probe.read(<Bytes>PyBytes_AS_STRING(data) + at, stop - at)
        if probe._reason != NULL:
            self._reason = f"a Fetch answer: {probe.broken}"
            return None
        if probe.places[ENDPOINTS_AT] == known:
            return data
        return pieces.hidden(data, probe.places[ENDPOINTS_AT] - before)

    # ---- both -----------------------------------------------------------------------------------

    cdef int _bare(self, bytes data, Py_ssize_t at, Py_ssize_t end, long long* total) except -1:
        """A frame without a header."""
        cdef int size
        if end - at < 4:
            self._needed = 4
            return MISSING
        size = int32_at(<Bytes>PyBytes_AS_STRING(data) + at)
        if not 0 <= size <= self._max_frame_bytes:
            self._reason = pieces.absurd_length(data, at, size)
            return BREAKS
        total[0] = <long long>size + 4
        if end - at < total[0]:
            self._needed = total[0]
            return MISSING
        self._exchange = None
        return STOPS

    cdef object _kept(self, Exchange exchange, bint asks, bytes data, Py_ssize_t at, Py_ssize_t here, int size):
        """What is kept of a frame that passes and is not small or not here as a whole; so much of it is."""
        start = part(data, at + 4, at + here)
        if <long long>size + 4 <= <long long>self._table.shed_bytes:
            return start
        return passing(exchange.api_key, exchange.api_version, asks, start, size)


@cython.final
cdef class Carrier:
    cdef readonly Pump pump
    # Objects rather than their methods: those of each connection would be a cold cache line each.
    cdef public object client, broker, records, too_early
    cdef readonly bint is_crowded
    cdef object _clock
    cdef Clock _compiled_clock  # that, if it is one
    cdef object _decides

    def __init__(self, pump, decides):
        self.pump = pump
        self._decides = decides

    @property
    def clock(self):
        return self._clock

    @clock.setter
    def clock(self, clock):
        self._clock, self._compiled_clock = clock, clock if type(clock) is Clock else None

    cdef long long now_us(self) except -1:
        return self._clock.now_us() if self._compiled_clock is None else self._compiled_clock.now_us()

    def client_received(self, bytes data not None):
        if self.too_early is None:
            self.client_bytes(data, self.now_us())
        else:
            self.too_early(data)

    def broker_received(self, bytes data not None):
        self.broker_bytes(data, self.now_us())

    cpdef client_bytes(self, bytes data, long long now_us):
        self._carry(True, data, now_us)

    cpdef broker_bytes(self, bytes data, long long now_us):
        self._carry(False, data, now_us)

    cpdef ease(self, long long now_us):
        if self.is_crowded and len(self.pump._queue) <= MOST_OPEN // 2:
            self.is_crowded = False
            self._decides.rests("client", now_us)

    cdef void _carry(self, bint asks, bytes data, long long now_us):
        cdef Pump pump = self.pump
        cdef int stops = 0
        try:
            while True:
                if asks:
                    pump._take_client(data, now_us)
                else:
                    pump._take_broker(data, now_us)
                if pump._passed is not None:
                    passed, pump._passed = pump._passed, None
                    (self.broker if asks else self.client).write(passed)
                if pump._done is not None:
                    done, pump._done = pump._done, None
                    self.records.record_all(done)
                if pump._last is None:
                    break
                last, pump._last = pump._last, None
                if asks:
                    self._decides.requested(last, now_us)
                else:
                    self._decides.answered(last, now_us)
                if type(last) is not Stop:
                    break
                stops += 1
                if stops == MOST_STOPS:
                    break
                data = b""
            if asks:
                self.is_crowded = len(pump._queue) > MOST_OPEN and not pump.ignores_requests
            elif self.is_crowded:
                self.ease(now_us)
            if stops == MOST_STOPS or asks and self.is_crowded:
                self._decides.rests("client" if asks else "broker", now_us)
        except Exception as error:
            self._decides.failed(error, "client" if asks else "broker", now_us)


cpdef Passing passing(int api_key, int api_version, bint asks, start, int size):
    """`pure.passing`."""
    cdef Passing kept = Passing.__new__(Passing)
    if api_key == (0 if asks else FETCH):
        code = _probe.facts_program(api_key, api_version, "request" if asks else "response")
        if code is not None:
            kept.probe = Probe(code, size)
            kept.probe.read_piece(start)
    if asks:
        named = int.from_bytes(start[8:10], "big", signed=True) if len(start) >= 10 else 0
        kept.head = bytes(start[: BARE_HEAD + max(named, 0)])
    return kept


cdef bytes endpoints_program(Exchange exchange):
    cdef int api = -1 - api_number(exchange.api_key, exchange.api_version)
    code = PROGRAMS.get(api)
    if code is None:
        code = PROGRAMS[api] = _probe.program(
            exchange.api_key, exchange.api_version, "response", _probe.NODE_ENDPOINTS
        )
    return code


cdef bint is_text(text, const char* raw, Py_ssize_t size) except -1:
    """Whether a string is what these bytes say; False for None."""
    cdef Py_ssize_t length
    cdef const char* known
    if text is None:
        return False
    known = PyUnicode_AsUTF8AndSize(text, &length)
    return length == size and not memcmp(known, raw, size)


cdef object with_more(kept, bytes data, Py_ssize_t start, Py_ssize_t stop):
    """What is kept of a frame, with more of it."""
    cdef Probe probe
    if type(kept) is Passing:
        probe = (<Passing>kept).probe
        if probe is not None:
            probe.read(<Bytes>PyBytes_AS_STRING(data) + start, stop - start)
        return kept
    return pieces.appended(kept, part(data, start, stop))


cdef object part(bytes data, Py_ssize_t start, Py_ssize_t stop):
    """`pieces.part`."""
    if start == 0 and stop == PyBytes_GET_SIZE(data):
        return data
    if stop - start < SMALL:
        return data[start:stop]
    return memoryview(data)[start:stop]
