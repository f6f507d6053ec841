from notleader.proxy.pump.probe cimport Probe

cdef class Exchange:
    """`pure.Exchange`."""

    cdef public object connection, client_id, outcome, request, response
    cdef public object decision, hits, actions, merge, relayed, answer, held_by, afterwards
    cdef public long long seq, request_at_us, forwarded_at_us, broker_responded_at_us, response_at_us
    cdef public long long request_bytes, response_bytes, release_at_us, mute_us
    cdef public int api_key, api_version, correlation_id, flags, error_code, copies
    cdef public bint awaits_broker, is_copy, close_after, expects_answer


cdef class Passing:
    """`pure.Passing`."""

    cdef public Probe probe
    cdef public object said
    cdef public bytes head
