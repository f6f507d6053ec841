"""A large frame's facts, taken by a probe while it passes chunk by chunk; nothing of its records is kept. Pure."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from notleader.proxy import plain
from notleader.proxy.pump import Probe
from notleader.proxy.record.skim import Skimmed, program_of, said_by
from notleader.proxy.wire.names import ApiKey

_I16: Final = Struct(">h")
_HEAD_BYTES: Final = 1024  # beside the client id: a header's fixed part, and tagged fields that nobody sends
_ALL: Final = 1 << 62


class Passing:
    """Stands where a frame would be kept."""

    __slots__ = ("head", "skip")
    skimmed: Skimmed | None
    """What it said; None until its end, and where it can't be told."""

    def __init__(self) -> None:
        self.head = b""
        """The beginning of the frame: its header is in it."""
        self.skip = 0
        """How many bytes from here on tell nothing: fewer than these may pass unseen, if they are taken off."""

    def feed(self, part: bytes | memoryview) -> None:
        """Take the next chunk of the frame."""
        raise NotImplementedError


if not TYPE_CHECKING and plain.IS_NATIVE:
    Passing = plain.native.Passing


class Probed(Passing):
    """A Produce or Fetch, read by a probe."""

    __slots__ = ("_answers", "_produces", "_skimmed", "probe")

    def __init__(self, program: bytes, total: int, *, produces: bool, answers: bool) -> None:
        super().__init__()
        self.probe = Probe(program, total)
        self._produces, self._answers = produces, answers
        self._skimmed: Skimmed | None = None

    def feed(self, part: bytes | memoryview) -> None:
        probe = self.probe
        if probe.skip != self.skip:
            probe.pass_over(probe.skip - self.skip)
        probe.feed(part)
        self.skip = probe.skip

    @property
    def skimmed(self) -> Skimmed | None:  # type: ignore[override]
        if self._skimmed is None and self.probe.ended:
            self._skimmed = said_by(self.probe, produces=self._produces, answers=self._answers)
        return self._skimmed


class Untold(Passing):
    """Any other frame: nothing of it is told."""

    __slots__ = ()
    skimmed = None

    def __init__(self) -> None:
        super().__init__()
        self.skip = _ALL

    def feed(self, part: bytes | memoryview) -> None:
        pass


def for_request(api_key: int, api_version: int, start: bytes | memoryview, total: int) -> Passing:
    """What takes the place of this API's request of ``total`` bytes, of which ``start`` is here."""
    it: Passing = Untold()
    if api_key == ApiKey.Produce and (code := program_of(api_key, api_version, "request")) is not None:
        it = Probed(code, total, produces=True, answers=False)
        it.feed(start)
    client_id = _I16.unpack_from(start, 8)[0] if len(start) >= 10 else 0
    it.head = bytes(start[: _HEAD_BYTES + max(client_id, 0)])
    return it


def for_response(api_key: int, api_version: int, start: bytes | memoryview, total: int) -> Passing:
    """What takes the place of this API's answer of ``total`` bytes, of which ``start`` is here."""
    if api_key != ApiKey.Fetch or (code := program_of(api_key, api_version, "response")) is None:
        return Untold()
    it = Probed(code, total, produces=False, answers=True)
    it.feed(start)
    return it
