# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""Finished exchanges into a block of numbers, a fraction of a microsecond each; and `sink`, compiled.

Most traffic is the same few shapes over and over: heartbeats differ in their correlation ids, produces in sequences
and offsets. What they have in common is looked up in caches; what is new is put into the block's tables by
`notleader.proxy.record.blocks`, which makes one of these and asks it for what it took.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from collections import defaultdict

from notleader.proxy.record.sink import no_latencies

from notleader.proxy.pump.probe cimport (
    ACKS,
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
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
from notleader.proxy.pump.pump cimport Exchange, api_number

cdef extern from *:
    int __builtin_clzll(unsigned long long)

ctypedef const unsigned char* Bytes

cdef enum:
    FETCH = 1
    MOST_RECORDS = 0x7FFFFFFF
    SHORT = 512  # bytes of request and answer together
    MOST_SHORT = 4096
    # The most bytes that an exchange and one of its partitions take.
    ROW = 110
    PART = 50

cdef long long ALL_TOLD = -1
cdef long long NO_OFFSET = <long long>-0x7FFFFFFFFFFFFFFF - 1
cdef object ANSWERED = "answered"

cdef struct Part:
    long long base_offset, template, base_sequence, count, size

cdef struct Last:
    # What is known of a template in the block at hand.
    long long block, base_offset, base_sequence, count, size


# ---- where every finished exchange comes by --------------------------------------------------------


@cython.final
cdef class Traffic:
    """`sink.Traffic`."""

    cdef public long long client_bytes, broker_bytes
    cdef public object latency_us, latency_sum_us, unanswered

    def __init__(self):
        self.latency_us, self.latency_sum_us, self.unanswered = defaultdict(no_latencies), defaultdict(int), defaultdict(int)

    cpdef count(self, Exchange exchange):
        if exchange.forwarded_at_us:
            self.broker_bytes += exchange.request_bytes
        self.client_bytes += exchange.response_bytes
        if exchange.response_at_us:
            self.answered(exchange.api_key, exchange.response_at_us - exchange.request_at_us)
        else:
            self.unanswered[exchange.api_key] += 1

    cpdef answered(self, int api_key, long long latency_us):
        cdef list slots = self.latency_us[api_key]
        if latency_us < 0:
            latency_us = 0
        slots[64 - __builtin_clzll(latency_us) if latency_us else 0] += 1
        self.latency_sum_us[api_key] += latency_us


@cython.final
cdef class ExchangeSink:
    """`sink.ExchangeSink`."""

    cdef readonly Traffic traffic
    cdef public BlockWriter blocks
    cdef public object capture
    cdef public bint is_awake
    cdef object _notice

    def __init__(self, Traffic traffic not None, notice):
        self.traffic, self._notice = traffic, notice

    def record(self, entry):
        self.take(entry)

    def record_all(self, list exchanges not None):
        for exchange in exchanges:
            self.take(exchange)

    cdef int take(self, entry) except -1:
        cdef bint is_exchange = type(entry) is Exchange
        cdef object capture
        if is_exchange:
            self.traffic.count(<Exchange>entry)
        if (
            not is_exchange
            or (<Exchange>entry).hits
            or (<Exchange>entry).error_code
            or self.capture is not None
            and not self.is_awake
        ):
            self._notice(entry)
        capture = self.capture
        if capture is not None and (self.blocks is None or not is_exchange or not self.blocks.has_taken(<Exchange>entry)):
            capture(entry)
        return 0


# ---- a block of numbers ----------------------------------------------------------------------------


cdef bytes short_key(int api, bytes request, bytes response):
    """What an exchange of short frames (without their lengths) asked and answered, whatever its correlation id."""
    cdef Py_ssize_t asked = max(PyBytes_GET_SIZE(request) - 8, 0), answered = max(PyBytes_GET_SIZE(response) - 4, 0)
    cdef bytes key = PyBytes_FromStringAndSize(NULL, 6 + asked + answered)
    cdef unsigned char* p = <unsigned char*>PyBytes_AS_STRING(key)
    p[0], p[1], p[2], p[3] = api >> 24 & 0xFF, api >> 16 & 0xFF, api >> 8 & 0xFF, api & 0xFF
    p[4], p[5] = asked >> 8 & 0xFF, asked & 0xFF
    memcpy(p + 6, PyBytes_AS_STRING(request) + 8, asked)
    memcpy(p + 6 + asked, PyBytes_AS_STRING(response) + 4, answered)
    return key


cdef inline unsigned long long since(long long at_us, long long request_at_us) noexcept:
    """How a time is packed; 0 for never."""
    return at_us - request_at_us + 1 if at_us else 0


cdef inline bint fits(long long at_us, long long request_at_us) noexcept:
    """Whether a time comes after its request."""
    return at_us == 0 or at_us >= request_at_us


@cython.final
cdef class CachedClient:
    """Whom a connection was last told of as: the place of a Who in the tables of a generation."""

    cdef object client_id, principal
    cdef long long generation, place


@cython.final
cdef class Places:
    """Which places of a table were pointed to in the block at hand."""

    cdef long long* _blocks  # by place: of which one it was pointed to last
    cdef Py_ssize_t _room
    cdef list used

    def __dealloc__(self):
        free(self._blocks)

    cdef int add(self, long long place, long long block) except -1:
        if place >= self._room:
            self._blocks = <long long*>grown(self._blocks, &self._room, place, sizeof(long long))
        if self._blocks[place] != block:
            self._blocks[place] = block
            self.used.append(place)
        return 0


@cython.final
cdef class BlockWriter:
    """Takes exchanges into the block that `begin` gave it; ``lookups`` is its `blocks.Blocks`.

    journal.md says how numbers are packed.
    """

    cdef object _lookups, _block
    cdef bint _reads_bodies
    cdef tuple _compressions
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t _parts
    cdef unsigned char* _packed
    cdef Py_ssize_t _end, _room
    cdef long long _generation, _number, _first_us, _last_us, _before_us, _template
    cdef Places _whos, _whats
    cdef Last* _lasts  # by template
    cdef Py_ssize_t _lasts_room
    cdef dict _plain  # outcome → API and version → place of what
    cdef dict _short  # `short_key` → what
    # What was looked up last.
    cdef object _seen_outcome
    cdef int _seen_api
    cdef long long _seen_place
    # Produce and Fetch: see `_probed`.
    cdef dict _programs_of
    cdef tuple _programs  # of what was looked up last
    cdef int _programs_api
    cdef Probe _asked, _answered
    cdef Caches _caches

    def __init__(self, lookups, bint reads_bodies, tuple compressions not None):
        self._lookups, self._reads_bodies, self._compressions = lookups, reads_bodies, compressions
        self._programs_of, self._programs_api = {}, -1
        self._whos, self._whats = Places(), Places()
        self._asked, self._answered = Probe(b"\0", 0), Probe(b"\0", 0)
        if reads_bodies:
            self._caches = Caches()

    def begin(self, block, long long generation):
        """Take into this block from now on; of another generation of tables nothing is known."""
        self._block = block
        self._whos.used, self._whats.used, _ = block.used
        self._number += 1
        self._end = self.rows = self._parts = self._template = 0
        self._first_us = self._last_us = self._before_us = 0
        if generation != self._generation:
            self._generation = generation
            self._plain, self._short, self._seen_api = {}, {}, -1
            if self._caches is not None:
                self._caches.clear()

    def end(self):
        """The block, with all that was taken."""
        block = self._block
        block.numbers = PyBytes_FromStringAndSize(<char*>self._packed, self._end)
        block.rows, block.parts = self.rows, self._parts
        block.first_us, block.last_us = self._first_us, self._last_us
        return block

    def __dealloc__(self):
        free(self._packed)
        free(self._lasts)

    def remember(self, int api, bytes request not None, bytes response not None, what):
        """Short frames that ask and answer this are of this `block.Summary`; False where they aren't short."""
        if PyBytes_GET_SIZE(request) + PyBytes_GET_SIZE(response) > SHORT:
            return False
        self._short[short_key(api, request, response)] = what
        return True

    def forget(self):
        """Nothing of what was remembered holds any more."""
        self._short.clear()

    @property
    def is_full(self):
        """Whether more is remembered than is good."""
        return len(self._short) > MOST_SHORT

    def take(self, entry):
        """Put an exchange into the block; False when it has to be read in full, or is an event."""
        return type(entry) is Exchange and self.has_taken(<Exchange>entry)

    cdef bint has_taken(self, Exchange exchange) except -1:
        cdef object connection, known
        cdef CachedClient client
        cdef int api_key, api
        cdef long long what, who, request_at_us, responded
        cdef Py_ssize_t count = ALL_TOLD
        cdef Bytes to
        if exchange.hits or not (
            fits(exchange.forwarded_at_us, exchange.request_at_us)
            and fits(exchange.broker_responded_at_us, exchange.request_at_us)
            and fits(exchange.response_at_us, exchange.request_at_us)
            and exchange.request_bytes >= 0
            and exchange.response_bytes >= 0
        ):
            return False
        api_key = exchange.api_key
        api = api_number(api_key, exchange.api_version)
        if not self._reads_bodies or (exchange.request_in is None and exchange._request is None):
            if exchange.outcome is not self._seen_outcome or api != self._seen_api:
                self._seen_place = self._header_only(exchange, api)
                self._seen_outcome, self._seen_api = exchange.outcome, api
            what = self._seen_place
        elif api_key == FETCH or api_key == 0:
            count = self._probed(exchange, &what)
            if count < 0:
                return False
        else:
            known = self._known(exchange, api)
            if known is None:
                return False
            if known.index < 0:
                self._lookups.put(known)
            what = known.index
            self._block.told += known.told
        connection = exchange.connection
        known = connection.known
        if (
            type(known) is not CachedClient
            or (<CachedClient>known).generation != self._generation
            or (<CachedClient>known).client_id is not exchange.client_id
            or (<CachedClient>known).principal is not connection.principal
            or api_key == 18  # ApiVersions, where a client tells its software's name
        ):
            client = CachedClient.__new__(CachedClient)
            client.generation, client.place = self._generation, self._lookups.who(exchange)
            client.client_id, client.principal = exchange.client_id, connection.principal
            connection.known = known = client
        who = (<CachedClient>known).place
        self._whos.add(who, self._number)
        self._whats.add(what, self._number)
        request_at_us = exchange.request_at_us
        if not self.rows:
            self._first_us = self._last_us = request_at_us
        to = self._with_room(count)
        to = signed(signed(varint(varint(to, who), what), exchange.seq), difference(exchange.correlation_id, exchange.seq))
        to = signed(to, difference(request_at_us, self._before_us))
        self._before_us = request_at_us
        self._first_us, self._last_us = min(self._first_us, request_at_us), max(self._last_us, request_at_us)
        responded = since(exchange.broker_responded_at_us, request_at_us)
        to = varint(varint(to, since(exchange.forwarded_at_us, request_at_us)), responded)
        to = signed(to, <long long>since(exchange.response_at_us, request_at_us) - responded)
        to = varint(varint(varint(to, exchange.request_bytes), exchange.response_bytes), count + 1)
        if count > 0:
            to = self._put_parts(to, self._caches.packed, count)
        self._end = to - self._packed
        self.rows += 1
        return True

    cdef Bytes _with_room(self, Py_ssize_t parts) except NULL:
        """Where the next exchange begins."""
        cdef Py_ssize_t needed = self._end + ROW + max(parts, 0) * PART
        if needed > self._room:
            self._packed = <unsigned char*>grown(self._packed, &self._room, needed, 1)
        return self._packed + self._end

    cdef Bytes _put_parts(self, Bytes to, Part* part, Py_ssize_t count) except NULL:
        """What differs from what was to be expected of each."""
        cdef Py_ssize_t number
        cdef Last* last
        cdef unsigned long long head
        cdef long long sequence, offset
        for number in range(count):
            if part.template >= self._lasts_room:
                self._lasts = <Last*>grown(self._lasts, &self._lasts_room, part.template, sizeof(Last))
            last = &self._lasts[part.template]
            if last.block != self._number:
                last.block = self._number
                last.base_sequence = last.base_offset = last.count = last.size = 0
                self._block.used[2].append(part.template)
            sequence = last.base_sequence if last.base_sequence < 0 else total(last.base_sequence, last.count)
            offset = last.base_offset if last.base_offset < 0 else total(last.base_offset, last.count)
            head = zigzag(part.template - self._template) << 1
            self._template = part.template
            if part.base_sequence == sequence and part.base_offset == offset and part.count == last.count and part.size == last.size:
                to = varint(to, head)
            else:
                to = signed(varint(to, head | 1), difference(part.base_sequence, sequence))
                to = signed(to, difference(part.count, last.count))
                to = signed(to, difference(part.size, last.size))
                to = signed(to, difference(part.base_offset, offset))
                last.count, last.size = part.count, part.size
            last.base_sequence, last.base_offset = part.base_sequence, part.base_offset
            part += 1
        self._parts += count
        return to

    cdef long long _header_only(self, Exchange exchange, int api) except -1:
        """The place of what is known of exchanges of which nothing was kept but the header."""
        cdef dict plain = self._plain.setdefault(exchange.outcome, {})
        place = plain.get(api)
        if place is None:
            place = plain[api] = self._lookups.what(exchange)
        return place

    cdef object _known(self, Exchange exchange, int api):
        """What an exchange of the same bytes was found to say; of APIs that are not read in passing."""
        cdef bytes request, response
        asked, answered = exchange.request, exchange.response
        if type(asked) is not bytes or type(answered) is not bytes or exchange.outcome != ANSWERED:
            return None
        request, response = asked, answered
        if PyBytes_GET_SIZE(request) + PyBytes_GET_SIZE(response) <= SHORT:
            return self._short.get(short_key(api, request, response))
        return self._lookups.long(api, request, response)

    cdef Py_ssize_t _probed(self, Exchange exchange, long long* what) except -2:
        """How many partitions a Produce or Fetch of the usual kind has, which are `Caches.packed` now; else -1.

        What the probes have found of request and answer is brought together here, and what partitions have in common
        with others is looked up in caches by its numbers.
        """
        cdef int api = api_number(exchange.api_key, exchange.api_version)
        cdef Probe asked, answered = None
        cdef Caches caches = self._caches
        cdef tuple programs
        cdef Py_ssize_t number, count
        cdef long long error = NO_OFFSET
        cdef long long* row
        if len(caches._topics) > MOST_TOPICS:
            caches.clear()
        if api != self._programs_api:
            if api not in self._programs_of:
                self._programs_of[api] = self._lookups.programs(exchange.api_key, exchange.api_version)
            self._programs, self._programs_api = self._programs_of[api], api
        programs = self._programs
        if not programs:
            return -1
        if exchange.request_in is None:
            asked = probed(self._asked, programs[0], exchange._request)
        else:
            asked = probed_in(self._asked, programs[0], exchange.request_in, exchange.request_at, exchange.request_size)
        if asked is None:
            return -1
        if exchange.response_in is not None:
            answered = probed_in(
                self._answered, programs[1], exchange.response_in, exchange.response_at, exchange.response_size
            )
        elif exchange._response is not None:
            answered = probed(self._answered, programs[1], exchange._response)
        if exchange.response_in is not None or exchange._response is not None:
            if answered is None:
                return -1
            error = answered.places[ERROR_CODE]
            if error == NO_OFFSET:
                error = 0
            number = 0
            while error == 0 and number < answered.count:
                row = answered.numbers + number * ROW_PLACES
                if row[ROW_ERROR_CODE] != NO_OFFSET:
                    error = row[ROW_ERROR_CODE]
                number += 1
        count = caches.join(asked, answered, exchange.api_key == 0)
        if count < 0:
            return -1
        for number in range(count):
            if not self._put_part(caches, &caches.joined[number], asked, answered, &caches.packed[number]):
                return -1
        what[0] = self._what_of(caches, exchange, asked, answered, error)
        if error != NO_OFFSET and error:
            self._lookups.count_error(exchange.api_key, error)
        return count

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
        if key.epoch < 0 and last != NULL and last[LEADER_EPOCH] != NO_OFFSET:
            key.epoch = last[LEADER_EPOCH]
        key.producer_id = key.producer_epoch = key.compression = key.error = NO_OFFSET
        part.base_sequence = part.count = part.size = part.base_offset = NO_OFFSET
        if first != NULL and first[RECORDS_BYTES] != NO_OFFSET:
            records = first
        if last != NULL:
            key.error = last[ROW_ERROR_CODE]
            part.base_offset = last[BASE_OFFSET]
            if last[RECORDS_BYTES] != NO_OFFSET:
                records = last
        if records != NULL:
            if not -MOST_RECORDS <= records[RECORD_COUNT] <= MOST_RECORDS:
                return False
            part.count, part.size = records[RECORD_COUNT], records[RECORDS_BYTES]
            if records[ATTRIBUTES] != NO_OFFSET:
                if records[PRODUCER_ID] == NO_OFFSET or records[FIRST_OFFSET] == NO_OFFSET:
                    return False
                key.producer_id, key.producer_epoch, key.compression = records[PRODUCER_ID], records[PRODUCER_EPOCH], records[ATTRIBUTES] & 7
                part.base_sequence = records[BASE_SEQUENCE]
                if records == last:
                    part.base_offset = records[FIRST_OFFSET]
            elif records == last:
                part.base_offset = NO_OFFSET
        at = caches.template(&key)
        if at.place >= 0 and at.nameless_in >= 0 and at.nameless_in != self._number:
            # Metadata may have told its topic's name by now.
            if self._lookups.has_name(topic_of(of_topic, row)[1]):
                at.place = -1
            else:
                at.nameless_in = self._number
        if at.place < 0 or memcmp(&at.key, &key, sizeof(Template)):
            place, is_named = self._lookups.template(
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
            at.key, at.place, at.nameless_in = key, place, -1 if is_named else self._number
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
            and at.api == api_number(exchange.api_key, exchange.api_version)
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
        place = self._lookups.what(exchange, some(error), some(throttle), text, some(asked.places[ACKS]))
        if fits:
            at.api = api_number(exchange.api_key, exchange.api_version)
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
    long long nameless_in  # the block in which its topic had no name yet; -1: it has one

cdef struct WhatAt:
    int api
    long long error, throttle, acks, size, place
    char[TEXT] text

cdef struct Joined:
    # A partition that was asked for, or answered, or both; -1 for neither.
    long long topic
    int index
    Py_ssize_t asked, answered


@cython.final
cdef class Caches:
    """What was looked up before, by its numbers; of the tables of one generation."""

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
        self.clear()

    def __dealloc__(self):
        free(self._templates)

    cdef void clear(self):
        cdef int place
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


cdef Probe probed_in(Probe probe, bytes program, bytes data, Py_ssize_t at, Py_ssize_t size):
    """A probe that has read a frame which lies there; None where that is no use."""
    probe.begin(program, size)
    probe.read(<Bytes>PyBytes_AS_STRING(data) + at, size)
    return probe if probe.good() else None


cdef Probe probed(Probe probe, bytes program, frame):
    """A probe that has read a kept frame, or what stands for one; None where that is no use."""
    cdef Py_ssize_t total = 0
    cdef list pieces
    if type(frame) is bytes:
        return probed_in(probe, program, frame, 0, PyBytes_GET_SIZE(frame))
    elif type(frame) is list or type(frame) is memoryview:
        pieces = frame if type(frame) is list else [frame]
        for piece in pieces:
            total += len(piece)
        probe.begin(program, total)
        for piece in pieces:
            if not probe.ended:
                probe.read_piece(piece)
    else:
        probe = getattr(frame, "probe", None)
    return probe if probe is not None and probe.good() else None


cdef inline unsigned long long zigzag(long long number) noexcept:
    return (<unsigned long long>number << 1) ^ <unsigned long long>(number >> 63)


cdef inline long long difference(long long number, long long other) noexcept:
    """Of 64 bits that wrap."""
    return <long long>(<unsigned long long>number - <unsigned long long>other)


cdef inline long long total(long long number, long long other) noexcept:
    return <long long>(<unsigned long long>number + <unsigned long long>other)


cdef inline Bytes varint(Bytes to, unsigned long long number) noexcept:
    cdef unsigned char* at = <unsigned char*>to
    while number >= 0x80:
        at[0] = <unsigned char>(number | 0x80)
        number >>= 7
        at += 1
    at[0] = <unsigned char>number
    return at + 1


cdef inline Bytes signed(Bytes to, long long number) noexcept:
    return varint(to, zigzag(number))


cdef void* grown(void* memory, Py_ssize_t* room, Py_ssize_t at, size_t size) except NULL:
    """Room beyond ``at`` for elements of this size, the new ones all zeros."""
    cdef Py_ssize_t wanted = max(2 * room[0], at + 1, 4096)
    cdef void* found = realloc(memory, wanted * size)
    if found == NULL:
        raise MemoryError
    memset(<char*>found + room[0] * size, 0, (wanted - room[0]) * size)
    room[0] = wanted
    return found
