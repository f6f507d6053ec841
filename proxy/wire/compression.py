"""Decompression that cannot fill the memory: gzip, snappy (raw and in xerial's frames), lz4 and zstd.

The library for the last three is loaded by the first records that are compressed so: a proxy at its default level
reads none, and is 1.5 MiB smaller.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from notleader.proxy.wire.errors import WireError

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# A batch is about 1 MiB at most by default (message.max.bytes); what honest clients send stays far below. The most
# that one call may take is little enough that nobody waits long for the interpreter.
MAX_DECOMPRESSED_BYTES = 16 << 20

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_FIRST_TRY_BYTES = 1 << 16


def compression_name(attributes: int) -> str:
    """The codec that a batch's attributes name: one of NAMES, or "codec-5" and the like for unknown ones."""
    codec = attributes & 7
    return NAMES[codec] if codec < len(NAMES) else f"codec-{codec}"


def decompress(
    compression: str,
    data: memoryview,
    limit_bytes: int = MAX_DECOMPRESSED_BYTES,
    *,
    lz4_checksum_is_wrong: bool = False,
) -> bytes:
    """The content of compressed records; a WireError when it is broken or larger than `limit_bytes`.

    `lz4_checksum_is_wrong` is for message format v0, whose clients computed the header checksum of their lz4
    frames over the wrong bytes (KAFKA-3160).
    """
    if compression == "gzip":
        return _gzip(data, limit_bytes)
    if compression == "snappy":
        return _snappy(data, limit_bytes)
    import cramjam

    if compression == "lz4":
        frame = _with_right_checksum(data) if lz4_checksum_is_wrong else bytes(data)
        return _into(cramjam.lz4.decompress_into, frame, limit_bytes)
    if compression == "zstd":
        return _into(cramjam.zstd.decompress_into, bytes(data), limit_bytes)
    raise WireError(f"records compressed with {compression}, which no Kafka release defines")


def _too_large(limit_bytes: int) -> WireError:
    return WireError(f"records grow beyond {limit_bytes} bytes when decompressed")


def _gzip(data: memoryview, limit_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = limit_bytes
    rest: bytes | memoryview = data
    try:
        while rest:  # a gzip file may have several members
            member = zlib.decompressobj(31)
            pieces.append(member.decompress(rest, left + 1))
            left -= len(pieces[-1])
            if left < 0:
                raise _too_large(limit_bytes)
            if not member.eof:
                raise WireError("gzip records end too early")
            rest = member.unused_data
    except zlib.error as error:
        raise WireError(f"broken gzip records: {error}") from None
    return b"".join(pieces)


def _snappy(data: memoryview, limit_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL)]) != _XERIAL:
        return _snappy_block(bytes(data), limit_bytes)
    pieces = []
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if position + 4 > len(data):
            raise WireError("snappy records end too early")
        (size,) = struct.unpack_from(">i", data, position)
        position += 4
        if size < 0 or position + size > len(data):
            raise WireError("snappy records end too early")
        pieces.append(_snappy_block(bytes(data[position : position + size]), limit_bytes))
        limit_bytes -= len(pieces[-1])
        position += size
    return b"".join(pieces)


def _snappy_block(block: bytes, limit_bytes: int) -> bytes:
    import cramjam

    try:
        # The block states its size: checked before the decoder allocates it.
        if cramjam.snappy.decompress_raw_len(block) > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise WireError(f"broken snappy records: {error}") from None


def _with_right_checksum(frame: memoryview) -> bytes:
    """The lz4 frame with the header checksum that its format demands: the second byte of xxHash32."""
    if len(frame) < 7:
        raise WireError("lz4 records end too early")
    has_content_size = frame[4] & 0x08
    end = 14 if has_content_size else 6
    checksum = _xxhash32(bytes(frame[4:end])) >> 8 & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


def _xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, all that an lz4 frame's header has."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    value = prime5 + len(data)
    whole = len(data) // 4 * 4
    for (lane,) in struct.iter_unpack("<I", data[:whole]):
        value = (value + lane * prime3) & mask
        value = ((value << 17 | value >> 15) * prime4) & mask
    for byte in data[whole:]:
        value = (value + byte * prime5) & mask
        value = ((value << 11 | value >> 21) * prime1) & mask
    value = (value ^ value >> 15) * prime2 & mask
    value = (value ^ value >> 13) * prime3 & mask
    return value ^ value >> 16


def _into(decompress_into: Callable[[bytes, bytearray], Any], data: bytes, limit_bytes: int) -> bytes:
    """Decompresses into a buffer that grows fourfold up to the limit: formats that don't state their size."""
    import cramjam

    size = min(limit_bytes, max(_FIRST_TRY_BYTES, 8 * len(data)))
    while True:
        out = bytearray(size)
        try:
            count: int = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            # The only sign of a full buffer that the library gives.
            if "write whole buffer" not in str(error):
                raise WireError(f"broken compressed records: {error}") from None
            if size >= limit_bytes:
                raise _too_large(limit_bytes) from None
            size = min(limit_bytes, 4 * size)
        else:
            return bytes(memoryview(out)[:count])
