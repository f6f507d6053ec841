"""The PROXY protocol, version 2: a load balancer's word on who its client is, in front of everything else.

Binary form only (HAProxy's proxy-protocol.txt, section 2.2). Type-length-value fields behind the addresses are
passed over; their checksum (PP2_TYPE_CRC32C) is not checked.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import Final

from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.errors import WireError

_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
_HEAD: Final = Struct(">12sBBH")
HEAD_BYTES: Final = _HEAD.size
_LONGEST: Final = 4096  # addresses take 216 bytes at most; the rest is the sender's own fields
_VERSION_2: Final = 0x20
_LOCAL, _PROXY = 0, 1
_IPV4 = Struct(">4s4sHH")
_IPV6 = Struct(">16s16sHH")


def rest_bytes(head: bytes) -> int:
    """How many bytes follow the first HEAD_BYTES. WireError of the client for anything but version 2."""
    signature, version_and_command, _, size = _HEAD.unpack(head)
    if signature != _SIGNATURE:
        written = " (version 1, the text form, is not taken)" if head.startswith(b"PROXY ") else ""
        raise WireError(f"no PROXY protocol header, version 2, in front of the connection{written}", "client")
    if version_and_command & 0xF0 != _VERSION_2:
        raise WireError(f"PROXY protocol of version {version_and_command >> 4}; 2 is taken", "client")
    if size > _LONGEST:
        raise WireError(f"a PROXY protocol header of {size} bytes", "client")
    return int(size)


def source(head: bytes, rest: bytes) -> str | None:
    """Who the client is: `host:port`, IPv6 in brackets.

    None where the sender speaks for itself (LOCAL, a health check) or names no internet address. WireError of
    the client when the header says what it can't.
    """
    _, version_and_command, family_and_transport, _ = _HEAD.unpack(head)
    command = version_and_command & 0x0F
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise WireError(f"PROXY protocol command {command}, which nothing defines", "client")
    family = family_and_transport >> 4
    layout = {1: _IPV4, 2: _IPV6}.get(family)
    if layout is None:
        return None
    if len(rest) < layout.size:
        raise WireError("a PROXY protocol header that ends in its addresses", "client")
    address, _, port, _ = layout.unpack_from(rest)
    return str(Endpoint(str(ipaddress.ip_address(address)), port))
