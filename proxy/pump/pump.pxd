cimport cython

from notleader.proxy.pump.probe cimport Probe


cdef inline int api_number(int api_key, int api_version) noexcept:
    """`flags.api_number`."""
    return api_key << 16 | (api_version & 0xFFFF)


@cython.final
cdef class Exchange:
    """`pure.Exchange`."""

    cdef public object connection, client_id, outcome
    # What is kept of the frames, or where they are in what came: nobody may ever ask for them.
    cdef object _request, _response
    cdef bytes request_in, response_in
    cdef Py_ssize_t request_at, request_size, response_at, response_size
    cdef public object decision, hits, actions, merge, relayed, answer, afterwards
    cdef public long long seq, request_at_us, forwarded_at_us, broker_responded_at_us, response_at_us
    cdef public long long request_bytes, response_bytes, release_at_us, mute_us
    cdef public int api_key, api_version, correlation_id, flags, error_code
    cdef public bint awaits_broker, is_copy, close_after, expects_answer


@cython.final
cdef class Passing:
    """`pure.Passing`."""

    cdef public Probe probe
    cdef public object said
    cdef public bytes head
