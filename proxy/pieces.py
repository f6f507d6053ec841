"""Frames in pieces: slices without needless copies, what is kept of them, and what an impossible one most likely is."""

from __future__ import annotations

from struct import Struct
from typing import Final

from notleader.proxy.capture.passing import Passing
from notleader.proxy.plain.pure import SMALL
from notleader.proxy.session.inflight import Kept
from notleader.proxy.wire.errors import WireError

_LENGTH: Final = Struct(">i")


def part(data: bytes, start: int, stop: int) -> bytes | memoryview:
    """A slice, without copying where that is worth it."""
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
    if isinstance(frame, Passing):
        return frame.head
    return b"".join(frame) if isinstance(frame, list) else frame


def appended(kept: Kept, part: bytes | memoryview) -> Kept:
    """What is kept of a frame, with the next part of it."""
    if kept is None:
        return part
    if isinstance(kept, Passing):
        kept.feed(part)
        return kept
    if isinstance(kept, list):
        kept.append(part)
        return kept
    return [kept, part]


def frame_length(data: bytes, position: int, limit: int, side: str) -> int | None:
    """The length prefix at ``position``; None while it is not all here. Raises WireError."""
    if len(data) - position < 4:
        return None
    size: int = _LENGTH.unpack_from(data, position)[0]
    if not 0 <= size <= limit:
        raise WireError(absurd_length(data, position, size), side="client" if side == "client" else "broker")
    return size


def absurd_length(data: bytes, position: int, size: int) -> str:
    """Say what an impossible frame length most likely is."""
    start = bytes(data[position : position + 4])
    if start in (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"CONN", b"PRI "):
        return f"this looks like HTTP ({start.decode().strip()}), not Kafka"
    if start[0] == 0x16 and start[1] == 0x03:
        return "this looks like a TLS handshake; this listener speaks plaintext Kafka"
    return f"a frame length of {size} bytes"
