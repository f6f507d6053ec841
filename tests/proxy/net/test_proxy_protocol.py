"""PROXY protocol headers as load balancers write them, and as nobody should."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import ip_address
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from notleader.proxy.net.proxy_protocol import HEAD_BYTES, rest_bytes, source
from notleader.proxy.wire.errors import WireError

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def header(command: int, family: int, rest: bytes, *, version: int = 2) -> bytes:
    return SIGNATURE + bytes((version << 4 | command, family << 4 | 1)) + pack(">H", len(rest)) + rest


def said(whole: bytes) -> str | None:
    head = whole[:HEAD_BYTES]
    assert rest_bytes(head) == len(whole) - HEAD_BYTES
    return source(head, whole[HEAD_BYTES:])


def addresses(client: str, port: int) -> bytes:
    packed = ip_address(client).packed
    return packed + bytes(len(packed)) + pack(">HH", port, 9092)


@pytest.mark.parametrize(
    ("whole", "client"),
    [
        (header(1, 1, addresses("192.0.2.7", 50001)), "192.0.2.7:50001"),
        (header(1, 2, addresses("2001:db8::7", 50001)), "[2001:db8::7]:50001"),
        # What AWS adds: PP2_TYPE_AWS, the id of the endpoint.
        (header(1, 1, addresses("192.0.2.7", 1) + b"\xea\x00\x05\x01vpce"), "192.0.2.7:1"),
        (header(0, 0, b""), None),
        (header(0, 1, addresses("192.0.2.7", 1)), None),
        (header(1, 0, b""), None),
        (header(1, 3, bytes(216)), None),
    ],
)
def test_who_the_client_is(whole: bytes, client: str | None) -> None:
    assert said(whole) == client


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        (b"PROXY TCP4 192.0.2.7 192.0.2.1 1 2\r\n", "version 1, the text form, is not taken"),
        (b"\x00\x00\x00\x20\x00\x12\x00\x03" + bytes(30), "no PROXY protocol header"),
        (header(1, 1, addresses("192.0.2.7", 1), version=3), "of version 3; 2 is taken"),
        (header(2, 1, addresses("192.0.2.7", 1)), "command 2"),
        (header(1, 1, bytes(11)), "ends in its addresses"),
        (header(1, 2, addresses("192.0.2.7", 1)), "ends in its addresses"),
        (header(1, 1, bytes(5000)), "header of 5000 bytes"),
    ],
)
def test_what_is_refused(whole: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason) as caught:
        said(whole)
    assert caught.value.side == "client"


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=300))
def test_whatever_follows_the_signature(kind: bytes, rest: bytes) -> None:
    with suppress(WireError):
        said(SIGNATURE + kind[:2] + pack(">H", len(rest)) + rest)
