"""Finished journals on their way to a remote store, in a thread of their own: a slow store holds nobody up."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from notleader.proxy.capture.journal import Journal, JournalError
from notleader.proxy.capture.place import Place
from notleader.proxy.capture.segment import finish

log = logging.getLogger("notleader.capture")

_RETRY_S: Final = 1.0


class Uploads:
    """Makes the segments of journals appear at ``place``, in order, each tried until it is there.

    ``done`` and ``failed`` (with one line) are called by the thread.
    """

    def __init__(self, place: Place, spool: Path, done: Callable[[], None], failed: Callable[[str], None]) -> None:
        self._place = place
        self._spool = spool
        self._done = done
        self._failed = failed
        self._waiting: deque[Journal] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="notleader-upload", daemon=True)
        self._thread.start()

    @property
    def waiting_bytes(self) -> int:
        """The size of the journals that are not there yet."""
        with self._changed:
            return sum(journal.size_bytes for journal in self._waiting)

    def add(self, journal: Journal) -> None:
        """Take a journal that grows no more."""
        with self._changed:
            self._waiting.append(journal)
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Wait until all are there; False when they are not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def close(self, grace_s: float) -> None:
        """End the thread; journals that are not there by then lie in the spool, for the next start to salvage."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(grace_s)
        with self._changed:
            left, self._waiting = self._waiting, deque()
        for place, journal in enumerate(left):
            log.error("%s stays behind; the next start of a proxy on this folder finishes it", journal.path)
            if place or not self._thread.is_alive():
                journal.leave()  # the one that is on its way keeps its lock

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                journal = self._waiting[0]
            try:
                finish(journal.path, self._place, self._spool, is_sure=journal.is_sure)
            except (OSError, JournalError) as error:
                # Its rows are safe in the journal; only their place has to wait.
                self._failed(f"the capture can't finish a segment in {self._place.shown}: {error}; trying again")
                if self._closing:
                    return
                time.sleep(_RETRY_S)
                continue
            journal.remove()
            with self._changed:
                if self._waiting:
                    self._waiting.popleft()
                self._changed.notify_all()
            self._done()
