"""The capture's two halves: what the loop does with a finished exchange, and the thread that writes it.

The loop reads the common shapes itself (``quick``) and puts the rest aside; a few times a second it hands over both.
Traffic never waits for the thread: when more than ``max_pending_rows`` entries that were put aside wait, or more than
``max_pending_bytes`` of frames and of what was read, whole lists are dropped, counted, and accounted for in a gap row.

The thread shares the interpreter with the loop, so it comes in bursts (waking it for every turn costs more than
the rows themselves) and lets go of the interpreter often while it works.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from notleader.proxy.aside import share_interpreter
from notleader.proxy.capture.block import Block
from notleader.proxy.capture.limits import UNMADE, Limits, Losses
from notleader.proxy.capture.passing import Passing
from notleader.proxy.capture.quick import Quick
from notleader.proxy.capture.rows import COLUMNS, SCHEMA_VERSION, Row, Rows
from notleader.proxy.inflight import ConnectionEvent, Exchange
from notleader.proxy.plain import Taker

if TYPE_CHECKING:
    # These load Arrow, which a proxy that writes no files can do without.
    from notleader.proxy.capture.place import Place
    from notleader.proxy.capture.recording import Recording
    from notleader.proxy.capture.segment import Salvaged

log = logging.getLogger("notleader.capture")

Entry = Exchange | ConnectionEvent
Accepts = Callable[[Mapping[str, Any]], bool]
_TOO_SLOW: Final = "the recorder could not keep up"
_SALVAGE_GRACE_S: Final = 5.0
_UPLOAD_S: Final = 30.0
_PAUSE_S: Final = 0.1
_WATCHED_PAUSE_S: Final = 0.02
_HAND_OVER_ROWS: Final = 1000
_ERROR_CODE: Final = COLUMNS.index("error_code")
_BURST_S: Final = 0.02
_BURST_ROWS: Final = 10_000
_ROWS_AT_A_TIME: Final = 16


class _Stop:
    """The last thing in the queue."""


class _Call:
    """Something the thread does between two batches; the caller waits for it."""

    def __init__(self, do: Callable[[], None]) -> None:
        self.do = do
        self.done = threading.Event()


class _Reader:
    """A live subscriber: its queue, what it wants to see, and how much it was too slow for."""

    def __init__(self, limit: int, accepts: Accepts | None) -> None:
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(limit)
        self.loop = asyncio.get_running_loop()
        self.accepts = accepts
        self.skipped = 0

    def offer(self, rows: list[dict[str, Any]], gap: Callable[[int], dict[str, Any]]) -> None:
        """In the loop: queue what fits, and a gap row for what did not."""
        for row in rows:
            if self.queue.full():
                self.skipped += 1
                continue
            if self.skipped:
                self.queue.put_nowait(gap(self.skipped))
                self.skipped = 0
                if self.queue.full():
                    self.skipped += 1
                    continue
            self.queue.put_nowait(row)


class CaptureWriter(Taker):
    """Writes the rows of one run to ``place`` and hands them to live subscribers.

    ``place`` None: no files, subscribers only. ``spool`` is where segments for a remote place grow.
    """

    def __init__(
        self,
        rows: Rows,
        place: Place | None,
        *,
        metadata: dict[str, str] | None = None,
        limits: Limits | None = None,
        spool: Path | None = None,
        max_pending_rows: int = 200_000,
        max_pending_bytes: int = 64 << 20,
        quick: Quick | None = None,
        tell_errors: Callable[[list[tuple[int, int]]], None] = lambda errors: None,
    ) -> None:
        """``tell_errors`` is called by the thread with (api_key, error_code) of the answers that only it has read."""
        self.place = place
        self._rows = rows
        self._quick = quick
        self.taking = quick
        self._tell_errors = tell_errors
        self._aside: list[Entry] = []
        self._recording: Recording | None = None
        if place is not None:
            from notleader.proxy.capture.recording import Recording

            kept = {"notleader.schema_version": str(SCHEMA_VERSION), **(metadata or {})}
            self._recording = Recording(place, place.spool(spool), rows, kept, limits or Limits())
        self._max_pending_rows = max_pending_rows
        self._max_pending_bytes = max_pending_bytes
        self._max_burst = max_pending_bytes // 8
        # Each is written by one side alone: what is given by the loop, what is taken by the thread.
        self._given_rows = self._given_bytes = 0
        self._taken_rows = self._taken_bytes = 0
        self._given_aside = self._taken_aside = 0
        self._dropped_rows = 0
        self._dropped = Losses()
        self._dropped_lock = threading.Lock()
        self._unmade_rows = 0
        self._made = 0
        self._queue: deque[tuple[list[Entry] | Block, int] | _Call | type[_Stop]] = deque()
        self._wake = threading.Event()
        self._idle = False
        self._hurry = False
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="notleader-capture", daemon=True)
        self._salvaging: threading.Thread | None = None
        self._readers: list[_Reader] = []

    # ---- the loop's side ------------------------------------------------------------------------

    def start(self) -> None:
        """Check that the folder can be written and start the thread. Raises CaptureError."""
        if self._recording is not None:
            self._recording.start()
            self._salvaging = threading.Thread(target=self._salvage, name="notleader-salvage", daemon=True)
            self._salvaging.start()
        share_interpreter()
        self._thread.start()

    @property
    def directory(self) -> str | None:
        """Where it writes, as text; None when it only feeds live readers."""
        return None if self.place is None else self.place.shown

    @property
    def queued_rows(self) -> int:
        """Entries handed over and not taken yet."""
        return self._given_rows - self._taken_rows

    @property
    def queued_bytes(self) -> int:
        """About how much memory the frames of the entries that wait take, and the numbers of those that were read."""
        return self._given_bytes - self._taken_bytes

    @property
    def written_rows(self) -> int:
        """Rows that are on disk, in a segment or in its journal."""
        return 0 if self._recording is None else self._recording.written_rows

    @property
    def lost_rows(self) -> int:
        """Rows that were or will be missing from the files, all reasons together."""
        lost = self._dropped_rows + self._unmade_rows
        return lost if self._recording is None else lost + self._recording.lost_rows

    @property
    def segments(self) -> int:
        """Segments finished so far."""
        return 0 if self._recording is None else self._recording.segments

    @property
    def pause_s(self) -> float:
        """How long what was recorded may wait to be handed over: not at all long while somebody looks."""
        return _WATCHED_PAUSE_S if self._readers else _PAUSE_S

    def record(self, entry: Entry) -> None:
        """Take an exchange or event that `taking` did not take; now and then `hand_over` has to be called."""
        self._aside.append(entry)
        if len(self._aside) >= _HAND_OVER_ROWS:
            self.hand_over()

    def hand_over(self) -> None:
        """Give what was recorded to the thread."""
        aside, self._aside = self._aside, []
        if aside:
            self.write(aside)
        if self._quick is not None and len(self._quick):
            block = self._quick.swap()
            if self._has_room(block.size_bytes):
                self._give(block, block.size_bytes)
            else:
                self._drop(len(block), *block.first_and_last_us())

    def write(self, entries: list[Entry]) -> None:
        """Hand over a list; it must not be changed afterwards. Never blocks."""
        size = 0
        for entry in entries:
            if type(entry) is Exchange:
                # What the frames hold, or their own copies of it; the exchange itself hardly counts.
                if entry.request is not None and not isinstance(entry.request, Passing):
                    size += entry.request_bytes
                if entry.response is not None and not isinstance(entry.response, Passing):
                    size += entry.response_bytes
        if self._given_aside - self._taken_aside <= self._max_pending_rows and self._has_room(size):
            self._given_aside += len(entries)
            self._give(entries, size)
        else:
            times = [entry.request_at_us if isinstance(entry, Exchange) else entry.at_us for entry in entries]
            self._drop(len(entries), min(times), max(times))

    def _has_room(self, size_bytes: int) -> bool:
        return self._given_bytes - self._taken_bytes + size_bytes <= self._max_pending_bytes

    def _give(self, entries: list[Entry] | Block, size_bytes: int) -> None:
        self._given_rows += len(entries)
        self._given_bytes += size_bytes
        self._queue.append((entries, size_bytes))
        if self._idle or (
            (
                self._given_rows - self._taken_rows > _BURST_ROWS
                or self._given_bytes > self._taken_bytes + self._max_burst
            )
            and not self._wake.is_set()
        ):
            self._wake.set()

    def _drop(self, rows: int, first_us: int, last_us: int) -> None:
        with self._dropped_lock:
            if not self._dropped_rows:
                log.warning("the capture loses rows: %s", _TOO_SLOW)
            self._dropped_rows += rows
            self._dropped.add(_TOO_SLOW, rows, first_us, last_us)

    async def rotate(self) -> None:
        """Finish the segment at hand, so that all that was recorded so far can be read."""
        self.hand_over()
        if self._recording is not None:
            await asyncio.to_thread(self._call, self._recording.rotate)
            await asyncio.to_thread(self._recording.settle, _UPLOAD_S)

    def mark(self, label: str) -> None:
        """Write a row that carries ``label``, to find this moment again."""
        self.record(ConnectionEvent("mark", None, time.time_ns() // 1000, label))
        self.hand_over()

    def status(self) -> dict[str, Any]:
        """Where the recording goes and how it does, as JSON values."""
        return {
            "directory": self.directory,
            "level": self._rows.level.value,
            "segments": self.segments,
            "written_rows": self.written_rows,
            "queued_rows": self.queued_rows,
            "queued_bytes": self.queued_bytes,
            "lost_rows": self.lost_rows,
            "lost_frames": self._rows.lost_frames,
            "error": None if self._recording is None else self._recording.error,
        }

    def stop(self) -> None:
        """Write everything that was handed over, finish the last segment, end the thread. Blocks."""
        self.hand_over()
        if self._thread.is_alive():
            self._send(_Stop)
            self._thread.join()
        if self._salvaging is not None:
            # What it has not finished by then, the next start will.
            self._salvaging.join(_SALVAGE_GRACE_S)
        if self.lost_rows:
            log.warning("the capture lost %d rows; gap rows say when", self.lost_rows)

    @contextlib.contextmanager
    def subscribe(self, accepts: Accepts | None = None, limit: int = 1000) -> Generator[asyncio.Queue[dict[str, Any]]]:
        """A queue of the rows (column → value) that ``accepts`` holds for, as they are made.

        What doesn't fit is skipped, and a row of event `gap` says how much that was.
        """
        reader = _Reader(limit, accepts)
        self._readers = [*self._readers, reader]
        self.taking = None
        try:
            yield reader.queue
        finally:
            self._readers = [other for other in self._readers if other is not reader]
            self.taking = None if self._readers else self._quick

    def _call(self, do: Callable[[], None]) -> None:
        call = _Call(do)
        self._send(call)
        if not self._has_ended:
            call.done.wait()

    def _send(self, item: _Call | type[_Stop]) -> None:
        """Queue something that can't wait for the next burst."""
        self._queue.append(item)
        self._hurry = True
        self._wake.set()

    # ---- the thread's side ----------------------------------------------------------------------

    def _run(self) -> None:
        recording = self._recording
        while self._burst():
            if recording is not None and (due := recording.due()) is not None and due <= time.monotonic():
                self._do(recording.tick)
        if recording is not None:
            self._do(recording.close)
        # Who calls queues first and looks then; here it is the other way round, so that nobody is left waiting.
        self._has_ended = True
        while self._queue:
            item = self._queue.popleft()
            if isinstance(item, _Call):
                item.done.set()

    def _burst(self) -> bool:
        """Wait for something to do and do it; False once it is over."""
        if not self._queue:
            due = None if self._recording is None else self._recording.due()
            self._idle = True
            # Looked at once more after saying so: what came in between did not wake anybody.
            if not self._queue:
                self._wake.wait(None if due is None else max(due - time.monotonic(), 0))
            self._idle = False
            self._wake.clear()
            if not self._queue:
                return True
        if not self._hurry:
            self._wake.wait(_BURST_S)
            self._wake.clear()
        self._hurry = False
        for _ in range(len(self._queue)):
            item = self._queue.popleft()
            if item is _Stop:
                return False
            if isinstance(item, _Call):
                self._do(item.do)
                item.done.set()
            else:
                assert isinstance(item, tuple)
                self._take(*item)
        return True

    def _do(self, work: Callable[[], None]) -> None:
        """Have the recording work, after a word on what the loop's side dropped; what goes wrong must not end it."""
        self._account()
        try:
            work()
        except Exception:
            log.exception("the capture failed to write")

    def _take(self, entries: list[Entry] | Block, size_bytes: int) -> None:
        if isinstance(entries, Block):
            if self._recording is not None:
                self._recording.add_block(entries)
        else:
            self._make(entries, size_bytes)
            self._taken_aside += len(entries)
        self._taken_rows += len(entries)
        self._taken_bytes += size_bytes

    def _make(self, entries: list[Entry], size_bytes: int) -> None:
        rows = []
        errors: list[tuple[int, int]] = []
        for entry in entries:
            self._made += 1
            if not self._made % _ROWS_AT_A_TIME:
                time.sleep(0)  # lets the loop have the interpreter, which else it gets only every 5 ms
            try:
                row = self._row(entry)
            except Exception:  # one row that can't be made must not end the recording
                self._unmade_rows += 1
                log.exception("a capture row could not be made")
                if self._recording is not None:
                    now_us = time.time_ns() // 1000
                    self._recording.losses.add(UNMADE, 1, now_us, now_us)
                continue
            rows.append(row)
            if type(entry) is Exchange and row[_ERROR_CODE]:
                errors.append((entry.api_key, row[_ERROR_CODE]))
        if errors:
            self._tell_errors(errors)
        for reader in self._readers:
            self._offer(reader, rows)
        if self._recording is not None:
            self._recording.add(rows, size_bytes if self._rows.level.keeps_frames else 0)

    def _row(self, entry: Entry) -> Row:
        if self._quick is None or type(entry) is not Exchange:
            return self._rows.of(entry)
        known = self._quick.learned(entry)
        if known is not None:
            return self._rows.like(entry, known)
        row = self._rows.of(entry)
        self._quick.learn(entry, row)
        return row

    def _offer(self, reader: _Reader, rows: list[Row]) -> None:
        made = (dict(zip(COLUMNS, row, strict=True)) for row in rows)
        wanted = [row for row in made if reader.accepts is None or reader.accepts(row)]
        if wanted:
            # One call for all of them: each one wakes the loop.
            with contextlib.suppress(RuntimeError):  # the loop is closing
                reader.loop.call_soon_threadsafe(reader.offer, wanted, self._skipped)

    def _skipped(self, rows: int) -> dict[str, Any]:
        now_us = time.time_ns() // 1000
        detail = f"skipped {rows} rows: this reader is too slow for the traffic"
        return dict(zip(COLUMNS, self._rows.gap(detail, now_us, now_us), strict=True))

    def _account(self) -> None:
        """Let the recording know what the loop's side dropped."""
        if self._dropped_rows:
            assert self._recording is not None
            with self._dropped_lock:
                dropped = self._dropped.take()
            for loss in dropped:
                self._recording.losses.add(*loss)

    def _salvage(self) -> None:
        assert self.place is not None
        assert self._recording is not None
        from notleader.proxy.capture.segment import salvage

        try:
            found = salvage(self.place, self._recording.spool)
        except Exception:
            log.exception("segments that were left behind could not be looked for")
            return
        for one in found:
            log.warning("%s", say_salvaged(one))


def say_salvaged(found: Salvaged) -> str:
    """One line on a journal that was left behind."""
    if found.path is None:
        return f"{found.journal} was left behind by a killed proxy: {found.problem}"
    return f"a killed proxy left {found.rows} rows unfinished: they are in {found.path} now"
