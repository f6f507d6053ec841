"""The variable-length pieces that compiled codecs share (protocol guide, "Primitive Types"; KIP-482).

Readers take a buffer and a position and return (value, position after it). Reading past the end raises
IndexError or struct.error, or returns a position past the end: the codec turns each into a WireError.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from uuid import UUID

from notleader.proxy.wire.errors import WireError

Buffer = bytes | memoryview

# KIP-482 states no bound; no message has a dozen.
_MOST_TAGS: Final = 1 << 16
UNKNOWN_TAG_BYTES: Final = 200
"""What an unknown tagged field takes in memory, without its content."""

# Nearly every compact length and tag count on the wire fits one byte.
ONE_BYTE = tuple(bytes((n,)) for n in range(128))


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits."""
    first = data[position]
    if first < 0x80:  # nearly always
        return first, position + 1
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise WireError("a varint runs over five bytes")
    if value > 0xFFFFFFFF:
        raise WireError("a varint does not fit 32 bits")
    return value, position


def uvarint(value: int) -> bytes:
    """The shortest encoding of a non-negative number."""
    if value < 128:
        return ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tags(data: Buffer, position: int) -> int:
    """The position after a tagged-field section."""
    count, position = _tag_count(data, position)
    for _ in range(count):
        _tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        position += size
    return position


def read_unknown_tags(data: Buffer, position: int) -> tuple[dict[int, bytes], int]:
    """A tagged-field section of which no tag is known, as {tag: bytes}."""
    count, position = _tag_count(data, position)
    tags = {}
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        size, position = read_uvarint(data, position)
        tags[tag] = bytes(data[position : position + size])
        position += size
    return tags, position


def _tag_count(data: Buffer, position: int) -> tuple[int, int]:
    count, position = read_uvarint(data, position)
    if count > _MOST_TAGS:
        raise WireError(f"{count} tagged fields in one place")
    return count, position


def tag_section(known: list[tuple[int, bytes]], unknown: Mapping[int, bytes] | None) -> bytes:
    """A tagged-field section in ascending tag order, which the protocol demands."""
    tags = sorted([*known, *unknown.items()]) if unknown else known
    parts = [uvarint(len(tags))]
    for tag, value in tags:
        parts += (uvarint(tag), uvarint(len(value)), value)
    return b"".join(parts)


@lru_cache(maxsize=4096)
def uuid_of(data: bytes) -> UUID:
    """The UUID of 16 bytes; topic ids repeat, and making a UUID costs more than finding one."""
    return UUID(bytes=data)
