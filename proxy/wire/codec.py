"""Bodies of requests and responses, decoded to plain dicts and encoded back to the very same bytes.

Keys are the snake_case of Kafka's field names. Nested structs are dicts, arrays lists, bytes and records
memoryviews into the frame; unknown tagged fields are kept under "_tags" as {tag: bytes}. Strings that are not
UTF-8 carry their odd bytes as lone surrogates (`surrogateescape`), so that they too are encoded back exactly.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import Any

from notleader.proxy.wire.decoder import Decode, compile_decoder
from notleader.proxy.wire.encoder import Encode, compile_encoder, with_defaults
from notleader.proxy.wire.errors import Side, WireError
from notleader.proxy.wire.schemas import Direction, Field, Message, message, version_ranges

Body = dict[str, Any]


class Codec:
    """Decodes and encodes the bodies of one (api_key, api_version, direction); compiled at first use."""

    def __init__(self, definition: Message) -> None:
        self.definition = definition
        self.api_key = definition.api_key
        self.api_version = definition.api_version
        self.direction: Direction = definition.direction
        self.flexible = definition.flexible
        self.fields: tuple[Field, ...] = definition.fields

    def __repr__(self) -> str:
        return f"<Codec {self.direction} {self.api_key} v{self.api_version}>"

    @cached_property
    def _decode(self) -> Decode:
        return compile_decoder(self.definition)

    @cached_property
    def _encode(self) -> Encode:
        return compile_encoder(self.definition)

    def decode(self, data: bytes | memoryview, offset: int = 0) -> Body:
        """The body at `offset`; WireError names the sender where there is none.

        What follows a body is nobody's, and no error: brokers ignore it, and librdkafka sends some. A BodyTooLarge is
        one whose objects would take more than `decoder.MAX_OBJECT_BYTES`.
        """
        return self.decode_some(data, offset)[0]

    def decode_some(self, data: bytes | memoryview, offset: int = 0) -> tuple[Body, int]:
        """The body at `offset` and the position after it, where more may follow."""
        end = len(data)
        try:
            body, position = self._decode(data, offset, end)
        except (struct.error, IndexError):
            raise self._error("ends too early") from None
        except WireError as error:
            raise self._error(error.reason, type(error)) from None
        if position > end:
            raise self._error("ends too early")
        return body, position

    def encode(self, body: Body) -> bytes:
        """The bytes of `body`, missing fields as their defaults; WireError when a value doesn't fit."""
        pieces: list[Any] = []
        try:
            try:
                self._encode(body, pieces)
            except KeyError:
                pieces = []
                self._encode(with_defaults(self.fields, body), pieces)
            return b"".join(pieces)
        except (struct.error, TypeError, AttributeError, ValueError) as error:
            raise WireError(f"{self!r} cannot encode this body: {error}") from error

    def leading(self, count: int) -> Codec:
        """A codec of the first `count` fields alone, for `decode_some`."""
        return Codec(self.definition._replace(fields=self.fields[:count], is_whole=False))

    def _error(self, reason: str, kind: type[WireError] = WireError) -> WireError:
        side: Side = "client" if self.direction == "request" else "broker"
        return kind(f"{self.direction} of API {self.api_key} v{self.api_version}: {reason}", side)


_codecs: dict[tuple[int, int, str], Codec] = {}


def _codec(api_key: int, api_version: int, direction: Direction) -> Codec:
    codec = _codecs.get((api_key, api_version, direction))
    if codec is None:
        codec = Codec(message(api_key, api_version, direction))
        _codecs[api_key, api_version, direction] = codec
    return codec


def request_codec(api_key: int, api_version: int) -> Codec:
    """The codec of a request body; UnknownVersion when no definition covers it."""
    return _codec(api_key, api_version, "request")


def response_codec(api_key: int, api_version: int) -> Codec:
    """The codec of a response body; UnknownVersion when no definition covers it."""
    return _codec(api_key, api_version, "response")


def known_versions(api_key: int) -> range:
    """The versions of an API that have definitions; empty for an unknown API."""
    return version_ranges().get(api_key, range(0))


def is_known(api_key: int, api_version: int) -> bool:
    """Whether bodies of this API version can be decoded."""
    return api_version in known_versions(api_key)
