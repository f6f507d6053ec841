"""The files of one recording: a journal that grows, segments that appear whole, and an honest account of losses.

One thread calls it. Rows reach the disk within ``Limits.flush_s``; a segment is finished by size or age;
what can't be written is counted and, as soon as something can be written again, said in a gap row.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from notleader.proxy.capture.block import Block
from notleader.proxy.capture.journal import Journal, JournalError
from notleader.proxy.capture.limits import UNMADE, CaptureError, Limits, Losses
from notleader.proxy.capture.place import Place
from notleader.proxy.capture.rows import PARTITIONS, Row, Rows
from notleader.proxy.capture.schema import EXCHANGE, Identity, batch_of, batch_of_odd, in_time
from notleader.proxy.capture.segment import JOURNAL_SUFFIX, finish, hidden
from notleader.proxy.capture.upload import Uploads
from notleader.proxy.memory import give_back

log = logging.getLogger("notleader.capture")

_RETRY_S: Final = 1.0
_SMALLEST_ROOM: Final = 256 << 10  # beside what is to be written: footers, folders, other people's files
_BUFFER_BYTES: Final = 1 << 20
# Of what is not rows yet: its numbers, and the columns they become, which are made of whole writes.
_BUFFER_NUMBERS_BYTES: Final = 384 << 10
_BUFFER_UNPACKED_BYTES: Final = 8 << 20
# About what these take while they wait: a row, and a partition of a row.
_ROW_BYTES, _PARTITION_BYTES = 500, 600
_UPLOAD_GRACE_S: Final = 20.0
_GIVE_BACK_S: Final = 5.0


class Recording:
    """Writes the rows of one run of one proxy to ``place``; not thread-safe.

    ``clock`` is monotonic seconds, ``free_bytes`` the room left where a path lies. Everything that fails is
    in ``error`` (one line, None once all is well again), in ``lost_rows`` and, later, in gap rows.
    """

    def __init__(
        self,
        place: Place,
        spool: Path,
        rows: Rows,
        metadata: dict[str, str],
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        self.place = place
        self.spool = spool
        self.written_rows = 0
        self.lost_rows = 0
        self.segments = 0
        self.error: str | None = None
        self.losses = Losses()
        self._rows = rows
        self._identity: Identity = rows.run_id, rows.proxy_id, rows.seed
        named = {"notleader.run_id": rows.run_id, "notleader.proxy_id": rows.proxy_id, "notleader.seed": str(rows.seed)}
        self._schema = EXCHANGE.with_metadata({**metadata, **named})
        self._limits = limits
        self._clock = clock
        self._free_bytes = free_bytes or _free_bytes
        self._number = 0
        self._buffer: list[Row] = []
        self._blocks: list[Block] = []  # all of the same tables
        self._buffer_bytes = self._buffer_unpacked_bytes = 0
        self._journal: Journal | None = None
        self._unfinished: deque[Journal] = deque()
        self._uploads: Uploads | None = None
        self._flush_due: float | None = None
        self._segment_due: float | None = None
        self._retry_due: float | None = None
        self._keep_due = clock()
        self._give_back_due = clock()
        self._tidy_due: float | None = None
        self._stopped: tuple[float, int, str] | None = None  # since when, how many were lost by then, and why

    def start(self) -> None:
        """Check that the folder can be written, and where numbering goes on. Raises CaptureError."""
        try:
            self.spool.mkdir(parents=True, exist_ok=True)
            probe = self.spool / f".{self._rows.proxy_id}.probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CaptureError(f"can't write the capture folder {self.spool}: {error.strerror or error}") from error
        try:
            if self.place.folder is None:
                self.place.check(self._rows.proxy_id)
            taken = [segment.path for segment in self.place.segments(self._folder())]
        except OSError as error:
            raise CaptureError(f"can't use the capture folder {self.place.shown}: {error}") from error
        if self.place.folder is None:
            self._uploads = Uploads(self.place, self.spool, self._uploaded, self._say)
        numbers = [path.rpartition("-")[2].removesuffix(".parquet") for path in taken]
        self._number = max((int(number) for number in numbers if number.isdigit()), default=0)

    # ---- what comes in --------------------------------------------------------------------------

    def add(self, rows: list[Row], size_bytes: int = 0) -> None:
        """Take rows that hold about ``size_bytes`` of frames."""
        if self._stopped is not None:
            self._lose(rows, self._stopped[2])
            return
        self._buffer += rows
        partitions = sum(len(row[PARTITIONS] or ()) for row in rows)
        size_bytes += _ROW_BYTES * len(rows) + _PARTITION_BYTES * partitions
        self._added(size_bytes, size_bytes)
        if self._buffer_bytes >= _BUFFER_BYTES:
            self._write()  # the kernel keeps it as well as this process does, also when this process is killed

    def add_block(self, block: Block) -> None:
        """Take exchanges that are not rows yet."""
        if self._stopped is not None:
            self._lose_block(block, self._stopped[2])
            return
        if self._blocks and self._blocks[0].tables is not block.tables:
            self._write()  # a frame of the journal points into the same tables throughout
            if self._stopped is not None:
                self._lose_block(block, self._stopped[2])
                return
        self._blocks.append(block)
        self._added(block.size_bytes, block.unpacked_bytes)
        numbers_bytes = sum(one.size_bytes for one in self._blocks)
        if numbers_bytes >= _BUFFER_NUMBERS_BYTES or self._buffer_unpacked_bytes >= _BUFFER_UNPACKED_BYTES:
            self._write()

    def _added(self, size_bytes: int, unpacked_bytes: int) -> None:
        self._buffer_bytes += size_bytes
        self._buffer_unpacked_bytes += unpacked_bytes
        if self._flush_due is None:
            self._flush_due = self._clock() + self._limits.flush_s

    def due(self) -> float | None:
        """When ``tick`` has something to do next, None for never."""
        times = (self._flush_due, self._segment_due, self._retry_due, self._tidy_due)
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """Do what is due: flush, finish a segment, try again what failed."""
        now = self._clock()
        if self._retry_due is not None and now >= self._retry_due:
            self._retry()
        if self._flush_due is not None and now >= self._flush_due:
            self.flush()
        if self._segment_due is not None and now >= self._segment_due:
            self.rotate()
        if self._tidy_due is not None and now >= self._tidy_due:
            self._tidy()

    # ---- the journal ----------------------------------------------------------------------------

    def flush(self) -> None:
        """Have all rows on the disk itself."""
        self._flush_due = None
        self._write()
        self._sync()

    def _write(self) -> None:
        """Write the rows at hand to the journal, after a word on what was lost before them."""
        if not self._waits:
            return
        gaps = self.losses.take()
        rows = [self._gap(*gap) for gap in gaps] + self._buffer
        try:
            self.written_rows += self._append(self._batch(rows) if rows else None, self._blocks)
        except OSError as error:
            for gap in gaps:
                self.losses.add(*gap)
            self._stop(error)
            return
        self._buffer = []
        self._blocks = []
        self._buffer_bytes = self._buffer_unpacked_bytes = 0
        assert self._journal is not None
        if self._journal.unpacked_bytes >= self._limits.rotate_bytes:
            self.rotate()

    def _sync(self) -> None:
        if self._journal is None:
            return
        try:
            self._journal.sync()
        except OSError as error:
            # The kernel may have dropped the pages: what is in this journal can only be read back now.
            log.warning("the disk did not take the capture's journal: %s", error)

    @property
    def _waits(self) -> bool:
        """Whether there is anything to flush."""
        return bool(self._buffer or self._blocks or self.losses)

    def _append(self, batch: pa.RecordBatch | None, blocks: Sequence[Block]) -> int:
        to_write = unpacked = 0 if batch is None else batch.nbytes
        for block in blocks:
            to_write += block.size_bytes
            unpacked += block.unpacked_bytes
        self._make_room(to_write, unpacked)
        if self._journal is None:
            self._journal = self._open()
            self._segment_due = self._clock() + self._limits.rotate_s
            self._tidy_soon()
        if batch is not None:
            self._tidy_soon()
        try:
            rows = self._journal.append(batch, blocks)
        except (pa.ArrowException, UnicodeError, OverflowError):
            odd = self._batch([row for block in blocks for row in block.rows(*self._identity)])
            made = pa.Table.from_batches([odd] if batch is None else [batch, odd])
            rows = self._journal.append(next(iter(in_time(made).combine_chunks().to_batches()), None))
        return rows

    def _open(self) -> Journal:
        self._number += 1
        segment = self.spool / self._folder() / f"{self._rows.proxy_id}-{self._number:06d}.parquet"
        return Journal(hidden(segment, JOURNAL_SUFFIX), self._schema)

    def _folder(self) -> str:
        return f"date={datetime.now(UTC).date().isoformat()}/run={self._rows.run_id}"

    def _make_room(self, to_write_bytes: int, unpacked_bytes: int) -> None:
        """Finish the segment early where the disk runs low: Parquet is much smaller. Raises OSError for no room."""
        if self._has_room(to_write_bytes, unpacked_bytes):
            return
        if self._journal is not None:
            self._close_segment()
            if self._uploads is None:
                self._keep_due = self._clock()
                self._keep()
            if self._has_room(to_write_bytes, unpacked_bytes):
                return
        if self._is_crowded():
            raise OSError(f"the spool is full of what {self.place.shown} did not take")
        raise OSError(f"only {self._free_bytes(self.spool) >> 10} KiB are free")

    def _is_crowded(self) -> bool:
        """Whether more would wait for a remote store than may."""
        if self._uploads is None or self._limits.spool_bytes is None:
            return False
        growing = self._journal.size_bytes if self._journal is not None else 0
        return self._uploads.waiting_bytes + growing > self._limits.spool_bytes

    def _has_room(self, to_write_bytes: int, unpacked_bytes: int, spare_bytes: int = _SMALLEST_ROOM) -> bool:
        if self._is_crowded():
            return False
        # Room for the frame, and for the segment that its journal will become: Parquet takes at most half of what
        # its rows are as columns, which may be more than the journal itself.
        growing = self._journal.unpacked_bytes if self._journal is not None else 0
        return self._free_bytes(self.spool) >= to_write_bytes + (growing + unpacked_bytes) // 2 + spare_bytes

    def _batch(self, rows: Sequence[Row]) -> pa.RecordBatch:
        try:
            return batch_of(rows)
        except (pa.ArrowException, UnicodeError, OverflowError) as error:
            batch, left_out = batch_of_odd(rows)
            if left_out:
                log.error("%d capture rows could not be made: %s", left_out, error)
                self.lost_rows += left_out
                now_us = time.time_ns() // 1000
                self.losses.add(UNMADE, left_out, now_us, now_us)
            return batch

    # ---- segments -------------------------------------------------------------------------------

    def rotate(self) -> None:
        """Flush, and finish the segment at hand."""
        if self._waits:
            if self._stopped is not None:
                self._retry()
            else:
                self.flush()
                self.flush()  # what the first could not write is a loss to tell
        self._close_segment()
        if self._uploads is None:
            self._keep()

    def _close_segment(self) -> None:
        self._segment_due = None
        self._sync()
        journal, self._journal = self._journal, None
        if journal is not None and self._uploads is not None:
            self._uploads.add(journal)
        elif journal is not None:
            self._unfinished.append(journal)
        self._finish()

    def _finish(self) -> None:
        while self._unfinished:
            journal = self._unfinished[0]
            try:
                finish(journal.path, self.place, self.spool, is_sure=journal.is_sure)
            except (OSError, JournalError) as error:
                # Its rows are safe in the journal; only their place has to wait.
                self._say(f"the capture can't finish a segment in {self.place.shown}: {error}; trying again")
                self._retry_due = self._clock() + _RETRY_S
                return
            self._unfinished.popleft()
            journal.remove()
            self._is_there()
        if self._stopped is None and self._uploads is None:
            self.error = None

    def _is_there(self) -> None:
        self.segments += 1
        if self._clock() >= self._give_back_due:
            self._tidy()
        else:
            self._tidy_due = self._give_back_due

    def _tidy_soon(self) -> None:
        """What opening a journal or making rows of Arrow's touched, the flushes that follow don't need."""
        if self._tidy_due is None:
            self._tidy_due = max(self._give_back_due, self._clock() + self._limits.flush_s)

    def _tidy(self) -> None:
        """Writing Parquet touches tens of MiB of Arrow, now and then; who rests must not keep them."""
        self._tidy_due = None
        self._give_back_due = self._clock() + _GIVE_BACK_S
        pa.default_memory_pool().release_unused()
        give_back()

    def _uploaded(self) -> None:
        """Called by the thread of the uploads, which also looks what is too old to be kept."""
        self._is_there()
        if self._stopped is None:
            self.error = None
        self._keep()

    def settle(self, timeout_s: float) -> bool:
        """Wait until every finished segment is at its place; False when they are not in time."""
        return self._uploads is None or self._uploads.settle(timeout_s)

    def _keep(self) -> None:
        """Delete the oldest segments beyond the age and size that are to be kept."""
        limits = self._limits
        if (limits.keep_s is None and limits.keep_bytes is None) or self._clock() < self._keep_due:
            return
        self._keep_due = self._clock() + min(self._limits.rotate_s, 60.0)
        try:
            segments = sorted(self.place.segments(), key=lambda segment: segment.written_at_s)
            total = sum(segment.size_bytes for segment in segments)
            oldest_s = 0.0 if limits.keep_s is None else time.time() - limits.keep_s
            for segment in segments:
                too_much = limits.keep_bytes is not None and total > limits.keep_bytes
                if not too_much and segment.written_at_s >= oldest_s:
                    break
                self.place.delete(segment.path)
                total -= segment.size_bytes
        except OSError as error:
            log.warning("old segments in %s could not be deleted: %s", self.place.shown, error)

    # ---- losses ---------------------------------------------------------------------------------

    def _stop(self, error: OSError) -> None:
        now = self._clock()
        reason = f"can't write to {self.spool}: {error.strerror or error}"
        self._stopped = (now, self.lost_rows, reason)
        self._retry_due = now + _RETRY_S
        self._say(f"recording stopped, traffic goes on: {reason}; it resumes when there is room")

    def _retry(self) -> None:
        self._retry_due = None
        self._finish()
        if self._stopped is None:
            return
        since, lost_then, _ = self._stopped
        # More room than is needed now, or it would stop and start with every batch.
        if not self._has_room(2 * self._buffer_bytes, 2 * self._buffer_unpacked_bytes, 4 * _SMALLEST_ROOM):
            self._retry_due = self._clock() + _RETRY_S
            return
        self._stopped = None
        self.flush()
        if self._stopped is None:
            self.error = None
            seconds = self._clock() - since
            log.warning("recording resumed after %.0f s; %d rows were lost", seconds, self.lost_rows - lost_then)

    def _lose(self, rows: Sequence[Row], reason: str) -> None:
        if rows:
            self.lost_rows += len(rows)
            times = [at for row in rows if (at := self._rows.time_of(row))]
            self.losses.add(reason, len(rows), min(times), max(times))

    def _lose_block(self, block: Block, reason: str) -> None:
        if len(block):
            self.lost_rows += len(block)
            self.losses.add(reason, len(block), *block.first_and_last_us())

    def _gap(self, reason: str, rows: int, first_us: int, last_us: int) -> Row:
        noun = "row" if rows == 1 else "rows"
        return self._rows.gap(f"lost {rows} {noun}: {reason}", first_us, last_us)

    def _say(self, message: str) -> None:
        """Log a failure once, not once per attempt."""
        if self.error != message:
            log.error("%s", message)
        self.error = message

    def close(self) -> None:
        """Write what is left and finish the last segment; what can't be written is logged."""
        self.rotate()
        if self._stopped is not None:
            self._lose(self._buffer, self._stopped[2])
            for block in self._blocks:
                self._lose_block(block, self._stopped[2])
            self._buffer, self._blocks = [], []
        if self._uploads is not None:
            self._uploads.close(_UPLOAD_GRACE_S)
        for journal in self._unfinished:
            log.error("%s stays behind; the next start of a proxy on this folder finishes it", journal.path)
            journal.leave()


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
