"""Drives the Toxiproxy API with toxiproxy-python: toxiproxy_client.py HOST PORT ECHO."""

from __future__ import annotations

import socket
import sys
import time

from toxiproxy import Toxiproxy
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists


def ping(address: str) -> float:
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 120) as connection:
        started = time.monotonic()
        connection.sendall(b"ping")
        assert connection.recv(4)
        return time.monotonic() - started


def main() -> None:
    host, port, echo = sys.argv[1:]
    server = Toxiproxy()
    server.update_api_consumer(host, int(port))
    assert server.running()
    assert b"2.12.0" in server.version()

    proxy = server.create(upstream=echo, name="echo")
    assert not proxy.listen.endswith(":0"), proxy.listen
    proxy.add_toxic(type="latency", attributes={"latency": 200})
    assert ping(proxy.listen) >= 0.2
    assert proxy.get_toxic("latency_downstream").attributes == {"latency": 200, "jitter": 0}
    proxy.destroy_toxic("latency_downstream")
    proxy.add_toxic(type="latency", attributes={"latency": 3_600_000})
    proxy.destroy_toxic("latency_downstream")
    ping(proxy.listen)  # before the hour is over
    for call, error in (
        (lambda: proxy.add_toxic(type="nonsense"), InvalidToxic),
        (lambda: proxy.destroy_toxic("latency_downstream"), NotFound),
        (lambda: server.create(upstream=echo, name="echo"), ProxyExists),
    ):
        try:
            call()
        except error:
            continue
        raise AssertionError(f"{error} was expected")
    # Kafka faults are toxics too: of a proxy made here, and of the Kafka listeners.
    # (One made here is read as Kafka from then on: the echo isn't that.)
    for one in (server.create(upstream=echo, name="kafka"), server.get_proxy("bootstrap")):
        attributes = {"delay_ms": 20, "match": {"api_key": ["Produce", "Fetch"]}}
        one.add_toxic(name="slow", type="kafka_delay", attributes=attributes)
        assert one.get_toxic("slow").attributes == attributes
        one.destroy_toxic("slow")
        assert "slow" not in one.toxics()
    server.get_proxy("kafka").destroy()
    with proxy.down():
        try:
            ping(proxy.listen)
        except ConnectionRefusedError:
            pass
        else:
            raise AssertionError("a disabled proxy accepted a connection")
    ping(proxy.listen)
    proxy.add_toxic(type="timeout", stream="upstream", attributes={"timeout": 0})
    server.reset()
    assert not proxy.toxics()
    server.populate([{"name": "other", "upstream": echo, "listen": "127.0.0.1:0"}])
    assert set(server.proxies()) == {"bootstrap", "echo", "other"}
    server.destroy_all()
    assert set(server.proxies()) == {"bootstrap"}, "the Kafka listeners stay"
    print("OK")


main()
