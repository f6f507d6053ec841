"""Rows for whoever looks at the traffic as it goes by: made here, beside the loop, and only while somebody looks.

Rows of exchanges take some 50 µs each, of the interpreter that the loop needs too. So they are made a few at a time,
with a pause as long as the work; what comes faster than that is skipped, and a row of event `gap` says how much it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from notleader.proxy.pump import Exchange
from notleader.proxy.record.event import ConnectionEvent
from notleader.proxy.record.rows import COLUMNS, Rows

log = logging.getLogger("notleader.capture")

Entry = Exchange | ConnectionEvent
Accepts = Callable[[Mapping[str, Any]], bool]
_MOST_WAITING: Final = 20_000
_MOST_WAITING_BYTES: Final = 32 << 20
_AT_A_TIME_S: Final = 0.0005
_LONGEST_PAUSE_S: Final = 0.02
_LONGEST_END_S: Final = 1.0
_ERROR_CODE: Final = COLUMNS.index("error_code")


class Reader:
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


class Live:
    """Makes rows of what it is given and hands them to its readers.

    ``tell_errors`` is called by its thread with (api_key, error_code) of the answers it has read.
    """

    def __init__(self, rows: Rows, tell_errors: Callable[[list[tuple[int, int]]], None] | None) -> None:
        self.readers: list[Reader] = []
        self._rows = rows
        self._tell_errors = tell_errors
        self._waiting: deque[Entry] = deque()
        self._waiting_bytes = 0
        self._skipped = 0
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Entries that no row was made of yet."""
        return len(self._waiting)

    def add(self, reader: Reader) -> None:
        """One more who looks."""
        self.readers = [*self.readers, reader]
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="notleader-live", daemon=True)
            self._thread.start()

    def remove(self, reader: Reader) -> None:
        """One less; without any, the thread ends."""
        self.readers = [other for other in self.readers if other is not reader]
        if not self.readers:
            self._thread = None
            self._waiting.clear()
            self._waiting_bytes = 0
            self._wake.set()

    def give(self, entry: Entry) -> None:
        """In the loop: take an entry, if there is room."""
        if len(self._waiting) >= _MOST_WAITING or self._waiting_bytes > _MOST_WAITING_BYTES:
            self._skipped += 1
            return
        self._waiting.append(entry)
        self._waiting_bytes += _size(entry)

    def hand_over(self) -> None:
        """In the loop: have rows made of what was given."""
        if self._waiting:
            self._wake.set()
        if self._skipped:
            skipped, self._skipped = self._skipped, 0
            for reader in self.readers:
                reader.skipped += skipped

    def finish(self) -> None:
        """In the loop, at the end: have rows made of all that still waits, and give them to the readers."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join(_LONGEST_END_S)
        while self._waiting and self.readers:
            self._offer(self._made(time.monotonic() + _AT_A_TIME_S))

    def skipped_row(self, rows: int) -> dict[str, Any]:
        """The row that tells a reader what it did not get."""
        now_us = time.time_ns() // 1000
        detail = f"skipped {rows} rows: this reader is too slow for the traffic"
        return dict(zip(COLUMNS, self._rows.gap(detail, now_us, now_us), strict=True))

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            self._wake.wait()
            self._wake.clear()
            while self._waiting and self._thread is me:
                began = time.monotonic()
                self._offer(self._made(began + _AT_A_TIME_S))
                # A real pause: whoever only yields has the interpreter again before the loop is awake.
                time.sleep(min(time.monotonic() - began, _LONGEST_PAUSE_S))

    def _made(self, until_s: float) -> list[dict[str, Any]]:
        rows = []
        errors = []
        while time.monotonic() < until_s:
            try:
                entry = self._waiting.popleft()
            except IndexError:
                self._waiting_bytes = 0
                break
            self._waiting_bytes -= _size(entry)
            try:
                row = self._rows.of(entry)
            except Exception:  # one row that can't be made must not end it
                log.exception("a row for live readers could not be made")
                continue
            rows.append(dict(zip(COLUMNS, row, strict=True)))
            if type(entry) is Exchange and row[_ERROR_CODE]:
                errors.append((entry.api_key, row[_ERROR_CODE]))
        if errors and self._tell_errors is not None:
            self._tell_errors(errors)
        return rows

    def _offer(self, rows: list[dict[str, Any]]) -> None:
        for reader in self.readers:
            wanted = [row for row in rows if reader.accepts is None or reader.accepts(row)]
            if wanted:
                # One call for all of them: each one wakes the loop.
                with contextlib.suppress(RuntimeError):  # the loop is closing
                    reader.loop.call_soon_threadsafe(reader.offer, wanted, self.skipped_row)


def _size(entry: Entry) -> int:
    if type(entry) is not Exchange:
        return 0
    held = 0 if entry.request is None else entry.request_bytes
    return held if entry.response is None else held + entry.response_bytes
