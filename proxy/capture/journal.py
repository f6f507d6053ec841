"""The journal of a segment that is still growing: what a killed proxy or a power cut leaves to be salvaged.

A file of frames: a magic line, then per frame its length and CRC-32 (big-endian unsigned 32 bits each). The first is
the schema, an encapsulated Arrow IPC message; every other one is what one append wrote: eight numbers (big-endian
unsigned 32 bits: the tables its block points into, the partitions its shapes tell, and the lengths of the six pieces
that follow), the block's numbers and parts as ``proxy.capture.block`` packs them, and four IPC record batches or
nothing: the entries of ``schema.ENTRIES`` that this journal has not had yet, and rows that were made one by one.

Rows are made of blocks when the segment is finished, so half a second of traffic reaches the disk almost as it is.
Whoever writes a journal holds an exclusive `flock` on it, so nobody mistakes a living one for one that was left behind.
The frames of a journal of version 1 are record batches.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from notleader.proxy.capture.block import Block, Tables
from notleader.proxy.capture.schema import (
    CODED,
    ENTRIES,
    EXCHANGE,
    NO_ENTRIES,
    Identity,
    Packed,
    coded,
    entries_of,
    in_time,
    table_of_packed,
)

MAGIC: Final = b"notleader journal 2\n"
_OLD_MAGIC: Final = b"notleader journal 1\n"
_FRAME: Final = struct.Struct(">II")
_PIECES: Final = struct.Struct(">8I")


class JournalError(Exception):
    """The file is no journal, or not even its schema is whole."""


class Journal:
    """A journal that is being written; ``size_bytes`` and ``rows`` are what is safely in it.

    ``unpacked_bytes`` is about how large its rows are as Arrow columns.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Create ``path`` with its schema frame, locked from the first moment it can be seen. Raises OSError."""
        self.path = path
        self.rows = 0
        self.size_bytes = 0
        self.unpacked_bytes = 0
        self.is_sure = True
        """Whether all that was written is there as it was; where the disk did not take it, its pages may be gone."""
        self._synced_bytes = 0
        self._tables: Tables | None = None
        self._number = 0
        self._told: list[set[int]] = [set() for _ in ENTRIES]
        path.parent.mkdir(parents=True, exist_ok=True)
        unseen = path.with_name(path.name + ".new")
        self._file = unseen.open("wb", buffering=0)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(MAGIC)
            self._frame([schema.serialize()])
            self.sync()
            unseen.rename(path)
        except BaseException:
            self._file.close()
            unseen.unlink(missing_ok=True)
            raise

    def append(self, batch: pa.RecordBatch | None, blocks: Sequence[Block] = ()) -> int:
        """Write these through to the kernel; how many rows that were. All blocks point into the same tables.

        Raises OSError, and what `batch_of` raises for what fits no column; then nothing of it stays.
        """
        new: list[pa.RecordBatch | None] = [None] * len(ENTRIES)
        number = 0
        if blocks:
            if blocks[0].tables is not self._tables:
                self._tables = blocks[0].tables
                self._number += 1
                self._told = [set() for _ in ENTRIES]
            new = entries_of(blocks, self._told)
            number = self._number
        packed: list[list[Any]] = [[block.numbers for block in blocks], [block.parts for block in blocks]]
        packed += [[] if one is None else [one.serialize()] for one in (*new, batch)]
        sizes = [sum(map(_size, pieces)) for pieces in packed]
        good = self.size_bytes
        try:
            # Piece by piece: the blocks of half a second are megabytes that need not be copied.
            self._frame([_PIECES.pack(number, sum(block.told for block in blocks), *sizes), *chain(*packed)])
        except OSError:
            os.ftruncate(self._file.fileno(), good)
            self._file.seek(good)
            self.size_bytes = good
            raise
        for told, entries in zip(self._told, new, strict=True):
            if entries is not None:
                told.update(entries["place"].to_pylist())
                self.unpacked_bytes += entries.nbytes
        rows = 0
        if batch is not None:
            rows += batch.num_rows
            self.unpacked_bytes += batch.nbytes
        for block in blocks:
            rows += len(block)
            self.unpacked_bytes += block.unpacked_bytes
        self.rows += rows
        return rows

    def sync(self) -> None:
        """Have it on the disk itself, where a power cut can't take it, unless it is. Raises OSError."""
        if self._synced_bytes == self.size_bytes:
            return
        self._synced_bytes = self.size_bytes
        try:
            os.fdatasync(self._file.fileno())
        except OSError:
            self.is_sure = False
            raise

    def remove(self) -> None:
        """Delete it: its rows are somewhere better now."""
        self.path.unlink(missing_ok=True)
        self._file.close()

    def leave(self) -> None:
        """Let it lie, for the next start to salvage."""
        self._file.close()

    def _frame(self, pieces: list[Any]) -> None:
        crc = 0
        for piece in pieces:
            crc = zlib.crc32(piece, crc)
        self._write(_FRAME.pack(sum(map(_size, pieces)), crc))
        for piece in pieces:
            self._write(piece)

    def _write(self, data: Any) -> None:
        view = memoryview(data).cast("B")
        while len(view):
            written = self._file.write(view)
            assert written is not None
            self.size_bytes += written
            view = view[written:]


class Frame(NamedTuple):
    """What one append wrote: rows, and exchanges that are none yet."""

    batch: pa.RecordBatch | None
    packed: Packed | None

    @property
    def rows(self) -> int:
        return sum(len(part) for part in self if part is not None)

    @property
    def unpacked_bytes(self) -> int:
        """About how much memory its rows take as Arrow columns."""
        of_rows = 0 if self.batch is None else int(self.batch.nbytes)
        return of_rows if self.packed is None else of_rows + self.packed.unpacked_bytes


class LeftJournal:
    """A journal that nobody writes any more, read up to the first frame that is not whole.

    Use as a context manager. ``torn_bytes`` is known once the frames were read.
    """

    def __init__(self, path: Path, *, is_sure: bool = False) -> None:
        """``is_sure`` as its `Journal` says. Raises OSError, and JournalError when not even the schema can be read."""
        self.path = path
        self.torn_bytes = 0
        self._is_sure = is_sure
        self._file = path.open("rb")
        try:
            self._end = os.fstat(self._file.fileno()).st_size
            if self._end <= len(MAGIC):
                raise JournalError("it is empty")
            magic = self._file.read(len(MAGIC))
            if magic not in (MAGIC, _OLD_MAGIC):
                raise JournalError("it does not begin as one")
            self._is_old = magic == _OLD_MAGIC
            first = self._next()
            if first is None:
                raise JournalError("its first frame is not whole")
            self.schema = pa.ipc.read_schema(pa.py_buffer(first))
            if not self._is_old and not self.schema.equals(EXCHANGE):
                raise OSError("it was written by another version of notleader, which can finish it")
        except BaseException:
            self._file.close()
            raise

    @property
    def identity(self) -> Identity:
        """Whose rows they are."""
        known = {key.decode(): value.decode() for key, value in (self.schema.metadata or {}).items()}
        run_id, proxy_id, seed = (known.get(f"notleader.{name}") for name in ("run_id", "proxy_id", "seed"))
        return run_id or "", proxy_id or "", int(seed or 0)

    def tables(self, skip: int = 0) -> Iterator[pa.Table]:
        """The rows of each append in order, but for the first ``skip`` of all; once, instead of `frames`."""
        for frame in self.frames():
            if skip < frame.rows:
                yield self.table_of([frame])[skip:]
            skip = max(skip - frame.rows, 0)

    def table_of(self, frames: Sequence[Frame]) -> pa.Table:
        """The rows of these, text as dictionaries: append by append, those of one by time.

        All their blocks have to point into the same tables.
        """
        made = [frame.batch for frame in frames if frame.batch is not None]
        packed = [frame.packed for frame in frames if frame.packed is not None]
        columns = table_of_packed(packed, self.identity) if packed else CODED.empty_table()
        if not made:
            return columns
        rows = pa.Table.from_batches(made, self.schema).cast(coded(self.schema))
        if not packed:
            return rows
        ordered = []
        for batch, block in frames:
            first, rows = _split(rows, batch)
            second, columns = _split(columns, block)
            if batch is None or block is None:
                ordered += [first, second]
            else:
                ordered.append(in_time(pa.concat_tables([first, second])))
        return pa.concat_tables(ordered).combine_chunks()

    def frames(self) -> Iterator[Frame]:
        """What each append wrote, in order; once."""
        number, entries = 0, NO_ENTRIES
        while (content := self._next()) is not None:
            if self._is_old:
                yield Frame(pa.ipc.read_record_batch(pa.py_buffer(content), self.schema), None)
                continue
            tables, told, *sizes = _PIECES.unpack_from(content)
            pieces, rest = [], memoryview(content)[_PIECES.size :]
            for size in sizes:
                pieces.append(rest[:size])
                rest = rest[size:]
            numbers, parts, *new, batch = pieces
            packed = None
            if numbers:
                if tables != number:
                    number, entries = tables, NO_ENTRIES
                entries = [
                    # A copy, for these outlive the rest of the frame.
                    pa.concat_tables([known, pa.Table.from_batches([_batch(bytes(piece), kind)])]) if piece else known
                    for known, piece, kind in zip(entries, new, ENTRIES, strict=True)
                ]
                packed = Packed(numbers, parts, told, tables, entries)
            yield Frame(_batch(batch, self.schema) if batch else None, packed)

    def _next(self) -> bytes | None:
        # Read one at a time: a mapping of the whole would count as this process's memory.
        start = self._file.tell()
        length, crc = 0, 0
        if start + _FRAME.size <= self._end:
            length, crc = _FRAME.unpack(self._file.read(_FRAME.size))
        if length and start + _FRAME.size + length <= self._end:
            content = self._file.read(length)
            if self._is_sure or zlib.crc32(content) == crc:
                return content
        self.torn_bytes = self._end - start
        return None

    def __enter__(self) -> LeftJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _split(table: pa.Table, first: pa.RecordBatch | Packed | None) -> tuple[pa.Table, pa.Table]:
    """As many rows as the first has, and the others."""
    rows = 0 if first is None else len(first)
    return table[:rows], table[rows:]


def _batch(message: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def _size(piece: Any) -> int:
    return memoryview(piece).nbytes


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
