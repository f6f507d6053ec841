"""Ask a broker the few things the lab needs, over one blocking socket (versions that 0.11 and 4.x both know).

Written by hand rather than with `notleader.proxy.wire`: what says whether Kafka works must not fail with the code
under test.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from notleader.proxy.lab.errors import LabError

_LIST_OFFSETS, _METADATA, _FIND_COORDINATOR, _CREATE_TOPICS, _INIT_PRODUCER_ID = 2, 3, 10, 19, 22
_TOPIC_ALREADY_EXISTS = 36


class ProbeError(LabError):
    """The broker can't be reached, or answered with an error."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What Metadata says: broker addresses by node id, the controller, leaders by (topic, partition index).

    A partition without a leader has -1.
    """

    brokers: dict[int, tuple[str, int]]
    controller_id: int
    leaders: dict[tuple[str, int], int]


def cluster_view(host: str, port: int, *, timeout_s: float = 5.0) -> ClusterView:
    """The broker's view of the cluster and of all its topics; raises `ProbeError`."""
    answer = _Reader(_ask(host, port, _METADATA, 1, struct.pack(">i", -1), timeout_s))
    brokers = {}
    for _ in range(answer.int32()):
        node_id = answer.int32()
        brokers[node_id] = (answer.string() or "", answer.int32())
        answer.string()  # rack
    controller_id = answer.int32()
    leaders = {}
    for _ in range(answer.int32()):
        answer.int16()
        topic = answer.string() or ""
        answer.int8()
        for _ in range(answer.int32()):
            answer.int16()
            partition_index, leader = answer.int32(), answer.int32()
            leaders[topic, partition_index] = leader
            for _ in range(2):  # replicas, then in-sync replicas
                answer.skip(4 * answer.int32())
    return ClusterView(brokers, controller_id, leaders)


def serves_producers_and_groups(host: str, port: int, *, timeout_s: float = 5.0) -> bool:
    """Whether the broker hands out producer ids and knows a group's coordinator; asking is what creates both.

    A broker that has just started refuses the first of each (COORDINATOR_LOAD_IN_PROGRESS and
    COORDINATOR_NOT_AVAILABLE), which old clients don't survive.
    """
    no_transactional_id = struct.pack(">hi", -1, 60_000)
    producer_id = _Reader(_ask(host, port, _INIT_PRODUCER_ID, 0, no_transactional_id, timeout_s))
    coordinator = _Reader(_ask(host, port, _FIND_COORDINATOR, 0, _string("notleader-lab"), timeout_s))
    producer_id.int32()  # throttle_time_ms
    return producer_id.int16() == 0 and coordinator.int16() == 0


def create_topic(
    host: str,
    port: int,
    topic: str,
    *,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    timeout_s: float = 20.0,
) -> None:
    """Create a topic; one that exists already is fine. Raises `ProbeError`."""
    body = struct.pack(">i", 1) + _string(topic) + struct.pack(">ihi", partitions, replication_factor, 0)
    body += struct.pack(">i", len(config))
    body += b"".join(_string(name) + _string(value) for name, value in config.items())
    body += struct.pack(">i?", int(timeout_s * 1000), False)
    answer = _Reader(_ask(host, port, _CREATE_TOPICS, 2, body, timeout_s + 5))
    answer.int32()  # throttle_time_ms
    for _ in range(answer.int32()):
        answer.string()
        code, message = answer.int16(), answer.string()
        if code not in (0, _TOPIC_ALREADY_EXISTS):
            raise ProbeError(f"topic {topic} was not created: error {code} {message or ''}".rstrip())


def leads(host: str, port: int, topic: str, indexes: Collection[int], *, timeout_s: float = 5.0) -> bool:
    """Whether the broker answers for all these partitions as their leader.

    Metadata names a new partition's leader a moment before that broker serves it; until then it answers
    NOT_LEADER_OR_FOLLOWER, which a test would take for a fault.
    """
    body = struct.pack(">ii", -1, 1) + _string(topic) + struct.pack(">i", len(indexes))
    body += b"".join(struct.pack(">iq", index, -1) for index in indexes)
    answer = _Reader(_ask(host, port, _LIST_OFFSETS, 1, body, timeout_s))
    serves = True
    for _ in range(answer.int32()):
        answer.string()
        for _ in range(answer.int32()):
            answer.int32()  # partition_index
            serves &= answer.int16() == 0
            answer.skip(16)  # timestamp, offset
    return serves


def _ask(host: str, port: int, api_key: int, api_version: int, body: bytes, timeout_s: float) -> bytes:
    """One request on a connection of its own; the response after its header (v0)."""
    frame = struct.pack(">hhi", api_key, api_version, 1) + _string("notleader-lab") + body
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", _exactly(connection, 4))
            return _exactly(connection, size)[4:]
    except OSError as error:
        raise ProbeError(f"{host}:{port}: {error}") from error


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = connection.recv(size - len(got))
        if not part:
            raise ConnectionResetError("closed in mid-answer")
        got += part
    return got


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._offset = data, 0

    def _one(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._data, self._offset)
        self._offset += struct.calcsize(layout)
        return int(value)

    def int8(self) -> int:
        return self._one(">b")

    def int16(self) -> int:
        return self._one(">h")

    def int32(self) -> int:
        return self._one(">i")

    def skip(self, size: int) -> None:
        self._offset += size

    def string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        self._offset += length
        return self._data[self._offset - length : self._offset].decode()
