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


async def fetch_brokers(
    bootstrap: Endpoint, timeout_s: float, tls: dict[str, Any], *, with_topics: bool = False
) -> Body:
    """The Metadata answer (version 1; no topics, or all) of this broker; ``tls`` is what ``Tls.dialing`` gave.

    Raises OSError (TimeoutError included) when it can't be had, WireError when it isn't Kafka's.
    """
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*bootstrap, **tls)
        try:
            header = encode_request_header(ApiKey.Metadata, _METADATA_VERSION, 0, "notleader")
            frame = header + request_codec(ApiKey.Metadata, _METADATA_VERSION).encode(
                {"topics": None if with_topics else []}
            )
            writer.write(_LENGTH.pack(len(frame)) + frame)
            (size,) = _LENGTH.unpack(await reader.readexactly(4))
            if not 4 <= size <= _LARGEST_ANSWER:
                raise ConnectionError(f"{bootstrap} does not speak plaintext Kafka")
            answer = await reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError(f"{bootstrap} closed the connection") from error
        finally:
            writer.close()
    offset = response_body_offset(ApiKey.Metadata, _METADATA_VERSION, answer)
    return response_codec(ApiKey.Metadata, _METADATA_VERSION).decode(answer, offset)
