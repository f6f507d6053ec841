"""Captured exchanges as the TCP conversations they were, one stream per client connection. Pure.

The streams are what the client's side of the proxy saw, in plaintext also where the wire was TLS. Brokers get
an address of their own each (192.0.2.<node_id> or 2001:db8::<node_id>, from the ranges kept for documentation)
and Kafka's port, so that a dissector knows what it sees.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, NamedTuple, TypeVar

from notleader.proxy.capture import pcapng
from notleader.proxy.capture.pcapng import ACK, FIN, PSH, RST, SYN, Address, Endpoint

_KAFKA_PORT: Final = 9092
_SEGMENT_BYTES: Final = 60_000
_BOOTSTRAP: Final = 0xFFFE
_NODES_V4: Final = int(IPv4Address("192.0.2.0"))
_MORE_NODES_V4: Final = int(IPv4Address("198.18.0.0"))
_NODES_V6: Final = int(IPv6Address("2001:db8::"))

RowLike = Mapping[str, Any]


class _Moment(NamedTuple):
    """Something to send: in the order of time, requests before answers, earlier exchanges first.

    ``nth`` is another for each: rows can't be compared, and a copied request has the time and number of its original.
    """

    at_us: int
    key: tuple[str, str, int]
    turn: int
    exchange_seq: int
    nth: int
    row: RowLike


_CONNECT, _REQUEST, _ANSWER, _DISCONNECT = range(4)


class Streams:
    """Turns rows into pcapng packets; of its ``exchanges`` some may be ``without_frames``."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.without_frames = 0
        self.packets = 0
        self.names: dict[Address, str] = {}
        self._open: dict[tuple[str, str, int], _Stream] = {}
        self._numbers = itertools.count()

    def packets_of(self, rows: Iterable[RowLike], horizon_us: int) -> Iterator[bytes]:
        """Packet blocks in the order of time, of rows none of which began more than ``horizon_us`` before it
        was recorded.
        """
        for moment in in_time((moment for row in rows for moment in self._moments(row)), horizon_us):
            yield from self._sent(moment)

    def _moments(self, row: RowLike) -> Iterator[_Moment]:
        if row["connection_id"] is None:
            return
        key = (row["run_id"], row["proxy_id"], row["connection_id"])
        if row["event"] == "connect":
            yield _Moment(row["request_at_us"], key, _CONNECT, 0, next(self._numbers), row)
        elif row["event"] == "disconnect":
            yield _Moment(row["request_at_us"], key, _DISCONNECT, 0, next(self._numbers), row)
        elif row["event"] == "exchange":
            self.exchanges += 1
            self.without_frames += row["request_frame"] is None
            yield _Moment(row["request_at_us"], key, _REQUEST, row["exchange_seq"], next(self._numbers), row)
            if (answered_us := _answered_us(row)) is not None:
                yield _Moment(answered_us, key, _ANSWER, row["exchange_seq"], next(self._numbers), row)

    def _sent(self, moment: _Moment) -> Iterator[bytes]:
        stream = self._open.get(moment.key)
        if stream is None:
            stream = self._open[moment.key] = _Stream(moment, self.names)
            blocks = list(stream.opened(moment.at_us))
        else:
            blocks = []
        row = moment.row
        if moment.turn == _REQUEST:
            comment = "" if _answered_us(row) is not None and row["fault_phase"] != "before_broker" else _comment(row)
            blocks += stream.request(moment.at_us, row["request_frame"], row["request_bytes"], comment)
        elif moment.turn == _ANSWER:
            comment = "" if row["fault_phase"] == "before_broker" else _comment(row)
            blocks += stream.answer(moment.at_us, row["response_frame"], row["response_bytes"], comment)
        elif moment.turn == _DISCONNECT:
            del self._open[moment.key]
            blocks += stream.closed(moment.at_us, row["detail"] or "")
        self.packets += len(blocks)
        yield from blocks


def _answered_us(row: RowLike) -> int | None:
    """When the client got the answer, or the beginning of one that broke off; None where it got none."""
    if not row["response_bytes"]:
        return None
    found: int | None = row["broker_responded_at_us"] if row["response_at_us"] is None else row["response_at_us"]
    return found


class _Stream:
    """One TCP connection: who speaks, and how far each side's sequence numbers are."""

    def __init__(self, moment: _Moment, names: dict[Address, str]) -> None:
        row = moment.row
        self.client = _client(row["client_addr"])
        address = _node_address(row["node_id"], self.client.address.version)
        names.setdefault(address, row["listener"] or "broker")
        self.broker = Endpoint(address, _KAFKA_PORT)
        # Different for connections that happen to have the same addresses, the same at every export.
        start = zlib.crc32(repr(moment.key).encode())
        self.client_next = start
        self.broker_next = start ^ 0x5A5A5A5A

    def opened(self, at_us: int) -> Iterator[bytes]:
        yield pcapng.packet(at_us, pcapng.tcp_segment(self.client, self.broker, self.client_next, 0, SYN))
        self.client_next += 1
        yield pcapng.packet(
            at_us, pcapng.tcp_segment(self.broker, self.client, self.broker_next, self.client_next, SYN | ACK)
        )
        self.broker_next += 1
        yield self._from_client(at_us, ACK)

    def request(self, at_us: int, frame: bytes | None, size_bytes: int, comment: str) -> Iterator[bytes]:
        if frame is None or len(frame) + 4 != size_bytes:
            self.client_next += size_bytes  # a hole: these bytes passed and were not kept
            return
        whole = len(frame).to_bytes(4, "big") + frame
        for start in range(0, len(whole), _SEGMENT_BYTES):
            yield self._from_client(at_us, PSH | ACK, whole[start : start + _SEGMENT_BYTES], comment)
            comment = ""

    def answer(self, at_us: int, frame: bytes | None, size_bytes: int, comment: str) -> Iterator[bytes]:
        if frame is None or len(frame) + 4 != size_bytes:
            self.broker_next += size_bytes
            return
        whole = len(frame).to_bytes(4, "big") + frame
        for start in range(0, len(whole), _SEGMENT_BYTES):
            yield self._from_broker(at_us, PSH | ACK, whole[start : start + _SEGMENT_BYTES], comment)
            comment = ""

    def closed(self, at_us: int, why: str) -> Iterator[bytes]:
        comment = f"notleader: {why}"
        if "reset" in why:
            yield self._from_broker(at_us, RST | ACK, b"", comment)
        elif why.startswith("the client"):
            yield self._from_client(at_us, FIN | ACK, b"", comment)
            yield self._from_broker(at_us, FIN | ACK)
            yield self._from_client(at_us, ACK)
        else:
            yield self._from_broker(at_us, FIN | ACK, b"", comment)
            yield self._from_client(at_us, FIN | ACK)
            yield self._from_broker(at_us, ACK)

    def _from_client(self, at_us: int, flags: int, payload: bytes = b"", comment: str = "") -> bytes:
        data = pcapng.tcp_segment(self.client, self.broker, self.client_next, self.broker_next, flags, payload)
        self.client_next += len(payload) + (flags & FIN)
        return pcapng.packet(at_us, data, comment)

    def _from_broker(self, at_us: int, flags: int, payload: bytes = b"", comment: str = "") -> bytes:
        data = pcapng.tcp_segment(self.broker, self.client, self.broker_next, self.client_next, flags, payload)
        self.broker_next += len(payload) + (flags & FIN)
        return pcapng.packet(at_us, data, comment)


def _comment(row: RowLike) -> str:
    if not row["fault_names"]:
        return ""
    faults = ", ".join(f"{name} ({kind})" for name, kind in zip(row["fault_names"], row["fault_kinds"], strict=True))
    return f"notleader fault: {faults}, {row['fault_phase']}; {row['outcome']}"


def _client(address: str | None) -> Endpoint:
    host, _, port = (address or "").rpartition(":")
    try:
        return Endpoint(ip_address(host.strip("[]").partition("%")[0]), int(port))
    except ValueError:
        return Endpoint(IPv4Address("192.0.2.255"), 1)


def _node_address(node_id: int | None, version: int) -> Address:
    number = _BOOTSTRAP if node_id is None or node_id < 0 else node_id
    if version == 6:
        return IPv6Address(_NODES_V6 + number)
    # 192.0.2.0/24 has room for the usual node ids, 198.18.0.0/15 (benchmarks) for the others.
    return IPv4Address(_NODES_V4 + number if number < 254 else _MORE_NODES_V4 + number % (1 << 17))


T = TypeVar("T", bound=tuple[Any, ...])


def in_time(moments: Iterable[T], horizon_us: int) -> Iterator[T]:
    """What begins with its time (µs), in order, where none comes more than ``horizon_us`` after a later one."""
    waiting: list[T] = []
    latest_us = 0
    for moment in moments:
        heapq.heappush(waiting, moment)
        latest_us = max(latest_us, moment[0])
        while waiting[0][0] < latest_us - horizon_us:
            yield heapq.heappop(waiting)
    while waiting:
        yield heapq.heappop(waiting)


def horizon_us(rows: Iterable[RowLike]) -> int:
    """How long before the moment it was recorded any exchange of these rows began, at most."""
    latest = longest = 0
    for row in rows:
        began = row["request_at_us"]
        if began is None:
            continue
        latest = max(latest, began, row["response_at_us"] or 0)
        longest = max(longest, latest - began)
    return longest
