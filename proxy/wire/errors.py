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

    @property
    def sentence(self) -> str:
        """What to tell people of it."""
        return f"the {self.side} broke the protocol: {self.reason}"


class UnknownVersion(WireError):  # noqa: N818 (says what is wrong, not that something is)
    """An API key or version that no definition covers: such a frame can be passed on, but not read."""


class OwnMistake(WireError):  # noqa: N818 (likewise)
    """An exception of this program's own over bytes of that side; it is the cause."""

    def __init__(self, mistake: Exception, side: Side) -> None:
        super().__init__(f"notleader failed at this: {type(mistake).__name__}: {mistake}", side)
        self.__cause__ = mistake

    @property
    def sentence(self) -> str:
        """What to tell people of it."""
        return f"the {self.side}: {self.reason}"


class BodyTooLarge(WireError):  # noqa: N818 (likewise)
    """A body that may be right, but whose objects would take more memory than decoding one may."""


def in_words(error: BaseException) -> str:
    """An error in one line for people: the system's own words where it has some, its type where nothing else is."""
    if isinstance(error, WireError):
        return error.reason
    if said := getattr(error, "strerror", None) or getattr(error, "reason", None) or str(error):
        return str(said)
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
