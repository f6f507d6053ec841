"""From one journal, read as it grows, to a Parquet segment that appears whole or not at all."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.frames import Gap, PackedExchange, Unpacked, told_loss
from notleader.proxy.record.journal import JournalReader, Loss, hidden, segment_of, set_aside
from notleader.proxy.record.limits import UNMADE, Losses
from notleader.proxy.record.redaction import Redaction
from notleader.proxy.record.rows import COLUMNS, PARTITIONS, WHAT_PLACES, Level, Row, Rows
from notleader.proxy.recorder.chunks import Entries, chunks_of
from notleader.proxy.recorder.columns import IS_COMPILED, whats_among
from notleader.proxy.recorder.schema import (
    CODED,
    ENTRIES,
    EXCHANGE,
    NO_ENTRIES,
    Packed,
    batches_of,
    coded,
    entries,
    in_time,
    table_of_packed,
)
from notleader.proxy.recorder.segment import Chunk, Segment
from notleader.proxy.recorder.tries import WHOLE, Tries

log = logging.getLogger("notleader.capture")

_ROW_GROUP_ROWS: Final = 50_000
_ROW_GROUP_BYTES: Final = 32 << 20
_WORTH_A_GROUP: Final = 2_000
_ERROR_CODE: Final = COLUMNS.index("error_code")
_DETAIL: Final = COLUMNS.index("detail")
_HIDDEN: Final = "frames left out: they hold secrets that can't be hidden one by one"
_KILLED: Final = (
    "lost an unknown number of rows: the proxy was killed; its last second, and what had no answer, may be missing"
)
DEADLY: Final = "the recorder died over them again and again"
Error = tuple[int, int]
"""api_key and error_code."""


class Frame(NamedTuple):
    """What one frame of a journal became: exchanges that are still numbers, and rows."""

    packed: Packed | None
    batch: pa.RecordBatch | None

    @property
    def rows(self) -> int:
        return sum(len(part) for part in self if part is not None)

    @property
    def unpacked_bytes(self) -> int:
        """About how much memory its rows take as Arrow columns."""
        of_rows = 0 if self.batch is None else int(self.batch.nbytes)
        return of_rows if self.packed is None else of_rows + self.packed.unpacked_bytes


class Contents:
    """A journal's frames as rows: what they point to, topics' names, and how many rows could not be made."""

    def __init__(self, path: Path) -> None:
        """Raises OSError and JournalError."""
        self.reader = JournalReader(path)
        self.path = path
        self.head = self.reader.head
        self._names: dict[UUID, str] = {}
        redaction = Redaction(self.head["redact"])
        self.rows = Rows(
            self.head["run_id"],
            self.head["proxy_id"],
            self.head["seed"],
            Level(self.head["level"]),
            self._names.get,
            redaction,
        )
        self.identity = self.rows.run_id, self.rows.proxy_id, self.rows.seed
        self._begin()

    def _begin(self) -> None:
        self.losses = Losses()
        self.unmade = 0
        self.errors: dict[Error, int] = {}
        """How many answers had which error, of those that the proxy itself did not read."""
        self._tables = 0
        self._entries: Sequence[pa.Table] = NO_ENTRIES
        self._pointed_to = Entries()
        self._errors_of: dict[int, Error] = {}
        self._last: Frame | None = None

    @property
    def last_us(self) -> int:
        """When the last of what was read happened; when the journal was begun where there is nothing in it."""
        begun_us = int(self.head.get("begun_at_us", 0))
        if self._last is None:
            return begun_us
        try:
            table = self.table_of([self._last])
        except ValueError:
            return begun_us
        return max(pc.max(table[name]).as_py() or 0 for name in ("request_at_us", "response_at_us"))

    def again(self) -> None:
        """Go back to the beginning."""
        self.reader.close()
        self.reader = JournalReader(self.path)
        self._begin()

    def frames(self) -> Iterator[Frame]:
        """What came since the last time. A frame that says nonsense is a row that can't be made."""
        unpacked = self.reader.frames()
        while True:
            try:
                frame = self._frame(next(unpacked))
            except StopIteration:
                return
            except OSError:
                raise
            except Exception:
                log.exception("a frame of %s can't be read", self.path)
                self._lose(1, 0)
                unpacked = self.reader.frames()
                continue
            if frame.rows:
                self._last = frame
            yield frame

    def leave_out(self) -> bool:
        """Pass over the next frame, over which recorders died: its rows are said to be lost. Whether there was one."""
        rows = self.reader.skip()
        if rows:
            self.unmade += rows
            self.losses.add(DEADLY, rows, 0, 0)
        return rows is not None

    def lost(self) -> Frame | None:
        """Rows that say what could not be made into rows since the last time."""
        return self.gaps(_gaps(self.losses.take()))

    def gaps(self, gaps: Sequence[Gap]) -> Frame | None:
        """The rows of these."""
        batches, _ = batches_of([self.rows.gap(gap.detail, gap.first_us, gap.last_us) for gap in gaps])  # type: ignore[arg-type]
        return Frame(None, batches[0]) if batches else None

    def chunks_of(self, frames: Sequence[Frame]) -> tuple[int, list[Chunk]] | None:
        """The rows of these as columns of a Parquet file; None where `table_of` has to make them.

        All have numbers alone, which point into the same tables.
        """
        try:
            return chunks_of([frame.packed for frame in frames if frame.packed], self.identity)
        except (ValueError, LookupError):
            log.exception("numbers of %s are made into rows by way of a table", self.path)
            return None

    def sound(self, frames: Sequence[Frame]) -> list[Frame]:
        """These without numbers that can't be read, which are rows that can't be made."""
        found = []
        for frame in frames:
            try:
                if frame.packed is not None:
                    whats_among((frame.packed.numbers, frame.packed.rows, frame.packed.parts))
                found.append(frame)
            except ValueError as error:
                log.error("numbers in %s can't be read: %s", self.path, error)
                self._lose(max(frame.rows, 1), 0)
                found.append(Frame(None, frame.batch))
        return found

    def table_of(self, frames: Sequence[Frame]) -> pa.Table:
        """The rows of these, text as dictionaries: frame by frame, those of one by time.

        All their numbers have to point into the same tables. Raises ValueError where they can't be read.
        """
        made = [frame.batch for frame in frames if frame.batch is not None]
        packed = [frame.packed for frame in frames if frame.packed is not None]
        columns = table_of_packed(packed, self.identity) if packed else CODED.empty_table()
        if not made:
            return columns
        rows = pa.Table.from_batches(made, EXCHANGE).cast(coded(EXCHANGE))
        if not packed:
            return rows
        ordered = []
        for block, batch in frames:
            first, rows = _split(rows, batch)
            second, columns = _split(columns, block)
            if batch is None or block is None:
                ordered += [first, second]
            else:
                ordered.append(in_time(pa.concat_tables([first, second])))
        return pa.concat_tables(ordered).combine_chunks()

    def _frame(self, unpacked: Unpacked) -> Frame:
        self._names.update(unpacked.topics)
        packed = None
        if unpacked.numbers:
            if unpacked.tables != self._tables:
                self._tables, self._entries, self._errors_of = unpacked.tables, NO_ENTRIES, {}
                self._pointed_to = Entries()
            self._add_entries(unpacked)
            own = unpacked.numbers, unpacked.rows, unpacked.parts
            if self._errors_of:
                for place, times in whats_among(own).items():
                    if (error := self._errors_of.get(place)) is not None:
                        self.errors[error] = self.errors.get(error, 0) + times
            numbers = unpacked.numbers
            if len(numbers) < memoryview(numbers.obj).nbytes // 2:  # the whole frame stays for them
                numbers = memoryview(bytes(numbers))
            packed = Packed(numbers, *own[1:], unpacked.told, unpacked.tables, self._entries, self._pointed_to)
        rows = [row for entry in unpacked.entries if (row := self._row(entry)) is not None]
        batches, misfits = batches_of(rows)
        if misfits:
            log.error("%d capture rows could not be made: a value fits no column", misfits)
            self._lose(misfits, 0)
        return Frame(packed, _one(batches))

    def _add_entries(self, unpacked: Unpacked) -> None:
        whats = list(unpacked.whats)
        for place, exchange in unpacked.unread:
            row = self._row(PackedExchange(exchange, False), count=False)
            if row is None:
                row = self.rows.gap("", None, None)  # type: ignore[arg-type]
            values = [row[at] for at in WHAT_PLACES]
            whats.append([place, *values, row[PARTITIONS]])
            if row[_ERROR_CODE]:
                self._errors_of[place] = exchange.api_key, row[_ERROR_CODE]
        found = []
        news = unpacked.whos, whats, unpacked.templates
        for which, (known, kind, new) in enumerate(zip(self._entries, ENTRIES, news, strict=True)):
            if not new:
                found.append(known)
                continue
            table, misfits = entries(kind, new)
            if misfits:
                log.error("%d entries of %s fit no column", len(misfits), self.path)
                empty = [[place, *(None,) * (len(kind) - 1)] for place in misfits]
                table = pa.concat_tables([table, entries(kind, empty)[0]])
            if IS_COMPILED:
                self._pointed_to.add(which, table)
            found.append(pa.concat_tables([known, table]))
        self._entries = found

    def _row(self, entry: PackedExchange | ConnectionEvent | Gap, *, count: bool = True) -> Row | None:
        try:
            if isinstance(entry, Gap):
                return self.rows.gap(entry.detail, entry.first_us, entry.last_us)  # type: ignore[arg-type]
            if isinstance(entry, ConnectionEvent):
                return self.rows.of(entry)
            row = self.rows.of(entry.exchange)
        except Exception:  # one row that can't be made must not end the recording
            if not self.unmade:
                log.exception("a capture row could not be made")
            at_us = entry.exchange.request_at_us if isinstance(entry, PackedExchange) else 0
            self._lose(1, at_us)
            return None
        if count and row[_ERROR_CODE]:
            error = entry.exchange.api_key, row[_ERROR_CODE]
            self.errors[error] = self.errors.get(error, 0) + 1
        if entry.is_hidden and self.rows.level.keeps_frames and row[_DETAIL] is None:
            row = (*row[:_DETAIL], _HIDDEN, *row[_DETAIL + 1 :])
        return row

    def _lose(self, rows: int, at_us: int) -> None:
        self.unmade += rows
        self.losses.add(UNMADE, rows, at_us, at_us)


def _gaps(losses: Sequence[Loss]) -> list[Gap]:
    return [
        Gap(told_loss(reason, rows), first_us or None, last_us or None) for reason, rows, first_us, last_us in losses
    ]


class Following:
    """Makes the segment of a journal while it grows; what is done so far lies beside it, hidden."""

    def __init__(self, path: Path) -> None:
        """Raises OSError and JournalError."""
        self.contents = Contents(path)
        self.path = path
        self.tries = Tries(path)
        self.segment = segment_of(path)
        self.rows = 0
        self.was_killed = False
        self.torn_bytes = 0
        """Of a proxy that was killed: what it had not written whole."""
        self.rows_behind = 0
        """Of a journal that is damaged: how many rows are whole behind that, where nobody can tell what they say."""
        self._unfinished = hidden(self.segment, ".tmp")
        self._group: list[Frame] = []
        self._group_rows = self._group_bytes = self._group_tables = 0
        self._writer: Segment | None = None

    @property
    def reader(self) -> JournalReader:
        """The journal."""
        return self.contents.reader

    def read(self, most_frames: int) -> bool:
        """Take what is new, at most so many frames of it; whether there was any. Raises OSError."""
        if self.tries.is_careful:
            return self._read_one()
        taken = 0
        for frame in self.contents.frames():
            self._add(frame)
            taken += 1
            if taken >= most_frames:
                break
        return taken > 0

    def _read_one(self) -> bool:
        """Take the next frame alone, and say before that it is tried."""
        at = self.reader.read_bytes
        if self.tries.is_given_up(at):
            return self.contents.leave_out()
        if self.reader.size_bytes == at or self.reader.has_ended:
            return False
        self.tries.enter(at)
        frame = next(self.contents.frames(), None)
        if frame is not None:
            self._add(frame)
            self._write_group()
        self.tries.leave()
        return frame is not None

    def _add_last_word(self) -> None:
        """Say what the journal could say in no row: what was lost, and that the proxy was killed. All has been read."""
        word = self.reader.last_word()
        gaps = _gaps(word.losses)
        self.was_killed = not (self.reader.has_ended or word.has_ended)
        if self.was_killed:
            self.torn_bytes = self.reader.size_bytes - self.reader.read_bytes
            self.rows_behind = self.reader.rows_behind() if self.torn_bytes else 0
            torn = f" ({self.torn_bytes} bytes of a half-written batch were dropped)" if self.torn_bytes else ""
            if self.rows_behind:
                torn = f"; its journal is damaged: {self.rows_behind} more rows can't be read"
            known_us = max([self.contents.last_us, *[loss[3] for loss in word.losses]])
            gaps.append(Gap(_KILLED + torn, known_us or None, max(known_us, time.time_ns() // 1000)))
        if (frame := self.contents.gaps(gaps)) is not None:
            self._add(frame)

    def finish(self) -> Path | None:
        """The file of the whole segment, to be put in its place; None where there is not a row. Raises OSError."""
        if self.tries.is_careful:
            self.tries.enter(WHOLE)
        self._add_last_word()
        self._write_group()
        if (lost := self.contents.lost()) is not None:
            self._add(lost)
            self._write_group()
        if self._writer is None:
            return None
        self._writer.close()
        self._writer = None
        if self.tries.is_careful:
            self.tries.leave()
        with self._unfinished.open("rb") as written:
            # The journal goes after this: the segment must be on the disk by then, not on its way there.
            os.fsync(written.fileno())
        return self._unfinished

    def again(self) -> None:
        """Forget what was made so far, and begin anew. Raises OSError."""
        self._discard()
        self.rows = 0
        self.contents.again()

    def done(self) -> Path | None:
        """Delete the journal: its segment is in place. One that is damaged is kept: where. Raises OSError."""
        self.tries.forget()
        if self.rows_behind:
            return set_aside(self.path)
        self.reader.remove()
        return None

    def drop(self) -> None:
        """Let go of it."""
        self._discard()
        if not self.tries.is_careful or self.reader.is_deleted:
            self.tries.forget()
        self.reader.close()

    # ---- inside ---------------------------------------------------------------------------------

    def _add(self, frame: Frame) -> None:
        if frame.packed is not None:
            if self._group_tables and frame.packed.tables != self._group_tables:
                self._write_group()
            self._group_tables = frame.packed.tables
        self._group.append(frame)
        self._group_rows += frame.rows
        self._group_bytes += frame.unpacked_bytes
        if self._group_rows >= _ROW_GROUP_ROWS or self._group_bytes >= _ROW_GROUP_BYTES:
            self._write_group()

    def _write_group(self) -> None:
        group, self._group = self._group, []
        self._group_rows = self._group_bytes = 0
        for is_plain, frames in _runs(group):
            made = self.contents.chunks_of(frames) if is_plain else None
            if made is not None:
                self._opened().write_chunks(*made)
                self.rows += made[0]
                continue
            try:
                table = self.contents.table_of(frames)
            except ValueError:
                table = self.contents.table_of(self.contents.sound(frames))
            if len(table):
                self._opened().write_table(table)
                self.rows += len(table)

    def _opened(self) -> Segment:
        if self._writer is None:
            self._writer = Segment(self._unfinished, self.contents.head["metadata"])
        return self._writer

    def _discard(self) -> None:
        self._group = []
        self._group_rows = self._group_bytes = self._group_tables = 0
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.discard()
            except OSError:
                log.debug("an unfinished segment could not be closed", exc_info=True)
        try:
            self._unfinished.unlink(missing_ok=True)
        except OSError:
            log.debug("an unfinished segment could not be deleted", exc_info=True)


def _runs(frames: Sequence[Frame]) -> Iterator[tuple[bool, list[Frame]]]:
    """These in order: such as are numbers alone, where they are many, and others.

    The rows of frames with many numbers come behind all of these, not among them: one event a frame would have all its
    numbers made by way of a table.
    """
    waiting: list[Frame] = []
    parts: list[Frame] = []
    behind: list[Frame] = []
    for frame in frames:
        if IS_COMPILED and frame.batch is not None and frame.packed is not None and frame.packed.rows >= _WORTH_A_GROUP:
            parts.append(Frame(frame.packed, None))
            behind.append(Frame(None, frame.batch))
        else:
            parts.append(frame)
    parts += behind
    for is_plain, found in groupby(parts, lambda frame: IS_COMPILED and frame.batch is None):
        run = list(found)
        rows = sum(frame.rows for frame in run)
        if is_plain and (rows >= _WORTH_A_GROUP or len(run) == len(parts)):
            if waiting:
                yield False, waiting
                waiting = []
            yield True, run
        else:
            waiting += run
    if waiting:
        yield False, waiting


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    if len(batches) < 2:
        return batches[0] if batches else None
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _split(table: pa.Table, first: pa.RecordBatch | Packed | None) -> tuple[pa.Table, pa.Table]:
    """As many rows as the first has, and the others."""
    rows = 0 if first is None else len(first)
    return table[:rows], table[rows:]
