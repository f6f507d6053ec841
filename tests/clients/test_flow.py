"""Slow readers, half-closed and reset connections: what one side does, the other sees, and memory stays bounded."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from notleader.proxy.wire.codec import response_codec
from notleader.proxy.wire.header import encode_response_header, parse_request_header
from notleader.proxy.wire.names import ApiKey
from tests.clients.comparison import Running, captured, exchanges, notleader_run
from tests.clients.raw import Raw, address_of, connected

# What one stalled connection may cost: read and write buffers, what the kernel took and the capture keeps, slack.
_BOUND_BYTES = 16 << 20
_ANSWER_BYTES = 40 << 20  # what a consumer asks for by default is 50 MiB
_FETCH = {
    "replica_id": -1,
    "max_wait_ms": 0,
    "min_bytes": 0,
    "max_bytes": _ANSWER_BYTES,
    "isolation_level": 0,
    "topics": [],
}


class FakeBroker:
    """A broker of one node that answers Metadata; what else it does with a connection, `serve` says."""

    def __init__(self, serve: Callable[[Raw, bytes], None]) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self._accept, daemon=True)]
        self.threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(30)
                self.threads.append(threading.Thread(target=self._connection, args=(connection,), daemon=True))
                self.threads[-1].start()

    def _connection(self, connection: socket.socket) -> None:
        try:
            with connection:
                raw = Raw(connection)
                while True:
                    frame = raw.receive()
                    header = parse_request_header(frame)
                    if header.api_key != ApiKey.Metadata:
                        self._serve(raw, frame)
                        return
                    raw.send(self._metadata(header.api_version, header.correlation_id))
        except EOFError:
            pass
        except BaseException as error:
            self.errors.append(error)

    def _metadata(self, api_version: int, correlation_id: int) -> bytes:
        host, port = address_of(self.address)
        brokers = [{"node_id": 1, "host": host, "port": port, "rack": None}]
        body = {"brokers": brokers, "controller_id": 1, "topics": []}
        header = encode_response_header(ApiKey.Metadata, api_version, correlation_id)
        return header + response_codec(ApiKey.Metadata, api_version).encode(body)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self.threads:
            thread.join(10)


@contextlib.contextmanager
def behind_the_proxy(serve: Callable[[Raw, bytes], None], folder: Path, level: str = "partition") -> Iterator[Running]:
    broker = FakeBroker(serve)
    try:
        flags = ("--capture-level", level, "--capture-rotate-s", "0.5")
        with notleader_run(broker.address, folder / "capture", folder / "log", *flags) as proxy:
            yield proxy
    finally:
        broker.close()
    assert not broker.errors


def once_it_records(proxy: Running, folder: Path) -> int:
    """Resident memory once the capture has written a segment: what that takes at first is not the traffic's."""
    with connected(proxy.listen) as client:
        client.call(ApiKey.Metadata, 1, {"topics": []})
    _until(lambda: any((folder / "capture").rglob("*.parquet")))
    Path(f"/proc/{proxy.pid}/clear_refs").write_text("5")  # VmHWM begins anew
    return memory_bytes(proxy.pid)


def memory_bytes(pid: int, what: str = "VmRSS") -> int:
    """Resident memory of a process now (VmRSS) or at most (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"no {what}")


def send_answer(raw: Raw, frame: bytes, size: int) -> None:
    """An answer of `size` bytes that begins as one to Fetch v4 does and goes on with one partition's records."""
    correlation_id = parse_request_header(frame).correlation_id
    name = b"big"
    head = struct.pack(f">iiih{len(name)}siihqqii", correlation_id, 0, 1, len(name), name, 1, 0, 0, 0, 0, 0, 0)
    head = head[:-4]
    records = size - len(head) - 4
    raw.socket.sendall(struct.pack(">i", size) + head + struct.pack(">i", records))
    piece = bytes(1 << 20)
    while records:
        sent = min(records, len(piece))
        raw.socket.sendall(piece[:sent])
        records -= sent


@pytest.mark.parametrize("level", ["header", "partition"])
def test_a_client_that_does_not_read_a_large_answer(level: str, tmp_path: Path) -> None:
    def serve(raw: Raw, frame: bytes) -> None:
        send_answer(raw, frame, _ANSWER_BYTES)

    with (
        behind_the_proxy(serve, tmp_path, level) as proxy,
        connected(proxy.listen, receive_buffer_bytes=64 << 10) as client,
    ):
        client.call(ApiKey.Metadata, 1, {"topics": []})
        before = once_it_records(proxy, tmp_path)
        client.ask(ApiKey.Fetch, 4, _FETCH)
        time.sleep(2)
        assert memory_bytes(proxy.pid) - before < _BOUND_BYTES
        # One MiB, and a pause again: it goes on, and no further than it has to.
        left = _ANSWER_BYTES + 4
        left -= len(client._exactly(1 << 20))
        time.sleep(1)
        assert memory_bytes(proxy.pid) - before < _BOUND_BYTES
        while left:
            left -= len(client._exactly(min(left, 1 << 20)))
        assert memory_bytes(proxy.pid, "VmHWM") - before < _BOUND_BYTES
        _until(lambda: memory_bytes(proxy.pid) - before < _BOUND_BYTES)
    (row,) = [row for row in exchanges(captured(tmp_path / "capture")) if row["api_name"] == "Fetch"]
    assert (row["response_bytes"], row["outcome"]) == (_ANSWER_BYTES + 4, "answered")


def test_a_broker_that_does_not_read_a_large_request(tmp_path: Path) -> None:
    go_on = threading.Event()
    got: list[int] = []

    def serve(raw: Raw, frame: bytes) -> None:
        raise AssertionError("the request was never whole")

    broker_receives = 64 << 10
    broker = FakeBroker(serve)
    broker._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, broker_receives)
    held = broker._connection

    def slow(connection: socket.socket) -> None:
        raw = Raw(connection)
        first = connection.recv(8, socket.MSG_PEEK)
        if len(first) < 6 or struct.unpack_from(">h", first, 4)[0] != ApiKey.Produce:
            held(connection)
            return
        with connection:
            go_on.wait(30)
            got.append(len(raw.receive()))

    broker._connection = slow  # type: ignore[method-assign]
    size = 64 << 20
    try:
        flags = ("--capture-level", "header", "--capture-rotate-s", "0.5")
        with (
            notleader_run(broker.address, tmp_path / "capture", tmp_path / "log", *flags) as proxy,
            connected(proxy.brokers[0]) as client,
        ):
            before = once_it_records(proxy, tmp_path)
            # Produce v3: transactional id null, acks 1, timeout, one topic whose name is what all the bytes are.
            head = struct.pack(">hhih3shhii", ApiKey.Produce, 3, 1, 3, b"raw", -1, 1, 1000, 0)
            client.socket.sendall(struct.pack(">i", size) + head)
            client.socket.settimeout(1)
            sent = len(head)
            with pytest.raises(TimeoutError):
                while True:
                    sent += client.socket.send(bytes(1 << 20))
            assert sent < size // 2, "the client is held back"
            assert memory_bytes(proxy.pid) - before < _BOUND_BYTES
            go_on.set()
            client.socket.settimeout(30)
            while sent < size:
                sent += client.socket.send(bytes(min(size - sent, 1 << 20)))
            _until(lambda: got == [size])
            assert memory_bytes(proxy.pid, "VmHWM") - before < _BOUND_BYTES
    finally:
        broker.close()
    assert not broker.errors


def test_a_client_that_has_said_all_still_gets_its_answers(tmp_path: Path) -> None:
    """FIN from the client reaches the broker, whose answers after it reach the client, and then its FIN."""

    def serve(raw: Raw, frame: bytes) -> None:
        with pytest.raises(EOFError):
            raw.receive()
        header = parse_request_header(frame)
        time.sleep(0.2)
        body = {"error_code": 0, "groups": [{"group_id": "late", "protocol_type": "consumer"}]}
        answer = response_codec(ApiKey.ListGroups, header.api_version).encode(body)
        raw.send(encode_response_header(ApiKey.ListGroups, header.api_version, header.correlation_id) + answer)

    with behind_the_proxy(serve, tmp_path) as proxy, connected(proxy.listen) as client:
        client.ask(ApiKey.ListGroups, 1, {})
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer()["groups"][0]["group_id"] == "late"
        assert client.socket.recv(1) == b""
    rows = captured(tmp_path / "capture")
    assert [row["outcome"] for row in exchanges(rows)] == ["answered"]
    assert [row["detail"] for row in rows if row["event"] == "disconnect"] == ["the client closed the connection"]


def test_a_broker_that_ends_before_it_answers(tmp_path: Path) -> None:
    def serve(raw: Raw, frame: bytes) -> None:
        return

    with behind_the_proxy(serve, tmp_path) as proxy, connected(proxy.listen) as client:
        client.ask(ApiKey.ListGroups, 1, {})
        assert client.socket.recv(1) == b""
    rows = captured(tmp_path / "capture")
    assert [row["outcome"] for row in exchanges(rows)] == ["no_response"]
    assert [row["detail"] for row in rows if row["event"] == "disconnect"] == ["the broker closed the connection"]


def test_a_reset_is_a_reset_on_the_other_side_too(tmp_path: Path) -> None:
    seen: list[type[BaseException]] = []
    there = threading.Event()

    def serve(raw: Raw, frame: bytes) -> None:
        there.set()
        try:
            raw.receive()
        except (EOFError, ConnectionResetError) as error:
            seen.append(type(error))

    with behind_the_proxy(serve, tmp_path) as proxy:
        with connected(proxy.listen) as client:
            client.ask(ApiKey.ListGroups, 1, {})
            assert there.wait(10)
            reset_on_close(client)
        _until(lambda: bool(seen))
    assert seen == [ConnectionResetError]


def test_a_reset_of_the_broker_reaches_the_client(tmp_path: Path) -> None:
    def serve(raw: Raw, frame: bytes) -> None:
        reset_on_close(raw)

    with (
        behind_the_proxy(serve, tmp_path) as proxy,
        connected(proxy.listen) as client,
        pytest.raises(ConnectionResetError),
    ):
        client.ask(ApiKey.ListGroups, 1, {})
        client.answer()


def reset_on_close(raw: Raw) -> None:
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _until(reached: Callable[[], bool]) -> None:
    stop = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < stop
        time.sleep(0.02)
