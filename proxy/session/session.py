"""One client↔broker conversation: bytes and the time go in, commands come out.

Pure: no socket, no clock, no randomness of its own. Frames that nothing has to see are cut through, chunk
by chunk, as they came; the others are put together, shown to the fault plan and sent on whole.

Rules it keeps (see ARCHITECTURE.md): answers leave in request order; a held message holds the later ones
of its direction back; an ``acks=0`` Produce never enters the FIFO.
"""

from notleader.proxy.session.requests import Requests


class Session(Requests):
    """The state of one client connection and its broker connection.

    ``advertise(node_id, host, port)`` gives the address under which clients reach that broker through
    the proxy. ``max_frame_bytes`` bounds one frame, ``max_held_bytes`` what waits in one direction
    before reading pauses.
    """

    def _other_requests(self, data: bytes, now_us: int) -> None:
        try:
            self._client_bytes(data, now_us)
        except Exception as error:
            self._fail(error, "client", now_us)

    def _other_answers(self, data: bytes, now_us: int) -> None:
        try:
            self._broker_bytes(data, now_us)
        except Exception as error:
            self._fail(error, "broker", now_us)

    def node_bytes(self, node_id: int, data: bytes, now_us: int) -> None:
        """Take what another broker sent, in answer to parts of requests that were relayed to it."""
        if self._closed:
            return
        try:
            for exchange in self._relays.received(node_id, data):
                if not self._closed:
                    self._relayed(exchange, now_us)
        except Exception as error:
            self._fail(error, "broker", now_us)

    def node_gone(self, node_id: int, reason: str, now_us: int) -> None:
        """The connection to another broker ended; what waits for it can't be answered any more."""
        if self._relays.waits_for(node_id):
            self._end(now_us, f"broker {node_id}, to which a request was relayed: {reason}")

    def client_eof(self, now_us: int) -> None:
        """The client will send no more; what it asked for is still answered."""
        if self._closed:
            return
        self._client_ended = True
        if self._request_stashed or self._request_left:
            self._end(now_us, "the client closed the connection in the middle of a request")
        elif not self._held:
            self._commands.end_broker()
        self._end_if_drained(now_us)

    def broker_eof(self, now_us: int) -> None:
        """The broker will send no more; answers that wait here for their time still leave."""
        if self._closed:
            return
        self._broker_ended = True
        self._end_if_drained(now_us)

    def gone(self, now_us: int, reason: str, *, reset: bool = False) -> None:
        """One side vanished, or never came: account for what was open and close the other."""
        self._end(now_us, reason, reset=reset)

    def wake(self, now_us: int) -> None:
        """Go on with whatever waited for this time, or for a rule that changed."""
        if self._closed:
            return
        try:
            self._run_held(now_us)
        except Exception as error:
            self._fail(error, "client", now_us)
            return
        self._flush(now_us)
