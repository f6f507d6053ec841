"""The interpreter of probe programs in Python; `probe` is the same, compiled. See ``notleader.proxy.wire.probe``."""

from __future__ import annotations

from array import array
from struct import Struct
from typing import Final

from notleader.proxy.wire.probe import (
    FRAME_FROM,
    FRAME_PLACES,
    KIND,
    MOST_ROWS,
    MOST_TEXT_BYTES,
    NO_NULL,
    NOTHING,
    ROW_PLACES,
    Op,
    Row,
)

Buffer = bytes | memoryview
_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_NUMBERS: Final = (Struct(">b"), _I16, _I32, Struct(">q"))
# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, times, producer id, epoch, sequence,
# count
_BATCH: Final = Struct(">qiibIhiqqqhii")
_LEADER: Final = Struct(">ii")  # id, epoch
_BEFORE_MAGIC: Final = 16
_LOG_OVERHEAD_BYTES: Final = 12
_ALL: Final = 1 << 62
_MOST_TEXT: Final = 0x7FFF
_COMPACT: Final = {Op.CTEXT, Op.CPAST, Op.CEACH, Op.CRECORDS, Op.CARRAY}
_SHORT: Final = {Op.TEXT, Op.PAST2}


class _MissingError(Exception):
    """So many bytes have to be here before the step at hand can be taken."""

    def __init__(self, bytes_needed: int) -> None:
        self.bytes_needed = bytes_needed


class _BrokenError(Exception):
    """What is no such frame."""


class Probe:
    """Runs one program over one frame of ``total`` bytes, which comes in any pieces.

    At its end, and as far as it got: ``frame`` and ``rows`` are the numbers of the places, ``text`` is what they point
    into. ``broken`` says why it is no such frame; an ``odd`` one holds what only a codec can tell (old message formats,
    more rows than anybody sends): its rows mean nothing.
    """

    __slots__ = (
        "_carry",
        "_left",
        "_loops",
        "_need",
        "_pc",
        "_program",
        "_records_left",
        "_row",
        "_seen",
        "_tag",
        "_tags_left",
        "_text",
        "broken",
        "ended",
        "fed",
        "frame",
        "head",
        "odd",
        "rows",
        "skip",
        "total",
    )

    def __init__(self, program: bytes, total: int) -> None:
        self.head = b""
        """The beginning of the frame, for whoever needs its header; set from outside."""
        self.reset(program, total)

    def reset(self, program: bytes, total: int) -> None:
        """Begin with another frame."""
        self._program = program
        self._pc = 0
        self._loops: list[tuple[int, int]] = []  # how many elements are left, and how deep that is
        self._carry = b""
        self._need = 0
        self._records_left = -1
        self._seen = False  # a batch of these records
        self._tags_left = -1
        self._tag = -1
        self._row = 0
        self._text = bytearray()
        self.total = total
        self.fed = 0
        self.skip = 0
        """How many bytes from here on tell nothing: these may be passed over (`pass_over`) instead of fed."""
        self.ended = False
        self.odd = False
        self.broken: str | None = None
        self.frame = [NOTHING] * FRAME_PLACES
        self.rows = array("q")

    @property
    def text(self) -> bytes:
        return bytes(self._text)

    @property
    def row_count(self) -> int:
        return len(self.rows) // ROW_PLACES

    @property
    def is_good(self) -> bool:
        """Whether all that was wanted is there."""
        return self.ended and self.broken is None and not self.odd

    def pass_over(self, size: int) -> None:
        """Take note of that many bytes of what `skip` says, without seeing them."""
        self.skip -= size
        self.fed += size

    def feed(self, chunk: Buffer, start: int = 0, stop: int | None = None) -> None:
        """Take ``chunk[start:stop]``, the next bytes of the frame."""
        if stop is None:
            stop = len(chunk)
        before = self.fed - start  # where in the frame the chunk's first byte is
        self.fed += stop - start
        at = start
        while not self.ended:
            if self.skip:
                step = min(self.skip, stop - at)
                self.skip -= step
                at += step
                if self.skip:
                    break
            if self._carry:
                step = min(self._need - len(self._carry), stop - at)
                self._carry += bytes(chunk[at : at + step])
                at += step
                if len(self._carry) < self._need:
                    break
                data, self._carry = self._carry, b""
                used = self._run(data, 0, len(data), before + at - len(data))
                if not self.ended:
                    self._carry = data[used:]
                continue
            at = self._run(chunk, at, stop, before)
            if not self.ended and not self.skip:
                self._carry = bytes(chunk[at:stop])
                break
        if not self.ended and self.fed >= self.total:
            self._break("ends too early")

    def _break(self, reason: str) -> None:
        self.broken = reason
        self.ended = True
        self.skip = _ALL

    def _run(self, data: Buffer, at: int, end: int, before: int) -> int:
        """Take all steps for which the bytes are here; where they ended. ``before``: see `feed`."""
        try:
            while not self.ended and not self.skip:
                at = self._step(data, at, end, before)
        except _MissingError as missing:
            self._need = missing.bytes_needed
        except _BrokenError as broken:
            self._break(str(broken))
        return at

    def _past(self, at: int, end: int, size: int) -> int:
        """Behind so many bytes that tell nothing, of which some may be still to come."""
        if size > end - at:
            self.skip = size - (end - at)
            return end
        return at + size

    def _step(self, data: Buffer, at: int, end: int, before: int) -> int:
        program, pc = self._program, self._pc
        strict = program[pc] & NO_NULL
        op = program[pc] & ~NO_NULL
        if op == Op.SKIP:
            self._pc += 2
            return self._past(at, end, program[pc + 1])
        if op == Op.FIXED:
            return self._fixed(data, at, end)
        if op == Op.UUID:
            _need(at, end, 16)
            self._put(program[pc + 1], self._keep(data[at : at + 16]))
            self._pc += 2
            return at + 16
        if op in (Op.TAGS, Op.FIND):
            return self._tags(data, at, end, before)
        if op == Op.ROW:
            self._begin_row(program[pc + 1])
            self._pc += 2
            return at
        if op == Op.NEXT:
            left, _ = self._loops.pop()
            if left > 1:
                self._loops.append((left - 1, 0))
                self._pc -= program[pc + 1]
            else:
                self._pc += 2
            return at
        if op == Op.MAYBE:
            _need(at, end, 1)
            self._pc += 2 + (program[pc + 1] if data[at] >= 0x80 else 0)
            return at + 1
        if op == Op.END:
            self.ended = True
            self.skip = _ALL
            return at
        if self._records_left >= 0:
            return self._records(data, at, end)
        length, behind = self._length(data, at, end, op)
        if length < 0 and strict:
            raise _BrokenError("a field is null that may not be")
        remaining = self.total - before - behind
        if op in (Op.EACH, Op.CEACH):
            # An element takes a byte at least: a count beyond that is nonsense, not a reason to loop.
            if length > remaining:
                raise _BrokenError("an array counts more elements than its frame has room for")
            if length > 0:
                self._loops.append((length, 0))
            self._pc += 2 + (program[pc + 1] if length <= 0 else 0)
            return behind
        if op in (Op.ARRAY, Op.CARRAY):
            length *= program[pc + 1]
        if length > remaining:
            raise _BrokenError("ends too early")
        if op in (Op.PAST2, Op.PAST4, Op.CPAST):
            self._pc += 1
            return self._past(behind, end, max(length, 0))
        if op in (Op.ARRAY, Op.CARRAY):
            self._pc += 2
            return self._past(behind, end, max(length, 0))
        if op in (Op.TEXT, Op.CTEXT):
            return self._take_text(data, at, behind, end, length)
        if length < 0:
            self._pc += 1
            return behind
        self._put(Row.RECORDS_BYTES, length)
        self._put(Row.RECORD_COUNT, 0)
        self._records_left, self._seen = length, False
        return behind

    def _fixed(self, data: Buffer, at: int, end: int) -> int:
        program, pc = self._program, self._pc
        size, count = program[pc + 1], program[pc + 2]
        _need(at, end, size)
        self._pc += 3 + 2 * count
        for where, what in zip(program[pc + 3 : self._pc : 2], program[pc + 4 : self._pc : 2], strict=True):
            self._put(what % KIND, _NUMBERS[what // KIND].unpack_from(data, at + where)[0])
        return at + size

    def _length(self, data: Buffer, at: int, end: int, op: int) -> tuple[int, int]:
        """The length of a string, an array or records (-1 for null), and where it ends."""
        if op in _COMPACT:
            value, behind = _uvarint(data, at, end, at)
            return value - 1, behind
        number = _I16 if op in _SHORT else _I32
        _need(at, end, number.size)
        return number.unpack_from(data, at)[0], at + number.size

    def _take_text(self, data: Buffer, at: int, behind: int, end: int, length: int) -> int:
        to = self._program[self._pc + 1]
        if length > _MOST_TEXT:
            self.odd = True
            self._pc += 2
            return self._past(behind, end, length)
        size = max(length, 0)
        _need(at, end, behind - at + size)
        self._put(to, self._keep(data[behind : behind + size]))
        self._put(to + 1, max(length, -1))
        self._pc += 2
        return behind + size

    def _keep(self, text: Buffer) -> int:
        """Where these bytes are among the texts."""
        at = len(self._text)
        if at + len(text) > MOST_TEXT_BYTES:
            self.odd = True
            return 0
        self._text += text
        return at

    def _put(self, place: int, value: int) -> None:
        if place >= FRAME_FROM:
            self.frame[place - FRAME_FROM] = value
        else:
            self.rows[self._row + place] = value

    def _begin_row(self, of_topic: int) -> None:
        if self.row_count >= MOST_ROWS:
            self.odd = True
            return
        self._row = len(self.rows)
        topic = self.frame[:4] if of_topic else [NOTHING] * 4
        self.rows.extend((*topic, *[NOTHING] * (ROW_PLACES - 4)))

    def _tags(self, data: Buffer, at: int, end: int, before: int) -> int:
        finds = self._program[self._pc] == Op.FIND
        if self._tags_left < 0:
            self._tags_left, at = _uvarint(data, at, end, at)
            if self._tags_left > 1 << 16:
                raise _BrokenError(f"{self._tags_left} tagged fields in one place")
        elif self._tag < 0:
            tag, behind = _uvarint(data, at, end, at)
            if finds and tag == self._program[self._pc + 1] and self._program[self._pc + 2] >= FRAME_FROM:
                if behind - at > 1:
                    raise _BrokenError("a varint is longer than it has to be")
                self._put(self._program[self._pc + 2], before + at)
            self._tag, at = tag, behind
        else:
            size, behind = _uvarint(data, at, end, at)
            if finds and self._tag == self._program[self._pc + 1] and self._program[self._pc + 2] < FRAME_FROM:
                self._leader(data, at, behind, end, min(size, self.total - before - behind))
            at = behind
            self._tag = -1
            self._tags_left -= 1
            if size > self.total - before - at:
                raise _BrokenError("ends too early")
            at = self._past(at, end, size)
        if not self._tags_left and self._tag < 0:
            self._tags_left = -1
            self._pc += 3 if finds else 1
        return at

    def _leader(self, data: Buffer, at: int, behind: int, end: int, size: int) -> None:
        """The epoch of a leader's id and epoch, where that is known."""
        if size < _LEADER.size:
            return
        _need(at, end, behind - at + _LEADER.size)
        epoch = _LEADER.unpack_from(data, behind)[1]
        if epoch >= 0:
            self._put(self._program[self._pc + 2], epoch)

    def _records(self, data: Buffer, at: int, end: int) -> int:
        """On to the next batch, or behind the last one."""
        left = self._records_left
        if left <= _BEFORE_MAGIC:
            return self._past_records(at, end)
        _need(at, end, _BEFORE_MAGIC + 1)
        (length,) = _I32.unpack_from(data, at + 8)
        size = length + _LOG_OVERHEAD_BYTES
        if data[at + _BEFORE_MAGIC] != 2 or size < _BATCH.size:
            self.odd = True  # an older format, or none
            return self._past_records(at, end)
        if size > left:
            return self._past_records(at, end)  # it is cut off at the end
        _need(at, end, _BATCH.size)
        batch = _BATCH.unpack_from(data, at)
        self.rows[self._row + Row.RECORD_COUNT] += batch[12]
        if not self._seen:
            self._seen = True
            self._put(Row.FIRST_OFFSET, batch[0])
            self._put(Row.ATTRIBUTES, batch[5])
            self._put(Row.PRODUCER_ID, batch[9])
            self._put(Row.PRODUCER_EPOCH, batch[10])
            self._put(Row.BASE_SEQUENCE, batch[11])
        self._records_left -= size
        return self._past(at, end, size)

    def _past_records(self, at: int, end: int) -> int:
        left, self._records_left = self._records_left, -1
        self._pc += 1
        return self._past(at, end, left)


def _need(at: int, end: int, size: int) -> None:
    if end - at < size:
        raise _MissingError(size)


def _uvarint(data: Buffer, at: int, end: int, start: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes and 32 bits, and where it ends."""
    value = shift = 0
    while True:
        if at >= end:
            raise _MissingError(at - start + 1)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise _BrokenError("a varint runs over five bytes")
    if value > 0xFFFFFFFF:
        raise _BrokenError("a varint does not fit 32 bits")
    return value, at
