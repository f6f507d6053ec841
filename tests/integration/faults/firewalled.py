"""Run inside a network namespace of its own: a client's time to error behind a firewall's DROP and behind `blackhole`.

Prints JSON: {"established": [DROP seconds, blackhole seconds], "dial": [DROP seconds, blackhole seconds]}.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time

from faults.schema import parse_fault_document
from proxy.config import load
from proxy.server import Proxy

_USER_TIMEOUT_MS = 3000
_SYN_RETRIES = 1  # one second, then two more


def connected(port: int) -> socket.socket:
    """A connection whose kernel gives up when nothing is acknowledged for three seconds."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
    return sock


def seconds_to_error(sock: socket.socket) -> float:
    """How long a request that nobody takes is believed in."""
    started = time.monotonic()
    sock.sendall(b"request")
    try:
        sock.recv(1)
    except TimeoutError:
        return time.monotonic() - started
    raise AssertionError("the connection was answered or closed")


def seconds_to_dial(port: int) -> float:
    """How long the kernel tries to connect."""
    sock = socket.socket()
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, _SYN_RETRIES)
    started = time.monotonic()
    try:
        sock.connect(("127.0.0.1", port))
    except TimeoutError:
        return time.monotonic() - started
    raise AssertionError("somebody answered the SYN")


def drop(port: int) -> None:
    """What an administrator types."""
    rules = f"""
        table inet wall {{
            chain input {{
                type filter hook input priority 0
                tcp dport {port} drop
            }}
        }}
    """
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


async def main() -> None:
    loop = asyncio.get_running_loop()
    broker = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    walled = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    kafka = f"127.0.0.1:{broker.sockets[0].getsockname()[1]}"
    proxy = Proxy(load({"kafka": kafka, "listen": "127.0.0.1:0", "admin": None, "connect_timeout_ms": 200}))
    await proxy.start()
    ports = [walled.sockets[0].getsockname()[1], proxy.listen.port]
    clients = [await loop.run_in_executor(None, connected, port) for port in ports]
    await asyncio.sleep(0.3)
    drop(ports[0])
    proxy.plan.add(parse_fault_document({"kind": "blackhole"}), proxy.now_us())
    proxy.plan_changed()
    established = [loop.run_in_executor(None, seconds_to_error, client) for client in clients]
    dialled = [loop.run_in_executor(None, seconds_to_dial, port) for port in ports]
    measured = {"established": await asyncio.gather(*established), "dial": await asyncio.gather(*dialled)}
    print(json.dumps(measured))
    await proxy.stop()


if __name__ == "__main__":
    asyncio.run(main())
