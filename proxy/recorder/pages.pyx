# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""Exchanges that are still numbers as what Parquet's pages hold: levels, places in dictionaries, numbers.

Arrow's writer wants each column as an array of values and looks at each of them several times, also where a column says
the same all along, or nothing; of a capture's fifty columns that is most. Here a column is encoded from the numbers of
`notleader.proxy.record.block` as they lie there, and what holds for all rows costs nothing for each of them.
The encodings: https://parquet.apache.org/docs/file-format/data-pages/encodings/.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

ctypedef unsigned char* Bytes

cdef enum:
    # Where a row and a part have what: `notleader.proxy.record.block`.
    ROW = 52
    SEQ = 0
    REQUEST_AT = 8
    WHO = 16
    WHAT = 20
    CORRELATION = 24
    COUNT = 28
    FORWARDED = 32
    REQUEST_BYTES = 44
    PART = 24
    OFFSET = 0
    TEMPLATE = 8
    SEQUENCE = 12
    ALL_TOLD = -1
    MOST_PLACES = 1 << 22
    # Of DELTA_BINARY_PACKED.
    BLOCK = 128
    MINIS = 4
    MINI = 32
    LONGEST = 4096  # groups of eight values in one run

cdef int64_t NONE = <int64_t>-0x7FFFFFFFFFFFFFFF - 1
cdef int32_t NO_NUMBER = <int32_t>-0x7FFFFFFF - 1
ROW_FIELDS = {
    "exchange_seq": SEQ,
    "request_at_us": REQUEST_AT,
    "correlation_id": CORRELATION,
    "forwarded_at_us": FORWARDED,
    "broker_responded_at_us": FORWARDED + 4,
    "response_at_us": FORWARDED + 8,
    "request_bytes": REQUEST_BYTES,
    "response_bytes": REQUEST_BYTES + 4,
}
PART_FIELDS = {"base_offset": OFFSET, "base_sequence": SEQUENCE, "record_count": SEQUENCE + 4, "batch_bytes": SEQUENCE + 8}


cdef inline int64_t int64_at(const unsigned char* p) noexcept nogil:
    cdef int64_t number
    memcpy(&number, p, 8)
    return number


cdef inline int32_t int32_at(const unsigned char* p) noexcept nogil:
    cdef int32_t number
    memcpy(&number, p, 4)
    return number


cdef inline uint32_t turned(uint32_t place) noexcept nogil:
    """A place in one of two tables, of which the highest bit says which, as one of both together."""
    return place << 1 | place >> 31


cdef class Numbers:
    """The numbers of some rows and of their partitions."""

    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t parts
    cdef readonly Py_ssize_t entries
    """Of a column of partitions: one for each of them, and one for each row that has none."""
    cdef bytes _packed_rows
    cdef object _packed_parts
    cdef Bytes _row
    cdef Bytes _part
    cdef int32_t* _counts  # of each row's partitions
    cdef int32_t* _places  # of each row's who and what, and each part's template, among those that are pointed to
    cdef uint32_t* _levels
    cdef int64_t* _values

    def __cinit__(self, list rows, list parts, dict told):
        """``told``: the partitions of each *what* that tells its own, packed as those in ``parts`` are."""
        cdef Py_ssize_t number, at = 0, more = 0
        cdef int32_t count
        cdef bytes own
        self._packed_rows = b"".join(rows)
        self.rows = len(self._packed_rows) // ROW
        self._row = <Bytes>PyBytes_AS_STRING(self._packed_rows)
        if parts is None:
            return  # the rows alone
        own = b"".join(parts)
        self._counts = <int32_t*>malloc((self.rows + 1) * sizeof(int32_t))
        if self._counts == NULL:
            raise MemoryError
        for number in range(self.rows):
            count = int32_at(self._row + number * ROW + COUNT)
            if count == ALL_TOLD:
                found = told.get(<uint32_t>int32_at(self._row + number * ROW + WHAT))
                self._counts[number] = 0 if found is None else <int32_t>(len(<bytes>found) // PART)
                more += self._counts[number]
            else:
                self._counts[number] = max(count, 0)
                at += self._counts[number]
            self.entries += max(self._counts[number], 1)
        if at * PART != len(own):
            raise ValueError("the rows have another number of partitions than there are")
        self.parts = at + more
        if more:
            self._packed_parts = PyByteArray_FromStringAndSize(NULL, self.parts * PART)
            self._part = <Bytes>PyByteArray_AS_STRING(self._packed_parts)
            self._gather(own, told)
        else:
            self._packed_parts, self._part = own, <Bytes>PyBytes_AS_STRING(own)
        self._places = <int32_t*>malloc((2 * self.rows + self.parts + 1) * sizeof(int32_t))
        self._levels = <uint32_t*>malloc((max(self.entries, self.rows) + 8) * sizeof(uint32_t))
        self._values = <int64_t*>malloc((max(self.parts, self.rows) + 1) * sizeof(int64_t))
        if self._places == NULL or self._levels == NULL or self._values == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._counts)
        free(self._places)
        free(self._levels)
        free(self._values)

    cdef int _gather(self, bytes own, dict told) except -1:
        """The rows' own partitions and those that a *what* tells, in the order of the rows."""
        cdef Bytes to = self._part
        cdef Bytes source = <Bytes>PyBytes_AS_STRING(own)
        cdef Py_ssize_t waiting = 0, number, size
        for number in range(self.rows):
            size = self._counts[number] * PART
            if int32_at(self._row + number * ROW + COUNT) != ALL_TOLD:
                waiting += size
            elif size:
                memcpy(to, source, waiting)
                to, source, waiting = to + waiting, source + waiting, 0
                memcpy(to, PyBytes_AS_STRING(told[<uint32_t>int32_at(self._row + number * ROW + WHAT)]), size)
                to += size
        memcpy(to, source, waiting)
        return 0

    def used(self, int which):
        """The places that are pointed to (0: of who, 1: of what, 2: of the parts' templates), the first one first.

        Raises ValueError where one lies in no table.
        """
        cdef Bytes p = self._part + TEMPLATE if which == 2 else self._row + (WHAT if which else WHO)
        cdef Py_ssize_t width = PART if which == 2 else ROW, count = self.parts if which == 2 else self.rows, at
        cdef int32_t* to = self._places + which * self.rows
        cdef int64_t most = -1
        cdef int32_t* seen
        cdef list found = []
        for at in range(count):
            most = max(most, <int64_t>turned(int32_at(p + at * width)))
        if most > MOST_PLACES:
            raise ValueError("a place that is in no table")
        seen = <int32_t*>malloc((most + 1) * sizeof(int32_t) + 1)
        if seen == NULL:
            raise MemoryError
        try:
            memset(seen, 0xFF, (most + 1) * sizeof(int32_t))
            for at in range(count):
                most = turned(int32_at(p + at * width))
                if seen[most] < 0:
                    seen[most] = <int32_t>len(found)
                    found.append(<uint32_t>int32_at(p + at * width))
                to[at] = seen[most]
        finally:
            free(seen)
        return found

    def lists(self, int width):
        """The repetition levels of a column of the partitions, in so many bits."""
        cdef Py_ssize_t at = 0, number, nth
        if self.entries == self.rows:
            return repeated(0, self.rows, width)
        for number in range(self.rows):
            self._levels[at] = 0
            at += 1
            for nth in range(1, self._counts[number]):
                self._levels[at] = 1
                at += 1
        return hybrid(self._levels, at, width)

    def same(self, int level, int width):
        """The definition levels of a column that is at this one for each partition."""
        cdef Py_ssize_t at = 0, number, nth
        if self.entries == self.parts:
            return repeated(level, self.parts, width)
        for number in range(self.rows):
            if not self._counts[number]:
                self._levels[at] = 0
                at += 1
            for nth in range(self._counts[number]):
                self._levels[at] = level
                at += 1
        return hybrid(self._levels, at, width)

    def chosen(self, int which, list places, int width):
        """Of `used` places, where each is in a dictionary, or -1 for null: the places of the rows, or parts, so wide."""
        cdef Py_ssize_t count = self.parts if which == 2 else self.rows, at, end = 0
        cdef int32_t* of = self._places + which * self.rows
        cdef int32_t* found = small(places)
        try:
            for at in range(count):
                if found[of[at]] >= 0:
                    self._levels[end] = found[of[at]]
                    end += 1
            return end, hybrid(self._levels, end, width)
        finally:
            free(found)

    def levels(self, int which, list places, int level, int width):
        """And their definition levels: ``level`` where there is a value, one less where there is none."""
        cdef Py_ssize_t at = 0, number, nth, end = 0
        cdef int32_t* of = self._places + which * self.rows
        cdef int32_t* found = small(places)
        try:
            if which < 2:
                for number in range(self.rows):
                    self._levels[number] = level if found[of[number]] >= 0 else level - 1
                return hybrid(self._levels, self.rows, width)
            for number in range(self.rows):
                if not self._counts[number]:
                    self._levels[end] = 0
                    end += 1
                for nth in range(self._counts[number]):
                    self._levels[end] = level if found[of[at]] >= 0 else level - 1
                    end, at = end + 1, at + 1
            return hybrid(self._levels, end, width)
        finally:
            free(found)

    def numbers(self, str name, int level, int width, bint narrow):
        """A column of numbers: its definition levels, how many there are, the least, the largest, and all of them.

        These as DELTA_BINARY_PACKED, of 32 bits where ``narrow``.
        """
        cdef bint of_parts = level > 1
        cdef int at = PART_FIELDS[name] if of_parts else ROW_FIELDS[name]
        cdef Py_ssize_t count = self.parts if of_parts else self.rows, number, nth, end = 0, part = 0
        cdef int64_t value, least = 0, most = 0
        for number in range(count):
            value = self._part_number(number, at) if of_parts else self._row_number(number, at)
            if value != NONE:
                if not end:
                    least = most = value
                least, most = min(least, value), max(most, value)
                self._values[end] = value
                end += 1
        if not of_parts:
            if end == count or not end:
                levels = repeated(level if end else level - 1, count, width)
            else:
                for number in range(count):
                    self._levels[number] = level if self._row_number(number, at) != NONE else level - 1
                levels = hybrid(self._levels, count, width)
        elif end == count or not end:
            levels = self.same(level if end else level - 1, width)
        else:
            nth = 0
            for number in range(self.rows):
                if not self._counts[number]:
                    self._levels[nth] = 0
                    nth += 1
                for _ in range(self._counts[number]):
                    self._levels[nth] = level if self._part_number(part, at) != NONE else level - 1
                    nth, part = nth + 1, part + 1
            levels = hybrid(self._levels, nth, width)
        return levels, end, least, most, b"" if least == most else delta(self._values, end, narrow)

    cdef inline int64_t _row_number(self, Py_ssize_t row, int at) noexcept nogil:
        cdef Bytes p = self._row + row * ROW
        cdef uint32_t since
        if at < WHO:
            return int64_at(p + at)
        if at == CORRELATION:
            return int32_at(p + at)
        since = <uint32_t>int32_at(p + at)
        if at >= REQUEST_BYTES:
            return since
        return int64_at(p + REQUEST_AT) + since - 1 if since else NONE

    cdef inline int64_t _part_number(self, Py_ssize_t part, int at) noexcept nogil:
        cdef Bytes p = self._part + part * PART
        cdef int32_t number
        if at == OFFSET:
            return int64_at(p)
        number = int32_at(p + at)
        return NONE if number == NO_NUMBER else number


def row_columns(list packings):
    """`notleader.proxy.record.block.row_columns`."""
    cdef Numbers numbers = Numbers.__new__(Numbers, packings, None, None)
    cdef int[11] fields = [WHO, WHAT, SEQ, CORRELATION, REQUEST_AT, FORWARDED, FORWARDED + 4, FORWARDED + 8,
                           REQUEST_BYTES, REQUEST_BYTES + 4, COUNT]
    cdef list columns = []
    cdef int64_t* to
    cdef int64_t value
    cdef Py_ssize_t row
    cdef int place
    for place in range(11):
        column = PyByteArray_FromStringAndSize(NULL, 8 * numbers.rows)
        columns.append(column)
        to = <int64_t*>PyByteArray_AS_STRING(column)
        for row in range(numbers.rows):
            if place < 2:
                value = <uint32_t>int32_at(numbers._row + row * ROW + fields[place])
            elif place == 10:
                value = int32_at(numbers._row + row * ROW + COUNT)
            else:
                value = numbers._row_number(row, fields[place])
                if value == NONE and place > 4:
                    value = 0
            to[row] = value
    return columns


def part_columns(list packings):
    """`notleader.proxy.record.block.part_columns`."""
    cdef bytes packed = b"".join(packings)
    cdef Bytes p = <Bytes>PyBytes_AS_STRING(packed)
    cdef Py_ssize_t count = len(packed) // PART, part
    cdef int[5] fields = [TEMPLATE, SEQUENCE, SEQUENCE + 4, SEQUENCE + 8, OFFSET]
    cdef list columns = []
    cdef int64_t* to
    cdef int place
    cdef int32_t number
    for place in range(5):
        column = PyByteArray_FromStringAndSize(NULL, 8 * count)
        columns.append(column)
        to = <int64_t*>PyByteArray_AS_STRING(column)
        for part in range(count):
            if place == 4:
                to[part] = int64_at(p + part * PART)
                continue
            number = int32_at(p + part * PART + fields[place])
            to[part] = <uint32_t>number if place == 0 else NONE if number == NO_NUMBER else number
    return columns


cdef int32_t* small(list numbers) except NULL:
    """A list's numbers; whoever asks frees them."""
    cdef Py_ssize_t at
    cdef int32_t* found = <int32_t*>malloc((len(numbers) + 1) * sizeof(int32_t))
    if found == NULL:
        raise MemoryError
    for at in range(len(numbers)):
        found[at] = numbers[at]
    return found


cdef inline Bytes varint(Bytes to, uint64_t number) noexcept nogil:
    while number >= 0x80:
        to[0] = <unsigned char>(number | 0x80)
        number >>= 7
        to += 1
    to[0] = <unsigned char>number
    return to + 1


cdef inline Bytes zigzag(Bytes to, int64_t number) noexcept nogil:
    return varint(to, (<uint64_t>number << 1) ^ <uint64_t>(number >> 63))


cdef inline Bytes run(Bytes to, uint64_t count, uint32_t value, int width) noexcept nogil:
    """The same value so many times."""
    cdef int at
    to = varint(to, count << 1)
    for at in range(0, width, 8):
        to[0] = value >> at & 0xFF
        to += 1
    return to


def repeated(uint32_t value, Py_ssize_t count, int width):
    """The same value so many times, as RLE runs of this width."""
    cdef unsigned char[16] room
    if not count:
        return b""
    return PyBytes_FromStringAndSize(<char*>room, run(room, count, value, width) - room)


cdef bytes hybrid(uint32_t* values, Py_ssize_t count, int width):
    """RLE runs, and packed groups of eight between them."""
    cdef Py_ssize_t at = 0, end, start, groups
    cdef uint64_t bits
    cdef int have, nth
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 16 + count + (count + 8) * (width + 7) // 8 * 2)
    cdef Bytes begin = <Bytes>PyBytes_AS_STRING(made)
    cdef Bytes to = begin
    while at < count:
        end = at + 1
        while end < count and values[end] == values[at]:
            end += 1
        if end - at >= 16 or end == count and end - at >= 8:
            to = run(to, end - at, values[at], width)
            at = end
            continue
        start = at
        groups = 0
        while at < count and groups < LONGEST:
            end = at + 1
            while end < count and end - at < 16 and values[end] == values[at]:
                end += 1
            if end - at >= 16 and groups:
                break
            at += 8
            groups += 1
        to = varint(to, <uint64_t>groups << 1 | 1)
        bits, have = 0, 0
        for nth in range(groups * 8):
            if start + nth < count:
                bits |= <uint64_t>values[start + nth] << have
            have += width
            while have >= 8:
                to[0] = bits & 0xFF
                to += 1
                bits >>= 8
                have -= 8
    return made[: to - begin]


cdef bytes delta(int64_t* values, Py_ssize_t count, bint narrow):
    """DELTA_BINARY_PACKED."""
    cdef Py_ssize_t at, nth, mini, here
    cdef uint64_t[BLOCK] packed
    cdef int64_t[BLOCK] deltas
    cdef int64_t least
    cdef uint64_t most, bits, value
    cdef int width, have
    cdef bytes made = PyBytes_FromStringAndSize(NULL, 40 + count * 8 + (count // BLOCK + 1) * (16 + 8 * MINI))
    cdef Bytes begin = <Bytes>PyBytes_AS_STRING(made)
    cdef Bytes to = begin
    cdef Bytes widths
    to = varint(to, BLOCK)
    to = varint(to, MINIS)
    to = varint(to, count)
    to = zigzag(to, values[0] if count else 0)
    for at in range(1, count, BLOCK):
        here = min(BLOCK, count - at)
        least = 0
        for nth in range(here):
            value = <uint64_t>values[at + nth] - <uint64_t>values[at + nth - 1]
            deltas[nth] = <int32_t><uint32_t>value if narrow else <int64_t>value
            if nth == 0 or deltas[nth] < least:
                least = deltas[nth]
        to = zigzag(to, least)
        widths = to
        to += MINIS
        for mini in range(MINIS):
            if mini * MINI >= here:
                widths[mini] = 0
                continue
            most = 0
            for nth in range(mini * MINI, (mini + 1) * MINI):
                packed[nth] = <uint64_t>deltas[nth] - <uint64_t>least if nth < here else 0
                most |= packed[nth]
            width = 0
            while most:
                width += 1
                most >>= 1
            widths[mini] = width
            bits, have = 0, 0
            for nth in range(mini * MINI, (mini + 1) * MINI):
                value = packed[nth]
                bits |= value << have
                if have + width >= 64:
                    memcpy(to, &bits, 8)
                    to += 8
                    # What did not fit: a shift by 64 would be undefined.
                    bits = value >> (64 - have) if have else 0
                    have += width - 64
                else:
                    have += width
            # 32 values of any width end at a multiple of four bytes.
            memcpy(to, &bits, (have + 7) // 8)
            to += (have + 7) // 8
    return made[: to - begin]
