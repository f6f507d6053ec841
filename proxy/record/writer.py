"""What the proxy does with a finished exchange: into the journal, and to whoever looks.

The loop reads the common shapes itself (``blocks``); of the rest it keeps the frames. A few times a second what there
is goes to a thread, which does nothing but write it to the journal: a disk that hangs holds nobody up. What would take
more than ``max_pending_bytes`` while it waits is dropped, counted, and accounted for in a gap row. Rows and segments
are made of the journal by the recorder, a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from itertools import islice
from typing import Any, Final
from uuid import UUID

from notleader.proxy.pump import Exchange, Passing
from notleader.proxy.record.block import BlockWriter
from notleader.proxy.record.blocks import Blocks
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.frames import pack_event, pack_exchange, pack_topic
from notleader.proxy.record.journals import Batch, Journals
from notleader.proxy.record.limits import Limits
from notleader.proxy.record.live import Accepts, Entry, Live, Reader
from notleader.proxy.record.process import RecorderProcess
from notleader.proxy.record.rows import SCHEMA_VERSION, Rows
from notleader.proxy.record.skim import skimmed
from notleader.proxy.record.where import Where

log = logging.getLogger("notleader.capture")

_TOO_SLOW: Final = "the disk could not keep up"
_NOT_MADE: Final = "the recorder has not made segments of what the journals hold"
_PAUSE_S: Final = 0.25
_WATCHED_PAUSE_S: Final = 0.02
_HAND_OVER_BYTES: Final = 1 << 20
_SETTLE_S: Final = 30.0
_LOOK_S: Final = 0.02
_TICK_S: Final = 1.0


class _Call:
    """Something the thread does between two batches; the caller waits for it."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.do = do
        self.done = threading.Event()


class CaptureWriter:
    """Records one run to ``where`` and hands rows to live subscribers.

    ``where`` None: no files, subscribers only. ``redact`` are the texts of the rules that `rows` redacts by.
    """

    def __init__(
        self,
        rows: Rows,
        where: Where | None,
        *,
        numbers: Iterator[int],
        metadata: dict[str, str] | None = None,
        limits: Limits | None = None,
        spool: Any = None,
        redact: tuple[str, ...] = (),
        topics: Callable[[], Mapping[UUID, str]] = dict,
        max_pending_bytes: int = 64 << 20,
        blocks: Blocks | None = None,
        count_errors: Callable[[dict[tuple[int, int], int]], None] = lambda errors: None,
        with_recorder: bool = True,
    ) -> None:
        """``topics`` gives the topic ids whose names are known; it only grows, in order.

        ``count_errors`` is called in the loop with how many answers had which (api_key, error_code), of those that
        only the recorder, or a live reader's thread, has read. ``with_recorder`` False: another process has one that
        follows these journals.
        """
        self.where = where
        self._rows = rows
        self._blocks = blocks
        self._count_errors = count_errors
        self._limits = limits or Limits()
        self._topics = topics
        self._topic_records: list[bytes] = []
        self._max_pending_bytes = max_pending_bytes
        self._unfinished: list[Exchange] = []
        self._start_records()
        # Each is written by one side alone: what is given by the loop, what is taken by the thread.
        self._given_rows = self._given_bytes = 0
        self._taken_rows = self._taken_bytes = 0
        self._dropped_rows = 0
        self._dropped: deque[tuple[str, int, int, int]] = deque()
        self._queue: deque[Batch | _Call] = deque()
        self._wake = threading.Event()
        self._has_ended = False
        self._last_call = _Call(lambda: None)
        self._journals: Journals | None = None
        self._process: RecorderProcess | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._recorder_error: str | None = None
        self._unmade: dict[str, int] = {}
        self._counted: dict[str, dict[tuple[int, int], int]] = {}
        self._live = Live(rows, self._live_errors if where is None else None)
        if where is not None:
            kept = {"notleader.schema_version": str(SCHEMA_VERSION), **(metadata or {})}
            is_local = where.folder is not None
            spooled = where.spool(spool)
            self._repair = where.repair(spool)
            head = {
                "run_id": rows.run_id,
                "proxy_id": rows.proxy_id,
                "seed": rows.seed,
                "level": rows.level.value,
                "redact": list(redact),
                "metadata": kept,
            }
            most = self._limits.journal_bytes if is_local else self._limits.spool_bytes or self._limits.journal_bytes
            self._journals = Journals(
                spooled,
                rows.proxy_id,
                head,
                self._limits,
                numbers,
                most_waiting_bytes=most,
                full=_NOT_MADE if is_local else f"the spool is full of what {where.shown} did not take",
                is_spool=not is_local,
            )
            if with_recorder:
                job = {
                    "place": where.text,
                    "spool": str(spooled),
                    "run_id": rows.run_id,
                    "rotate_s": self._limits.rotate_s,
                    "flush_s": self._limits.flush_s,
                    "keep_s": self._limits.keep_s,
                    "keep_bytes": self._limits.keep_bytes,
                }
                self._process = RecorderProcess(job, self._heard)

    # ---- the loop's side ------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin the first journal, start the thread and the recorder. Raises CaptureError."""
        self._loop = asyncio.get_running_loop()
        if self._journals is None:
            return
        await asyncio.to_thread(self._journals.start)
        self._thread = threading.Thread(target=self._run, name="notleader-journal", daemon=True)
        self._thread.start()
        if self._process is not None:
            assert self.where is not None
            try:
                # Of a local folder the first journal has shown that it can be written.
                await self._process.start(wait=self.where.folder is None)
            except BaseException:
                await asyncio.to_thread(self._end_thread)
                raise

    @property
    def directory(self) -> str | None:
        """Where it writes, as text; None when it only feeds live readers."""
        return None if self.where is None else self.where.shown

    @property
    def recorder_pid(self) -> int | None:
        """The recorder's process; None while there is none."""
        return None if self._process is None else self._process.pid

    @property
    def queued_rows(self) -> int:
        """Entries that are not in the journal yet."""
        return self._given_rows - self._taken_rows

    @property
    def queued_bytes(self) -> int:
        """About how much memory these take."""
        return self._given_bytes - self._taken_bytes

    @property
    def written_rows(self) -> int:
        """Rows that are on disk, in a segment or in a journal."""
        return 0 if self._journals is None else self._journals.written_rows

    @property
    def lost_rows(self) -> int:
        """Rows that were or will be missing from the files, all reasons together."""
        lost = self._dropped_rows + sum(self._unmade.values())
        return lost if self._journals is None else lost + self._journals.lost_rows

    @property
    def segments(self) -> int:
        """Segments finished so far."""
        return 0 if self._journals is None else self._journals.segments

    @property
    def pause_s(self) -> float:
        """How long what was recorded may wait to be handed over: not at all long while somebody looks."""
        return _WATCHED_PAUSE_S if self._live.readers else _PAUSE_S

    def record(self, entry: Entry) -> None:
        """Take an exchange or event that `blocks` did not take; now and then `hand_over` has to be called."""
        if self._live.readers:
            self._live.give(entry)
        if self._journals is None:
            return
        if isinstance(entry, ConnectionEvent):
            self._add(pack_event(entry), entry.at_us)
        elif self._live.readers and self._blocks is not None and self._blocks.writer.take(entry):
            pass
        elif _is_whole(entry):
            self._keep(entry)
        else:
            self._unfinished.append(entry)
        if self._records_bytes > _HAND_OVER_BYTES:
            self.hand_over()

    def hand_over(self) -> None:
        """Give what was recorded to the thread, and to whoever looks."""
        self._live.hand_over()
        if self._journals is None:
            return
        # Of an acks=0 Produce that is still coming there is more by now.
        unfinished, self._unfinished = self._unfinished, []
        for exchange in unfinished:
            self._keep(exchange)
        self._learn_topics()
        block = None
        if self._blocks is not None and len(self._blocks):
            block = self._blocks.swap()
        if block is None and not self._records:
            return
        size = self._records_bytes
        rows = len(self._records)
        first_us, last_us = self._first_us, self._last_us
        if block is not None:
            first_us = min(first_us, block.first_us) if rows else block.first_us
            last_us = max(last_us, block.last_us)
            size += len(block.numbers)
            rows += len(block)
        batch = Batch(block, self._records, rows, first_us, last_us, size, self._topic_records)
        self._start_records()
        if self._given_bytes - self._taken_bytes + size > self._max_pending_bytes:
            if not self._dropped_rows:
                log.warning("the capture loses rows: %s", _TOO_SLOW)
            self._dropped_rows += rows
            self._dropped.append((_TOO_SLOW, rows, first_us, last_us))
            return
        self._given_rows += rows
        self._given_bytes += size
        self._queue.append(batch)
        self._wake.set()

    def mark(self, label: str) -> None:
        """Write a row that carries ``label``, to find this moment again."""
        self.record(ConnectionEvent("mark", None, time.time_ns() // 1000, label))
        self.hand_over()

    async def rotate(self) -> None:
        """Finish the segment at hand, so that all that was recorded so far can be read."""
        journals = self._journals
        if journals is None:
            return
        self.hand_over()
        await asyncio.to_thread(self._call, journals.rotate)
        waited_for = set(journals.waiting)
        if self._process is not None:
            self._process.wake()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                while waited_for & set(journals.waiting) and not self._has_ended:
                    await asyncio.sleep(_LOOK_S)
                    await asyncio.to_thread(self._call, journals.tick)

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
            "error": (None if self._journals is None else self._journals.error) or self._recorder_error,
        }

    async def stop(self, given_up: asyncio.Event | None = None) -> None:
        """Write everything that was recorded, have the last segment made, end recorder and thread.

        Takes no longer than ``Limits.stop_s`` for either, and waits for the recorder only until it is ``given_up``;
        what is no segment by then stays in its journal.
        """
        self.hand_over()
        self._live.finish()
        journals = self._journals
        if journals is None:
            return
        deadline = time.monotonic() + self._limits.stop_s
        ended = await asyncio.to_thread(self._end_thread)
        if self._process is not None:
            ended = await self._process.finish(max(deadline - time.monotonic(), 0), given_up) and ended
        if self._has_ended:
            if not journals.settled() and self._process is not None:
                log.error(
                    "%d rows stay behind in journals below %s: the next start of a proxy that records there, or %s, "
                    "finishes them",
                    journals.waiting_rows,
                    journals.spool,
                    self._repair,
                )
            journals.leave()
        else:
            log.error("the disk below %s does not answer: what waited for it is lost", journals.spool)
        if self.lost_rows:
            log.warning("the capture lost %d rows; gap rows say when", self.lost_rows)

    @contextlib.contextmanager
    def subscribe(self, accepts: Accepts | None = None, limit: int = 1000) -> Generator[asyncio.Queue[dict[str, Any]]]:
        """A queue of the rows (column → value) that ``accepts`` holds for, as they are made.

        What doesn't fit is skipped, and a row of event `gap` says how much that was.
        """
        self._loop = asyncio.get_running_loop()
        reader = Reader(limit, accepts)
        self._live.add(reader)
        try:
            yield reader.queue
        finally:
            self._live.remove(reader)

    @property
    def blocks(self) -> BlockWriter | None:
        """What takes exchanges in place of `record`; None while somebody looks, who wants rows and in their order."""
        return None if self._blocks is None or self._live.readers else self._blocks.writer

    @property
    def is_watched(self) -> bool:
        """Whether there is a live reader."""
        return bool(self._live.readers)

    # ---- inside ---------------------------------------------------------------------------------

    def _start_records(self) -> None:
        self._records: list[bytes] = []
        self._records_bytes = 0
        self._first_us = self._last_us = 0

    def _keep(self, exchange: Exchange) -> None:
        self._add(pack_exchange(exchange, self._rows.level), exchange.request_at_us)
        if self._blocks is not None:
            self._blocks.remember(exchange)

    def _add(self, record: bytes, at_us: int) -> None:
        self._first_us = min(self._first_us, at_us) if self._records else at_us
        self._last_us = max(self._last_us, at_us)
        self._records.append(record)
        self._records_bytes += len(record)

    def _learn_topics(self) -> None:
        names = self._topics()
        known = len(self._topic_records)
        if len(names) > known:
            self._topic_records += [pack_topic(*one) for one in islice(names.items(), known, None)]
            if self._blocks is not None:
                self._blocks.forget_unread()  # what had no name then has one now

    def _live_errors(self, errors: list[tuple[int, int]]) -> None:
        counted: dict[tuple[int, int], int] = {}
        for error in errors:
            counted[error] = counted.get(error, 0) + 1
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._count_errors, counted)

    def _heard(self, said: dict[str, Any]) -> None:
        """Of a journal the recorder says all that it counted so far: a second one begins again at nothing."""
        journal = said.get("journal")
        if journal is not None:
            before = self._counted.setdefault(journal, {})
            new = {}
            for api_key, code, times in said["errors"]:
                more = times - before.get((api_key, code), 0)
                if more > 0:
                    new[api_key, code] = more
                    before[api_key, code] = times
            if new:
                self._count_errors(new)
            if said["unmade"]:
                self._unmade[journal] = max(said["unmade"], self._unmade.get(journal, 0))
            self._rows.lost_frames += said.get("lost_frames", 0)
            if said.get("finished"):
                self._counted.pop(journal, None)
        if "problem" in said:
            self._recorder_error = said["problem"]

    # ---- the thread's side ----------------------------------------------------------------------

    def _run(self) -> None:
        journals = self._journals
        assert journals is not None
        while True:
            due = journals.due()
            wait_s = _TICK_S if due is None else max(min(due - time.monotonic(), _TICK_S), 0)
            if not self._queue:
                self._wake.wait(wait_s)
            self._wake.clear()
            while self._queue:
                item = self._queue.popleft()
                if isinstance(item, Batch):
                    self._do(lambda item=item: journals.write(item))  # type: ignore[misc]
                    self._taken_rows += item.rows
                    self._taken_bytes += item.size_bytes
                    continue
                if item is not self._last_call:
                    self._do(item.do)
                    item.done.set()
                    continue
                self._do(journals.close)
                self._has_ended = True
                item.done.set()
                while self._queue:  # whoever called meanwhile is not left waiting
                    late = self._queue.popleft()
                    if isinstance(late, _Call):
                        late.done.set()
                return
            self._do(journals.tick)

    def _do(self, work: Callable[[], object]) -> None:
        """What goes wrong must not end it."""
        assert self._journals is not None
        while self._dropped:
            self._journals.losses.add(*self._dropped.popleft())
        try:
            work()
        except Exception:
            log.exception("the capture failed to write")

    def _end_thread(self) -> bool:
        if self._thread is not None:
            self._wait_for(self._last_call, self._limits.stop_s)
            self._thread = None
        return self._has_ended

    def _call(self, do: Callable[[], object]) -> None:
        self._wait_for(_Call(do))

    def _wait_for(self, call: _Call, timeout_s: float | None = None) -> None:
        self._queue.append(call)
        self._wake.set()
        if not self._has_ended:
            call.done.wait(timeout_s)


def _is_whole(exchange: Exchange) -> bool:
    """Whether its frames are all there: an acks=0 Produce may be recorded while it still comes."""
    request: Any = exchange.request
    if request is None or exchange.outcome != "no_response":
        return True
    if isinstance(request, Passing):
        return skimmed(request) is not None
    held = sum(map(len, request)) if isinstance(request, list) else len(request)
    return held >= exchange.request_bytes - 4
