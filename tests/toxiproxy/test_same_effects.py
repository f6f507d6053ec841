"""What a toxic does to bytes, by a Toxiproxy server and by ours: the same in kind, in both directions.

Times are compared as what they are at least; how exact they are, Toxiproxy's own tests say (`test_official_suite`).
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

pytestmark = pytest.mark.toxiproxy

_DATA = bytes(range(256)) * 120  # 30 KB
_WAIT_S = 20


class Pair:
    """The two ends of one connection through a proxy: what is sent at one is received at the other."""

    def __init__(self, url: str, toxics: list[dict[str, Any]]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        upstream = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.http = httpx.Client(base_url=url, trust_env=False)
        self.http.delete("/proxies/pair")
        made = self.http.post("/proxies", json={"name": "pair", "listen": "127.0.0.1:0", "upstream": upstream})
        for toxic in toxics:
            assert self.http.post("/proxies/pair/toxics", json=toxic).status_code == 200
        host, port = made.json()["listen"].split(":")
        self.client = socket.create_connection((host, int(port)), _WAIT_S)
        self.upstream, _ = self._server.accept()
        self.upstream.settimeout(_WAIT_S)

    def ends(self, stream: str) -> tuple[socket.socket, socket.socket]:
        """Where it is sent and where it arrives."""
        return (self.client, self.upstream) if stream == "upstream" else (self.upstream, self.client)

    def close(self) -> None:
        for each in (self.client, self.upstream, self._server, self.http):
            each.close()


@contextlib.contextmanager
def pair(url: str, *toxics: dict[str, Any]) -> Iterator[Pair]:
    made = Pair(url, list(toxics))
    try:
        yield made
    finally:
        made.close()


def received(end: socket.socket) -> tuple[bytes, str, float, int]:
    """All that comes, how it ends, when, and in how many reads."""
    data, reads, began = b"", 0, time.monotonic()
    while len(data) < len(_DATA):
        try:
            read = end.recv(1 << 16)
        except ConnectionResetError:
            return data, "reset", time.monotonic() - began, reads
        except TimeoutError:
            return data, "nothing more", time.monotonic() - began, reads
        if not read:
            return data, "closed", time.monotonic() - began, reads
        data += read
        reads += 1
    return data, "whole", time.monotonic() - began, reads


def passed(url: str, stream: str, toxic: dict[str, Any], at_least_s: float = 0) -> tuple[bytes, str, bool]:
    with pair(url, {"stream": stream, **toxic}) as ends:
        source, target = ends.ends(stream)
        source.sendall(_DATA)
        data, ending, took_s, _ = received(target)
        return data, ending, took_s >= at_least_s


_KINDS: dict[str, tuple[dict[str, Any], float]] = {
    "noop": ({"type": "noop"}, 0),
    "latency": ({"type": "latency", "attributes": {"latency": 300}}, 0.28),
    "bandwidth": ({"type": "bandwidth", "attributes": {"rate": 100}}, 0.25),
    "slicer": ({"type": "slicer", "attributes": {"average_size": 1000, "size_variation": 100, "delay": 5000}}, 0.1),
    "limit_data": ({"type": "limit_data", "attributes": {"bytes": 1000}}, 0),
    "limit_data 0": ({"type": "limit_data"}, 0),
    "timeout": ({"type": "timeout", "attributes": {"timeout": 200}}, 0.18),
    "reset_peer": ({"type": "reset_peer", "attributes": {"timeout": 100}}, 0.08),
    "spared": ({"type": "timeout", "attributes": {"timeout": 100}, "toxicity": 0}, 0),
}


@pytest.mark.parametrize("stream", ["upstream", "downstream"])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_toxic_does_the_same(ours: str, theirs: str, kind: str, stream: str) -> None:
    toxic, at_least_s = _KINDS[kind]
    here, there = (passed(url, stream, toxic, at_least_s) for url in (ours, theirs))
    assert here[2]
    assert here == there


def _slow_close(ends: Pair) -> Any:
    ends.upstream.sendall(b"last")
    ends.upstream.close()
    data, ending, took_s, _ = received(ends.client)
    return data, ending, took_s > 0.25


def _disabled(ends: Pair) -> Any:
    ends.http.patch("/proxies/pair", json={"enabled": False})
    return received(ends.client)[:2], received(ends.upstream)[:2]


def _deleted(ends: Pair) -> Any:
    ends.http.delete("/proxies/pair")
    return received(ends.client)[:2], received(ends.upstream)[:2]


def _added_and_removed(ends: Pair) -> Any:
    toxic = {"type": "timeout", "stream": "downstream"}
    ends.http.post("/proxies/pair/toxics", json=toxic)
    ends.upstream.sendall(b"swallowed")
    ends.http.delete("/proxies/pair/toxics/timeout_downstream")
    return received(ends.client)[:2]


def _latency_lifted(ends: Pair) -> Any:
    ends.http.post("/proxies/pair/toxics", json={"type": "latency", "attributes": {"latency": 60_000}})
    ends.upstream.sendall(_DATA[:1000])
    time.sleep(0.2)
    ends.http.delete("/proxies/pair/toxics/latency_downstream")
    ends.upstream.close()
    return received(ends.client)[:2]


def _limit_raised(ends: Pair) -> Any:
    ends.http.post("/proxies/pair/toxics", json={"type": "limit_data", "attributes": {"bytes": 100}})
    ends.upstream.sendall(b"x" * 60)
    first = ends.client.recv(100)
    ends.http.patch("/proxies/pair/toxics/limit_data_downstream", json={"attributes": {"bytes": 200}})
    ends.upstream.sendall(b"y" * 500)
    return first, received(ends.client)[:2]


@pytest.mark.parametrize(
    ("does", "toxics"),
    [
        (_slow_close, [{"type": "slow_close", "attributes": {"delay": 300}}]),
        (_disabled, []),
        (_deleted, [{"type": "latency", "attributes": {"latency": 1000}}]),
        (_added_and_removed, []),
        (_latency_lifted, []),
        (_limit_raised, []),
    ],
)
def test_a_change_on_the_way_does_the_same(
    ours: str, theirs: str, does: Callable[[Pair], Any], toxics: list[dict[str, Any]]
) -> None:
    found = []
    for url in (ours, theirs):
        with pair(url, *toxics) as ends:
            found.append(does(ends))
    assert found[0] == found[1]


def test_a_server_that_is_not_there(ours: str, theirs: str) -> None:
    endings = []
    for url in (ours, theirs):
        with httpx.Client(base_url=url, trust_env=False) as http:
            wanted = {"name": "nobody", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}
            host, port = http.post("/proxies", json=wanted).json()["listen"].split(":")
            with socket.create_connection((host, int(port)), _WAIT_S) as client:
                endings.append(received(client)[:2])
    assert endings[0] == endings[1]


def test_the_same_bytes_are_counted(ours: str, theirs: str) -> None:
    counted = []
    for url in (ours, theirs):
        with pair(url, {"type": "limit_data", "attributes": {"bytes": 1000}}) as ends:
            upstream = "{}:{}".format(*ends.upstream.getsockname())
            ends.client.sendall(b"x" * 500)
            ends.upstream.recv(500)
            ends.upstream.sendall(_DATA)
            received(ends.client)
        time.sleep(0.5)  # there they are counted when the connection has ended
        lines = httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
        values = {}
        for line in lines:
            if line.startswith("toxiproxy_proxy_") and f'upstream="{upstream}"' in line:
                labels, value = line.split()
                name, direction = labels.partition("{")[0], "up" if 'direction="upstream"' in labels else "down"
                values[name, direction] = float(value)
        counted.append(values)
    assert counted[0]["toxiproxy_proxy_sent_bytes_total", "up"] == 500
    assert counted[0]["toxiproxy_proxy_sent_bytes_total", "down"] == 1000
    assert counted[0] == counted[1]


def test_many_at_once(ours: str) -> None:
    """Forty threads, as a parallel test suite is, each with a proxy of its own: nothing is refused or mixed up."""
    wrong: list[object] = []

    def one(number: int) -> None:
        with httpx.Client(base_url=ours, trust_env=False, timeout=60) as http:
            for turn in range(5):
                name = f"p{number}"
                made = http.post("/proxies", json={"name": name, "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"})
                toxic = http.post(f"/proxies/{name}/toxics", json={"type": "latency", "attributes": {"latency": turn}})
                shown = http.get(f"/proxies/{name}").json()["toxics"]
                gone = http.delete(f"/proxies/{name}")
                if (made.status_code, gone.status_code, shown) != (201, 204, [toxic.json()]):
                    wrong.append((made, gone, shown))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
