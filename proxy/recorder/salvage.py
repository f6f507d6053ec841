"""What a killed proxy and its recorder left behind, finished."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from notleader.proxy.record.journal import (
    SUFFIX,
    JournalError,
    hidden,
    is_damaged,
    is_written,
    segment_of,
    set_aside,
)
from notleader.proxy.recorder.following import Following
from notleader.proxy.recorder.place import Place, is_put, open_place

_ALL_FRAMES: Final = 1 << 62


class Salvaged(NamedTuple):
    """What became of a journal, or of a segment left in a spool; ``path`` is None where nothing could be saved."""

    journal: Path
    path: str | None
    rows: int
    torn_bytes: int
    problem: str | None
    killed: bool = True
    """Whether its proxy was killed; else it had ended, and its recorder had not."""
    kept: Path | None = None
    """Where a damaged journal is, of which not everything could be read."""

    def __str__(self) -> str:
        if self.journal.suffix != SUFFIX:
            return f"{self.journal} waited for its store: {self.problem or f'it is in {self.path} now'}"
        if self.path is None:
            return f"{self.journal} was left behind by a killed proxy: {self.problem}"
        if not self.killed:
            return f"a proxy ended with {self.rows} rows unfinished: they are in {self.path} now"
        damaged = "" if self.kept is None else f"; its journal is damaged, and kept as {self.kept}"
        return f"a killed proxy left {self.rows} rows unfinished: they are in {self.path} now{damaged}"


def salvage(place: Place, spool: Path, without_run: str | None = None) -> Iterator[Salvaged]:
    """Finish every segment whose proxy is gone, but for those of one run; those of living proxies are left alone."""
    for journal in sorted(spool.rglob(".*" + SUFFIX)):
        if journal.parent.name != f"run={without_run}" and (found := _salvaged(journal, place, spool)) is not None:
            yield found
    for unseen in sorted(spool.rglob(f".*{SUFFIX}.new")):
        # Created in the moment its proxy died; a living one gives it its name at once.
        if unseen.parent.name != f"run={without_run}" and _is_ours(unseen) and not is_written(unseen):
            unseen.unlink(missing_ok=True)
    if place.folder is None and spool.is_dir():
        yield from _sent(place, open_place(spool))


def _sent(place: Place, spool: Place) -> Iterator[Salvaged]:
    """Put the segments that somebody finished in a spool itself, as a repair of that folder does, where they belong."""
    assert spool.folder is not None
    for segment in spool.segments():
        file = spool.folder / segment.path
        if hidden(file).exists() or not spool.is_ours(segment):
            continue
        try:
            place.put(file, segment.path)
        except FileNotFoundError:
            continue  # somebody else was quicker
        except OSError as error:
            yield Salvaged(file, None, 0, 0, str(error))
            continue
        with contextlib.suppress(OSError):
            file.parent.rmdir()
        yield Salvaged(file, segment.path, 0, 0, None)


def _salvaged(journal: Path, place: Place, spool: Path) -> Salvaged | None:
    is_ours = _is_ours(journal)
    if is_written(journal):
        return None
    try:
        if not journal.stat().st_size:
            if is_ours:
                journal.unlink()  # its segment is there: a recorder died between the last two steps
            return None
        following = Following(journal)
    except FileNotFoundError:
        return None
    except JournalError as error:
        if not is_ours:
            return None
        if is_damaged(journal):
            aside = set_aside(journal)
            return Salvaged(journal, None, 0, 0, f"it is damaged ({error}), and kept as {aside}", kept=aside)
        journal.unlink()
        return Salvaged(journal, None, 0, 0, f"nothing was in it: {error}")
    except OSError as error:
        return Salvaged(journal, None, 0, 0, str(error))
    torn_bytes = 0
    try:
        if not following.reader.try_lock():
            return None
        while following.read(_ALL_FRAMES):
            pass
        file = following.finish()
        torn_bytes = following.torn_bytes
        path = following.segment.relative_to(spool).as_posix()
        if file is not None:
            place.put(file, path)
        kept = following.done()
    except OSError as error:
        return Salvaged(journal, None, 0, torn_bytes, str(error))
    finally:
        following.drop()
    with contextlib.suppress(OSError):
        journal.parent.rmdir()  # an empty folder of a spool; one with segments stays
    return Salvaged(journal, path, following.rows, torn_bytes, None, following.was_killed, kept)


def _is_ours(journal: Path) -> bool:
    """Whether it is one of a segment: somebody else's file is not deleted because nothing can be made of it."""
    segment = segment_of(journal.with_name(journal.name.removesuffix(".new")))
    return is_put("/".join(segment.parts[-3:]))
