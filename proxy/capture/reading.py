"""Captures read back: the rows of a place, finished segments and those that still grow, and new ones as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from notleader.proxy.record.journal import SUFFIX, JournalError, JournalReader, is_written, segment_of
from notleader.proxy.record.limits import CaptureError
from notleader.proxy.record.rows import Level
from notleader.proxy.recorder.following import Contents
from notleader.proxy.recorder.place import Place, Segment, open_place

FRAMES: Final = ("request_frame", "response_frame")
_BATCH_ROWS: Final = 4096

RowDict = dict[str, Any]


class Growing(NamedTuple):
    """A segment that is not finished: its journal, the path it will have, and whether its proxy still lives."""

    journal: Path
    segment: str
    living: bool


class Listed(NamedTuple):
    """What `ls` says of one segment; `problem` where it can't be read."""

    path: str
    run_id: str | None
    rows: int
    size_bytes: int
    level: str | None
    first_us: int | None
    last_us: int | None
    state: str
    problem: str | None = None


class Capture:
    """The rows below one place. What can't be read is left out and said in ``problems``, one line each."""

    def __init__(self, where: str, spool: Path | None = None) -> None:
        """Raises CaptureError when there is no such place."""
        self.place: Place = open_place(where)
        self.spool = self.place.spool(spool)
        self.problems: list[str] = []
        try:
            if not self.place.exists() and not self.spool.is_dir():
                raise CaptureError(f"there is nothing at {self.place.shown}")
        except OSError as error:
            raise CaptureError(f"{self.place.shown} can't be read: {error}") from error

    def segments(self) -> list[Segment]:
        """The finished segments. Raises CaptureError."""
        try:
            return self.place.segments()
        except OSError as error:
            raise CaptureError(f"{self.place.shown} can't be read: {error}") from error

    def growing(self) -> list[Growing]:
        """The segments that are not finished, and not there in finished form either."""
        if not self.spool.is_dir():
            return []
        done = {segment.path for segment in self.segments()}
        found = []
        for journal in sorted(self.spool.rglob(f".*{SUFFIX}")):
            path = segment_of(journal).relative_to(self.spool).as_posix()
            if path not in done:
                found.append(Growing(journal, path, is_written(journal)))
        return found

    def may_have_frames(self) -> bool:
        """False where every part says that it was recorded at a level without; nothing but ends and heads is read."""
        levels: list[str | None] = []
        for segment in self.segments():
            try:
                with self.place.open(segment.path) as source:
                    levels.append(_level(pq.read_metadata(source)))
            except (OSError, pa.ArrowException):
                levels.append(None)
            if levels[-1] in (None, Level.PAYLOAD):
                return True
        for growing in self.growing():
            try:
                with JournalReader(growing.journal) as reader:
                    levels.append(reader.head["level"])
            except (OSError, JournalError):
                levels.append(None)
        return not levels or None in levels or Level.PAYLOAD in levels

    def rows(self, *, frames: bool = False) -> Iterator[RowDict]:
        """Every row, segment by segment as they were finished, growing ones last; the frames only when asked for."""
        # Looked at first: one that is finished between the two looks is then among the segments.
        unfinished = self.growing()
        segments = sorted(self.segments(), key=lambda segment: (segment.written_at_s, segment.path))
        for segment in segments:
            yield from self._of_segment(segment.path, frames=frames)
        done = {segment.path for segment in segments}
        for growing in unfinished:
            if growing.segment not in done and growing.journal.exists():
                yield from self._of_journal(growing.journal, frames=frames)
            elif growing.segment not in done:
                yield from self._of_segment(growing.segment, frames=frames)

    def last(self, count: int, accepts: Callable[[RowDict], bool], *, frames: bool = False) -> list[RowDict]:
        """The last so many rows that ``accepts`` holds for, oldest first; older segments stay unread."""
        growing = self.growing()
        segments = sorted(self.segments(), key=lambda segment: (segment.written_at_s, segment.path))
        journals = (row for one in growing for row in self._of_journal(one.journal, frames=frames) if accepts(row))
        found = deque(journals, maxlen=count)
        while segments and len(found) < count:
            path = segments.pop().path
            rows = (row for row in self._of_segment(path, frames=frames) if accepts(row))
            found.extendleft(reversed(deque(rows, maxlen=count - len(found))))
        return list(found)

    def listed(self) -> Iterator[Listed]:
        """One entry per segment, in order of day, run and number, growing ones last."""
        for segment in self.segments():
            try:
                with self.place.open(segment.path) as source:
                    yield _described(segment, pq.ParquetFile(source))
            except (OSError, pa.ArrowException) as error:
                yield Listed(
                    segment.path, segment.run_id, 0, segment.size_bytes, None, None, None, "unreadable", _line(error)
                )
        for growing in self.growing():
            rows = list(self._of_journal(growing.journal, frames=False))
            times = [row["request_at_us"] for row in rows if row["request_at_us"]]
            size = growing.journal.stat().st_size if growing.journal.exists() else 0
            state = "growing" if growing.living else "left behind"
            run_id = Segment(growing.segment, 0, 0).run_id
            yield Listed(
                growing.segment,
                run_id,
                len(rows),
                size,
                None,
                min(times, default=None),
                max(times, default=None),
                state,
            )

    def _of_segment(self, path: str, *, frames: bool, skip: int = 0) -> Iterator[RowDict]:
        try:
            with self.place.open(path) as source:
                file = pq.ParquetFile(source)
                columns = None if frames else [name for name in file.schema_arrow.names if name not in FRAMES]
                for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                    if skip >= batch.num_rows:
                        skip -= batch.num_rows
                        continue
                    yield from batch.slice(skip).to_pylist()
                    skip = 0
        except (OSError, pa.ArrowException) as error:
            self.problems.append(f"{path or self.place.shown} can't be read: {_line(error)}")

    def _of_journal(self, journal: Path, *, frames: bool, skip: int = 0) -> Iterator[RowDict]:
        try:
            contents = Contents(journal)
            with contents.reader:
                for frame in contents.frames():
                    if skip < frame.rows:
                        table = contents.table_of([frame])[skip:]
                        yield from (table if frames else table.drop_columns(list(FRAMES))).to_pylist()
                    skip = max(skip - frame.rows, 0)
        except FileNotFoundError:
            return  # finished meanwhile
        except (OSError, JournalError, pa.ArrowException) as error:
            self.problems.append(f"{journal} can't be read: {_line(error)}")


class Follower:
    """Hands out the rows of a capture as they are written, each once."""

    def __init__(self, capture: Capture, *, frames: bool = False) -> None:
        self._capture = capture
        self._frames = frames
        self._seen: dict[str, int] = {}
        self._finished: set[str] = set()

    def new(self) -> Iterator[RowDict]:
        """What came since the last call."""
        capture = self._capture
        # Growing ones are looked for first: one that is finished between the two looks is then read on as a segment.
        unfinished = capture.growing()
        for segment in capture.segments():
            if segment.path not in self._finished:
                self._finished.add(segment.path)
                skip = self._seen.pop(segment.path, 0)
                yield from capture._of_segment(segment.path, frames=self._frames, skip=skip)
        for growing in unfinished:
            if growing.segment not in self._finished:
                yield from self._counted(
                    growing.segment,
                    capture._of_journal(growing.journal, frames=self._frames, skip=self._seen.get(growing.segment, 0)),
                )
                if not growing.journal.exists():
                    return  # finished meanwhile: what is left of it comes before what is behind it, at the next look

    def _counted(self, name: str, rows: Iterator[RowDict]) -> Iterator[RowDict]:
        for row in rows:
            self._seen[name] = self._seen.get(name, 0) + 1
            yield row


def _described(segment: Segment, file: pq.ParquetFile) -> Listed:
    metadata = file.metadata
    names: Sequence[str] = file.schema_arrow.names
    first_us = last_us = None
    if "request_at_us" in names:
        leaf = [metadata.schema.column(index).path for index in range(metadata.num_columns)].index("request_at_us")
        statistics = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        known = [one for one in statistics if one is not None and one.has_min_max]
        first_us = min((one.min for one in known), default=None)
        last_us = max((one.max for one in known), default=None)
    return Listed(
        segment.path,
        segment.run_id,
        metadata.num_rows,
        segment.size_bytes,
        _level(metadata),
        first_us,
        last_us,
        "finished",
    )


def _level(metadata: pq.FileMetaData) -> str | None:
    level = (metadata.metadata or {}).get(b"notleader.level")
    return level.decode() if level else None


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
