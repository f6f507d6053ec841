"""Whether a Produce or Fetch answer carries `node_endpoints` (KIP-951), told without decoding it.

The field is a tagged one at the very end of the body, and all but absent: a broker adds it only beside
NOT_LEADER_OR_FOLLOWER. Walking over the rest costs a microsecond, decoding it twenty.
"""

from __future__ import annotations

from struct import error as StructError
from typing import Final

from notleader.proxy.wire.enums import ApiKey
from notleader.proxy.wire.errors import WireError
from notleader.proxy.wire.primitives import Buffer

FIRST_WITH_ENDPOINTS: Final[dict[int, int]] = {ApiKey.Produce: 10, ApiKey.Fetch: 16}
_PRODUCE_BY_ID: Final = 13
_PARTITION: Final = 30  # of both answers: five fixed fields up to log_start_offset
_ABORTED: Final = 16  # producer_id and first_offset of an aborted transaction
_MOST_KEPT: Final = 64 << 10  # the longest piece that can't be walked over yet: tagged fields, some 20 bytes in truth


def surely_absent(api_key: int, api_version: int, frame: Buffer, start: int, stop: int) -> bool:
    """Whether the answer in `frame[start:stop]` (from its correlation id on) has no tagged fields at its end.

    False also means: not simple enough to say.
    """
    try:
        if frame[stop - 1] or frame[start + 4]:
            return False
        if api_key == ApiKey.Produce:
            return _produce_ends(api_version, frame, start + 5) + 4 == stop - 1
        walk = FetchWalk()
        walk.feed(frame, start + 4, stop)
        return walk.ended and walk.tags_at == stop - 1
    except (IndexError, StructError, WireError):
        return False


def _produce_ends(api_version: int, frame: Buffer, position: int) -> int:
    """Where the topics of a Produce answer end; IndexError where they hold more than offsets."""
    topics, position = _uvarint(frame, position)
    for _ in range(topics - 1):
        if api_version >= _PRODUCE_BY_ID:
            position += 16
        else:
            size, position = _uvarint(frame, position)
            position += size - 1
        partitions, position = _uvarint(frame, position)
        for _ in range(partitions - 1):
            # No record errors, no message, no tagged fields.
            if frame[position + _PARTITION : position + _PARTITION + 3] != b"\x01\x00\x00":
                raise IndexError
            position += _PARTITION + 3
        if frame[position]:
            raise IndexError
        position += 1
    return position


def _uvarint(data: Buffer, position: int) -> tuple[int, int]:
    value = data[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise WireError("a varint runs over five bytes", "broker")


class FetchWalk:
    """Walks over a Fetch answer (version 16 and later) as it passes, chunk by chunk; records are never touched.

    `feed` raises a WireError of the broker for what can't be such an answer; it keeps at most 64 KiB.
    """

    __slots__ = ("_aborted", "_partitions", "_rest", "_started", "_topics", "ended", "hide_at", "skip", "tags_at")

    def __init__(self) -> None:
        self.ended = False
        self.tags_at = -1  # in the chunk that was fed last
        self.hide_at = -1  # position in that chunk of the tag number of node_endpoints
        self._started = False
        self._topics = 0
        self._partitions = -1
        self._aborted = -1  # transactions still to come before the records of a partition, -1 elsewhere
        self.skip = 0
        """How many bytes from here on tell nothing: so much may pass unseen, if it is taken off."""
        self._rest = b""

    def feed(self, chunk: Buffer, start: int, stop: int) -> None:
        """Take `chunk[start:stop]`; the first one starts behind the correlation id."""
        self.hide_at = -1
        if self.ended:
            return
        if self.skip:
            step = min(self.skip, stop - start)
            self.skip -= step
            start += step
            if self.skip:
                return
        shift = 0
        data = chunk
        if self._rest:
            shift = len(self._rest) - start
            data = self._rest + bytes(chunk[start:stop])
            self._rest = b""
            start, stop = 0, len(data)
        at = start
        try:
            if not self._started:
                # The header's tagged fields, then throttle_time_ms, error_code and session_id.
                self._topics, next_at = _uvarint(data, _tags(data, at) + 10)
                self._topics -= 1
                self._started = True
                at = next_at
            while at < stop:
                if self._aborted > 0:
                    next_at = _tags(data, at + _ABORTED)
                    if next_at > stop:
                        raise IndexError
                    self._aborted -= 1
                elif self._partitions > 0:
                    next_at = at
                    if self._aborted < 0:
                        aborted, next_at = _uvarint(data, at + _PARTITION)
                        if aborted > 1 and next_at <= stop:
                            self._aborted = aborted - 1
                            at = next_at
                            continue
                    size, next_at = _uvarint(data, next_at + 4)
                    if size > 1:
                        next_at += size - 1
                    # Records and what follows them are written apart: a read may well end between them.
                    self._aborted = -1
                    self._partitions = -self._partitions - 1
                    if next_at > stop:
                        self.skip = next_at - stop
                        return
                elif self._partitions < -1:  # behind the records of a partition: its tagged fields
                    next_at = _tags(data, at)
                    if next_at > stop:
                        raise IndexError
                    self._partitions = -self._partitions - 2
                elif self._partitions == 0:  # behind the last partition of a topic
                    next_at = _tags(data, at)
                    if next_at > stop:
                        raise IndexError
                    self._partitions = -1
                    self._topics -= 1
                elif self._topics:
                    self._partitions, next_at = _uvarint(data, at + 16)
                    self._partitions -= 1
                else:
                    if data[at]:
                        tag = data[at + 1]
                        if tag == 0:
                            self.hide_at = at + 1 - shift
                    self.tags_at = at - shift
                    self.ended = True
                    return
                at = next_at
        except IndexError:
            self._rest = bytes(data[at:stop])
            if len(self._rest) > _MOST_KEPT:
                raise WireError("a Fetch answer with more tagged fields than any has", "broker") from None


def _tags(data: Buffer, position: int) -> int:
    count = data[position]
    position += 1
    for _ in range(count):
        _, position = _uvarint(data, position)
        size, position = _uvarint(data, position)
        position += size
    return position
