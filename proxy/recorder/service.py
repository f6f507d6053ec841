"""The recorder at work: follows the journals of one run, puts their segments in place, deletes what is too old.

Its proxy says what the job is, when to look, and when to finish; it hears what was counted, what goes wrong, and now
and then that all is well: one JSON value a line. When the proxy is gone, what it left is finished, with a gap row.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from notleader.proxy.record.journal import SUFFIX, JournalError
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.recorder.following import Following
from notleader.proxy.recorder.place import Place, Segment, open_place
from notleader.proxy.recorder.salvage import salvage

log = logging.getLogger("notleader.capture")

_LOOK_S: Final = 1.0
"""How often it looks without being told to: a journal that grows can wait, and to look costs more than to find."""
_SOON_S: Final = 0.1
_RETRY_S: Final = 1.0
_ALIVE_S: Final = 10.0
_ORPHANED_S: Final = 60.0
"""How long what a dead proxy left is tried to be finished; then it stays for the next start."""
_FRAMES_AT_ONCE: Final = 64


class _Followed:
    """A journal, and what is due for it."""

    def __init__(self, following: Following) -> None:
        self.following = following
        self.retry_at_s = 0.0
        self.lock_at_s = 0.0
        self.file: Path | None = None
        self.is_finished = False
        self.is_ours = False  # its writer is gone, and we hold its lock
        self.synced_bytes = 0
        self.said: tuple[Any, ...] = ()
        self.lost_frames = 0
        self.storing: Future[None] | None = None


class Service:
    """Does one job, said by whoever is at the other end of ``sock``."""

    def __init__(
        self, job: dict[str, Any], sock: socket.socket, rest: bytes = b"", *, place: Place | None = None
    ) -> None:
        """``rest`` came after the job; ``place`` is the job's, where it is known.

        Raises CaptureError when the place can't be used.
        """
        self._job = job
        self._sock: socket.socket | None = sock
        self._sending = threading.Lock()
        self._heard = rest
        self._spool = Path(job["spool"])
        self._run_id = str(job["run_id"])
        self._followed: dict[Path, _Followed] = {}
        self._given_up: set[Path] = set()
        self._looked_at: dict[Path, int] = {}
        self._is_finishing = False
        self._orphaned_at_s: float | None = None
        self._alive_at_s = 0.0
        self._sync_at_s = 0.0
        self._keep_at_s = time.monotonic()
        self._foreign: set[Segment] = set()
        self._problem: str | None = None
        self._place: Place = open_place(job["place"]) if place is None else place
        if self._place.folder is None:
            try:
                self._place.check(str(job["run_id"]))
            except OSError as error:
                raise CaptureError(f"can't use the capture folder {self._place.shown}: {error}") from error
        # A slow store holds up neither the reading of journals nor anybody's end.
        self._store = None if self._place.folder is not None else ThreadPoolExecutor(1, "notleader-store")

    def run(self) -> None:
        """Work until told to finish and all is done, or as long as is good when the proxy is gone."""
        self.say({"ready": True})
        threading.Thread(target=self._salvage, name="notleader-salvage", daemon=True).start()
        busy = True
        while not self._is_done(busy):
            busy = self.turn(0 if busy else _SOON_S if self.is_storing or self._is_finishing else _LOOK_S)
            self._tick()
        self._keep_at_s = 0.0
        self._keep()

    def turn(self, wait_s: float = 0) -> bool:
        """Hear what the proxy says for so long, and do one step with each journal; whether there is more to do."""
        self._listen(wait_s)
        self._discover()
        return sum([self._guarded(followed) for followed in list(self._followed.values())]) > 0

    @property
    def is_storing(self) -> bool:
        """Whether a segment is on its way to a remote store."""
        return any(followed.storing is not None for followed in self._followed.values())

    def drop(self) -> None:
        """Let go of everything; what is no segment yet stays in its journal."""
        for followed in list(self._followed.values()):
            self._drop(followed)
        if self._store is not None:
            self._store.shutdown(wait=False)

    def _is_done(self, busy: bool) -> bool:
        if self._orphaned_at_s is not None and time.monotonic() > self._orphaned_at_s + _ORPHANED_S:
            return True
        return self._is_finishing and not self._followed and not busy

    # ---- the proxy ------------------------------------------------------------------------------

    def say(self, said: dict[str, Any]) -> None:
        """Tell the proxy, if it is there."""
        sock = self._sock
        if sock is not None:
            with self._sending, contextlib.suppress(OSError):
                sock.sendall(json.dumps(said).encode() + b"\n")

    def _listen(self, timeout_s: float) -> None:
        if self._sock is None:
            time.sleep(timeout_s)
            return
        if b"\n" not in self._heard:
            ready, _, _ = select.select([self._sock], [], [], timeout_s)
            if not ready:
                return
            try:
                got = self._sock.recv(1 << 16)
            except OSError:
                got = b""
            if not got:
                self._sock = None
                if not self._is_finishing:
                    self._orphaned_at_s = time.monotonic()
                self._is_finishing = True
                return
            self._heard += got
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            if json.loads(line) == "finish":
                self._is_finishing = True
        self._looked_at.clear()

    # ---- journals -------------------------------------------------------------------------------

    def _discover(self) -> None:
        today = datetime.now(UTC).date()
        for day in (today - timedelta(days=1), today):
            folder = self._spool / f"date={day.isoformat()}" / f"run={self._run_id}"
            try:
                changed_ns = folder.stat().st_mtime_ns
                # Within the clock's grain something may come without its changing once more.
                if self._looked_at.get(folder) == changed_ns and time.time_ns() - changed_ns > 1_000_000_000:
                    continue
                self._looked_at[folder] = changed_ns
                names = sorted(name.name for name in folder.iterdir())
            except OSError:
                continue
            for name in names:
                path = folder / name
                if name.startswith(".") and name.endswith(SUFFIX) and path not in self._given_up:
                    self._follow(path)

    def _follow(self, path: Path) -> None:
        if path in self._followed:
            return
        try:
            if not path.stat().st_size:
                path.unlink()  # its segment is there: the last recorder died between the last two steps
                return
            self._followed[path] = _Followed(Following(path))
        except FileNotFoundError:
            return
        except (OSError, JournalError) as error:
            log.error("%s can't be read: %s", path, error)
            self._given_up.add(path)

    def _guarded(self, followed: _Followed) -> bool:
        """One step with a journal; whether there is more to do at once."""
        now = time.monotonic()
        if now < followed.retry_at_s:
            return False
        try:
            return self._step(followed, now)
        except OSError as error:
            # Of a full disk the proxy says that recording has stopped.
            level = logging.DEBUG if error.errno == errno.ENOSPC and self._store is None else logging.ERROR
            self._fail(f"the capture can't finish a segment in {self._place.shown}: {error.strerror or error}", level)
        except Exception as error:
            log.exception("%s can't be made into a segment", followed.following.path)
            self._fail(f"a segment can't be made: {error}")
            followed.following.tries.failed()
        # Its rows are safe in the journal; only their place has to wait.
        followed.retry_at_s = now + _RETRY_S
        if followed.storing is None:
            followed.file = None
            followed.is_finished = False
            was_ours, followed.is_ours = followed.is_ours, False
            try:
                followed.following.again()
            except (OSError, JournalError):
                self._drop(followed)
            else:
                followed.lock_at_s = 0.0 if was_ours else now + _RETRY_S
        return False

    def _step(self, followed: _Followed, now: float) -> bool:
        following = followed.following
        reader = following.reader
        if followed.storing is not None:
            return self._stored(followed)
        if followed.is_finished:
            self._put(followed)
            return True
        if following.read(_FRAMES_AT_ONCE):
            return True
        self._tell(followed)
        if reader.is_deleted:
            self._drop(followed)  # its writer counts what was in it
            return False
        if reader.has_ended:
            if self._sock is None and not followed.is_ours and not reader.try_lock():
                self._drop(followed)  # somebody else finishes it, now that nobody writes it
                return False
            self._finish(followed)
            return True
        if now >= followed.lock_at_s or self._is_finishing:
            followed.lock_at_s = now + _RETRY_S
            if reader.try_lock():
                followed.is_ours = True
                while following.read(_FRAMES_AT_ONCE):
                    pass
                self._finish(followed)
                return True
        return False

    def _finish(self, followed: _Followed) -> None:
        followed.file = followed.following.finish()
        followed.is_finished = True

    def _put(self, followed: _Followed) -> None:
        path = followed.following.segment.relative_to(self._spool).as_posix()
        if self._store is None or followed.file is None:
            if followed.file is not None:
                self._place.put(followed.file, path)
            self._done(followed)
            return
        followed.storing = self._store.submit(self._place.put, followed.file, path)

    def _stored(self, followed: _Followed) -> bool:
        storing = followed.storing
        assert storing is not None
        if not storing.done():
            return False
        followed.storing = None
        error = storing.exception()
        if error is None:
            self._done(followed)
            return True
        self._fail(f"the capture can't finish a segment in {self._place.shown}: {error}; trying again")
        followed.retry_at_s = time.monotonic() + _RETRY_S
        if followed.file is not None and not followed.file.exists():
            followed.is_finished = False
            followed.following.again()
        return False

    def _done(self, followed: _Followed) -> None:
        followed.following.done()
        self._tell(followed, finished=True)
        self._drop(followed)
        if self._problem is not None:
            self._problem = None
            self.say({"problem": None})
        self._keep()
        pa.default_memory_pool().release_unused()

    def _drop(self, followed: _Followed) -> None:
        self._followed.pop(followed.following.path, None)
        with contextlib.suppress(OSError):
            followed.following.drop()

    def _tell(self, followed: _Followed, *, finished: bool = False) -> None:
        contents = followed.following.contents
        said = (contents.unmade, sum(contents.errors.values()), contents.rows.lost_frames, finished)
        if said == followed.said or not any(said):
            return
        followed.said = said
        new_lost_frames = contents.rows.lost_frames - followed.lost_frames
        followed.lost_frames = contents.rows.lost_frames
        self.say(
            {
                "journal": followed.following.path.name,
                "errors": [[*error, times] for error, times in contents.errors.items()],
                "unmade": contents.unmade,
                "lost_frames": max(new_lost_frames, 0),
                "finished": finished,
            }
        )

    def _fail(self, problem: str, level: int = logging.ERROR) -> None:
        """Say it once, not once per attempt."""
        if self._problem != problem:
            self._problem = problem
            log.log(level, "%s; trying again", problem.removesuffix("; trying again"))
            self.say({"problem": problem})

    # ---- now and then ---------------------------------------------------------------------------

    def _tick(self) -> None:
        now = time.monotonic()
        if now >= self._alive_at_s:
            self._alive_at_s = now + _ALIVE_S
            self.say({"alive": True})
        if now >= self._sync_at_s:
            self._sync_at_s = now + float(self._job["flush_s"])
            for followed in list(self._followed.values()):
                self._sync(followed)

    def _sync(self, followed: _Followed) -> None:
        try:
            size = followed.following.reader.size_bytes
            if size != followed.synced_bytes:
                followed.synced_bytes = size
                followed.following.reader.sync()
        except OSError as error:
            # The kernel may have dropped the pages; the checksums say what can still be read.
            log.warning("the disk did not take the capture's journal: %s", error)

    def _salvage(self) -> None:
        try:
            for found in salvage(self._place, self._spool, self._run_id):
                log.warning("%s", found)
        except Exception:
            log.exception("segments that were left behind could not be looked for")

    def _keep(self) -> None:
        """Delete the oldest segments beyond the age and size that are to be kept."""
        keep_s, keep_bytes = self._job["keep_s"], self._job["keep_bytes"]
        if (keep_s is None and keep_bytes is None) or time.monotonic() < self._keep_at_s:
            return
        self._keep_at_s = time.monotonic() + min(float(self._job["rotate_s"]), 60.0)
        try:
            keep(self._place, keep_s, keep_bytes, self._foreign)
        except OSError as error:
            self._fail(f"old segments in {self._place.shown} can't be deleted: {error}")


def keep(place: Place, keep_s: float | None, keep_bytes: int | None, foreign: set[Segment]) -> None:
    """Delete the oldest segments of a place that are older than that, or too much together. Raises OSError.

    Of what has the name of a segment only those that would go are looked into; ``foreign`` remembers which are none.
    """
    placed = [segment for segment in place.segments() if segment.is_placed and segment not in foreign]
    placed.sort(key=lambda segment: segment.written_at_s)
    total = sum(segment.size_bytes for segment in placed)
    oldest_s = 0.0 if keep_s is None else time.time() - keep_s
    for segment in placed:
        too_much = keep_bytes is not None and total > keep_bytes
        if not too_much and segment.written_at_s >= oldest_s:
            break
        if place.is_ours(segment):
            place.delete(segment.path)
        else:
            foreign.add(segment)
        total -= segment.size_bytes


class SaidToProxy(logging.Handler):
    """Has the log written where the proxy's is."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Say a record."""
        self._say({"log": self.format(record), "level": record.levelname})
