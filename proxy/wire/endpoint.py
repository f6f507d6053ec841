"""A host and a port, as people and programs write them."""

from __future__ import annotations

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
