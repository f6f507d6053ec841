"""Loopback ports that nobody uses."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

from notleader.proxy.lab.errors import LabError

# Below Linux's ephemeral range (32768 up): an outgoing connection can't take the port of a stopped broker.
_FIRST, _LAST = 15_000, 32_000
_order = random.SystemRandom()


class PortsError(LabError):
    """No row of free ports was found."""


def free_ports(count: int, *, host: str = "127.0.0.1", besides: Collection[int] = ()) -> list[int]:
    """`count` consecutive ports that were free a moment ago, none of them in `besides`."""
    for _ in range(200):
        first = _order.randrange(_FIRST, _LAST - count)
        ports = list(range(first, first + count))
        if all(port not in besides and is_free(port, host=host) for port in ports):
            return ports
    raise PortsError(f"no {count} consecutive free ports on {host} between {_FIRST} and {_LAST}")


def is_free(port: int, *, host: str = "127.0.0.1") -> bool:
    """Whether a listener could bind there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Without this a port in TIME_WAIT counts as taken, though a Java or asyncio listener can have it.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
