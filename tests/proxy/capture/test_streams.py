"""Rows as TCP conversations."""

from __future__ import annotations

from typing import Any

from notleader.proxy.capture.streams import Streams
from notleader.proxy.record.rows import COLUMNS


def exchange(frame: bytes) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS)
    row |= {"run_id": "r", "proxy_id": "p", "connection_id": 1, "exchange_seq": 7, "event": "exchange"}
    row |= {"client_addr": "10.0.0.1:4000", "node_id": 1, "request_at_us": 1000, "response_at_us": 2000}
    row |= {"request_frame": frame, "request_bytes": len(frame) + 4, "response_frame": b"ok", "response_bytes": 6}
    return {**row, "fault_names": [], "fault_kinds": []}


def test_a_copy_that_has_its_originals_number_and_time_is_sent_after_it() -> None:
    streams = Streams()
    sent = b"".join(streams.packets_of([exchange(b"first"), exchange(b"second")], horizon_us=1000))
    assert streams.packets == 3 + 2 * 2  # a handshake, and two packets for each
    assert sent.index(b"first") < sent.index(b"second")


def test_what_was_sent_of_an_answer_that_broke_off_is_a_hole_in_the_stream() -> None:
    torn = exchange(b"asked") | {"response_at_us": None, "broker_responded_at_us": 1500, "outcome": "closed"}
    torn |= {"response_frame": None, "response_bytes": 10}
    ended = dict.fromkeys(COLUMNS) | {"run_id": "r", "proxy_id": "p", "connection_id": 1, "event": "disconnect"}
    ended |= {"request_at_us": 1600, "detail": "reset by fault tear"}

    def reset_at(*rows: dict[str, Any]) -> int:
        packets = list(Streams().packets_of(rows, horizon_us=1000))
        (comment,) = [packet for packet in packets if b"reset by fault" in packet]
        # Behind the packet's head (28 bytes), an address of each side and their ports: the sequence number.
        return int.from_bytes(comment[28 + 20 + 4 : 28 + 20 + 8], "big")

    assert reset_at(torn, ended) - reset_at(torn | {"response_bytes": 0}, ended) == 10
