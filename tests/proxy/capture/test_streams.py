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
