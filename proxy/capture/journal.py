"""The journal of a segment that is still growing: what a killed proxy or a power cut leaves to be salvaged.

A file of frames: a magic line, then per frame its length and CRC-32 (big-endian unsigned 32 bits each) and
an encapsulated Arrow IPC message, the schema first, record batches after it. Whoever writes a journal holds
an exclusive `flock` on it, so nobody mistakes a living one for one that was left behind.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

MAGIC: Final = b"notleader journal 1\n"
_FRAME: Final = struct.Struct(">II")


class JournalError(Exception):
    """The file is no journal, or not even its schema is whole."""


class Journal:
    """A journal that is being written; ``size_bytes`` and ``rows`` are what is safely in it."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Create ``path`` with its schema frame, locked from the first moment it can be seen. Raises OSError."""
        self.path = path
        self.rows = 0
        self.size_bytes = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        unseen = path.with_name(path.name + ".new")
        self._file = unseen.open("wb", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(MAGIC)
            self._frame(schema.serialize())
            self.sync()
            unseen.rename(path)
        except BaseException:
            self._file.close()
            unseen.unlink(missing_ok=True)
            raise

    def append(self, batch: pa.RecordBatch) -> None:
        """Write one batch through to the kernel. Raises OSError, and then nothing of it stays."""
        good = self.size_bytes
        try:
            self._frame(batch.serialize())
        except OSError:
            os.ftruncate(self._file.fileno(), good)
            self._file.seek(good)
            self.size_bytes = good
            raise
        self.rows += batch.num_rows

    def sync(self) -> None:
        """Have it on the disk itself, where a power cut can't take it. Raises OSError."""
        os.fdatasync(self._file.fileno())

    def remove(self) -> None:
        """Delete it: its rows are somewhere better now."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Let it lie, for the next start to salvage."""
        self._file.close()

    def _frame(self, message: Any) -> None:
        view = memoryview(message).cast("B")
        self._write(_FRAME.pack(len(view), zlib.crc32(view)))
        self._write(view)

    def _write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while len(view):
            written = self._file.write(view)
            assert written is not None
            self.size_bytes += written
            view = view[written:]


class LeftJournal:
    """A journal that nobody writes any more, read up to the first frame that is not whole.

    Use as a context manager. ``torn_bytes`` is known once the batches were read.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError, and JournalError when not even the schema can be read."""
        self.path = path
        self.torn_bytes = 0
        self._file = path.open("rb")
        try:
            frames = self._frames()
            first = next(frames, None)
            if first is None:
                raise JournalError("its first frame is not whole")
            self.schema = pa.ipc.read_schema(pa.py_buffer(first))
        except BaseException:
            self._file.close()
            raise
        self._rest = frames

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The record batches in the order they were written; once."""
        for frame in self._rest:
            yield pa.ipc.read_record_batch(pa.py_buffer(frame), self.schema)

    def _frames(self) -> Iterator[bytes]:
        # Read one at a time: a mapping of the whole would count as this process's memory.
        file = self._file
        end = os.fstat(file.fileno()).st_size
        if end <= len(MAGIC):
            raise JournalError("it is empty")
        if file.read(len(MAGIC)) != MAGIC:
            raise JournalError("it does not begin as one")
        position = len(MAGIC)
        while position + _FRAME.size <= end:
            length, crc = _FRAME.unpack(file.read(_FRAME.size))
            start = position + _FRAME.size
            if not length or start + length > end:
                break
            frame = file.read(length)
            if zlib.crc32(frame) != crc:
                break
            yield frame
            position = start + length
        self.torn_bytes = end - position

    def __enter__(self) -> LeftJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def try_lock(path: Path) -> Any | None:
    """An open file that holds the journal's lock, or None while its writer lives (or it is gone)."""
    try:
        file = path.open("r+b")
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
