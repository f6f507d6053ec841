"""What sockets are told: where to listen, not to wait, to keep alive, to end with RST, to fall silent."""

import asyncio
import contextlib
import errno
import socket
import struct
from typing import Any, Final

from notleader.proxy.wire.endpoint import Endpoint

_RESET: Final = struct.pack("ii", 1, 0)
# linux/in.h and linux/in6.h; the socket module doesn't name them.
_IP_MINTTL: Final = 21
_IPV6_MINHOPCOUNT: Final = 73
_MOST_FLUSHED_BYTES: Final = 64 << 10


def tune(transport: asyncio.Transport) -> None:
    # asyncio leaves Nagle on for a listening socket made with proto=0.
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Brokers and clients set it too: a side that vanished without a word is noticed in the end.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


def reset(transport: asyncio.Transport) -> None:
    """Close with RST instead of FIN, behind what was written."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    if transport.get_write_buffer_size() > _MOST_FLUSHED_BYTES:
        transport.abort()  # the other side doesn't read: it would never be flushed
    else:
        transport.close()


def address_of(peer: object) -> str:
    if isinstance(peer, tuple):
        return str(Endpoint(*peer[:2]))
    return str(peer)


def silence(sock: socket.socket, silent: bool) -> None:
    """Make the kernel drop, or take again, every packet that arrives for this socket, SYN and ACK included.

    The other side sees a host that is powered off. Needs no privilege: packets must have a TTL of 255,
    which nobody sends (IP_MINTTL, made for RFC 5082). A connection accepted meanwhile inherits it.
    """
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MINHOPCOUNT, 255 if silent else 0)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MINTTL, 255 if silent else 0)


def bound(host: str, port: int) -> socket.socket:
    """A bound TCP socket. Raises OSError whose strerror names the address."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        made = bound_at(family, address)
        if port == 0:
            # A port that the kernel chose is lost when the socket listens no more (`refuse`); one that is named stays.
            with made as chosen:
                made = bound_at(family, chosen.getsockname())
    except OSError as error:
        raise _named(error, Endpoint(host, port)) from error
    return made


def bound_at(family: int, address: Any, *, shares: bool = False) -> socket.socket:
    """A TCP socket bound to an address as the kernel has it; one that `shares` its port is one of several that listen
    there. Raises OSError.
    """
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
        made.bind(address)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def listen_on(sock: socket.socket, address: Endpoint) -> None:
    """Listen with a bound socket. Raises OSError whose strerror names the address."""
    try:
        sock.listen(1024)
    except OSError as error:
        raise _named(error, address) from error


def refuse(sock: socket.socket) -> None:
    """Have a listening socket listen no more and stay bound: the kernel answers a SYN with RST, and nobody else gets
    the port, which a socket that is closed and made anew may lose in between. That is what shutdown does on Linux, in
    every process that has the socket.
    """
    with contextlib.suppress(OSError):  # ENOTCONN: it doesn't listen
        sock.shutdown(socket.SHUT_RDWR)


_WHAT_TO_DO: Final = {
    errno.EADDRINUSE: "; another program has that port: stop it, or name another one (0: any that is free)",
    errno.EADDRNOTAVAIL: "; no interface of this machine has that address",
    errno.EACCES: "; ports below 1024 take root, or CAP_NET_BIND_SERVICE",
}


def _named(error: OSError, address: Endpoint) -> OSError:
    return OSError(error.errno, f"can't listen on {address}: {error.strerror}{what_to_do(error)}")


def what_to_do(error: Exception) -> str:
    """Behind a semicolon, what helps where an address can't be listened on; nothing where we don't know."""
    return _WHAT_TO_DO.get(getattr(error, "errno", None) or 0, "")
