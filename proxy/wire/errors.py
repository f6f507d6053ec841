"""What goes wrong on the wire, and whose fault it is."""

from __future__ import annotations

from typing import Literal

Side = Literal["client", "broker"]


class WireError(Exception):
    """Bytes that are not the Kafka protocol, or a value that cannot be put into it.

    `side` is who sent the bytes: "client" for requests, "broker" for responses, None when nobody did.
    """

    def __init__(self, reason: str, side: Side | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.side = side


class UnknownVersion(WireError):  # noqa: N818 (says what is wrong, not that something is)
    """An API key or version that no definition covers: such a frame can be passed on, but not read."""


class BodyTooLarge(WireError):  # noqa: N818 (likewise)
    """A body that may be right, but whose objects would take more memory than decoding one may."""
