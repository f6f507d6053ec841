"""The file of a segment that is still growing, which a proxy writes and the recorder reads. journal.md is the format.

A magic line, room for a last word, then frames: length and CRC-32 of what follows (little-endian unsigned 32 bits
each), one byte that says what it is, and its content. The room is there for a disk that is full: what could not be
written behind the rows is said in it, and holds as long as no rows come behind it.

Whoever writes a journal holds an exclusive `flock` on it until its segment is there, so that nobody mistakes a living
one for one that was left behind. Whoever made the segment cuts the journal to nothing and then deletes it: one that is
gone with something in it was deleted by somebody else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple

from notleader.proxy.record.block import Block
from notleader.proxy.record.frames import NO_BLOCK, Entries, Unpacked, rows_in, unpack

SUFFIX: Final = ".journal"
MAGIC: Final = b"notleader journal 6\n"
_ANY_VERSION: Final = b"notleader journal "
_FRAME: Final = Struct("<IIB")
_WORD: Final = Struct("<IIQ")
_WORD_BYTES: Final = 2048
_FIRST_FRAME: Final = len(MAGIC) + _WORD_BYTES
_DAMAGED: Final = ".damaged"
_REASON_LETTERS: Final = 200  # of six bytes each at most
_HEAD, _ROWS, _END = b"HRE"
_ENTRY_BYTES: Final = 200


Loss = tuple[str, int, int, int]
"""Why rows were lost, how many, and the times (µs) of the first and the last of them."""


class Word(NamedTuple):
    """The last word of a journal: losses that could be told nowhere else, and whether it was ended in order."""

    losses: list[Loss]
    has_ended: bool


class JournalError(Exception):
    """The file is no journal, or not even its head is whole."""


class OtherVersionError(OSError):
    """Another version of notleader wrote it, which can finish it."""


class Journal:
    """A journal that is being written; ``size_bytes`` and ``rows`` are what is safely in it.

    ``unpacked_bytes`` is about how large its rows are as columns; the times are those of its requests, in µs.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        """Create ``path``, for its owner alone to read, locked from the first moment it can be seen. Raises OSError."""
        self.path = path
        self.rows = 0
        self.size_bytes = 0
        self.unpacked_bytes = 0
        self.first_us = self.last_us = 0
        self.topics = 0
        """How many names of topic ids it was told."""
        self.is_made = False
        """Whether its segment lies beside it, whole."""
        self._word = Word([], False)
        self._word_at = 0
        self._entries = Entries()
        path.parent.mkdir(parents=True, exist_ok=True)
        unseen = path.with_name(path.name + ".new")
        with contextlib.suppress(FileNotFoundError):
            unseen.unlink()
        self._file = os.open(unseen, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write([MAGIC, bytes(_WORD_BYTES)])
            self._frame(_HEAD, [json.dumps(head).encode()])
            unseen.rename(path)
        except BaseException:
            os.close(self._file)
            with contextlib.suppress(OSError):
                unseen.unlink()
            raise

    def append(self, block: Block | None, records: Sequence[bytes], rows: int, first_us: int, last_us: int) -> None:
        """Write these through to the kernel, whole or not at all: ``rows`` in all, some of them as records.

        Raises OSError.
        """
        pieces: list[Any] = [NO_BLOCK]
        entries: list[bytes] = []
        unpacked = 0
        if block is not None:
            sizes, entries, places = self._entries.pack(block)
            pieces = [sizes, block.numbers]
            unpacked = block.unpacked_bytes + _ENTRY_BYTES * len(entries)
        good = self.size_bytes
        try:
            self._frame(_ROWS, [*pieces, b"".join((*entries, *records))])
        except OSError:
            self._cut(good)
            raise
        if block is not None:
            self._entries.added(places)
        self.unpacked_bytes += unpacked + sum(map(len, records))
        if rows:
            self.first_us = min(self.first_us, first_us) if self.rows else first_us
            self.last_us = max(self.last_us, last_us)
        self.rows += rows

    def leave_word(self, losses: Sequence[Loss], *, has_ended: bool = False) -> None:
        """Say in the room for it what was lost; it holds until rows are written. Takes no more disk. Raises OSError."""
        word = Word(list(losses), has_ended)
        if word == self._word == Word([], False):
            return
        content = json.dumps(word).encode()
        if len(content) > _WORD_BYTES - _WORD.size:
            reasons, rows, firsts, lasts = zip(*losses, strict=True)
            one = (reasons[0][:_REASON_LETTERS], sum(rows), min(firsts), max(lasts))
            content = json.dumps(Word([one], has_ended)).encode()
        data = _WORD.pack(len(content), zlib.crc32(content), self.size_bytes) + content
        if os.pwrite(self._file, data, len(MAGIC)) < len(data):
            raise OSError("a journal's last word was not taken whole")
        self._word, self._word_at = word, self.size_bytes

    def forget_word(self) -> None:
        """Take it back: another journal has it now. Raises OSError."""
        if self._word.losses:
            self.leave_word([])

    @property
    def has_word(self) -> bool:
        """Whether it says of losses."""
        return bool(self._word.losses)

    def seal(self) -> None:
        """Say that nothing more comes. Raises OSError."""
        good = self.size_bytes
        try:
            self._frame(_END, [])
        except OSError:
            self._cut(good)
            self.leave_word(self._word.losses if self._word_at == good else [], has_ended=True)

    def fate(self) -> str:
        """``there``, ``finished`` (its rows are in a segment), or ``deleted`` by somebody who is none of ours."""
        found = os.fstat(self._file)
        if found.st_nlink:
            return "there"
        return "deleted" if found.st_size else "finished"

    def remove(self) -> None:
        """Delete it: there is nothing in it."""
        os.ftruncate(self._file, 0)
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.leave()

    def leave(self) -> None:
        """Let go of it."""
        os.close(self._file)

    def _cut(self, size_bytes: int) -> None:
        os.ftruncate(self._file, size_bytes)
        os.lseek(self._file, size_bytes, os.SEEK_SET)
        self.size_bytes = size_bytes

    def _frame(self, kind: int, pieces: list[Any]) -> None:
        crc = zlib.crc32(bytes((kind,)))
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        self._write([_FRAME.pack(sum(map(len, pieces)), crc, kind), *pieces])

    def _write(self, pieces: list[Any]) -> None:
        # One call in nearly all cases; a short write says that the disk is full, and then the next one fails.
        # Joining what a second of traffic left would take as long as writing it.
        written = os.writev(self._file, pieces)
        self.size_bytes += written
        if written == sum(map(len, pieces)):
            return
        data = memoryview(b"".join(pieces))[written:]
        while len(data):
            written = os.write(self._file, data)
            self.size_bytes += written
            data = data[written:]


class JournalReader:
    """A journal read from its beginning, frame by frame, also while it grows. Use as a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and JournalError when not even the head can be read."""
        self.path = path
        self.has_ended = False
        """Whether its writer said that nothing more comes."""
        self._at = 0
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            magic = os.pread(self._file, len(MAGIC), 0)
            if magic != MAGIC:
                if magic.startswith(_ANY_VERSION) and len(magic) == len(MAGIC):
                    raise OtherVersionError("it was written by another version of notleader, which can finish it")
                raise JournalError("it does not begin as one" if magic else "it is empty")
            self._at = _FIRST_FRAME
            first = self._next()
            if first is None or first[0] != _HEAD:
                raise JournalError("its first frame is not whole")
            self.head: dict[str, Any] = json.loads(first[1])
            self._rows_end = self._at
        except BaseException:
            os.close(self._file)
            raise

    def frames(self) -> Iterator[Unpacked]:
        """What is there that was not read yet, up to the first frame that is not whole."""
        while not self.has_ended and (found := self._next()) is not None:
            kind, content = found
            if kind == _END:
                self.has_ended = True
            elif kind == _ROWS:
                self._rows_end = self._at
                yield unpack(content)

    def skip(self) -> int | None:
        """Pass over the next frame without looking into it: how many rows it has; None where there is none."""
        found = self._next()
        if found is None:
            return None
        kind, content = found
        self.has_ended = kind == _END
        if kind == _ROWS:
            self._rows_end = self._at
        return rows_in(content) if kind == _ROWS else 0

    def last_word(self) -> Word:
        """What it says in the room for that, if it is of after the last rows that were read."""
        data = os.pread(self._file, _WORD_BYTES, len(MAGIC))
        length, crc, at = _WORD.unpack_from(data)
        content = data[_WORD.size : _WORD.size + length]
        if not length or at != self._rows_end or zlib.crc32(content) != crc:
            return Word([], False)
        losses, has_ended = json.loads(content)
        return Word([tuple(loss) for loss in losses], has_ended)

    @property
    def read_bytes(self) -> int:
        """How far it was read."""
        return self._at

    @property
    def size_bytes(self) -> int:
        """How long it is by now."""
        return os.fstat(self._file).st_size

    @property
    def is_deleted(self) -> bool:
        """Whether somebody has deleted it."""
        return os.fstat(self._file).st_nlink == 0

    def sync(self) -> None:
        """Have it on the disk itself, where a power cut can't take it. Raises OSError."""
        os.fdatasync(self._file)

    def try_lock(self) -> bool:
        """Whether its writer is gone, and it is ours now."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def remove(self) -> None:
        """Its rows are somewhere better now."""
        os.ftruncate(self._file, 0)
        self.path.unlink(missing_ok=True)

    def rows_behind(self) -> int:
        """How many rows stand in whole frames behind what can be read: more than none where it is damaged, not torn."""
        return _rows_from(self.path, self._at)

    def close(self) -> None:
        """Let go of it."""
        os.close(self._file)

    def _next(self) -> tuple[int, bytes] | None:
        head = os.pread(self._file, _FRAME.size, self._at)
        if len(head) < _FRAME.size:
            return None
        length, crc, kind = _FRAME.unpack(head)
        # Read one at a time: a mapping of the whole would count as this process's memory.
        content = os.pread(self._file, length, self._at + _FRAME.size) if length <= self.size_bytes else b""
        if len(content) < length or zlib.crc32(content, zlib.crc32(bytes((kind,)))) != crc:
            return None
        self._at += _FRAME.size + length
        return kind, content

    def __enter__(self) -> JournalReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_damaged(path: Path) -> bool:
    """Whether there are rows in a journal that can't be read from its beginning."""
    return _rows_from(path, 0) > 0


def set_aside(path: Path) -> Path:
    """Give a damaged journal a name under which nobody looks for one; where it is now. Raises OSError."""
    return path.rename(path.with_name(path.name + _DAMAGED))


def _rows_from(path: Path, at: int) -> int:
    """How many rows stand in frames that are whole, wherever behind that place they begin."""
    rows, begins = 0, at
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while (kind := data.find(bytes((_ROWS,)), begins + _FRAME.size - 1)) >= 0:
            begins = kind - _FRAME.size + 1
            length, crc, _ = _FRAME.unpack_from(data, begins)
            ends = kind + 1 + length
            if ends <= len(data) and zlib.crc32(data[kind:ends]) == crc:
                rows += rows_in(data[kind + 1 : ends])
                begins = ends
            else:
                begins += 1
    return rows


def is_written(path: Path) -> bool:
    """Whether a journal's writer lives; False too for one that is gone."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def hidden(segment: Path, suffix: str = SUFFIX) -> Path:
    """The file beside a segment that belongs to it; readers of the folder skip names that begin with a dot."""
    return segment.with_name(f".{segment.name}{suffix}")


def segment_of(journal: Path) -> Path:
    """The segment that a journal becomes."""
    return journal.with_name(journal.name.removeprefix(".").removesuffix(SUFFIX))
