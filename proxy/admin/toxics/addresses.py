"""Addresses as Toxiproxy's clients write them: `localhost:80`, `:0`, `[::1]:80`; when two are one, and listening."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Final

_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
_NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as (host, port); the host may be empty. ValueError for anything else."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is no address: HOST:PORT is wanted")
    return host.strip("[]"), int(port)


async def are_one(left: str, right: str) -> bool:
    """Whether both name one place, however they write it. ValueError for what is no address, OSError for no host."""
    (left_host, left_port), (right_host, right_port) = split_address(left), split_address(right)
    if left_port != right_port:
        return False
    return left_host == right_host or bool(await _resolved(left_host) & await _resolved(right_host))


async def listen_at(address: str, accept: Callable[[], asyncio.Protocol]) -> tuple[asyncio.Server, str]:
    """A server there, and where that is: the port 0 is some free one. OSError or ValueError when that is impossible."""
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    if host:
        # The first address only: a name with several would get a port each when the port is 0.
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        server = await loop.create_server(accept, str(found[0][4][0]), port, reuse_address=True)
    else:
        server = await loop.create_server(accept, sock=_on_every_address(port))
    bound = server.sockets[0].getsockname()
    return server, f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}"


def _on_every_address(port: int) -> socket.socket:
    """A socket for both IP versions with one port, as Go's `:port` is; for IPv4 alone where there is no IPv6."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    return socket.create_server(("", port))


async def _resolved(host: str) -> frozenset[str]:
    if host in _EVERYWHERE:
        return _EVERYWHERE
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return frozenset(str(entry[4][0]) for entry in found)
