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
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from importlib import import_module as _import_module

from notleader.proxy.plain import flags as _flags
from notleader.proxy.wire.endpoints import surely_absent as _surely_absent

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
    KEPT_HEAD = 1024  # `passing._HEAD_BYTES`
    HEADER_ENOUGH = 64 << 10
    FETCH = 1
    MOST_RECORDS = 0x7FFFFFFF
    BY_ID = 13  # the first version of Produce that names its topics by id alone

cdef object ANSWERED = "answered"
cdef object NO_RESPONSE = "no_response"


cdef inline int int16_at(Bytes p) noexcept nogil:
    return <short>((p[0] << 8) | p[1])


cdef inline int int32_at(Bytes p) noexcept nogil:
    return <int>((<unsigned int>p[0] << 24) | (p[1] << 16) | (p[2] << 8) | p[3])


cdef inline long long int64_at(Bytes p) noexcept nogil:
    return <long long>((<unsigned long long><unsigned int>int32_at(p) << 32) | <unsigned int>int32_at(p + 4))


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
            self._walk.skip -= total
        if exchange.flags & KEEP_RESPONSE:
            exchange.response = with_more(exchange.response, data, 0, total, total)
        self._response_left -= total
        return True

    cdef Py_ssize_t _pass_answers(self, bytes data, Py_ssize_t end, long long now_us, list done) except -1:
        """Take all plain answers at the beginning of a chunk, the whole ones into ``done``; how many bytes that was."""
        cdef Bytes start = <Bytes>PyBytes_AS_STRING(data)
        cdef Bytes p
        cdef Py_ssize_t position = 0, available
        cdef long long total
        cdef int size, flags, throttle, error, code
        cdef Sole sole
        cdef Exchange exchange
        if self._response_needed or self._client_deaf or self._walk is not None or self._bare_answers:
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
                if available < total:
                    # Without any tagged field it has no endpoints either.
                    if exchange.api_key != FETCH or not answer_begun(
                        exchange.api_version, p + 4, available - 4, size, &sole, &throttle, &error, &code
                    ):
                        break
                elif exchange.api_key == 0:
                    if not without_endpoints(p, total, exchange.api_version >= BY_ID):
                        break
                elif not _surely_absent(exchange.api_key, exchange.api_version, data, position + 4, position + total):
                    break
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
        cdef Records it
        if size + 4 <= self._table.shed_bytes:
            return part(data, start, stop, PyBytes_GET_SIZE(data))
        if exchange.api_key == (0 if asks else FETCH):
            it = Records.__new__(Records)
            if it.begin(exchange.api_version, data, start, stop, size, asks):
                return it
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
        if type(kept) is Records:
            (<Records>kept).read(<Bytes>PyBytes_AS_STRING(data) + start, stop - start)
            return kept
    return loaded("notleader.proxy.pieces", "appended")(kept, part(data, start, stop, end))


cdef object part(bytes data, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t end):
    """A slice, without copying where that is worth it (`pieces.part`); the whole as it is."""
    if start == 0 and stop == end:
        return data
    if stop - start < SMALL:
        return data[start:stop]
    return memoryview(data)[start:stop]


cdef bint without_endpoints(Bytes p, Py_ssize_t total, bint by_id) noexcept nogil:
    """Whether a flexible Produce answer, its length included, surely ends without tagged fields."""
    cdef Py_ssize_t at = 9, end = total - 1
    cdef unsigned int topics, partitions, size
    if total < 15 or p[end] or p[8]:
        return False
    if not uvarint(p, &at, end, &topics):
        return False
    while topics > 1:
        topics -= 1
        if by_id:
            at += 16
        else:
            if not uvarint(p, &at, end, &size) or size == 0:
                return False
            at += size - 1
        if at >= end or not uvarint(p, &at, end, &partitions):
            return False
        while partitions > 1:
            partitions -= 1
            # Index, error, base offset, append time, log start offset; no record errors, no message, no tagged fields.
            at += 30
            if at + 3 > end or p[at] != 1 or p[at + 1] or p[at + 2]:
                return False
            at += 3
        if at >= end or p[at]:
            return False
        at += 1
    return at + 4 == end


cdef bint uvarint(Bytes p, Py_ssize_t* at, Py_ssize_t end, unsigned int* value) noexcept nogil:
    cdef int shift = 0
    value[0] = 0
    while at[0] < end and shift < 28:
        value[0] |= (p[at[0]] & 0x7F) << shift
        at[0] += 1
        if p[at[0] - 1] < 0x80:
            return True
        shift += 7
    return False


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
    BATCH = 61  # bytes of a record batch before its records

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


cdef void spread(Bytes numbers, Py_ssize_t rows, int width, char** to, Py_ssize_t row) noexcept nogil:
    """Append these rows to columns that hold ``row`` of them."""
    cdef int place
    for row in range(row, row + rows):
        for place in range(width):
            memcpy(to[place] + 8 * row, numbers, 8)
            numbers += 8


def by_column(list packings, int width):
    """`notleader.proxy.capture.block.by_column`."""
    cdef Py_ssize_t rows = 0, row = 0, some
    cdef int place
    cdef const unsigned char[::1] packed
    cdef Bytes numbers
    cdef list columns = []
    cdef char** to = <char**>malloc(width * sizeof(char*))
    if to == NULL:
        raise MemoryError
    try:
        for one in packings:
            rows += len(one) // (8 * width)
        for place in range(width):
            column = PyByteArray_FromStringAndSize(NULL, 8 * rows)
            columns.append(column)
            to[place] = PyByteArray_AS_STRING(column)
        for one in packings:
            packed = one
            some = packed.shape[0] // (8 * width)
            if some:
                numbers = &packed[0]
                with nogil:  # for milliseconds, and nobody else knows the columns yet
                    spread(numbers, some, width, to, row)
                row += some
    finally:
        free(to)
    return columns


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


cdef class Lane:
    """`notleader.proxy.capture.quick.Lane`, with what was looked up last: the next is most often like it."""

    cdef readonly Py_ssize_t offset_at
    cdef readonly dict answers, templates
    cdef bytes _before, _after
    cdef object _answer, _template
    cdef long long _producer_id
    cdef int _producer_epoch, _compression, _error

    def __init__(self, Py_ssize_t offset_at):
        self.offset_at = offset_at
        self.answers = {}
        self.templates = {}

    cdef object answer(self, Bytes response, Py_ssize_t length):
        """What an answer says besides its offset; None where it was never seen."""
        cdef Py_ssize_t before = self.offset_at - 4, after = length - self.offset_at - 8
        cdef Bytes behind = response + self.offset_at + 8
        if not (
            self._answer is not None
            and PyBytes_GET_SIZE(self._before) == before
            and PyBytes_GET_SIZE(self._after) == after
            and not memcmp(PyBytes_AS_STRING(self._before), response + 4, before)
            and not memcmp(PyBytes_AS_STRING(self._after), behind, after)
        ):
            self._before = PyBytes_FromStringAndSize(<const char*>response + 4, before)
            self._after = PyBytes_FromStringAndSize(<const char*>behind, after)
            self._answer = self.answers.get((self._before, self._after))
        return self._answer

    cdef object template(self, Bytes batch, tuple compressions, int error):
        """The place of the template for a batch; None where there is none yet."""
        cdef long long producer_id = int64_at(batch + 43)
        cdef int epoch = int16_at(batch + 51), compression = int16_at(batch + 21) & 7
        if not (
            self._template is not None
            and self._producer_id == producer_id
            and self._producer_epoch == epoch
            and self._compression == compression
            and self._error == error
        ):
            self._producer_id, self._producer_epoch = producer_id, epoch
            self._compression, self._error = compression, error
            self._template = self.templates.get((producer_id, epoch, compressions[compression], error))
        return self._template


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
    cdef public dict _plain, _short, _lanes, _lane_ends, _fetches
    cdef public bint _reads_bodies
    # What was looked up last, in which of the tables above.
    cdef dict _seen_plain, _seen_lanes
    cdef object _seen_outcome
    cdef bytes _seen_head
    cdef Lane _seen_lane
    cdef int _seen_api, _seen_version
    cdef long long _seen_place

    def take(self, entry):
        return type(entry) is Exchange and self.has_taken(<Exchange>entry)

    cdef bint has_taken(self, Exchange exchange) except -1:
        cdef long long numbers[11]
        cdef object connection, place, told
        cdef What known
        cdef dict plain
        cdef int api_key, api
        if exchange.hits:
            return False
        api_key = exchange.api_key
        numbers[10] = ALL_TOLD
        if not self._reads_bodies or exchange.request is None:
            api = api_key << 8 | exchange.api_version
            if self._plain is not self._seen_plain or exchange.outcome is not self._seen_outcome or api != self._seen_api:
                plain = self._plain[exchange.outcome]
                place = plain.get(api)
                self._seen_place = self._header_only(exchange) if place is None else place
                self._seen_plain, self._seen_outcome, self._seen_api = self._plain, exchange.outcome, api
            numbers[1] = self._seen_place
        elif api_key == FETCH:
            if not self._fetched(exchange, numbers):
                return False
        elif api_key == 0:
            if not self._lane(exchange, &numbers[1]):
                place = self._skimmed(exchange)
                if place is None:
                    return False
                numbers[1], numbers[10] = place
            else:
                numbers[10] = 1
        else:
            known = self._known_short(exchange)
            if known is None:
                known = self.known(exchange)
                if known is None:
                    return False
            numbers[1] = known.index
            if numbers[1] < 0:
                numbers[1] = self._put(known)
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
        numbers[0] = (<Known>told)._place
        numbers[2] = exchange.seq
        numbers[3] = exchange.correlation_id
        numbers[4] = exchange.request_at_us
        numbers[5] = exchange.forwarded_at_us
        numbers[6] = exchange.broker_responded_at_us
        numbers[7] = exchange.response_at_us
        numbers[8] = exchange.request_bytes
        numbers[9] = exchange.response_bytes
        extend(self._numbers, numbers, 88)
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

    cdef bint _lane(self, Exchange exchange, long long* what) except -1:
        """A Produce of one batch to one partition, like one that was seen before."""
        cdef bytes request, response
        cdef Bytes p
        cdef Py_ssize_t end = 0, at, length
        cdef long long size, error
        cdef long long part[5]
        cdef Lane lane = None
        cdef dict lanes
        cdef bytes head
        cdef object known, template
        if type(exchange.response) is not bytes or exchange.outcome != ANSWERED:
            return False
        response = exchange.response
        request = whole(exchange.request)
        if request is not None:
            p = <Bytes>PyBytes_AS_STRING(request)
            length = PyBytes_GET_SIZE(request)
            if length < 4 or p[length - 1] or p[length - 2] or p[length - 3]:
                return False
        else:
            request = getattr(exchange.request, "head", None)  # of a Passing
            if request is None:
                return False
            p = <Bytes>PyBytes_AS_STRING(request)
            length = PyBytes_GET_SIZE(request)
        head = self._seen_head
        if (
            head is not None
            and self._lanes is self._seen_lanes
            and exchange.api_version == self._seen_version
            and PyBytes_GET_SIZE(head) + 8 < length
            and not memcmp(PyBytes_AS_STRING(head), p + 8, PyBytes_GET_SIZE(head))
        ):
            end, lane = PyBytes_GET_SIZE(head) + 8, self._seen_lane
        else:
            ends = self._lane_ends.get(exchange.api_version)
            if not ends:
                return False
            lanes = self._lanes[exchange.api_version]
            for place in ends:
                end = place
                if 8 < end < length:
                    head = PyBytes_FromStringAndSize(<const char*>p + 8, end - 8)
                    lane = lanes.get(head)
                    if lane is not None:
                        self._seen_head, self._seen_lane, self._seen_lanes = head, lane, self._lanes
                        self._seen_version = exchange.api_version
                        break
        if lane is None or end + 4 + BATCH > length:
            return False
        size = p[end]
        if size >= 0x80:
            size = size & 0x7F | p[end + 1] << 7
            if size >= 0x4000:
                size = size & 0x3FFF | <long long>p[end + 2] << 14
                if size >= 0x200000:
                    return False
                end += 1
            end += 1
        size -= 1
        end += 1
        # Exactly one batch, and behind it nothing but the ends without tagged fields of partition, topic and body.
        if size < BATCH or end + size + 3 != exchange.request_bytes - 4 or end + BATCH > length:
            return False
        p += end
        if batch_bytes(p) != size:
            return False
        at = lane.offset_at
        if at < 4 or at + 8 > PyBytes_GET_SIZE(response):
            return False
        known = lane.answer(<Bytes>PyBytes_AS_STRING(response), PyBytes_GET_SIZE(response))
        if known is None:
            return False
        what[0], error = known
        template = lane.template(p, self._compressions, error)
        if template is None:
            return False
        part[0] = template
        part[1] = int32_at(p + 53)
        part[2] = int32_at(p + 57)
        part[3] = size
        part[4] = int64_at(<Bytes>PyBytes_AS_STRING(response) + at)
        if part[4] == NO_OFFSET:
            return False
        if error:
            self._count_error(0, error)
        extend(self._parts, part, 40)
        return True


    cdef bint _fetched(self, Exchange exchange, long long* numbers) except -1:
        """Any Fetch; of at most one partition, as one like it was read before. False for another layout."""
        cdef long long part[5]
        cdef bytes key = self._fetch_key(exchange, part)
        cdef object known = None if key is None else self._fetches.get(key)
        cdef long long template, error
        if known is not None:
            numbers[1], template, error = known
            numbers[10] = 0
            if template >= 0:
                part[0] = template
                extend(self._parts, part, 40)
                numbers[10] = 1
            if error:
                self._count_error(FETCH, error)
            return True
        known = self._skimmed(exchange, key)
        if known is None:
            return False
        numbers[1], numbers[10] = known
        return True

    cdef bytes _fetch_key(self, Exchange exchange, long long* part):
        """What a Fetch of at most one partition has in common with others, and the numbers it has to itself.

        None where it is laid out otherwise, or asks for one partition and is told of another.
        """
        cdef bytes request, start, named = b""
        cdef Bytes p, first = NULL
        cdef Records records = None
        cdef Walk walk
        cdef Sole sole
        cdef Span topic
        cdef int version = exchange.api_version, asked, answered, index = 0, epoch = 0, throttle, error, code = 0
        cdef long long total, length = -1
        cdef long long common[7]
        if type(exchange.request) is not bytes or exchange.outcome != ANSWERED:
            return None
        request = exchange.request
        asked = fetch_asked(version, request, &topic, &index, &epoch)
        if asked < 0:
            return None
        if type(exchange.response) is Records:
            records = exchange.response
            if not records._ended or records._walk is None:
                return None
            start, total = records._start, records._total
        else:
            start = whole(exchange.response)
            if start is None:
                return None
            total = PyBytes_GET_SIZE(start)
        p = <Bytes>PyBytes_AS_STRING(start)
        answered = fetch_answered(version, p, PyBytes_GET_SIZE(start), total, &sole, &throttle, &error, &code)
        if answered < 0:
            return None
        if asked:
            named = request[topic.at : topic.at + max(topic.size, 0)]
        if answered:
            told = start[sole.topic.at : sole.topic.at + max(sole.topic.size, 0)]
            if asked and (index != sole.index or named != told):
                return None
            index, named, length = sole.index, told, sole.length
        if records is not None:
            walk = records._walk
        else:
            walk = Walk(max(length, 0))
            if length > 0 and walk.go(p, sole.records_at, total) < 0:
                return None
        if walk._begun:
            first = walk._first
        part[1] = part[2] = part[3] = part[4] = NO_OFFSET
        common[0] = version | asked << 8 | answered << 9 | (length >= 0) << 10 | (first != NULL) << 11
        common[1], common[2], common[3], common[4] = throttle, error << 16 | code & 0xFFFF, index, epoch
        common[5] = common[6] = 0
        if length >= 0:
            part[2], part[3] = walk._count, length
        if first != NULL:
            common[5], common[6] = int64_at(first + 43), int16_at(first + 51) << 3 | int16_at(first + 21) & 7
            part[1], part[4] = int32_at(first + 53), int64_at(first)
            if part[4] == NO_OFFSET or not -MOST_RECORDS <= walk._count <= MOST_RECORDS:
                return None
        return PyBytes_FromStringAndSize(<const char*>common, sizeof(common)) + named


cdef bytes whole(frame):
    """A frame that is kept as it was, in one piece; None for others."""
    if type(frame) is bytes:
        return frame
    if type(frame) is list:
        return b"".join(frame)
    return bytes(frame) if type(frame) is memoryview else None


cdef inline long long batch_bytes(Bytes p) noexcept nogil:
    """The size of the record batch whose header this is; -1 for an older format."""
    return <long long>int32_at(p + 8) + 12 if p[16] == 2 else -1


cdef int extend(bytearray to, const void* more, Py_ssize_t size) except -1:
    cdef Py_ssize_t at = PyByteArray_GET_SIZE(to)
    PyByteArray_Resize(to, at + size)
    memcpy(PyByteArray_AS_STRING(to) + at, more, size)
    return 0


# ---- what a large message says in front of its records -------------------------------------------------

cdef enum:
    HIGHEST_PRODUCE = 13
    HIGHEST_FETCH = 18

cdef struct Reading:
    Bytes p
    Py_ssize_t at, end
    bint flexible
    bint failed  # where it ends too early, or is not laid out as expected

cdef unsigned char[64] NOTHING


cdef Bytes taken(Reading* r, Py_ssize_t size) noexcept nogil:
    """So many bytes, at most 64 of which are looked at."""
    if r.failed or size < 0 or r.end - r.at < size:
        r.failed = True
        return NOTHING
    r.at += size
    return r.p + r.at - size


cdef long long length_at(Reading* r, int width) noexcept nogil:
    """The length of a string (of so many bytes where it isn't flexible), an array or records; -1 for null."""
    cdef unsigned int size
    if not r.flexible:
        return int16_at(taken(r, 2)) if width == 2 else int32_at(taken(r, 4))
    if r.failed or not uvarint(r.p, &r.at, r.end, &size):
        r.failed = True
        return -1
    return <long long>size - 1


cdef void past_no_tags(Reading* r) noexcept nogil:
    """Past the end of something flexible, which must have no tagged fields."""
    if r.flexible and taken(r, 1)[0]:
        r.failed = True


cdef void past_request_header(Reading* r) noexcept nogil:
    """From the length of the client id to the body."""
    taken(r, max(int16_at(taken(r, 2)), 0))
    past_no_tags(r)


cdef struct Span:
    Py_ssize_t at, size


cdef struct Sole:
    # The only topic and partition that a message speaks of, up to the records.
    Span topic
    int index
    long long length
    Py_ssize_t records_at


cdef Span text_at(Reading* r) noexcept nogil:
    """Where a string is; its size -1 for null."""
    cdef long long length = length_at(r, 2)
    if length >= 0:
        taken(r, length)
    return Span(r.at - max(length, 0), length)


cdef Span sole_topic_at(Reading* r, bint by_id) noexcept nogil:
    """Name or id of the only topic, up to its only partition."""
    cdef Span topic
    if length_at(r, 4) != 1:
        r.failed = True
    if by_id:
        taken(r, 16)
        topic = Span(r.at - 16, 16)
    else:
        topic = text_at(r)
    if length_at(r, 4) != 1:
        r.failed = True
    return topic


cdef bint ends_with(Reading* r, Sole* sole, long long total) noexcept nogil:
    """Whether records follow, and behind them nothing but ends without tagged fields."""
    sole.length = length_at(r, 4)
    sole.records_at = r.at
    return not r.failed and r.at + max(sole.length, 0) + 3 * r.flexible == total


cdef object text_of(bytes data, Span text):
    return None if text.size < 0 else data[text.at : text.at + text.size].decode("utf-8", "surrogateescape")


cdef tuple topic_of(bytes data, Span topic, bint by_id):
    """Name and id."""
    return (None, data[topic.at : topic.at + topic.size]) if by_id else (text_of(data, topic), None)


cdef class Begun:
    """`notleader.proxy.capture.skim.Begun`."""

    cdef readonly Py_ssize_t records_at
    cdef readonly long long length
    cdef readonly tuple partition, rest

    def with_records(self, records):
        told = loaded("notleader.proxy.capture.skim", "Skimmed")
        return told([(*self.partition, None, None, records)], *self.rest)

    def one_batch(self, bytes start not None):
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(start) + self.records_at
        if self.length < BATCH or PyBytes_GET_SIZE(start) < self.records_at + BATCH:
            return None
        if batch_bytes(p) != self.length:
            return None
        return self.with_records(batches_like(p, int32_at(p + 57), self.length))


cdef Begun begun(Sole* sole, tuple partition, tuple rest):
    cdef Begun it = Begun.__new__(Begun)
    it.records_at, it.length, it.partition, it.rest = sole.records_at, sole.length, partition, rest
    return it


cdef bint produce_begun(
    int version, Bytes start, Py_ssize_t end, long long total, Sole* sole, Span* transactional_id, int* acks
) noexcept nogil:
    """Whether a Produce is for one partition, without any tagged field."""
    cdef Reading r = Reading(start, 8, end, version >= 9, False)
    if not 0 <= version <= HIGHEST_PRODUCE:
        return False
    past_request_header(&r)
    transactional_id[0] = text_at(&r) if version >= 3 else Span(0, -1)
    acks[0] = int16_at(taken(&r, 6))
    sole.topic = sole_topic_at(&r, version >= 13)
    sole.index = int32_at(taken(&r, 4))
    return ends_with(&r, sole, total)


def request_begun(int version, bytes start not None, long long total):
    """`notleader.proxy.capture.skim.request_begun`."""
    cdef Span transactional_id
    cdef Sole sole
    cdef int acks
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(start)
    if not produce_begun(version, p, PyBytes_GET_SIZE(start), total, &sole, &transactional_id, &acks):
        return None
    partition = (*topic_of(start, sole.topic, version >= 13), sole.index, None)
    return begun(&sole, partition, (text_of(start, transactional_id), acks, 0, None))


cdef bint answer_begun(
    int version, Bytes start, Py_ssize_t end, long long total, Sole* sole, int* throttle, int* error, int* code
) noexcept nogil:
    """Whether a Fetch answer is for one partition, without aborted transactions and without any tagged field."""
    return fetch_answered(version, start, end, total, sole, throttle, error, code) == 1


cdef int fetch_answered(
    int version, Bytes start, Py_ssize_t end, long long total, Sole* sole, int* throttle, int* error, int* code
) noexcept nogil:
    """How many partitions a Fetch answer is for: none, or 1 as `answer_begun` means it; -1 for others."""
    cdef Reading r = Reading(start, 4, end, version >= 12, False)
    cdef Reading ahead
    cdef Bytes p
    if not 0 <= version <= HIGHEST_FETCH:
        return -1
    past_no_tags(&r)
    throttle[0] = int32_at(taken(&r, 4)) if version >= 1 else 0
    error[0] = int16_at(taken(&r, 6)) if version >= 7 else 0
    ahead = r
    if length_at(&ahead, 4) <= 0 and not ahead.failed:
        return 0
    sole.topic = sole_topic_at(&r, version >= 13)
    p = taken(&r, 14 + 8 * (version >= 4) + 8 * (version >= 5))
    sole.index, code[0] = int32_at(p), int16_at(p + 4)
    if version >= 4 and length_at(&r, 4) > 0:
        return -1
    if version >= 11:
        taken(&r, 4)
    return 1 if ends_with(&r, sole, total) else -1


def response_begun(int version, bytes start not None, long long total):
    """`notleader.proxy.capture.skim.response_begun`."""
    cdef Sole sole
    cdef int throttle, error, code
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(start)
    if not answer_begun(version, p, PyBytes_GET_SIZE(start), total, &sole, &throttle, &error, &code):
        return None
    partition = (*topic_of(start, sole.topic, version >= 13), sole.index, code)
    return begun(&sole, partition, (None, None, error or code, throttle if version >= 1 else None))


cdef int fetch_asked(int version, bytes request, Span* topic, int* index, int* epoch) noexcept:
    """How many partitions a Fetch asks for, beside those of its session: none or 1; -1 for more."""
    cdef Reading r = Reading(<Bytes>PyBytes_AS_STRING(request), 8, PyBytes_GET_SIZE(request), version >= 12, False)
    cdef Reading ahead
    cdef Bytes p
    if not 0 <= version <= HIGHEST_FETCH:
        return -1
    past_request_header(&r)
    taken(&r, (12 if version < 15 else 8) + 4 * (version >= 3) + (version >= 4) + 8 * (version >= 7))
    ahead = r
    if length_at(&ahead, 4) <= 0 and not ahead.failed:
        return 0
    topic[0] = sole_topic_at(&r, version >= 13)
    p = taken(&r, 16 + 4 * (version >= 9) + 4 * (version >= 12) + 8 * (version >= 5))
    index[0], epoch[0] = int32_at(p), int32_at(p + 4) if version >= 9 else 0
    past_no_tags(&r)
    past_no_tags(&r)
    return -1 if r.failed else 1


cdef class Walk:
    """`notleader.proxy.capture.skim.Walk`."""

    cdef readonly long long left
    cdef long long _length, _count
    cdef bint _begun
    cdef unsigned char[BATCH] _first

    def __init__(self, long long length):
        self.left = self._length = length

    def over(self, const unsigned char[::1] part not None, Py_ssize_t position, Py_ssize_t end):
        cdef Py_ssize_t found = position if position >= end else self.go(&part[0], position, end)
        if found < 0:
            raise loaded("notleader.proxy.capture.skim", "NotSkimmedError")
        return found

    cdef Py_ssize_t go(self, Bytes part, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
        """As `over`; -1 for what is laid out otherwise."""
        cdef long long left = self.left, size
        cdef Bytes p
        while left >= BATCH and position + BATCH <= end:
            p = part + position
            size = batch_bytes(p)
            if size < BATCH:
                return -1
            if size > left:
                self.left = 0
                return position + left
            if not self._begun:
                memcpy(self._first, p, BATCH)
                self._begun = True
            self._count += int32_at(p + 57)
            left -= size
            position += size
        if left < BATCH:
            position += left
            left = 0
        self.left = left
        return position

    def told(self):
        return batches_like(self._first if self._begun else NULL, self._count, self._length)


cdef class Passing:
    """`notleader.proxy.capture.passing.Passing`."""

    cdef public bytes head
    cdef public long long skip

    def __cinit__(self):
        self.head = b""


cdef long long ALL = 1 << 62


cdef class Records(Passing):
    """A Produce for one partition, or the answer to such a Fetch: its batches are looked at without a step of Python."""

    cdef bint _asks, _ended
    cdef int _version, _have
    cdef long long _total
    cdef bytes _start  # up to the header of the first batch
    cdef Walk _walk
    cdef object _skimmed
    cdef unsigned char[BATCH] _batch

    cdef bint begin(self, int version, bytes data, Py_ssize_t start, Py_ssize_t stop, long long total, bint asks) except -1:
        """Take what is here of a frame; False where it is laid out otherwise."""
        cdef Sole sole
        cdef Span transactional_id
        cdef int throttle, error, code
        cdef Bytes p = <Bytes>PyBytes_AS_STRING(data) + start
        cdef Py_ssize_t here = stop - start
        cdef bint alone
        if not (
            produce_begun(version, p, here, total, &sole, &transactional_id, &code)
            if asks
            else answer_begun(version, p, here, total, &sole, &throttle, &error, &code)
        ):
            return False
        self._asks, self._version, self._total = asks, version, total
        self._start = data[start : start + min(here, sole.records_at + BATCH)]
        if asks:
            self.head = data[start : start + min(here, KEPT_HEAD + max(int16_at(p + 8), 0))]
        self._walk = Walk(max(sole.length, 0))
        p += sole.records_at
        here -= sole.records_at
        alone = here >= BATCH and batch_bytes(p) == sole.length
        self.read(p, BATCH if alone else here)
        # All is told of a single batch as soon as its header is here, and of no records.
        if self._walk is not None and self._walk.left == 0 and (alone or self.skip == 0):
            self.end()
        return True

    cdef void end(self) noexcept:
        self._ended = True
        self.skip = ALL

    @property
    def skimmed(self):
        cdef Begun begun
        if self._skimmed is None and self._ended and self._walk is not None:
            begun = (request_begun if self._asks else response_begun)(self._version, self._start, self._total)
            self._skimmed = begun.with_records(None if begun.length < 0 else self._walk.told())
        return self._skimmed

    def feed(self, const unsigned char[::1] part not None):
        if part.shape[0]:
            self.read(&part[0], part.shape[0])

    cdef void read(self, Bytes p, Py_ssize_t end) noexcept:
        cdef Py_ssize_t position = 0, step, found = 0
        while not self._ended and position < end:
            if self.skip:
                step = min(self.skip, end - position)
                self.skip -= step
                position += step
            elif self._have or end - position < BATCH <= self._walk.left:
                step = min(BATCH - self._have, end - position)
                memcpy(self._batch + self._have, p + position, step)
                self._have += step
                position += step
                if self._have == BATCH:
                    self._have = 0
                    found = self._walk.go(self._batch, 0, BATCH)
                    self.skip = max(found - BATCH, 0)
            else:
                found = self._walk.go(p, position, end)
                self.skip = max(found - end, 0)
                position = min(found, end)
            if found < 0:
                self._walk = None  # an older format, or none
                self.end()
            elif self._walk.left == 0 and self.skip == 0:
                self.end()


cdef object batches_like(Bytes first, long long count, long long length):
    cdef object told = loaded("notleader.proxy.capture.skim", "Batches")
    if first == NULL:
        return told(0, length)
    compression = loaded("notleader.proxy.capture.skim", "COMPRESSIONS")[first[22] & 7]
    return told(
        count, length, int64_at(first + 43), int16_at(first + 51), int32_at(first + 53), compression, int64_at(first)
    )


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
