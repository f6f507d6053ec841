# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""`interpreter`, compiled: see ``notleader.proxy.wire.probe`` for what a program is."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from notleader.proxy.wire import probe as _probe

cdef enum:
    # `wire.probe.Op`; a test holds the two together.
    END = 0
    SKIP = 1
    FIXED = 2
    UUID = 3
    TEXT = 4
    CTEXT = 5
    PAST2 = 6
    PAST4 = 7
    CPAST = 8
    EACH = 9
    CEACH = 10
    NEXT = 11
    MAYBE = 12
    TAGS = 13
    FIND = 14
    RECORDS = 15
    CRECORDS = 16
    ROW = 17
    ARRAY = 18
    CARRAY = 19
    NO_NULL = 0x40
    FRAME_FROM = 16
    KIND = 5  # bits of a place, below its kind
    MOST_TEXT = 0x7FFF
    BATCH = 61  # bytes of a record batch before its records
    BEFORE_MAGIC = 16
    LEADER = 8  # bytes of a leader's id and epoch

cdef long long NOTHING = _probe.NOTHING
cdef long long ALL = 1 << 62
cdef Py_ssize_t MOST_ROWS = _probe.MOST_ROWS
cdef Py_ssize_t MOST_TEXT_BYTES = _probe.MOST_TEXT_BYTES


cdef long long[ROW_PLACES] EMPTY
for _place in range(ROW_PLACES):
    EMPTY[_place] = NOTHING


# Of each op how many bytes a length takes; 0 where it is compact.
cdef int[CARRAY + 1] LENGTHS
LENGTHS[TEXT] = LENGTHS[PAST2] = 2
LENGTHS[PAST4] = LENGTHS[EACH] = LENGTHS[ARRAY] = 4


cdef inline int int16_at(Bytes p) noexcept nogil:
    return <short>((p[0] << 8) | p[1])


cdef inline int int32_at(Bytes p) noexcept nogil:
    return <int>((<unsigned int>p[0] << 24) | (p[1] << 16) | (p[2] << 8) | p[3])


cdef inline long long int64_at(Bytes p) noexcept nogil:
    return <long long>((<unsigned long long><unsigned int>int32_at(p) << 32) | <unsigned int>int32_at(p + 4))


cdef inline long long number_at(Bytes p, int kind) noexcept nogil:
    """A number of ``2**kind`` bytes."""
    if kind == 2:
        return int32_at(p)
    if kind == 3:
        return int64_at(p)
    return int16_at(p) if kind == 1 else <signed char>p[0]


cdef inline int uvarint(Bytes p, Py_ssize_t here, long long* value) noexcept nogil:
    """How many bytes it takes; 0 where it isn't all here, -1 for more than five bytes, -2 for more than 32 bits."""
    cdef int used = 0, shift = 0
    cdef unsigned long long found = 0
    while used < here:
        found |= <unsigned long long>(p[used] & 0x7F) << shift
        used += 1
        if p[used - 1] < 0x80:
            value[0] = <long long>found
            return used if found <= 0xFFFFFFFFu else -2
        shift += 7
        if shift > 28:
            return -1
    return 0


cdef inline int length_at(Bytes p, Py_ssize_t here, int plain, long long* length) noexcept nogil:
    """How many bytes a length takes, which has so many or (0) is compact; 0 where it isn't all here, less for odd ones."""
    cdef int used
    if plain:
        if here < plain:
            return 0
        length[0] = int16_at(p) if plain == 2 else int32_at(p)
        return plain
    if here > 0 and p[0] < 0x80:
        length[0] = p[0] - 1
        return 1
    used = uvarint(p, here, length)
    length[0] -= 1
    return used


cdef class Probe:
    def __cinit__(self):
        self.head = b""

    def __init__(self, bytes program not None, long long total):
        self.begin(program, total)

    def __dealloc__(self):
        free(self._carry)
        free(self.numbers)
        free(self.texts)

    def reset(self, bytes program not None, long long total):
        self.begin(program, total)

    cdef int begin(self, bytes program, long long total) except -1:
        self._owner = program
        self._program = <Bytes><const char*>program
        self._pc = self._depth = 0
        self._have = self._need = 0
        self._records_left = self._tags_left = self._tag = -1
        self.count = self.text_bytes = 0
        self.total, self.fed, self.skip = total, 0, 0
        self.ended = self.odd = False
        self._reason = NULL
        memcpy(self.places, EMPTY, FRAME_PLACES * sizeof(long long))
        return 0

    @property
    def broken(self):
        return None if self._reason == NULL else self._reason.decode()

    @property
    def frame(self):
        return [self.places[place] for place in range(FRAME_PLACES)]

    @property
    def rows(self):
        return memoryview((<char*>self.numbers)[: self.count * ROW_PLACES * 8] if self.count else b"").cast("q")

    @property
    def row_count(self):
        return self.count

    @property
    def text(self):
        return self.texts[: self.text_bytes] if self.text_bytes else b""

    @property
    def is_good(self):
        return self.good()

    cdef bint good(self) noexcept:
        return self.ended and self._reason == NULL and not self.odd

    def pass_over(self, long long size):
        self.skip -= size
        self.fed += size

    def feed(self, const unsigned char[::1] chunk not None, Py_ssize_t start=0, stop=None):
        cdef Py_ssize_t end = chunk.shape[0] if stop is None else stop
        if not 0 <= start <= end <= chunk.shape[0]:
            raise IndexError
        if end > start:
            self.read(&chunk[0] + start, end - start)
        else:
            self.read(NULL, 0)

    cdef void _break(self, const char* reason) noexcept:
        self._reason = reason
        self.ended = True
        self.skip = ALL

    cdef void _lacks(self, int used, Py_ssize_t here, int plain) noexcept:
        """A length isn't there: more bytes are needed, or none will do."""
        if used < 0:
            self._break(odd_varint(used))
        else:
            self._need = plain if plain else here + 1

    cdef int read_piece(self, piece) except -1:
        """`read` of an object that has a buffer."""
        cdef Py_buffer view
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            self.read(<Bytes>view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int read(self, Bytes chunk, Py_ssize_t size) except -1:
        """Take the next bytes of the frame."""
        cdef long long before = self.fed
        cdef Py_ssize_t at = 0, used, step
        self.fed += size
        while not self.ended:
            if self.skip:
                step = <Py_ssize_t>min(self.skip, <long long>(size - at))
                self.skip -= step
                at += step
                if self.skip:
                    break
            if self._have:
                step = min(self._need - self._have, size - at)
                if step:
                    if self._carry_room < self._need:
                        self._carry = <unsigned char*>resized(self._carry, &self._carry_room, self._need)
                    memcpy(self._carry + self._have, chunk + at, step)
                    self._have += step
                    at += step
                if self._have < self._need:
                    break
                used = 0
                self._run(self._carry, &used, self._have, before + at - self._have)
                self._have -= used
                if self._have:
                    memmove(self._carry, self._carry + used, self._have)
                continue
            self._run(chunk, &at, size, before)
            if not self.ended and not self.skip:
                if at < size:
                    self._have = size - at
                    if self._carry_room < self._have:
                        self._carry = <unsigned char*>resized(self._carry, &self._carry_room, max(self._have, 64))
                    memcpy(self._carry, chunk + at, self._have)
                break
        if not self.ended and self.fed >= self.total:
            self._break(b"ends too early")
        return 0

    cdef int _make_room(self) except -1:
        """For more rows, up to those that anybody sends."""
        cdef Py_ssize_t size, room = min(max(2 * self._rows_room, 32), MOST_ROWS)
        if room == self._rows_room:
            self.odd = True
        else:
            self.numbers = <long long*>resized(self.numbers, &size, room * ROW_PLACES * sizeof(long long))
            self._rows_room = room
        return 0

    cdef long long _keep(self, Bytes text, Py_ssize_t size) except -1:
        cdef Py_ssize_t at = self.text_bytes
        if at + size > MOST_TEXT_BYTES:
            self.odd = True
            return 0
        if at + size > self._text_room:
            self.texts = <char*>resized(self.texts, &self._text_room, max(2 * self._text_room, at + size + 64))
        memcpy(self.texts + at, text, size)
        self.text_bytes += size
        return at

    cdef int _run(self, Bytes p, Py_ssize_t* at_, Py_ssize_t end, long long before) except -1:
        """Take all steps for which the bytes are here. ``before`` is where in the frame the first of these is."""
        cdef Bytes pc = self._program + self._pc
        cdef Bytes here, behind_numbers
        cdef long long* row = self.numbers + (self.count - 1) * ROW_PLACES if self.count else NULL
        cdef long long* loop = &self._loops[self._depth]
        cdef long long* to
        cdef long long length, size, value, total = self.total - before, tags_left = self._tags_left
        cdef Py_ssize_t at = at_[0], behind
        cdef int op, used, place, plain
        while True:
            op = pc[0] & ~NO_NULL
            # What there is most of comes first. (Built without jump tables: what comes next is foreseen from branches.)
            if op == FIXED:
                size = pc[1]
                if end - at < size:
                    self._need = size
                    break
                here = p + at
                behind_numbers = pc + 3 + 2 * pc[2]
                pc += 3
                while pc != behind_numbers:
                    place = pc[1] & (1 << KIND) - 1
                    to = row + place if place < FRAME_FROM else &self.places[place - FRAME_FROM]
                    to[0] = number_at(here + pc[0], pc[1] >> KIND)
                    pc += 2
                at += size
                continue
            elif op == ROW:
                if self.count == self._rows_room:
                    self._make_room()
                if self.count < self._rows_room:
                    row = self.numbers + self.count * ROW_PLACES
                    self.count += 1
                    memcpy(row, &self.places[0] if pc[1] else &EMPTY[0], 4 * sizeof(long long))
                    memcpy(row + 4, EMPTY, (ROW_PLACES - 4) * sizeof(long long))
                pc += 2
                continue
            elif op == NEXT:
                loop[0] -= 1
                if loop[0] > 0:
                    pc -= pc[1]
                else:
                    loop -= 1
                    pc += 2
                continue
            elif op == TAGS or op == FIND:
                if tags_left < 0 and at < end and p[at] == 0:  # nearly always
                    at += 1
                    pc += 3 if op == FIND else 1
                    continue
                used = uvarint(p + at, end - at, &value)
                if used <= 0:
                    self._lacks(used, end - at, 0)
                    break
                size = 0
                if tags_left < 0:
                    tags_left = value
                    if value > 1 << 16:
                        self._break(b"too many tagged fields in one place")
                        break
                elif self._tag < 0:
                    if op == FIND and value == pc[1] and pc[2] >= FRAME_FROM:
                        if used > 1:
                            self._break(b"a varint is longer than it has to be")
                            break
                        self.places[pc[2] - FRAME_FROM] = before + at
                    self._tag = value
                else:
                    size = value
                    if op == FIND and self._tag == pc[1] and pc[2] < FRAME_FROM and size >= LEADER <= total - at - used:
                        if end - at - used < LEADER:
                            self._need = used + LEADER
                            break
                        if int32_at(p + at + used + 4) >= 0:
                            row[pc[2]] = int32_at(p + at + used + 4)
                    self._tag = -1
                    tags_left -= 1
                    if size > total - at - used:
                        self._break(b"ends too early")
                        break
                at += used
                if tags_left == 0 and self._tag < 0:
                    tags_left = -1
                    pc += 3 if op == FIND else 1
            elif op == SKIP:
                size = pc[1]
                pc += 2
            elif op == UUID:
                if end - at < 16:
                    self._need = 16
                    break
                place = pc[1]
                to = row + place if place < FRAME_FROM else &self.places[place - FRAME_FROM]
                to[0] = self._keep(p + at, 16)
                at += 16
                pc += 2
                continue
            elif op == MAYBE:
                if end - at < 1:
                    self._need = 1
                    break
                pc += 2 + (pc[1] if p[at] >= 0x80 else 0)
                at += 1
                continue
            elif op == END:
                self.ended = True
                self.skip = ALL
                break
            elif op == RECORDS or op == CRECORDS:
                if self._records_left < 0:
                    plain = 0 if op == CRECORDS else 4
                    used = length_at(p + at, end - at, plain, &length)
                    if used <= 0:
                        self._lacks(used, end - at, plain)
                        break
                    if length < 0:
                        if pc[0] & NO_NULL:
                            self._break(b"a field is null that may not be")
                            break
                        at += used
                        pc += 1
                        continue
                    at += used
                    if length > total - at:
                        self._break(b"ends too early")
                        break
                    row[RECORDS_BYTES], row[RECORD_COUNT] = length, 0
                    self._records_left, self._seen = length, False
                # On to the next batch, or behind the last one.
                size = self._records_left
                if size > BEFORE_MAGIC:
                    if end - at <= BEFORE_MAGIC:
                        self._need = BEFORE_MAGIC + 1
                        break
                    here = p + at
                    length = <long long>int32_at(here + 8) + 12
                    if here[BEFORE_MAGIC] != 2 or length < BATCH:
                        self.odd = True  # an older format, or none
                    elif length <= size:
                        if end - at < BATCH:
                            self._need = BATCH
                            break
                        row[RECORD_COUNT] += int32_at(here + 57)
                        if not self._seen:
                            self._seen = True
                            row[FIRST_OFFSET] = int64_at(here)
                            row[ATTRIBUTES] = int16_at(here + 21)
                            row[PRODUCER_ID] = int64_at(here + 43)
                            row[PRODUCER_EPOCH] = int16_at(here + 51)
                            row[BASE_SEQUENCE] = int32_at(here + 53)
                        size = length
                        self._records_left -= length
                        if self._records_left == 0:
                            self._records_left = -1
                            pc += 1
                        if size <= end - at:
                            at += size
                            continue
                        self.skip = size - (end - at)
                        at = end
                        break
                    # else it is cut off at the end
                self._records_left = -1
                pc += 1
            else:
                # The length of a string, an array or records; -1 for null.
                plain = LENGTHS[op]
                used = length_at(p + at, end - at, plain, &length)
                if used <= 0:
                    self._lacks(used, end - at, plain)
                    break
                if length < 0 and pc[0] & NO_NULL:
                    self._break(b"a field is null that may not be")
                    break
                behind = at + used
                if op == EACH or op == CEACH:
                    # An element takes a byte at least: a count beyond that is nonsense, not a reason to loop.
                    if length > total - behind:
                        self._break(b"an array counts more elements than its frame has room for")
                        break
                    if length > 0:
                        loop += 1
                        loop[0] = length
                        pc += 2
                    else:
                        pc += 2 + pc[1]
                    at = behind
                    continue
                if op == ARRAY or op == CARRAY:
                    length *= pc[1]
                if length > total - behind:
                    self._break(b"ends too early")
                    break
                size = max(length, 0)
                if op == TEXT or op == CTEXT:
                    if length <= MOST_TEXT:
                        if end - behind < size:
                            self._need = used + size
                            break
                        place = pc[1]
                        to = row + place if place < FRAME_FROM else &self.places[place - FRAME_FROM]
                        to[0] = self._keep(p + behind, size)
                        to[1] = max(length, -1)
                        at = behind + size
                        pc += 2
                        continue
                    self.odd = True
                at = behind
                pc += 1 if PAST2 <= op <= CPAST else 2
            # Past what tells nothing, of which some may be still to come.
            if size > end - at:
                self.skip = size - (end - at)
                at = end
                break
            at += size
        self._pc = pc - self._program
        self._depth = <int>(loop - self._loops)
        self._tags_left = tags_left
        at_[0] = at
        return 0


cdef const char* odd_varint(int why) noexcept:
    return b"a varint runs over five bytes" if why == -1 else b"a varint does not fit 32 bits"


cdef void* resized(void* memory, Py_ssize_t* room, Py_ssize_t size) except NULL:
    cdef void* found = realloc(memory, size)
    if found == NULL:
        raise MemoryError
    room[0] = size
    return found
