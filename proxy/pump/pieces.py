"""Frames in pieces: slices without needless copies, what is kept of them, and what an impossible one most likely is."""

from __future__ import annotations

import sys
from struct import Struct
from typing import TYPE_CHECKING, Final

from notleader.proxy.pump.flags import SMALL

if TYPE_CHECKING:
    from notleader.proxy.pump.exchange import Kept, Passing

_LENGTH: Final = Struct(">i")


def part(data: bytes, start: int, stop: int) -> bytes | memoryview:
    """A slice, without copying where that is worth it; the whole as it is."""
    if start == 0 and stop == len(data):
        return data
    if stop - start < SMALL:
        return data[start:stop]
    return memoryview(data)[start:stop]


def hidden(data: bytes, position: int) -> bytes:
    """A client skips what it knows no tag number for; without the endpoints it asks for Metadata."""
    return b"".join((data[:position], b"\x7f", data[position + 1 :]))


def framed(frame: bytes) -> bytes:
    """A frame behind its length."""
    return _LENGTH.pack(len(frame)) + frame


def behind_length(*frame: bytes | memoryview) -> tuple[bytes, ...]:
    """A frame behind its length, which a large one is not joined to: who keeps the frame needs no copy then."""
    whole = b"".join(frame)
    return (_LENGTH.pack(len(whole)), whole) if len(whole) > SMALL else (framed(whole),)


def joined(frame: bytes | memoryview | list[bytes | memoryview] | Passing) -> bytes | memoryview:
    """A kept request, or as much of it as there is: its header."""
    if isinstance(frame, bytes | memoryview):
        return frame
    return b"".join(frame) if isinstance(frame, list) else frame.head


def appended(kept: Kept, piece: bytes | memoryview) -> Kept:
    """What is kept of a frame, with the next part of it."""
    if kept is None:
        return piece
    if isinstance(kept, bytes | memoryview):
        return [kept, piece]
    if isinstance(kept, list):
        kept.append(piece)
    else:
        kept.feed(piece)
    return kept


def client_id_of(raw: bytes) -> str:
    """A client id as text, the same object wherever it is the same: hardly any connection has one to itself."""
    return sys.intern(raw.decode("utf-8", "replace"))


def absurd_length(data: bytes, position: int, size: int) -> str:
    """Say what an impossible frame length most likely is."""
    start = bytes(data[position : position + 4])
    if start in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "):
        return f"this looks like HTTP ({start.decode().strip()}), not Kafka"
    if start[0] == 0x16 and start[1] == 0x03:
        return "this looks like a TLS handshake; this listener speaks plaintext Kafka"
    return f"a frame length of {size} bytes"
