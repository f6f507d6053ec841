"""The pcapng format (IETF draft-ietf-opsawg-pcapng), as far as captures need it, and IP and TCP headers. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

LINKTYPE_RAW: Final = 101  # packets begin with their IP header
_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_NAMES: Final = 4
_PACKET: Final = 6
_OPT_COMMENT: Final = 1
_SHB_USERAPPL: Final = 4
_IF_NAME: Final = 2
_IF_TSRESOL: Final = 9
_MICROSECONDS: Final = 6
_NRB_IPV4: Final = 1
_NRB_IPV6: Final = 2
_TCP: Final = 6

FIN: Final = 0x01
SYN: Final = 0x02
RST: Final = 0x04
PSH: Final = 0x08
ACK: Final = 0x10

Address = IPv4Address | IPv6Address


class Endpoint(NamedTuple):
    """One end of a TCP stream."""

    address: Address
    port: int


def header(application: str, interface: str) -> bytes:
    """What a file starts with: a section, and one interface of raw IP packets with times in µs."""
    section = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + _options([(_SHB_USERAPPL, application.encode())])
    described = struct.pack("<HHI", LINKTYPE_RAW, 0, 0) + _options(
        [(_IF_NAME, interface.encode()), (_IF_TSRESOL, bytes((_MICROSECONDS,)))]
    )
    return _block(_SECTION, section) + _block(_INTERFACE, described)


def names(known: Mapping[Address, str]) -> bytes:
    """The names under which addresses are to be shown."""
    records = []
    for address, name in known.items():
        value = address.packed + name.encode() + b"\0"
        kind = _NRB_IPV4 if address.version == 4 else _NRB_IPV6
        records.append(struct.pack("<HH", kind, len(value)) + _padded(value))
    return _block(_NAMES, b"".join(records) + struct.pack("<HH", 0, 0))


def packet(at_us: int, data: bytes, comment: str = "") -> bytes:
    """One captured packet, with a comment where there is something to say."""
    options = [(_OPT_COMMENT, comment.encode())] if comment else []
    head = struct.pack("<IIIII", 0, at_us >> 32, at_us & 0xFFFFFFFF, len(data), len(data))
    return _block(_PACKET, head + _padded(data) + _options(options))


def tcp_segment(
    source: Endpoint, target: Endpoint, sequence: int, acknowledged: int, flags: int, payload: bytes = b""
) -> bytes:
    """An IP packet with one TCP segment, checksums included; at most 65,000 bytes of payload."""
    tcp = struct.pack(
        ">HHIIBBHHH",
        source.port,
        target.port,
        sequence & 0xFFFFFFFF,
        acknowledged & 0xFFFFFFFF,
        5 << 4,
        flags,
        0xFFFF,
        0,
        0,
    )
    size = len(tcp) + len(payload)
    addresses = source.address.packed + target.address.packed
    pseudo = addresses + (
        struct.pack(">BBH", 0, _TCP, size) if source.address.version == 4 else struct.pack(">IHBB", size, 0, 0, _TCP)
    )
    checksum = _checksum(pseudo + tcp + payload)
    tcp = tcp[:16] + struct.pack(">H", checksum) + tcp[18:]
    if source.address.version == 6:
        return struct.pack(">IHBB", 6 << 28, size, _TCP, 64) + addresses + tcp + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, 0, 0x4000, 64, _TCP, 0) + addresses
    return ip[:10] + struct.pack(">H", _checksum(ip)) + ip[12:] + tcp + payload


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", 12 + len(body))
    return struct.pack("<I", kind) + size + body + size


def _options(options: Iterable[tuple[int, bytes]]) -> bytes:
    written = [struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options]
    return b"".join(written) + struct.pack("<HH", 0, 0) if written else b""


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
