"""A request or response as it stands in its frame: the header at once, the body when somebody asks."""

from __future__ import annotations

from abc import abstractmethod

from notleader.proxy.wire.codec import Body, Codec, request_codec, response_codec
from notleader.proxy.wire.enums import ApiKey, ErrorCode
from notleader.proxy.wire.header import RequestHeader, parse_request_header, response_body_offset
from notleader.proxy.wire.partitions import PartitionEntry, iter_partitions
from notleader.proxy.wire.primitives import Buffer


class _View:
    """A frame (without its length). `body` and `partitions` may raise WireError or UnknownVersion."""

    __slots__ = ("_body", "_codec", "_end", "_partitions", "frame")

    def __init__(self, frame: Buffer) -> None:
        self.frame = frame
        self._codec: Codec | None = None
        self._body: Body | None = None
        self._end = 0
        self._partitions: list[PartitionEntry] | None = None

    @property
    @abstractmethod
    def body_offset(self) -> int:
        """Where the body starts in the frame."""

    @abstractmethod
    def _found_codec(self) -> Codec: ...

    @property
    def codec(self) -> Codec:
        """The codec of the body."""
        if self._codec is None:
            self._codec = self._found_codec()
        return self._codec

    @property
    def body(self) -> Body:
        """The decoded body; to change it, encode another, for this one is shared."""
        if self._body is None:
            self._body, self._end = self.codec.decode_some(self.frame, self.body_offset)
        return self._body

    @property
    def partitions(self) -> list[PartitionEntry]:
        """Every partition that the body speaks of."""
        if self._partitions is None:
            self._partitions = list(iter_partitions(self.codec, self.body))
        return self._partitions

    @property
    def surplus(self) -> bytes:
        """What follows the body: a broker ignores it, so it is kept and passed on."""
        _ = self.body
        return bytes(self.frame[self._end :])

    def encode(self, body: Body) -> bytes:
        """A frame with the same header and another body, and with what followed the body."""
        return bytes(self.frame[: self.body_offset]) + self.codec.encode(body) + self.surplus


class Request(_View):
    """A request frame."""

    __slots__ = ("header",)

    def __init__(self, frame: Buffer, header: RequestHeader | None = None) -> None:
        super().__init__(frame)
        self.header = parse_request_header(frame) if header is None else header

    @property
    def body_offset(self) -> int:
        """Where the body starts in the frame."""
        return self.header.body_offset

    def _found_codec(self) -> Codec:
        return request_codec(self.header.api_key, self.header.api_version)


class Response(_View):
    """A response frame and the request that it answers."""

    __slots__ = ("_body_offset", "request")

    def __init__(self, frame: Buffer, request: Request) -> None:
        super().__init__(frame)
        self.request = request
        self._body_offset: int | None = None

    @property
    def body_offset(self) -> int:
        """Where the body starts in the frame."""
        if self._body_offset is None:
            header = self.request.header
            self._body_offset = response_body_offset(header.api_key, header.api_version, self.frame)
        return self._body_offset

    def _found_codec(self) -> Codec:
        api_key, api_version, *_ = self.request.header
        # A broker that does not know the ApiVersions version asked for answers in version 0 (KIP-511).
        if api_key == ApiKey.ApiVersions and self.frame[4:6] == _UNSUPPORTED_VERSION:
            api_version = 0
        return response_codec(api_key, api_version)


_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
