"""Request and response headers (protocol guide, "Messages"; header v2 and response header v1 are KIP-482).

A frame is the bytes after the 4-byte length.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import NamedTuple

from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.primitives import Buffer, skip_tags
from notleader.proxy.wire.schemas import first_flexible, version_ranges

_HEAD = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
_CONTROLLED_SHUTDOWN = int(ApiKey.ControlledShutdown)
_API_VERSIONS = int(ApiKey.ApiVersions)


class RequestHeader(NamedTuple):
    """What precedes every request body; `body_offset` is where the body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


@cache
def _flexible_from() -> dict[int, tuple[int, int]]:
    """Of each known API the first flexible version of its requests and of its responses."""
    return {key: (first_flexible(key, "request"), first_flexible(key, "response")) for key in version_ranges()}


def request_header_version(api_key: int, api_version: int) -> int:
    """0 for ControlledShutdown v0 alone, 2 for flexible versions, else 1.

    Versions newer than the definitions count as flexible when the newest known one is: an API that has become
    flexible stays so. Of an unknown API nothing is known, and 1 is what can be read of any header.
    """
    flexible = _flexible_from().get(api_key)
    if flexible is not None and api_version >= flexible[0]:
        return 2
    return 0 if api_version == 0 and api_key == _CONTROLLED_SHUTDOWN else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """1 for flexible versions, else 0; ApiVersions stays at 0, so that clients of any age can read it."""
    flexible = _flexible_from().get(api_key)
    if flexible is None or api_version < flexible[1] or api_key == _API_VERSIONS:
        return 0
    return 1


def parse_request_header(frame: Buffer, offset: int = 0) -> RequestHeader:
    """The header at `offset`; a WireError of the client when the frame ends inside it."""
    try:
        api_key, api_version, correlation_id = _HEAD.unpack_from(frame, offset)
        version = request_header_version(api_key, api_version)
        if version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, offset + _HEAD.size)
        position = offset + _HEAD.size + 2
        length: int = _LENGTH.unpack_from(frame, position - 2)[0]
        client_id = None
        if length >= 0:
            client_id = str(frame[position : position + length], "utf-8", "surrogateescape")
            position += length
        if version == 2:
            position = position + 1 if frame[position] == 0 else skip_tags(frame, position)
    except (struct.error, IndexError):
        raise WireError("a request header ends too early", "client") from None
    except WireError as error:
        raise WireError(f"a request header: {error.reason}", "client") from None
    if position > len(frame):
        raise WireError("a request header ends too early", "client")
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A header in the version that this API version takes."""
    head = _HEAD.pack(api_key, api_version, correlation_id)
    version = request_header_version(api_key, api_version)
    if version == 0:
        return head
    if client_id is None:
        text = b"\xff\xff"
    else:
        data = client_id.encode("utf-8", "surrogateescape")
        text = _LENGTH.pack(len(data)) + data
    return head + text + (b"\x00" if version == 2 else b"")


def response_body_offset(api_key: int, api_version: int, frame: Buffer, offset: int = 0) -> int:
    """Where the body of a response that begins at `offset` starts; a WireError of the broker when it can't."""
    position = offset + _CORRELATION_ID.size
    try:
        if response_header_version(api_key, api_version) == 1:
            position = skip_tags(frame, position)
    except (IndexError, WireError):
        position = len(frame) + 1
    if position > len(frame):
        raise WireError("a response header ends too early", "broker")
    return position


def encode_response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """A response header without tagged fields."""
    tags = b"\x00" if response_header_version(api_key, api_version) == 1 else b""
    return _CORRELATION_ID.pack(correlation_id) + tags
