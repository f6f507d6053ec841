"""The journals of one recording: there is always one, each becomes a segment, and what can't be written is counted.

One thread calls it. What is lost is said in a gap row as soon as something can be written again, and until then in
the room that each journal has for it: whoever finishes one that nothing follows makes the gap row.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from notleader.proxy.record.block import Block
from notleader.proxy.record.frames import Gap, pack_gap, told_loss
from notleader.proxy.record.journal import Journal, hidden, segment_of
from notleader.proxy.record.limits import CaptureError, Limits, Losses

log = logging.getLogger("notleader.capture")

_RETRY_S: Final = 1.0
_CALM_S: Final = 5.0
"""That recording goes on is said once it has for so long: a disk with little room fills up again at once."""
_SMALLEST_ROOM: Final = 256 << 10  # beside what is to be written: footers, folders, other people's files
_FREE_AGAIN: Final = 4  # a part in so many of what may wait, once nothing fitted any more
_WHOLE_PARQUET: Final = b"PAR1"  # how it ends
_DELETED: Final = "the capture's journal was deleted before its segment was made"


class Batch(NamedTuple):
    """What is written at once: exchanges as numbers, and records, of which ``rows`` are rows."""

    block: Block | None
    records: Sequence[bytes]
    rows: int
    first_us: int
    last_us: int
    size_bytes: int
    topics: Sequence[bytes] = ()
    """The names of topic ids that are known by now, in the order in which they came to be known."""


class Journals:
    """Writes the rows of one run of one proxy below ``spool``; not thread-safe.

    ``numbers`` gives a segment's number in its run. ``clock`` is monotonic seconds, ``free_bytes`` the room left where
    a path lies. What fails is in ``error`` (one line, None once all is well again), in ``lost_rows`` and in gap rows.
    """

    def __init__(
        self,
        spool: Path,
        proxy_id: str,
        head: dict[str, Any],
        limits: Limits,
        numbers: Iterator[int],
        *,
        most_waiting_bytes: int,
        full: str,
        is_spool: bool = False,
        clock: Callable[[], float] = time.monotonic,
        free_bytes: Callable[[Path], int] | None = None,
    ) -> None:
        """``full`` says why nothing fits any more when ``most_waiting_bytes`` of journals are no segments yet.

        Where that is a spool, all that lies there counts, and the segments that are being made.
        """
        self.spool = spool
        self.written_rows = 0
        self.lost_rows = 0
        self.segments = 0
        self.error: str | None = None
        self.losses = Losses()
        self._proxy_id = proxy_id
        self._head = head
        self._limits = limits
        self._numbers = numbers
        self._most_waiting_bytes = most_waiting_bytes
        self._full = full
        self._is_spool = is_spool
        self._clock = clock
        self._free_bytes = free_bytes or _free_bytes
        self._journal: Journal | None = None
        self._sealed: list[Journal] = []
        self._segment_due: float | None = None
        self._retry_due: float | None = None
        self._stopped: tuple[float, int] | None = None  # since when, and how many rows were lost by then
        self._outage: tuple[float, int, float] | None = None  # since when, lost before, until when; not told yet
        self._reason = ""
        self._is_open = False

    def start(self) -> None:
        """Begin the first journal. Raises CaptureError."""
        try:
            self._journal = self._begun()
            self._is_open = True
        except OSError as error:
            reason = f"{error.strerror or error}{_what_to_do(error)}"
            raise CaptureError(f"can't write the capture folder {self.spool}: {reason}") from error

    @property
    def waiting_rows(self) -> int:
        """Rows of journals that are sealed, and no segments yet."""
        return sum(journal.rows for journal in self._sealed)

    @property
    def waiting(self) -> list[Path]:
        """Sealed journals of which no segment has been made yet."""
        return [journal.path for journal in self._sealed]

    def due(self) -> float | None:
        """When `tick` has something to do next, None for never."""
        calm = None if self._outage is None else self._outage[2] + _CALM_S
        times = (self._segment_due, self._retry_due, calm)
        return min((at for at in times if at is not None), default=None)

    def tick(self) -> None:
        """Do what is due, and see what has become of the journals."""
        self._look()
        if self.losses:
            self._remember()
        now = self._clock()
        if self._retry_due is not None and now >= self._retry_due:
            self._retry_due = None
            self._write_gaps()
        if self._segment_due is not None and now >= self._segment_due:
            self.rotate()
        if self._outage is not None and now >= self._outage[2] + _CALM_S:
            self._say_resumed()

    def write(self, batch: Batch) -> None:
        """Write it to the journal, after a word on what was lost before; count it where that can't be done."""
        self._look()
        if self._stopped is not None and self._retry_due is not None and self._clock() < self._retry_due:
            self._lose(batch.rows, self._reason, batch.first_us, batch.last_us)
            return
        self._write(batch)

    def rotate(self) -> None:
        """Begin the next journal and seal the one at hand, if there is anything in it."""
        self._look()
        if self.losses:
            self._write_gaps()
        self._segment_due = None
        if self._journal is None or not self._journal.rows:
            return
        try:
            # First the next one: whoever is killed in between leaves one that says so.
            following = self._begun()
        except OSError as error:
            self._fail(error)
            self._segment_due = self._clock() + _RETRY_S
            return
        sealed, self._journal = self._journal, following
        self._remember()
        self._forget(sealed)
        self._seal(sealed)

    def close(self) -> None:
        """Seal the last journal, or delete it where there is nothing in it."""
        self._look()
        if self.losses:
            self._retry_due = None
            self._write_gaps()
            self._remember()
        if self._outage is not None:
            self._say_resumed()
        self._is_open = False
        journal, self._journal = self._journal, None
        if journal is not None:
            if journal.rows or journal.has_word:
                self._seal(journal)
            else:
                journal.remove()

    def settled(self) -> bool:
        """Whether every sealed journal has become a segment, or is gone."""
        self._look()
        return not self._sealed

    def leave(self) -> None:
        """Let go of the journals that are no segments yet."""
        for journal in self._sealed:
            journal.leave()
        self._sealed = []

    # ---- inside ---------------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        gaps = self.losses.take()
        records = [pack_gap(_gap(*gap)) for gap in gaps]
        try:
            self._make_room(batch.size_bytes)
            journal = self._at_hand()
            topics = batch.topics[journal.topics :]
            first_us = min([batch.first_us] * bool(batch.rows) + [gap[2] for gap in gaps], default=0)
            last_us = max([batch.last_us] * bool(batch.rows) + [gap[3] for gap in gaps], default=0)
            journal.append(batch.block, [*topics, *records, *batch.records], batch.rows + len(gaps), first_us, last_us)
        except OSError as error:
            for gap in gaps:
                self.losses.add(*gap)
            self._fail(error)
            self._lose(batch.rows, self._reason, batch.first_us, batch.last_us)
            return
        journal.topics += len(topics)
        self.written_rows += batch.rows + len(gaps)
        if self._segment_due is None:
            self._segment_due = self._clock() + self._limits.rotate_s
        if self._stopped is not None:
            self._outage, self._stopped, self.error = (*self._stopped, self._clock()), None, None
        if journal.unpacked_bytes >= self._limits.rotate_bytes:
            self.rotate()

    def _write_gaps(self) -> None:
        if self.losses:
            self._write(Batch(None, (), 0, 0, 0, 0))

    def _at_hand(self) -> Journal:
        """The journal, which lies in today's folder."""
        journal = self._journal
        if journal is None:
            journal = self._journal = self._begun()
        elif not journal.rows and journal.path.parent != self._folder():
            self._journal = self._begun()
            journal.remove()
            journal = self._journal
        return journal

    def _begun(self) -> Journal:
        segment = self._folder() / f"{self._proxy_id}-{next(self._numbers):06d}.parquet"
        return Journal(hidden(segment), {**self._head, "begun_at_us": time.time_ns() // 1000})

    def _folder(self) -> Path:
        return self.spool / f"date={datetime.now(UTC).date().isoformat()}" / f"run={self._head['run_id']}"

    def _seal(self, journal: Journal) -> None:
        if journal.fate() == "deleted":
            self._lose_journal(journal)
            return
        try:
            journal.seal()
        except OSError as error:
            # Who finishes it takes it for one whose proxy was killed, and says that rows may be missing.
            log.warning("the capture's journal %s could not be ended: %s", journal.path, error)
        self._sealed.append(journal)

    def _look(self) -> None:
        """See which journals have become segments, and whether somebody deleted one."""
        left = []
        for journal in self._sealed:
            fate = journal.fate()
            if fate == "there":
                left.append(journal)
            elif fate == "finished":
                self.segments += 1
                journal.leave()
            else:
                self._lose_journal(journal)
        self._sealed = left
        journal_at_hand = self._journal
        if journal_at_hand is not None and journal_at_hand.fate() == "deleted":
            self._journal = None
            self._segment_due = None
            self._lose_journal(journal_at_hand)
        if self._is_open and self._journal is None and self._stopped is None:
            try:
                self._journal = self._begun()
            except OSError as error:
                self._fail(error)

    def _lose_journal(self, journal: Journal) -> None:
        log.warning("%s was deleted with %d rows in it; recording goes on in a new one", journal.path, journal.rows)
        self.written_rows -= journal.rows
        self._lose(journal.rows, _DELETED, journal.first_us, journal.last_us)
        journal.leave()
        if self._retry_due is None:
            self._retry_due = self._clock()

    def _make_room(self, to_write_bytes: int) -> None:
        """Raises OSError for no room; seals the journal where the disk runs low, for Parquet is much smaller."""
        # More than is needed once it had stopped, or it would stop and start all the time.
        journals = (*self._sealed, *filter(None, (self._journal,)))
        waiting_bytes = self._waiting_bytes(journals)
        most_bytes = self._most_waiting_bytes
        if self._stopped is not None:
            most_bytes -= most_bytes // _FREE_AGAIN
        if waiting_bytes + to_write_bytes * (1 + self._is_spool) > most_bytes:
            if self._stopped is None:
                self.rotate()
            raise OSError(f"{self._full}: {_in_words(waiting_bytes)} of {_in_words(self._most_waiting_bytes)}")
        # Room for the frame, and for the segments that the journals will become: Parquet takes at most half of what
        # its rows are as columns.
        unpacked = sum(journal.unpacked_bytes for journal in journals)
        spare = _SMALLEST_ROOM if self._stopped is None else 4 * _SMALLEST_ROOM
        free = self._free_bytes(_existing(self.spool))
        if free < 2 * to_write_bytes + unpacked // 2 + spare:
            if self._journal is not None and self._journal.rows and self._stopped is None:
                self._stopped = self._clock(), self.lost_rows  # so that `rotate` doesn't come back here
                self.rotate()
                self._stopped = None
            raise OSError(f"only {_in_words(free)} are free")

    def _waiting_bytes(self, journals: Sequence[Journal]) -> int:
        """What lies there for the place that hasn't taken it; a segment counts as its journal until it is made."""
        if not self._is_spool:
            return sum(journal.size_bytes for journal in journals)
        files = _files_below(self.spool)
        for journal in journals:
            made = hidden(segment_of(journal.path), ".tmp")
            journal.is_made = journal.is_made or (journal is not self._journal and _is_whole(made))
            if not journal.is_made:
                files[made] = max(files.get(made, 0), journal.size_bytes)
        return sum(files.values())

    def _fail(self, error: OSError) -> None:
        if self._stopped is None:
            self._reason = f"can't write to {self.spool}: {error.strerror or error}"
            if self._outage is not None:
                self._stopped, self._outage = self._outage[:2], None  # it had not been over
            else:
                self._stopped = self._clock(), self.lost_rows
                log.error("recording stopped, traffic goes on: %s; it resumes when there is room", self._reason)
        self.error = f"recording stopped, traffic goes on: {self._reason}; it resumes when there is room"
        self._retry_due = self._clock() + _RETRY_S

    def _say_resumed(self) -> None:
        assert self._outage is not None
        since, lost_then, until = self._outage
        self._outage = None
        log.warning("recording resumed after %.0f s; %d rows were lost", until - since, self.lost_rows - lost_then)

    def _lose(self, rows: int, reason: str, first_us: int, last_us: int) -> None:
        if rows:
            self.lost_rows += rows
            self.losses.add(reason, rows, first_us, last_us)
            self._remember()

    def _remember(self) -> None:
        """Have the journal at hand say what was lost, in case that nothing can be written to it any more."""
        if self._journal is not None:
            try:
                self._journal.leave_word(self.losses.all())
            except OSError as error:
                log.debug("what was lost can't be said in %s: %s", self._journal.path, error)

    def _forget(self, journal: Journal) -> None:
        try:
            journal.forget_word()
        except OSError as error:
            log.debug("%s says what was lost still: %s", journal.path, error)


def _gap(reason: str, rows: int, first_us: int, last_us: int) -> Gap:
    return Gap(told_loss(reason, rows), first_us, last_us)


def _what_to_do(error: OSError) -> str:
    """Behind a semicolon, what helps where no journal can be begun."""
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return f"; uid {os.geteuid()} may not write there: let it, or name another folder"
        case errno.ENOTDIR | errno.EEXIST:
            return "; a file is in its way: name another folder"
        case errno.ENOSPC | errno.EDQUOT:
            return "; make room there, or name another folder"
        case errno.EROFS:
            return "; mount a volume there that can be written, or name another folder"
        case _:
            return "; name another folder"


def _existing(folder: Path) -> Path:
    """It, or the nearest folder above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _files_below(folder: Path) -> dict[Path, int]:
    """The size of each."""
    sizes = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(FileNotFoundError):
                sizes[path] = path.stat().st_size
    return sizes


def _is_whole(segment: Path) -> bool:
    """Whether nothing will be added to it."""
    try:
        with segment.open("rb") as file:
            file.seek(-2 * len(_WHOLE_PARQUET), os.SEEK_END)  # it begins with the same, and the end has a length
            return file.read().endswith(_WHOLE_PARQUET)
    except OSError:
        return False


def _in_words(size_bytes: int) -> str:
    """A size in the unit that fits it."""
    power = min(max(size_bytes.bit_length() - 1, 0) // 10, 3)
    size, unit = size_bytes / 1024**power, ("bytes", "KiB", "MiB", "GiB")[power]
    return f"{size:.0f} {unit}" if size >= 100 else f"{size:.3g} {unit}"


def _free_bytes(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize
