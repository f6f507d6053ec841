# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""`pure`, compiled: whole chunks of plain frames; see the package."""

cimport cython
from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_GET_SIZE,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from importlib import import_module as _import_module

from notleader.proxy.plain import flags as _flags
from notleader.proxy.wire import probe as _wire_probe
from notleader.proxy.wire.errors import WireError

from notleader.proxy.pump.probe cimport (
    ACKS,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    ENDPOINTS_AT,
    ERROR_CODE,
    FIRST_OFFSET,
    INDEX,
    LEADER_EPOCH,
    NAME,
    NAME_BYTES,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    RECORDS_BYTES,
    ROW_ERROR_CODE,
    ROW_PLACES,
    THROTTLE_TIME_MS,
    TOPIC_ID,
    TRANSACTIONAL_ID,
    TRANSACTIONAL_ID_BYTES,
    Probe,
)

cdef extern from "<time.h>" nogil:
    ctypedef long time_t
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* at)
    int CLOCK_MONOTONIC
    int CLOCK_REALTIME

cdef extern from *:
    int __builtin_clzll(unsigned long long)
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

ctypedef const unsigned char* Bytes

INTERFACE = 4

cdef int ASSEMBLE_REQUEST = _flags.ASSEMBLE_REQUEST
cdef int ASSEMBLE_RESPONSE = _flags.ASSEMBLE_RESPONSE
cdef int KEEP_REQUEST = _flags.KEEP_REQUEST
cdef int KEEP_RESPONSE = _flags.KEEP_RESPONSE
cdef int PRODUCE = _flags.PRODUCE
cdef int ENDPOINTS = _flags.ENDPOINTS

cdef enum:
    HEAD = 14  # of a request: length, api_key, api_version, correlation_id, client_id length
    SMALLEST = 10
    ANSWER_HEAD = 8  # length and correlation_id
    HIGHEST_API_KEY = 1000
    SMALL = 4096
    HEADER_ENOUGH = 64 << 10
    FETCH = 1
    MOST_RECORDS = 0x7FFFFFFF

cdef object ANSWERED = "answered"
cdef object NO_RESPONSE = "no_response"


cdef inline int int16_at(Bytes p) noexcept nogil:
    return <short>((p[0] << 8) | p[1])


cdef inline int int32_at(Bytes p) noexcept nogil:
    return <int>((<unsigned int>p[0] << 24) | (p[1] << 16) | (p[2] << 8) | p[3])


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
    cdef public object connection, client_id, outcome, request, response
    cdef public object decision, hits, actions, merge, relayed, answer, held_by, afterwards
    cdef public long long seq, request_at_us, forwarded_at_us, broker_responded_at_us, response_at_us
    cdef public long long request_bytes, response_bytes, release_at_us, mute_us
    cdef public int api_key, api_version, correlation_id, flags, error_code, copies
    cdef public bint awaits_broker, is_copy, close_after

    def __cinit__(self):
        self.outcome = NO_RESPONSE
        self.hits = ()
        self.afterwards = ""

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


cdef class Plain:
    cdef public object connection, _commands, _plan, _table, _walk
    cdef public object _request_open, _response_open
    cdef public long long exchanges, _request_needed, _request_left, _response_needed, _response_left
    cdef public bint _closed, _client_ended, _holding, _client_deaf, _bare, _bare_answers
    cdef object _interest, _queue
    # Who executes the commands, where that can be called without asking each connection's own methods for it.
    cdef Ends _ends
    cdef Noting _noting
    cdef long long _max_frame_bytes

    def __init__(self, connection, plan, table, commands, queue, *, max_frame_bytes):
        self.connection = connection
        self._commands = commands
        self._plan = plan
        self._table = table
        self._queue = queue
        self._max_frame_bytes = max_frame_bytes
        self._interest = plan.interest
        record = commands.record
        if isinstance(commands, Ends):
            self._ends = commands
        if getattr(record, "__func__", None) is Noting.record:
            self._noting = record.__self__

    def record_elsewhere(self):
        self._noting = None

    cdef int _to_broker(self, data) except -1:
        if self._ends is not None:
            self._ends.give_broker(data)
        else:
            self._commands.to_broker(data)
        return 0

    cdef int _to_client(self, data) except -1:
        if self._ends is not None:
            self._ends.give_client(data)
        else:
            self._commands.to_client(data)
        return 0

    cdef int _record(self, Exchange exchange) except -1:
        if self._noting is not None:
            self._noting.note(exchange)
        else:
            self._commands.record(exchange)
        return 0

    def client_bytes(self, bytes data not None, long long now_us):
        self.from_client(data, now_us)

    def broker_bytes(self, bytes data not None, long long now_us):
        self.from_broker(data, now_us)

    cdef int from_client(self, bytes data, long long now_us) except -1:
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), passed
        if self._closed:
            return 0
        passed = self._pass_requests(data, end, now_us)
        if passed:
            self._to_broker(part(data, 0, passed, end))
        if passed < end and not self._closed:
            self._other_requests(data[passed:] if passed else data, now_us)  # bytes: parts of it are kept as such
        return 0

    cdef int from_broker(self, bytes data, long long now_us) except -1:
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data), passed
        cdef list done
        cdef Exchange exchange
        if self._closed:
            return 0
        if self._response_left > end and self._inside_answer(data, end):
            self._to_client(data)
            return 0
        if self._walk is not None and not (self._response_needed or self._client_deaf or self._bare_answers):
            try:
                data = self._walked(data, end)
            except Exception as error:
                self._fail(error, "broker", now_us)
                return 0
        done = []
        passed = self._pass_answers(data, end, now_us, done)
        if passed:
            self._to_client(part(data, 0, passed, end))
            for exchange in done:
                exchange.response_at_us = now_us
                self._record(exchange)
        if passed < end:
            if not self._closed:
                self._other_answers(data[passed:] if passed else data, now_us)
        elif self._queue and not self._response_left:
            exchange = self._queue[0]
            if exchange.answer is not None or self._client_ended:
                self._flush(now_us)
        return 0

    cdef Py_ssize_t _pass_requests(self, bytes data, Py_ssize_t end, long long now_us) except -1:
        """Take all plain requests, whole or begun, at the beginning of a chunk; how many bytes that was."""
        cdef Bytes start = <Bytes>PyBytes_AS_STRING(data)
        cdef Bytes p
        cdef Py_ssize_t position = 0, available
        cdef long long total, at
        cdef int size, api_key, api_version, id_bytes, flags = 0, api = -1, acks
        cdef Exchange exchange
        if self._request_needed or self._holding or self._bare:
            return 0
        if self._request_left:
            position = min(self._request_left, end)
            self._request_left -= position
            if self._request_open is not None:
                exchange = self._request_open
                if exchange.flags & KEEP_REQUEST:
                    exchange.request = with_more(exchange.request, data, 0, position, end)
            if not self._request_left:
                if self._request_open is not None:
                    exchange = self._request_open
                    if not exchange.awaits_broker and exchange.outcome == NO_RESPONSE:
                        self._record(exchange)
                self._request_open = None
        while end - position >= HEAD:
            available = end - position
            p = start + position
            size = int32_at(p)
            api_key = int16_at(p + 4)
            api_version = int16_at(p + 6)
            id_bytes = int16_at(p + 12)
            total = <long long>size + 4
            if not SMALLEST <= size <= self._max_frame_bytes:
                break
            if api_key < 0 or api_key > HIGHEST_API_KEY or api_version < 0 or api_version > 255:
                break
            if api != (api_key << 8 | api_version):
                api = api_key << 8 | api_version
                flags = self._table[api] | self._interest(api_key, api_version)
            if flags & ASSEMBLE_REQUEST:
                break
            if id_bytes > 0 and (id_bytes > size - SMALLEST or available < HEAD + id_bytes):
                break
            acks = 1
            if flags & PRODUCE:
                # Where acks stands, unless there are tagged fields or a transaction.
                at = HEAD + max(id_bytes, 0)
                if available < at + 4 or total < at + 4:
                    break
                if api_version >= 9:
                    if p[at] or p[at + 1]:
                        break
                    at += 2
                elif api_version >= 3:
                    if int16_at(p + at) != -1:
                        break
                    at += 2
                acks = int16_at(p + at)
            client_id = self.connection.client_id
            if id_bytes > 0 and not is_text(client_id, <const char*>p + HEAD, id_bytes):
                client_id = loaded("notleader.proxy.plain.pure", "client_id_of")((<const char*>p)[HEAD : HEAD + id_bytes])
                self.connection.client_id = client_id
            self.exchanges += 1
            exchange = Exchange.__new__(Exchange)
            exchange.connection = self.connection
            exchange.seq = self.exchanges
            exchange.api_key = api_key
            exchange.api_version = api_version
            exchange.correlation_id = int32_at(p + 8)
            exchange.client_id = client_id
            exchange.request_at_us = exchange.forwarded_at_us = now_us
            exchange.request_bytes = total
            exchange.flags = flags
            if flags & KEEP_REQUEST:
                if total <= available and total < SMALL:
                    exchange.request = PyBytes_FromStringAndSize(<const char*>p + 4, size)
                else:
                    exchange.request = self._large(exchange, data, position + 4, min(position + total, end), size, True)
            elif flags & ASSEMBLE_RESPONSE:
                # Its header will say how the answer is encoded; the body is not needed.
                exchange.request = data[position + 4 : position + min(total, 4 + HEADER_ENOUGH)]
            if acks:
                exchange.awaits_broker = True
                self._queue.append(exchange)
            elif total <= available:
                # The broker never answers; queueing this would pair every later answer wrongly.
                self._record(exchange)
            position += total
            if position > end:
                self._request_left = position - end
                self._request_open = exchange
                return end
        return position

    cdef bint _inside_answer(self, bytes data, Py_ssize_t total) except -1:
        """Take these bytes, which lie inside an answer; False where they may tell something to whoever hides parts."""
        cdef Exchange exchange = self._response_open
        if self._walk is not None:
            if self._walk.skip <= total:
                return False
            self._walk.pass_over(total)
        if exchange.flags & KEEP_RESPONSE:
            exchange.response = with_more(exchange.response, data, 0, total, total)
        self._response_left -= total
        return True

    cdef bytes _walked(self, bytes data, Py_ssize_t end):
        """The chunk, without the endpoints of the answer that goes on in it."""
        self._walk.feed(data, 0, min(self._response_left, end))
        if self._walk.hide_at >= 0:
            data = loaded("notleader.proxy.pieces", "hidden")(data, self._walk.hide_at)
        if self._response_left <= end:
            self._walk = None
        return data

    cdef Py_ssize_t _pass_answers(self, bytes data, Py_ssize_t end, long long now_us, list done) except -1:
        """Take all plain answers at the beginning of a chunk, the whole ones into ``done``; how many bytes that was."""
        cdef Bytes start = <Bytes>PyBytes_AS_STRING(data)
        cdef Bytes p
        cdef Py_ssize_t position = 0, available
        cdef long long total
        cdef int size, flags
        cdef Exchange exchange
        if self._response_needed or self._client_deaf or self._bare_answers:
            return 0
        if self._response_left:
            exchange = self._response_open
            position = min(self._response_left, end)
            self._response_left -= position
            if exchange.flags & KEEP_RESPONSE:
                exchange.response = with_more(exchange.response, data, 0, position, end)
            if not self._response_left:
                self._response_open = None
                done.append(exchange)
        while end - position >= ANSWER_HEAD and self._queue:
            available = end - position
            p = start + position
            size = int32_at(p)
            total = <long long>size + 4
            exchange = self._queue[0]
            flags = exchange.flags
            if (
                not 4 <= size <= self._max_frame_bytes
                or exchange.correlation_id != int32_at(p + 4)
                or not exchange.awaits_broker
                or exchange.decision is not None
                or flags & ASSEMBLE_RESPONSE
            ):
                break
            if flags & ENDPOINTS:
                if available >= total:
                    if not without_endpoints(exchange, p + 4, size):
                        break
                elif exchange.api_key != FETCH:
                    break
                else:
                    walk = loaded("notleader.proxy.pump.endpoints", "FetchWalk")(exchange.api_version, size)
                    try:
                        walk.feed(data, position + 4, end)
                    except WireError:
                        break  # the session says so
                    if walk.hide_at >= 0:
                        break
                    self._walk = walk
            self._queue.popleft()
            exchange.awaits_broker = False
            exchange.broker_responded_at_us = now_us
            exchange.response_bytes = total
            if exchange.outcome is NO_RESPONSE or exchange.outcome == NO_RESPONSE:
                exchange.outcome = ANSWERED
            if flags & KEEP_RESPONSE:
                if total <= available and total < SMALL:
                    exchange.response = PyBytes_FromStringAndSize(<const char*>p + 4, size)
                else:
                    exchange.response = self._large(exchange, data, position + 4, min(position + total, end), size, False)
            position += total
            if position > end:
                self._response_left = position - end
                self._response_open = exchange
                return end
            done.append(exchange)
        return position

    cdef object _large(self, Exchange exchange, bytes data, Py_ssize_t start, Py_ssize_t stop, int size, bint asks):
        """What is kept of a request or an answer of ``size`` bytes of which so much is here, or takes its place."""
        if size + 4 <= self._table.shed_bytes:
            return part(data, start, stop, PyBytes_GET_SIZE(data))
        begun = part(data, start, stop, PyBytes_GET_SIZE(data))
        name = "for_request" if asks else "for_response"
        return loaded("notleader.proxy.capture.passing", name)(exchange.api_key, exchange.api_version, begun, size)


cdef class Ends:
    """`pure.Ends`."""

    cdef public object client, broker, session
    cdef public dict _shapers
    cdef object _now_us
    cdef Clock _clock  # whose time that is, if it is one

    @property
    def now_us(self):
        return self._now_us

    @now_us.setter
    def now_us(self, now_us):
        clock = getattr(now_us, "__self__", None)
        self._now_us, self._clock = now_us, clock if type(clock) is Clock else None

    def data_received(self, bytes data not None):
        if self.broker is None:
            self._too_early(data)
        elif isinstance(self.session, Plain):
            (<Plain>self.session).from_client(data, self.now())
        else:
            self.session.client_bytes(data, self.now())

    cdef long long now(self) except -1:
        return self._now_us() if self._clock is None else self._clock.now_us()

    def to_broker(self, data):
        self.give_broker(data)

    def to_client(self, data):
        self.give_client(data)

    cdef int give_broker(self, data) except -1:
        if self._shapers:
            self._shape("request", data)
        elif self.broker is not None:
            self.broker.write(data)
        return 0

    cdef int give_client(self, data) except -1:
        if self._shapers:
            self._shape("response", data)
        elif self.client is not None:
            self.client.write(data)
        return 0


cdef class BrokerEnd:
    """`pure.BrokerEnd`."""

    cdef public Ends _link

    def data_received(self, bytes data not None):
        cdef Ends link = self._link
        if isinstance(link.session, Plain):
            (<Plain>link.session).from_broker(data, link.now())
        else:
            link.session.broker_bytes(data, link.now())


cdef bint is_text(text, const char* raw, Py_ssize_t size) except -1:
    """Whether a string is what these bytes say; False for None."""
    cdef Py_ssize_t length
    cdef const char* known
    if text is None:
        return False
    known = PyUnicode_AsUTF8AndSize(text, &length)
    return length == size and not memcmp(known, raw, size)


cdef object with_more(kept, bytes data, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end):
    """What is kept of a frame, with more of it."""
    if isinstance(kept, Passing):
        if (<Passing>kept).skip > stop - start:
            (<Passing>kept).skip -= stop - start
            return kept
    return loaded("notleader.proxy.pieces", "appended")(kept, part(data, start, stop, end))


cdef object part(bytes data, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end):
    """A slice, without copying where that is worth it (`pieces.part`); the whole as it is."""
    if start == 0 and stop == end:
        return data
    if stop - start < SMALL:
        return data[start:stop]
    return memoryview(data)[start:stop]


cdef dict ENDPOINTS_PROGRAMS = {}
cdef Probe READER = Probe(b"\0", 0)  # of one frame at a time


cdef bint without_endpoints(Exchange exchange, Bytes p, Py_ssize_t size) except -1:
    """Whether a whole answer surely has no `node_endpoints`."""
    cdef int api = exchange.api_key << 8 | exchange.api_version
    code = ENDPOINTS_PROGRAMS.get(api)
    if code is None:
        code = _wire_probe.program(exchange.api_key, exchange.api_version, "response", _wire_probe.ENDPOINTS)
        ENDPOINTS_PROGRAMS[api] = code
    READER.begin(code, size)
    READER.read(p, size)
    return READER.good() and READER.places[ENDPOINTS_AT] == NO_OFFSET


cdef dict LOADED = {}


cdef object loaded(str module, str name):
    """What is loaded on first use, for it loads this module."""
    cdef object found = LOADED.get(name)
    if found is None:
        found = LOADED[name] = getattr(_import_module(module), name)
    return found


# ---- what is counted and recorded of an exchange ---------------------------------------------------


cdef class Tally:
    """`pure.Tally`."""

    cdef public long long client_bytes, broker_bytes
    cdef public object latency_us, latency_sum_us, unanswered


cpdef count(Tally counters, Exchange exchange):
    """`notleader.proxy.metrics.count`."""
    cdef long long latency
    cdef int slot
    cdef list slots
    if exchange.forwarded_at_us:
        counters.broker_bytes += exchange.request_bytes
    counters.client_bytes += exchange.response_bytes
    if exchange.response_at_us:
        latency = max(exchange.response_at_us - exchange.request_at_us, 0)
        slots = counters.latency_us[exchange.api_key]
        slot = 64 - __builtin_clzll(latency) if latency else 0
        slots[slot] += 1
        counters.latency_sum_us[exchange.api_key] += latency
    else:
        counters.unanswered[exchange.api_key] += 1


cdef enum:
    SHORT = 512

cdef long long ALL_TOLD = -1
cdef long long NO_OFFSET = <long long>-0x7FFFFFFFFFFFFFFF - 1


cpdef bytes short_key(int api, bytes request, bytes response):
    """`notleader.proxy.capture.quick.short_key`."""
    cdef Py_ssize_t asked = max(PyBytes_GET_SIZE(request) - 8, 0), answered = max(PyBytes_GET_SIZE(response) - 4, 0)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, 5 + asked + answered)
    cdef unsigned char* p = <unsigned char*>PyBytes_AS_STRING(key)
    p[0], p[1], p[2] = api >> 16 & 0xFF, api >> 8 & 0xFF, api & 0xFF
    p[3], p[4] = asked >> 8 & 0xFF, asked & 0xFF
    memcpy(p + 5, PyBytes_AS_STRING(request) + 8, asked)
    memcpy(p + 5 + asked, PyBytes_AS_STRING(response) + 4, answered)
    return key


cdef enum:
    # How a row and a partition are packed: `notleader.proxy.record.block`.
    ROW = 52
    PART = 24
    NO_NUMBER = -0x80000000

cdef packed struct Row:
    long long seq, request_at_us
    unsigned int who, what
    int correlation_id, count
    unsigned int forwarded, responded, answered, request_bytes, response_bytes

cdef packed struct Part:
    long long base_offset
    unsigned int template
    int base_sequence, count, size


def first_and_last_us(const unsigned char[::1] numbers):
    """`notleader.proxy.record.block.first_and_last_us`."""
    cdef const Row* row
    cdef Py_ssize_t at
    cdef long long first, last
    if numbers.shape[0] < ROW:
        raise ValueError("there are no rows")
    first = last = (<const Row*>&numbers[0]).request_at_us
    for at in range(0, numbers.shape[0] - ROW + 1, ROW):
        row = <const Row*>(&numbers[0] + at)
        first, last = min(first, row.request_at_us), max(last, row.request_at_us)
    return first, last


cdef inline unsigned int since(long long at_us, long long request_at_us) noexcept:
    """How a time is packed, once it is known to fit."""
    return <unsigned int>(at_us - request_at_us + 1) if at_us else 0


cdef inline bint fits(long long at_us, long long request_at_us) noexcept:
    return not at_us or 0 <= at_us - request_at_us < 0xFFFFFFFF


cdef class What:
    """`notleader.proxy.capture.block.What`."""

    cdef readonly tuple values
    cdef readonly object partitions
    cdef readonly Py_ssize_t told
    cdef public Py_ssize_t index

    def __init__(self, tuple values not None, partitions=None):
        self.values = values
        self.partitions = partitions
        self.told = len(partitions or ())
        self.index = -1


cdef class Known:
    """`notleader.proxy.capture.quick.Known`."""

    cdef object _client_id, _principal
    cdef long long _generation, _place

    def __init__(self, long long generation, client_id, principal, long long place):
        self._generation, self._client_id, self._principal, self._place = generation, client_id, principal, place


cdef class Taking:
    """`notleader.proxy.capture.quick.Taking`."""

    cdef public object _tables, _block, _count_error
    cdef public tuple _compressions
    cdef public bytearray _numbers, _parts
    cdef public long long _generation
    cdef public dict _plain, _short
    cdef public bint _reads_bodies
    # What was looked up last.
    cdef dict _seen_plain
    cdef object _seen_outcome
    cdef int _seen_api
    cdef long long _seen_place
    # Produce and Fetch: see `_probed`.
    cdef dict _programs_of
    cdef Probe _asked, _answered
    cdef Caches _caches

    def take(self, entry):
        return type(entry) is Exchange and self.has_taken(<Exchange>entry)

    cdef bint has_taken(self, Exchange exchange) except -1:
        cdef Row row
        cdef object connection, place, told
        cdef What known
        cdef dict plain
        cdef int api_key, api
        if exchange.hits or not (
            fits(exchange.forwarded_at_us, exchange.request_at_us)
            and fits(exchange.broker_responded_at_us, exchange.request_at_us)
            and fits(exchange.response_at_us, exchange.request_at_us)
            and 0 <= exchange.request_bytes <= 0xFFFFFFFF
            and 0 <= exchange.response_bytes <= 0xFFFFFFFF
        ):
            return False
        api_key = exchange.api_key
        row.count = ALL_TOLD
        if not self._reads_bodies or exchange.request is None:
            api = api_key << 8 | exchange.api_version
            if self._plain is not self._seen_plain or exchange.outcome is not self._seen_outcome or api != self._seen_api:
                plain = self._plain[exchange.outcome]
                place = plain.get(api)
                self._seen_place = self._header_only(exchange) if place is None else place
                self._seen_plain, self._seen_outcome, self._seen_api = self._plain, exchange.outcome, api
            row.what = self._seen_place
        elif api_key == FETCH or api_key == 0:
            if not self._probed(exchange, &row):
                place = self._skimmed(exchange)
                if place is None:
                    return False
                row.what, row.count = place
        else:
            known = self._known_short(exchange)
            if known is None:
                known = self.known(exchange)
                if known is None:
                    return False
            row.what = self._put(known) if known.index < 0 else known.index
            if known.values[4]:
                self._count_error(api_key, known.values[4])
            if known.told:
                self._block.told += known.told
        connection = exchange.connection
        told = connection.known
        if (
            type(told) is not Known
            or (<Known>told)._generation != self._generation
            or (<Known>told)._client_id is not exchange.client_id
            or (<Known>told)._principal is not connection.principal
            or api_key == 18  # ApiVersions, where a client tells its software's name
        ):
            told = self._who(exchange)
        row.who = (<Known>told)._place
        row.seq = exchange.seq
        row.correlation_id = exchange.correlation_id
        row.request_at_us = exchange.request_at_us
        row.forwarded = since(exchange.forwarded_at_us, row.request_at_us)
        row.responded = since(exchange.broker_responded_at_us, row.request_at_us)
        row.answered = since(exchange.response_at_us, row.request_at_us)
        row.request_bytes = exchange.request_bytes
        row.response_bytes = exchange.response_bytes
        extend(self._numbers, &row, ROW)
        return True

    cdef object _known_short(self, Exchange exchange):
        """What `known` would find of short frames."""
        cdef bytes request, response
        if type(exchange.request) is not bytes or type(exchange.response) is not bytes:
            return None
        request, response = exchange.request, exchange.response
        if PyBytes_GET_SIZE(request) + PyBytes_GET_SIZE(response) > SHORT or exchange.outcome != ANSWERED:
            return None
        return self._short.get(short_key(exchange.api_key << 8 | exchange.api_version, request, response))

    cdef bint _probed(self, Exchange exchange, Row* taken) except -1:
        """Any Produce or Fetch of the usual kind, its partitions into `_parts`; False for what `_skimmed` has to read.

        The same as `_skimmed`, without making objects: the probes' rows are brought together here, and what they have
        in common with others is looked up in caches by its numbers.
        """
        cdef int api = exchange.api_key << 8 | exchange.api_version
        cdef Probe asked, answered = None
        cdef Caches caches = self._caches
        cdef tuple programs
        cdef Py_ssize_t number, count
        cdef long long error = NO_OFFSET
        cdef long long* row
        if caches is None:
            caches = self._caches = Caches()
            self._asked, self._answered = Probe(b"\0", 0), Probe(b"\0", 0)
            self._programs_of = {}
        if caches.generation != self._generation or len(caches._topics) > MOST_TOPICS:
            caches.clear(self._generation)
        found = self._programs_of.get(api)
        if found is None:
            found = self._programs_of[api] = self._programs(exchange.api_key, exchange.api_version) or ()
        programs = found
        if not programs:
            return False
        asked = probed(self._asked, programs[0], exchange.request)
        if asked is None:
            return False
        if exchange.response is not None:
            answered = probed(self._answered, programs[1], exchange.response)
            if answered is None:
                return False
            error = answered.places[ERROR_CODE]
            if error == NO_OFFSET:
                error = 0
            number = 0
            while error == 0 and number < answered.count:
                row = answered.numbers + number * ROW_PLACES
                if row[ROW_ERROR_CODE] != NO_OFFSET:
                    error = row[ROW_ERROR_CODE]
                number += 1
        caches.nameless = -1
        count = caches.join(asked, answered, exchange.api_key == 0)
        if count < 0:
            return False
        for number in range(count):
            if not self._put_part(caches, &caches.joined[number], asked, answered, &caches.packed[number]):
                return False
        taken.what = self._what_of(caches, exchange, asked, answered, error)
        taken.count = count
        if count:
            extend(self._parts, caches.packed, PART * count)
        if error != NO_OFFSET and error:
            self._count_error(exchange.api_key, error)
        return True

    cdef bint _put_part(self, Caches caches, Joined* one, Probe asked, Probe answered, Part* part) except -1:
        """The numbers of a part; False where one of them is our word for none."""
        cdef long long* first = NULL if one.asked < 0 else asked.numbers + one.asked * ROW_PLACES
        cdef long long* last = NULL if one.answered < 0 else answered.numbers + one.answered * ROW_PLACES
        cdef long long* records = NULL
        cdef Template key
        cdef TemplateAt* at
        cdef Probe of_topic = asked if first != NULL else answered
        cdef long long* row = first if first != NULL else last
        key.topic, key.index = one.topic, <int>row[INDEX]
        key.epoch = row[LEADER_EPOCH]
        key.producer_id = key.producer_epoch = key.compression = key.error = NO_OFFSET
        part.base_sequence = part.count = part.size = NO_NUMBER
        part.base_offset = NO_OFFSET
        if first != NULL and first[RECORDS_BYTES] != NO_OFFSET:
            records = first
        if last != NULL:
            key.error = last[ROW_ERROR_CODE]
            part.base_offset = last[BASE_OFFSET]
            if last[RECORDS_BYTES] != NO_OFFSET:
                records = last
        if records != NULL:
            if not (
                -MOST_RECORDS <= records[RECORD_COUNT] <= MOST_RECORDS
                and -MOST_RECORDS <= records[RECORDS_BYTES] <= MOST_RECORDS
            ):
                return False
            part.count, part.size = <int>records[RECORD_COUNT], <int>records[RECORDS_BYTES]
            if records[ATTRIBUTES] != NO_OFFSET:
                if records[PRODUCER_ID] == NO_OFFSET or records[FIRST_OFFSET] == NO_OFFSET:
                    return False
                key.producer_id, key.producer_epoch, key.compression = records[PRODUCER_ID], records[PRODUCER_EPOCH], records[ATTRIBUTES] & 7
                if records[BASE_SEQUENCE] == NO_NUMBER:
                    return False
                part.base_sequence = <int>records[BASE_SEQUENCE]
                if records == last:
                    part.base_offset = records[FIRST_OFFSET]
            elif records == last:
                part.base_offset = NO_OFFSET
        at = caches.template(&key)
        if at.place >= 0 and not at.stays and caches.nameless != key.topic:
            # Metadata may have told its name by now; asked once for all of its partitions.
            if self._has_name(topic_of(of_topic, row)[1]):
                at.place = -1
            else:
                caches.nameless = key.topic
        if at.place < 0 or memcmp(&at.key, &key, sizeof(Template)):
            place, stays = self._template(
                (
                    *topic_of(of_topic, row),
                    key.index,
                    some(key.producer_id),
                    some(key.producer_epoch),
                    None if key.compression == NO_OFFSET else self._compressions[key.compression],
                    some(key.error),
                    some(key.epoch),
                )
            )
            part.template = place
            at.key, at.place, at.stays = key, place, stays
        else:
            part.template = at.place
        return True

    cdef long long _what_of(
        self, Caches caches, Exchange exchange, Probe asked, Probe answered, long long error
    ) except -1:
        cdef WhatAt* at = &caches.whats[(exchange.api_key << 5 ^ exchange.api_version) & (WHATS - 1)]
        cdef long long throttle = answered.places[THROTTLE_TIME_MS] if answered is not None else NO_OFFSET
        cdef long long size = -1 if asked.places[TRANSACTIONAL_ID] == NO_OFFSET else asked.places[TRANSACTIONAL_ID_BYTES]
        cdef bint fits = size <= TEXT and exchange.outcome is ANSWERED
        if (
            fits
            and at.place >= 0
            and at.api == (exchange.api_key << 8 | exchange.api_version)
            and at.error == error
            and at.throttle == throttle
            and at.acks == asked.places[ACKS]
            and at.size == size
            and (size <= 0 or not memcmp(at.text, asked.texts + asked.places[TRANSACTIONAL_ID], size))
        ):
            return at.place
        text = None
        if size >= 0:
            text = asked.texts[asked.places[TRANSACTIONAL_ID] : asked.places[TRANSACTIONAL_ID] + size].decode("utf-8", "surrogateescape")
        place = self._what(exchange, some(error), some(throttle), text, some(asked.places[ACKS]))
        if fits:
            at.api = exchange.api_key << 8 | exchange.api_version
            at.error, at.throttle, at.acks, at.size = error, throttle, asked.places[ACKS], size
            if size > 0:
                memcpy(at.text, asked.texts + asked.places[TRANSACTIONAL_ID], size)
            at.place = place
        return place


cdef enum:
    TEMPLATES = 4096
    WHATS = 64
    TEXT = 64
    MOST_TOPICS = 65536
    MOST_JOINED = 1024

cdef struct Template:
    # What a partition has in common with others; all of one size, so that they can be compared as bytes.
    long long topic, index, producer_id, producer_epoch, compression, error, epoch

cdef struct TemplateAt:
    Template key
    long long place  # -1: nothing is here
    bint stays

cdef struct WhatAt:
    int api
    long long error, throttle, acks, size, place
    char[TEXT] text

cdef struct Joined:
    # A partition that was asked for, or answered, or both; -1 for neither.
    long long topic
    int index
    Py_ssize_t asked, answered


cdef class Caches:
    """What was looked up before, by its numbers; of the tables of one generation."""

    cdef long long generation
    cdef long long nameless  # the topic whose name was asked for last in this exchange, and is not known
    cdef dict _topics  # name, or id → number
    cdef bytes _topic  # the last one
    cdef long long _number
    cdef TemplateAt* _templates
    cdef WhatAt[WHATS] whats
    cdef Joined[MOST_JOINED] joined
    cdef Part[MOST_JOINED] packed

    def __cinit__(self):
        self._templates = <TemplateAt*>malloc(TEMPLATES * sizeof(TemplateAt))
        if self._templates == NULL:
            raise MemoryError
        self.clear(-1)

    def __dealloc__(self):
        free(self._templates)

    cdef void clear(self, long long generation):
        cdef int place
        self.generation = generation
        self._topics = {}
        self._topic = None
        for place in range(TEMPLATES):
            self._templates[place].place = -1
        for place in range(WHATS):
            self.whats[place].place = -1

    cdef TemplateAt* template(self, Template* key) noexcept:
        """Where this template is, if it is anywhere."""
        cdef unsigned long long hashed = key.topic * 0x9E3779B97F4A7C15u
        hashed = (hashed ^ key.index) * 0x9E3779B97F4A7C15u
        hashed = (hashed ^ key.producer_id ^ (key.error << 32) ^ (key.epoch << 8)) * 0x9E3779B97F4A7C15u
        return &self._templates[hashed >> 52]

    cdef long long topic(self, Probe probe, long long* row) except -1:
        """The number of a row's topic."""
        cdef const char* text = probe.texts
        cdef Py_ssize_t size
        cdef bint by_id = False
        if row[NAME] != NO_OFFSET and row[NAME_BYTES] > 0:
            text, size = text + row[NAME], row[NAME_BYTES]
        elif row[TOPIC_ID] != NO_OFFSET:
            text, size, by_id = text + row[TOPIC_ID], 16, True
        else:
            text, size = b"", 0
        if self._topic is None or PyBytes_GET_SIZE(self._topic) != size or memcmp(PyBytes_AS_STRING(self._topic), text, size):
            name = PyBytes_FromStringAndSize(text, size)
            number = self._topics.get(name)
            if number is None:
                number = self._topics[name] = len(self._topics)
            self._topic, self._number = name, number
        return 2 * self._number + by_id  # a name may look like an id

    cdef Py_ssize_t join(self, Probe asked, Probe answered, bint produces) except -2:
        """How many partitions request and answer speak of; -1 where that takes more than comparing in order."""
        cdef Py_ssize_t count = 0, guess = 0, number, place
        cdef unsigned long long[4] seen
        cdef unsigned int spot
        cdef long long* row
        cdef long long topic = -1, at = NO_OFFSET, size = 0, by_id = NO_OFFSET
        cdef Joined* one
        seen[0] = seen[1] = seen[2] = seen[3] = 0
        if asked.count > MOST_JOINED:
            return -1
        for number in range(asked.count):
            row = asked.numbers + number * ROW_PLACES
            if number == 0 or row[NAME] != at or row[NAME_BYTES] != size or row[TOPIC_ID] != by_id:
                topic, at, size, by_id = self.topic(asked, row), row[NAME], row[NAME_BYTES], row[TOPIC_ID]
            one = &self.joined[count]
            one.topic, one.index, one.asked, one.answered = topic, <int>row[INDEX], number, -1
            spot = <unsigned int>(topic * 31 + row[INDEX]) & 255
            if seen[spot >> 6] >> (spot & 63) & 1 and self._find(count, topic, one.index) >= 0:
                return -1  # asked for twice
            seen[spot >> 6] |= <unsigned long long>1 << (spot & 63)
            count += 1
        if answered is None:
            return count
        at = by_id = NO_OFFSET
        for number in range(answered.count):
            row = answered.numbers + number * ROW_PLACES
            if produces and row[BASE_OFFSET] == NO_OFFSET:
                return -1
            if number == 0 or row[NAME] != at or row[NAME_BYTES] != size or row[TOPIC_ID] != by_id:
                topic, at, size, by_id = self.topic(answered, row), row[NAME], row[NAME_BYTES], row[TOPIC_ID]
            if guess < count and self.joined[guess].topic == topic and self.joined[guess].index == <int>row[INDEX]:
                place = guess
            else:
                place = -1
                spot = <unsigned int>(topic * 31 + row[INDEX]) & 255
                if seen[spot >> 6] >> (spot & 63) & 1:
                    place = self._find(count, topic, <int>row[INDEX])
                seen[spot >> 6] |= <unsigned long long>1 << (spot & 63)
            if place < 0:
                if count >= MOST_JOINED:
                    return -1
                place = count
                one = &self.joined[place]
                one.topic, one.index, one.asked = topic, <int>row[INDEX], -1
                count += 1
            elif self.joined[place].answered >= 0:
                return -1  # answered twice
            self.joined[place].answered = number
            guess = place + 1
        return count

    cdef Py_ssize_t _find(self, Py_ssize_t count, long long topic, int index) noexcept:
        cdef Py_ssize_t place
        for place in range(count):
            if self.joined[place].index == index and self.joined[place].topic == topic:
                return place
        return -1


cdef object some(long long number):
    return None if number == NO_OFFSET else number


cdef tuple topic_of(Probe probe, long long* row):
    """A row's topic name and id."""
    name = topic_id = None
    if row[NAME] != NO_OFFSET and row[NAME_BYTES] >= 0:
        name = probe.texts[row[NAME] : row[NAME] + row[NAME_BYTES]].decode("utf-8", "surrogateescape")
    if row[TOPIC_ID] != NO_OFFSET:
        topic_id = probe.texts[row[TOPIC_ID] : row[TOPIC_ID] + 16]
    return name, topic_id


cdef Probe probed(Probe probe, bytes program, frame):
    """A probe that has read a kept frame, or what stands for one; None where that is no use."""
    cdef Py_ssize_t total = 0
    cdef list pieces
    if type(frame) is bytes:
        probe.begin(program, PyBytes_GET_SIZE(frame))
        probe.read(<Bytes>PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
    elif type(frame) is list or type(frame) is memoryview:
        pieces = frame if type(frame) is list else [frame]
        for piece in pieces:
            total += len(piece)
        probe.begin(program, total)
        for piece in pieces:
            if not probe.ended:
                read_piece(probe, piece)
    else:
        probe = getattr(frame, "probe", None)
    return probe if probe is not None and probe.good() else None


cdef int read_piece(Probe probe, piece) except -1:
    cdef Py_buffer view
    PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
    try:
        probe.read(<Bytes>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int extend(bytearray to, const void* more, Py_ssize_t size) except -1:
    cdef Py_ssize_t at = PyByteArray_GET_SIZE(to)
    PyByteArray_Resize(to, at + size)
    memcpy(PyByteArray_AS_STRING(to) + at, more, size)
    return 0


cdef class Passing:
    """`notleader.proxy.capture.passing.Passing`."""

    cdef public bytes head
    cdef public long long skip

    def __cinit__(self):
        self.head = b""


cdef class Taker:
    """`pure.Taker`."""

    cdef public Taking taking


cdef class Noting:
    """`pure.Noting`."""

    cdef public object counters
    cdef public Taker capture
    cdef public bint _hands_over

    def record(self, entry):
        self.note(entry)

    cdef int note(self, entry) except -1:
        cdef Taker capture = self.capture
        cdef Taking taking
        if (
            type(entry) is not Exchange
            or (<Exchange>entry).hits
            or (<Exchange>entry).error_code
            or capture is not None
            and not self._hands_over
        ):
            self._note(entry)
            return 0
        count(self.counters, entry)
        if capture is not None:
            taking = capture.taking
            if taking is None or not taking.has_taken(<Exchange>entry):
                capture.record(entry)
        return 0
