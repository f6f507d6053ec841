cimport cython

ctypedef const unsigned char* Bytes

cdef enum:
    # `wire.probe.Row`
    NAME = 0
    NAME_BYTES = 1
    TOPIC_ID = 2
    ROW_ERROR_CODE = 3
    INDEX = 4
    BASE_OFFSET = 5
    LEADER_EPOCH = 6
    RECORDS_BYTES = 7
    RECORD_COUNT = 8
    PRODUCER_ID = 9
    PRODUCER_EPOCH = 10
    BASE_SEQUENCE = 11
    ATTRIBUTES = 12
    FIRST_OFFSET = 13
    ROW_PLACES = 14
    # `wire.probe.Frame`
    ACKS = 4
    ERROR_CODE = 5
    THROTTLE_TIME_MS = 6
    TRANSACTIONAL_ID = 7
    TRANSACTIONAL_ID_BYTES = 8
    ENDPOINTS_AT = 11
    FRAME_PLACES = 12
    MOST_DEPTH = 8

@cython.final
cdef class Probe:
    """`interpreter.Probe`."""

    cdef readonly long long total, fed
    cdef public long long skip
    cdef readonly bint ended, odd
    cdef public bytes head
    cdef bytes _owner  # of the program
    cdef Bytes _program
    cdef const char* _reason
    cdef int _pc, _depth
    cdef long long _loops[MOST_DEPTH + 1]  # the first one is of no loop
    cdef long long _records_left
    cdef bint _seen
    cdef long long _tags_left, _tag
    # What is here of a step that needs more.
    cdef unsigned char* _carry
    cdef Py_ssize_t _have, _need, _carry_room
    # Facts.
    cdef long long places[FRAME_PLACES]
    cdef long long* numbers
    cdef Py_ssize_t count, _rows_room
    cdef char* texts
    cdef Py_ssize_t text_bytes, _text_room

    cdef int begin(self, bytes program, long long total) except -1
    cdef int read(self, Bytes chunk, Py_ssize_t size) except -1
    cdef int read_piece(self, piece) except -1
    cdef int _run(self, Bytes p, Py_ssize_t* at, Py_ssize_t end, long long before) except -1
    cdef bint good(self) noexcept
    cdef int _make_room(self) except -1
    cdef long long _keep(self, Bytes text, Py_ssize_t size) except -1
    cdef void _break(self, const char* reason) noexcept
    cdef void _lacks(self, int used, Py_ssize_t here, int plain) noexcept
