# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""Exchanges that are still numbers as what Parquet's pages hold: levels, places in dictionaries, numbers.

Arrow's writer wants each column as an array of values and looks at each of them several times, also where a column says
the same all along, or nothing; of a capture's fifty columns that is most. Here a column is encoded from the numbers
of `notleader.proxy.record.block`, and what holds for all rows costs nothing for each of them.
The encodings: https://parquet.apache.org/docs/file-format/data-pages/encodings/.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

ctypedef unsigned char* Bytes

cdef enum:
    # `notleader.proxy.record.block.Row` and `Part`.
    WHO = 0
    WHAT = 1
    SEQ = 2
    CORRELATION = 3
    REQUEST_AT = 4
    FORWARDED = 5
    RESPONDED = 6
    ANSWERED = 7
    REQUEST_BYTES = 8
    RESPONSE_BYTES = 9
    COUNT = 10
    ROW_PLACES = 11
    TEMPLATE = 0
    SEQUENCE = 1
    RECORDS = 2
    SIZE = 3
    OFFSET = 4
    PART_PLACES = 5
    ALL_TOLD = -1
    MOST_PLACES = 1 << 22
    # Of DELTA_BINARY_PACKED.
    BLOCK = 128
    MINIS = 4
    MINI = 32
    LONGEST = 4096  # groups of eight values in one run

cdef int64_t NONE = <int64_t>-0x7FFFFFFFFFFFFFFF - 1
ROW_FIELDS = {
    "exchange_seq": SEQ,
    "request_at_us": REQUEST_AT,
    "correlation_id": CORRELATION,
    "forwarded_at_us": FORWARDED,
    "broker_responded_at_us": RESPONDED,
    "response_at_us": ANSWERED,
    "request_bytes": REQUEST_BYTES,
    "response_bytes": RESPONSE_BYTES,
}
PART_FIELDS = {"base_offset": OFFSET, "base_sequence": SEQUENCE, "record_count": RECORDS, "batch_bytes": SIZE}

cdef struct Last:
    # What the last partition with a template said.
    int64_t packing, sequence, records, size, offset


cdef inline const unsigned char* unsigned_at(const unsigned char* p, const unsigned char* end, uint64_t* value) noexcept nogil:
    """Reads one, and says what is behind it; NULL where it isn't whole."""
    cdef int shift = 0
    cdef uint64_t found = 0
    if p < end and p[0] < 0x80:  # nearly always
        value[0] = p[0]
        return p + 1
    while p < end and shift < 70:
        found |= <uint64_t>(p[0] & 0x7F) << shift if shift < 64 else 0
        if p[0] < 0x80:
            value[0] = found
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline int64_t plus(int64_t number, int64_t other) noexcept nogil:
    """64 bits that wrap."""
    return <int64_t>(<uint64_t>number + <uint64_t>other)


cdef inline int64_t signed(uint64_t zigzag, int64_t to) noexcept nogil:
    """That, added to what was expected."""
    return plus(<int64_t>(zigzag >> 1 ^ (0 - (zigzag & 1))), to)


cdef inline int64_t turned(int64_t place) noexcept nogil:
    """A place in one of two tables, of which the 32nd bit says which, as one of both together."""
    return (place & 0x7FFFFFFF) << 1 | place >> 31


cdef enum:
    # The buffers of `Numbers`.
    OF_ROWS = 0
    OF_PARTS = 1
    COUNTS = 2
    PLACES = 3
    LEVELS = 4
    VALUES = 5
    ALL_PARTS = 6
    ENCODED = 7
    BUFFERS = 8

cdef struct Buffer:
    void* memory
    size_t size

# Of numbers that are gone, for those that come next: fresh pages cost more than what is written on them.
cdef Buffer SPARE[BUFFERS]


cdef class Numbers:
    """The numbers of some rows and of their partitions."""

    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t parts
    cdef readonly Py_ssize_t entries
    """Of a column of partitions: one for each of them, and one for each row that has none."""
    cdef int64_t* _row  # column by column, as those of parts
    cdef int64_t* _part
    cdef int32_t* _counts  # of each row's partitions
    cdef int32_t* _places  # of each row's who and what, and each part's template, among those that are pointed to
    cdef uint32_t* _levels
    cdef int64_t* _values
    cdef Buffer _buffers[BUFFERS]
    # Of reading: by template.
    cdef Last* _lasts
    cdef Py_ssize_t _lasts_room

    def __cinit__(self, list packings, dict told):
        """``packings``: numbers, how many rows are in them, and how many partitions of their own.

        ``told``: the partitions of each *what* that tells its own, as 64-bit integers, `Part` by `Part`.
        Raises ValueError where they are no numbers, or other ones than so many.
        """
        cdef Py_ssize_t number, own, row = 0, part = 0
        for _, number, own in packings:
            self.rows += number
            self.parts += own
        own = self.parts
        self._row = <int64_t*>self._of(OF_ROWS, ROW_PLACES * self.rows, sizeof(int64_t))
        self._part = <int64_t*>self._of(OF_PARTS, PART_PLACES * own, sizeof(int64_t))
        self._counts = <int32_t*>self._of(COUNTS, self.rows, sizeof(int32_t))
        number = 0
        for packed, _, _ in packings:
            self._read(packed, number, &row, &part)
            number += 1
        if row != self.rows or part != own:
            raise ValueError("there are other numbers than the frame says")
        for row in range(self.rows):
            number = <Py_ssize_t>self._row[COUNT * self.rows + row]
            if number == ALL_TOLD:
                found = told.get(self._row[WHAT * self.rows + row])
                number = 0 if found is None else len(<bytes>found) // (8 * PART_PLACES)
                self.parts += number
            self._counts[row] = <int32_t>number
            self.entries += max(number, 1)
        if self.parts > own:
            self._gather(own, told)
        self._places = <int32_t*>self._of(PLACES, 2 * self.rows + self.parts, sizeof(int32_t))
        self._levels = <uint32_t*>self._of(LEVELS, max(self.entries, self.rows), sizeof(uint32_t))
        self._values = <int64_t*>self._of(VALUES, max(self.parts, self.rows), sizeof(int64_t))

    def __dealloc__(self):
        cdef int which
        free(self._lasts)
        for which in range(BUFFERS):
            if self._buffers[which].size > SPARE[which].size:
                self._buffers[which], SPARE[which] = SPARE[which], self._buffers[which]
            free(self._buffers[which].memory)

    cdef void* _of(self, int which, Py_ssize_t count, size_t size) except NULL:
        """A buffer for so many elements of this size, of which nobody knows what they are."""
        cdef Buffer* own = &self._buffers[which]
        cdef size_t needed = (count + 8) * size
        if own.size < needed:
            if own.size < SPARE[which].size:
                own[0], SPARE[which] = SPARE[which], own[0]
            if own.size < needed:
                needed = max(needed, 2 * own.size)  # what is not written on takes no memory
                free(own.memory)
                own.size, own.memory = 0, malloc(needed)
                if own.memory == NULL:
                    raise MemoryError
                own.size = needed
        return own.memory

    cdef int _read(self, const unsigned char[::1] packed, int64_t number, Py_ssize_t* row_, Py_ssize_t* part_) except -1:
        """Numbers as journal.md says, behind those that were read before."""
        cdef const unsigned char* p
        cdef const unsigned char* end
        cdef uint64_t[ROW_PLACES] row
        cdef uint64_t value
        cdef int64_t at_us = 0, template = 0, differs
        cdef Py_ssize_t place, rows = self.rows, parts = self.parts, left, at = row_[0], part = part_[0]
        cdef int64_t* to
        cdef Last* last
        if not packed.shape[0]:
            return 0
        p = &packed[0]
        end = p + packed.shape[0]
        while p != NULL and p < end and at < rows:
            for place in range(ROW_PLACES):
                p = unsigned_at(p, end, &row[place])
                if p == NULL:
                    break
            if p == NULL:
                break
            to = self._row + at
            at_us = signed(row[4], at_us)
            to[WHO * rows], to[WHAT * rows] = <int64_t>row[0], <int64_t>row[1]
            to[SEQ * rows] = signed(row[2], 0)
            to[CORRELATION * rows] = signed(row[3], to[SEQ * rows])
            to[REQUEST_AT * rows] = at_us
            row[7] = <uint64_t>signed(row[7], <int64_t>row[6])
            for place in range(FORWARDED, REQUEST_BYTES):
                to[place * rows] = plus(at_us, <int64_t>row[place] - 1) if row[place] else NONE
            to[REQUEST_BYTES * rows], to[RESPONSE_BYTES * rows] = <int64_t>row[8], <int64_t>row[9]
            left = <Py_ssize_t>row[10] - 1
            to[COUNT * rows] = left
            at += 1
            if not ALL_TOLD <= left <= parts - part:
                p = NULL
                break
            while left > 0:
                p = unsigned_at(p, end, &value)
                if p == NULL:
                    break
                template += signed(value >> 1, 0)
                if not 0 <= template <= MOST_PLACES:
                    p = NULL
                    break
                if template >= self._lasts_room:
                    self._make_room(template)
                last = &self._lasts[template]
                if last.packing != number + 1:
                    memset(last, 0, sizeof(Last))
                    last.packing = number + 1
                last.sequence = last.sequence if last.sequence < 0 else plus(last.sequence, last.records)
                last.offset = last.offset if last.offset < 0 else plus(last.offset, last.records)
                if value & 1:
                    p = unsigned_at(p, end, &row[0])
                    if p != NULL:
                        p = unsigned_at(p, end, &row[1])
                    if p != NULL:
                        p = unsigned_at(p, end, &row[2])
                    if p != NULL:
                        p = unsigned_at(p, end, &row[3])
                    if p == NULL:
                        break
                    last.sequence, last.records = signed(row[0], last.sequence), signed(row[1], last.records)
                    last.size, last.offset = signed(row[2], last.size), signed(row[3], last.offset)
                to = self._part + part
                to[TEMPLATE * parts], to[SEQUENCE * parts], to[RECORDS * parts] = template, last.sequence, last.records
                to[SIZE * parts], to[OFFSET * parts] = last.size, last.offset
                part, left = part + 1, left - 1
        if p != end:
            raise ValueError("the numbers end amid an exchange")
        row_[0], part_[0] = at, part
        return 0

    cdef int _make_room(self, int64_t template) except -1:
        cdef Py_ssize_t room = max(2 * self._lasts_room, template + 1, 256)
        cdef Last* lasts = <Last*>realloc(self._lasts, room * sizeof(Last))
        if lasts == NULL:
            raise MemoryError
        memset(lasts + self._lasts_room, 0, (room - self._lasts_room) * sizeof(Last))
        self._lasts, self._lasts_room = lasts, room
        return 0

    cdef int _gather(self, Py_ssize_t own, dict told) except -1:
        """The rows' own partitions and those that a *what* tells, in the order of the rows."""
        cdef int64_t* made = <int64_t*>self._of(ALL_PARTS, PART_PLACES * self.parts, sizeof(int64_t))
        cdef const int64_t* found
        cdef Py_ssize_t row, nth, place, at = 0, taken = 0
        for row in range(self.rows):
            found = NULL
            if self._counts[row] and self._row[COUNT * self.rows + row] == ALL_TOLD:
                found = <const int64_t*>PyBytes_AS_STRING(told[self._row[WHAT * self.rows + row]])
            for nth in range(self._counts[row]):
                for place in range(PART_PLACES):
                    if found != NULL:
                        made[place * self.parts + at] = found[nth * PART_PLACES + place]
                    else:
                        made[place * self.parts + at] = self._part[place * own + taken]
                at += 1
                taken += found == NULL
        self._part = made
        return 0

    def columns(self):
        """The places of `Row`, and those of `Part`, each as 64-bit integers."""
        cdef Py_ssize_t place
        return (
            [PyBytes_FromStringAndSize(<char*>(self._row + place * self.rows), 8 * self.rows) for place in range(ROW_PLACES)],
            [PyBytes_FromStringAndSize(<char*>(self._part + place * self.parts), 8 * self.parts) for place in range(PART_PLACES)],
        )

    def whats(self):
        """How many rows point to each *what*."""
        cdef Py_ssize_t row
        cdef dict found = {}
        for row in range(self.rows):
            place = self._row[WHAT * self.rows + row]
            found[place] = found.get(place, 0) + 1
        return found

    def used(self, int which):
        """The places that are pointed to (0: of who, 1: of what, 2: of the parts' templates), the first one first.

        Raises ValueError where one lies in no table.
        """
        cdef int64_t* p = self._part + TEMPLATE * self.parts if which == 2 else self._row + which * self.rows
        cdef Py_ssize_t count = self.parts if which == 2 else self.rows, at
        cdef int32_t* to = self._places + which * self.rows
        cdef int64_t most = -1
        cdef int32_t* seen
        cdef list found = []
        for at in range(count):
            if p[at] >> 32:
                raise ValueError("a place that is in no table")
            most = max(most, turned(p[at]))
        if most > MOST_PLACES:
            raise ValueError("a place that is in no table")
        seen = <int32_t*>malloc((most + 1) * sizeof(int32_t) + 1)
        if seen == NULL:
            raise MemoryError
        try:
            memset(seen, 0xFF, (most + 1) * sizeof(int32_t))
            for at in range(count):
                most = turned(p[at])
                if seen[most] < 0:
                    seen[most] = <int32_t>len(found)
                    found.append(p[at])
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
        return hybrid(self, self._levels, at, width)

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
        return hybrid(self, self._levels, at, width)

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
            return end, hybrid(self, self._levels, end, width)
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
                return hybrid(self, self._levels, self.rows, width)
            for number in range(self.rows):
                if not self._counts[number]:
                    self._levels[end] = 0
                    end += 1
                for nth in range(self._counts[number]):
                    self._levels[end] = level if found[of[at]] >= 0 else level - 1
                    end, at = end + 1, at + 1
            return hybrid(self, self._levels, end, width)
        finally:
            free(found)

    def numbers(self, str name, int level, int width, bint narrow):
        """A column of numbers: its definition levels, how many there are, the least, the largest, and all of them.

        These as DELTA_BINARY_PACKED, of 32 bits where ``narrow``.
        """
        cdef bint of_parts = level > 1
        cdef Py_ssize_t count = self.parts if of_parts else self.rows, number, nth, end = 0, part = 0
        cdef int64_t* given = self._part + <int>PART_FIELDS[name] * count if of_parts else self._row + <int>ROW_FIELDS[name] * count
        cdef int64_t* values = given
        cdef int64_t least = 0, most = 0
        if count:
            least = most = given[0]
        for number in range(count):
            end += given[number] != NONE
            least = min(least, given[number])
            most = max(most, given[number])
        if end < count:  # NONE is less than all others
            values, end, least = self._values, 0, most
            for number in range(count):
                if given[number] != NONE:
                    values[end] = given[number]
                    least = min(least, values[end])
                    end += 1
        if not end:
            least = most = 0
        if not of_parts:
            if end == count or not end:
                levels = repeated(level if end else level - 1, count, width)
            else:
                for number in range(count):
                    self._levels[number] = level if given[number] != NONE else level - 1
                levels = hybrid(self, self._levels, count, width)
        elif end == count or not end:
            levels = self.same(level if end else level - 1, width)
        else:
            nth = 0
            for number in range(self.rows):
                if not self._counts[number]:
                    self._levels[nth] = 0
                    nth += 1
                for _ in range(self._counts[number]):
                    self._levels[nth] = level if given[part] != NONE else level - 1
                    nth, part = nth + 1, part + 1
            levels = hybrid(self, self._levels, nth, width)
        return levels, end, least, most, b"" if least == most else delta(self, values, end, narrow)


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


cdef bytes hybrid(Numbers numbers, uint32_t* values, Py_ssize_t count, int width):
    """RLE runs, and packed groups of eight between them."""
    cdef Py_ssize_t at = 0, end, start, groups
    cdef uint64_t bits
    cdef int have, nth
    cdef Bytes begin = <Bytes>numbers._of(ENCODED, 16 + count + (count + 8) * (width + 7) // 8 * 2, 1)
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
        while width <= 8 and groups and start + 8 <= count:  # a group of eight is a word
            bits = 0
            for nth in range(8):
                bits |= <uint64_t>values[start + nth] << nth * width
            memcpy(to, &bits, width)
            to += width
            start += 8
            groups -= 1
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
    return PyBytes_FromStringAndSize(<char*>begin, to - begin)


cdef bytes delta(Numbers numbers, int64_t* values, Py_ssize_t count, bint narrow):
    """DELTA_BINARY_PACKED."""
    cdef Py_ssize_t at, nth, mini, here
    cdef uint64_t[BLOCK] packed
    cdef int64_t[BLOCK] deltas
    cdef int64_t least, largest
    cdef uint64_t most, bits, value
    cdef int width, have
    cdef Bytes begin = <Bytes>numbers._of(ENCODED, 40 + count * 8 + (count // BLOCK + 1) * (16 + 8 * MINI), 1)
    cdef Bytes to = begin
    cdef Bytes widths
    to = varint(to, BLOCK)
    to = varint(to, MINIS)
    to = varint(to, count)
    to = zigzag(to, values[0] if count else 0)
    for at in range(1, count, BLOCK):
        here = min(BLOCK, count - at)
        least = largest = 0
        for nth in range(here):
            value = <uint64_t>values[at + nth] - <uint64_t>values[at + nth - 1]
            deltas[nth] = <int32_t><uint32_t>value if narrow else <int64_t>value
            if nth == 0 or deltas[nth] < least:
                least = deltas[nth]
            if nth == 0 or deltas[nth] > largest:
                largest = deltas[nth]
        to = zigzag(to, least)
        widths = to
        to += MINIS
        if least == largest:  # they grow evenly, as sequences and offsets do: all in no bits
            memset(widths, 0, MINIS)
            continue
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
    return PyBytes_FromStringAndSize(<char*>begin, to - begin)
