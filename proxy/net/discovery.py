"""Asking a cluster once who its brokers are, so that their listeners exist before the first client."""

import asyncio
from struct import Struct
from typing import Any

from notleader.proxy.wire.codec import Body, request_codec, response_codec
from notleader.proxy.wire.endpoint import Endpoint
from notleader.proxy.wire.header import encode_request_header, response_body_offset
from notleader.proxy.wire.names import ApiKey

_LENGTH = Struct(">i")
# The first version in which an empty list asks for no topics; every broker since 0.10 has it, 4.x too.
_METADATA_VERSION = 1
_LARGEST_ANSWER = 16 << 20


class LoginWantedError(ConnectionError):
    """There is a broker, and before a login (SASL) it says nothing of the cluster."""


async def fetch_brokers(
    bootstrap: Endpoint, timeout_s: float, tls: dict[str, Any], *, with_topics: bool = False
) -> Body:
    """The Metadata answer (version 1; no topics, or all) of this broker; ``tls`` is what ``Tls.dialing`` gave.

    Raises OSError (TimeoutError and LoginWantedError included) when it can't be had, WireError when it isn't Kafka's.
    """
    wanted: Body = {"topics": None if with_topics else []}
    async with asyncio.timeout(timeout_s):
        try:
            answer = await _asked(bootstrap, tls, ApiKey.Metadata, _METADATA_VERSION, wanted)
        except asyncio.IncompleteReadError as error:
            if await _greets(bootstrap, tls):
                raise LoginWantedError(f"{bootstrap} wants a login") from error
            raise ConnectionError(f"{bootstrap} closed the connection") from error
    offset = response_body_offset(ApiKey.Metadata, _METADATA_VERSION, answer)
    return response_codec(ApiKey.Metadata, _METADATA_VERSION).decode(answer, offset)


async def _greets(bootstrap: Endpoint, tls: dict[str, Any]) -> bool:
    """Whether it answers ApiVersions, which is all that a broker answers to whom it doesn't know."""
    try:
        await _asked(bootstrap, tls, ApiKey.ApiVersions, 0, {})
    except (OSError, asyncio.IncompleteReadError):
        return False
    return True


async def _asked(bootstrap: Endpoint, tls: dict[str, Any], api_key: ApiKey, version: int, body: Body) -> bytes:
    """The answer to one request on a connection of its own. Raises OSError, IncompleteReadError."""
    reader, writer = await asyncio.open_connection(*bootstrap, **tls)
    try:
        header = encode_request_header(api_key, version, 0, "notleader")
        frame = header + request_codec(api_key, version).encode(body)
        writer.write(_LENGTH.pack(len(frame)) + frame)
        (size,) = _LENGTH.unpack(await reader.readexactly(4))
        if not 4 <= size <= _LARGEST_ANSWER:
            raise ConnectionError(f"{bootstrap} does not speak plaintext Kafka (TLS takes --tls-kafka)")
        return await reader.readexactly(size)
    finally:
        writer.close()
