"""Addresses as Toxiproxy's clients write them: `localhost:80`, `:0`, `[::1]:80`; when two are one, and listening.

What is wrong with one is said in Go's words, as Toxiproxy's clients and their tests know them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Final

from notleader.proxy.wire.endpoint import Endpoint

_EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::"})
_NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL})


class ListenError(OSError):
    """Nothing can listen there; the text is Go's."""


def split_address(address: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port` as (host, port); the host may be empty, the port a service. ValueError for others."""
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or address.endswith("]"):
        raise ValueError(f"address {address}: missing port in address")
    if ":" in host and not bracketed:
        raise ValueError(f"address {address}: too many colons in address")
    if not port.lstrip("+-").isdecimal() and port:
        try:
            return host, socket.getservbyname(port, "tcp")
        except (OSError, UnicodeError) as error:
            raise ValueError(f"lookup tcp/{port}: unknown port") from error
    if not 0 <= int(port or 0) <= 65535:
        raise ValueError(f"address {port}: invalid port")
    return host[1:-1] if bracketed else host, int(port or 0)


async def are_one(left: str, right: str) -> bool:
    """Whether both name one place, however they write it. ValueError for what is no address, OSError for no host."""
    (left_host, left_port), (right_host, right_port) = split_address(left), split_address(right)
    if left_port != right_port or not left_port:
        return False  # port 0 is another each time
    return left_host == right_host or bool(await _resolved(left_host) & await _resolved(right_host))


async def listen_at(address: str, accept: Callable[[], asyncio.Protocol]) -> tuple[asyncio.Server, str]:
    """A server there, and where that is: the port 0 is some free one. ListenError when that is impossible."""
    try:
        host, port = split_address(address)
    except ValueError as error:
        raise ListenError(f"listen tcp: {error}") from error
    loop = asyncio.get_running_loop()
    place = f":{port}"
    try:
        if host:
            place = await _first(host, port)
            server = await loop.create_server(accept, split_address(place)[0], port, reuse_address=True)
        else:
            server = await loop.create_server(accept, sock=_on_every_address(port))
    except OSError as error:
        if isinstance(error, socket.gaierror):
            raise ListenError(f"listen tcp: {error.strerror}") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ListenError(f"listen tcp {place}: bind: {reason[:1].lower()}{reason[1:]}") from error
    bound = server.sockets[0].getsockname()
    return server, str(Endpoint(*bound[:2]))


async def _first(host: str, port: int) -> str:
    """The one address that is listened at: a name with several would get a port each when the port is 0; IPv4 first."""
    found = await _looked_up(host)
    families = {entry[0]: str(entry[4][0]) for entry in reversed(found)}
    return str(Endpoint(families.get(socket.AF_INET) or next(iter(families.values())), port))


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
    return frozenset(str(entry[4][0]) for entry in await _looked_up(host))


async def _looked_up(host: str) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
    try:
        return await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)  # type: ignore[return-value]
    except (socket.gaierror, UnicodeError) as error:
        number = getattr(error, "errno", None) or socket.EAI_NONAME
        raise socket.gaierror(number, f"lookup {host}: no such host") from error
