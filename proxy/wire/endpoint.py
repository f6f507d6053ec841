"""A host and a port, as people and programs write them."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple


class Endpoint(NamedTuple):
    """A host and a port; as text an IPv6 address is in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """``host:port``, ``[::1]:port`` or ``:port`` (loopback). Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{text!r} is not HOST:PORT (a port is a number up to 65535)")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: write an IPv6 address in brackets, like [::1]:9092")
    return Endpoint(host or "127.0.0.1", int(port))


def is_loopback(host: str) -> bool:
    """Whether a listen address or a Host name can only mean this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def is_wildcard(host: str) -> bool:
    """Whether a listen address means every address of this machine."""
    try:
        return ipaddress.ip_address(host.strip("[]") or "0.0.0.0").is_unspecified
    except ValueError:
        return False


def is_served_by(address: Endpoint, listen: Endpoint) -> bool:
    """Whether who connects to an address meets the listener, as far as the names tell. Port 0 is any other."""
    if address.port != listen.port or not listen.port:
        return False
    if address.host == listen.host:
        return True
    here = is_loopback(address.host) or is_wildcard(address.host)
    return here and (is_loopback(listen.host) or is_wildcard(listen.host))
