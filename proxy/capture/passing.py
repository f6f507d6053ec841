"""A large frame's facts, taken while it passes chunk by chunk; nothing of its records is kept. Pure.

One generator per message says how many bytes it wants next, how many may be left out, or that record batches follow;
a `Passing` feeds it.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from typing import TYPE_CHECKING, Final

from notleader.proxy import plain
from notleader.proxy.capture.skim import (
    BATCH,
    FETCH_VERSIONS,
    PRODUCE_VERSIONS,
    Batches,
    Begun,
    NotSkimmedError,
    Part,
    Skimmed,
    Walk,
    request_begun,
    response_begun,
)
from notleader.proxy.wire.names import ApiKey

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_HEAD_BYTES: Final = 1024  # beside the client id: a header's fixed part, and tagged fields that nobody sends

_ALL: Final = 1 << 62


# Yields how many bytes are wanted next, minus how many may be left out, or a walk to be taken; gets those bytes.
Steps = Generator[int | Walk, bytes, Skimmed]


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


class _Stepwise(Passing):
    """Any frame, read step by step."""

    __slots__ = ("_have", "_steps", "_walk", "_wanted", "skimmed")

    def __init__(self, steps: Steps | None) -> None:
        super().__init__()
        self.skimmed = None
        self._steps = steps
        self._have = bytearray()
        self._walk: Walk | None = None
        self._wanted = 0
        if steps is None:
            self.skip = _ALL
        else:
            self._go_on(None)

    def feed(self, part: bytes | memoryview) -> None:
        position, end = 0, len(part)
        while self._steps is not None and position < end:
            if self.skip:
                step = min(self.skip, end - position)
                self.skip -= step
                position += step
                if not self.skip and self._walk is None:
                    self._go_on(b"")
                continue
            if self._walk is not None and not self._have:
                position = self._walk_over(self._walk, part, position, end)
                continue
            step = min(self._wanted - len(self._have), end - position)
            self._have += part[position : position + step]
            position += step
            if len(self._have) == self._wanted:
                data = bytes(self._have)
                self._have.clear()
                if self._walk is None:
                    self._go_on(data)
                else:
                    self._walk_over(self._walk, data, 0, len(data))

    def _walk_over(self, walk: Walk, part: bytes | memoryview, position: int, end: int) -> int:
        try:
            position = walk.over(part, position, end)
        except NotSkimmedError:
            self._give_up()
            return end
        if position > end:
            self.skip = position - end
            position = end
        if not walk.left:
            self._walk = None
            if not self.skip:
                self._go_on(b"")
        elif position < end:
            self._wanted = BATCH.size
            self._have += part[position:end]
            position = end
        return position

    def _go_on(self, data: bytes | None) -> None:
        assert self._steps is not None
        try:
            wanted = next(self._steps) if data is None else self._steps.send(data)
            while wanted == 0:
                wanted = self._steps.send(b"")
        except StopIteration as end:
            self._give_up()
            self.skimmed = end.value
        except NotSkimmedError:
            self._give_up()
        else:
            if isinstance(wanted, Walk):
                self._walk = wanted
            else:
                self.skip = max(-wanted, 0)
                self._wanted = max(wanted, 0)

    def _give_up(self) -> None:
        self._steps = self._walk = None
        self.skip = _ALL


def produce_request(version: int) -> Passing:
    """For the frame of a Produce request, without its length."""
    return _Stepwise(_produce_request(version) if version in PRODUCE_VERSIONS else None)


def fetch_response(version: int) -> Passing:
    """For the frame of a Fetch answer, without its length."""
    return _Stepwise(_fetch_response(version) if version in FETCH_VERSIONS else None)


def anything() -> _Stepwise:
    """For any other frame: nothing of it is told."""
    return _Stepwise(None)


def for_request(api_key: int, api_version: int, start: bytes | memoryview, total: int) -> Passing:
    """What takes the place of this API's request of ``total`` bytes, of which ``start`` is here."""
    client_id = _I16.unpack_from(start, 8)[0] if len(start) >= 10 else 0
    head = bytes(start[: _HEAD_BYTES + max(client_id, 0)])
    it: Passing
    if api_key != ApiKey.Produce:
        it = anything()
    elif (begun := request_begun(api_version, head, total)) is not None:
        it = _told(begun, head, start)
    else:
        it = produce_request(api_version)
        it.feed(start)
    it.head = head
    return it


def for_response(api_key: int, api_version: int, start: bytes | memoryview, total: int) -> Passing:
    """What takes the place of this API's answer of ``total`` bytes, of which ``start`` is here."""
    if api_key != ApiKey.Fetch:
        return anything()
    head = bytes(start[:_HEAD_BYTES])
    if (begun := response_begun(api_version, head, total)) is not None:
        return _told(begun, head, start)
    it = fetch_response(api_version)
    it.feed(start)
    return it


def _told(begun: Begun, head: bytes, start: bytes | memoryview) -> Passing:
    if (told := begun.one_batch(head)) is not None:
        # Large ones nearly always: all that is told of it is in front of its records.
        it = anything()
        it.skimmed = told
    else:
        it = _Stepwise(_records_of(begun))
        it.feed(start[begun.records_at :])
    return it


def _records_of(begun: Begun) -> Steps:
    return begun.with_records((yield from _batches(begun.length)))


def _produce_request(version: int) -> Steps:
    flexible = version >= 9
    head = yield 10
    (client_id,) = _I16.unpack_from(head, 8)
    if client_id > 0:
        yield -client_id
    if flexible:
        yield from _past_tags()
    transactional_id = None
    if version >= 3:
        transactional_id = yield from _string(flexible)
    (acks,) = _I16.unpack((yield 6)[:2])
    parts: list[Part] = []
    for _ in range((yield from _count(flexible))):
        name, topic_id = yield from _topic(flexible, version >= 13)
        for _ in range((yield from _count(flexible))):
            (index,) = _I32.unpack((yield 4))
            parts.append((name, topic_id, index, None, None, None, (yield from _records(flexible))))
            if flexible:
                yield from _past_tags()
        if flexible:
            yield from _past_tags()
    return Skimmed(parts, transactional_id, acks)


def _fetch_response(version: int) -> Steps:
    flexible = version >= 12
    yield 4
    if flexible:
        yield from _past_tags()
    throttle = None
    error = 0
    if version >= 1:
        (throttle,) = _I32.unpack((yield 4))
    if version >= 7:
        (error,) = _I16.unpack((yield 6)[:2])
    parts: list[Part] = []
    for _ in range((yield from _count(flexible))):
        name, topic_id = yield from _topic(flexible, version >= 13)
        for _ in range((yield from _count(flexible))):
            head = yield 14 + 8 * (version >= 4) + 8 * (version >= 5)
            (index,) = _I32.unpack_from(head)
            (code,) = _I16.unpack_from(head, 4)
            if version >= 4:
                for _ in range((yield from _count(flexible))):
                    yield -16
                    if flexible:
                        yield from _past_tags()
            if version >= 11:
                yield -4
            parts.append((name, topic_id, index, code, None, None, (yield from _records(flexible))))
            if flexible:
                yield from _past_tags()
            error = error or code
        if flexible:
            yield from _past_tags()
    # What follows (tagged fields) tells nothing; the frame may end here.
    return Skimmed(parts, error_code=error, throttle_time_ms=throttle)


def _varint() -> Generator[int, bytes, int]:
    value = shift = 0
    while True:
        (byte,) = yield 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
        if shift > 28:
            raise NotSkimmedError


def _length(flexible: bool, width: Struct) -> Generator[int, bytes, int]:
    """The length of a string, an array or records; -1 for null."""
    if flexible:
        return (yield from _varint()) - 1
    found: int = width.unpack((yield width.size))[0]
    return found


def _count(flexible: bool) -> Generator[int, bytes, int]:
    return max((yield from _length(flexible, _I32)), 0)


def _string(flexible: bool) -> Generator[int, bytes, str | None]:
    length = yield from _length(flexible, _I16)
    if length < 0:
        return None
    return str((yield length) if length else b"", "utf-8", "surrogateescape")


def _topic(flexible: bool, by_id: bool) -> Generator[int, bytes, tuple[str | None, bytes | None]]:
    if by_id:
        return None, (yield 16)
    return (yield from _string(flexible)), None


def _past_tags() -> Generator[int, bytes, None]:
    for _ in range((yield from _varint())):
        yield from _varint()
        yield -(yield from _varint())


def _records(flexible: bool) -> Generator[int | Walk, bytes, Batches | None]:
    return (yield from _batches((yield from _length(flexible, _I32))))


def _batches(length: int) -> Generator[int | Walk, bytes, Batches | None]:
    """The sums over all batches and the first one's own; a batch that is cut off at the end is left out."""
    if length < 0:
        return None
    walk = Walk(length)
    if length:
        yield walk
    return walk.told()
