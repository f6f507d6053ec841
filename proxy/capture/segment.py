"""From a journal to a finished Parquet segment, whole or not at all."""

from __future__ import annotations

import contextlib
import logging
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from notleader.proxy.capture.journal import Frame, JournalError, LeftJournal, try_lock
from notleader.proxy.capture.place import Place
from notleader.proxy.capture.rows import gap_row
from notleader.proxy.capture.schema import ASKED_FOR, EXCHANGE, GROWING, TEXTS, batch_of, coded

log = logging.getLogger("notleader.capture")

JOURNAL_SUFFIX: Final = ".journal"
_ROW_GROUP_ROWS: Final = 50_000
_ROW_GROUP_BYTES: Final = 32 << 20
_BUFFER_BYTES: Final = 256 << 10


def hidden(segment: Path, suffix: str) -> Path:
    """The file beside a segment that belongs to it; readers of the folder skip names that begin with a dot."""
    return segment.with_name(f".{segment.name}{suffix}")


def finish(
    journal: Path, place: Place, spool: Path, extra: Iterable[Frame] = (), *, is_sure: bool = False
) -> tuple[str, int]:
    """Make the segment of a journal appear at its place; its path there, and its rows. Raises OSError, JournalError.

    ``is_sure`` as `Journal` says. The journal itself stays: it may go once this has returned.
    """
    name = journal.name.removeprefix(".").removesuffix(JOURNAL_SUFFIX)
    segment = journal.with_name(name)
    unfinished = hidden(segment, ".tmp")
    with LeftJournal(journal, is_sure=is_sure) as left:
        try:
            rows = _write(unfinished, left, chain(left.frames(), extra))
            path = segment.relative_to(spool).as_posix()
            place.put(unfinished, path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    return path, rows


def _write(file: Path, left: LeftJournal, frames: Iterable[Frame]) -> int:
    rows = 0
    # Dictionaries are our way to write: who reads the file finds text.
    kept = {b"ARROW:schema": b64encode(left.schema.serialize()), **(left.schema.metadata or {})}
    with (
        # Arrow's own: for each piece of a column, Python's files would have to ask the loop for the interpreter.
        pa.output_stream(str(file), compression=None, buffer_size=_BUFFER_BYTES) as sink,
        pq.ParquetWriter(
            sink,
            coded(left.schema),
            compression="zstd",
            use_dictionary=TEXTS,
            column_encoding=dict.fromkeys(GROWING, "DELTA_BINARY_PACKED"),
            write_statistics=ASKED_FOR,
            write_batch_size=_ROW_GROUP_ROWS,
            store_schema=False,
        ) as writer,
    ):
        writer.add_key_value_metadata(kept)
        for group in _row_groups(frames):
            table = left.table_of(group)
            writer.write_table(table)
            rows += len(table)
    with file.open("rb") as written:
        # The journal goes after this: the segment must be on the disk by then, not on its way there.
        os.fsync(written.fileno())
    return rows


def _row_groups(frames: Iterable[Frame]) -> Iterator[list[Frame]]:
    group: list[Frame] = []
    rows = size = tables = 0
    for frame in frames:
        pointed_to = frame.packed.tables if frame.packed is not None else tables
        if tables and pointed_to != tables:
            yield group
            group, rows, size = [], 0, 0
        tables = pointed_to
        group.append(frame)
        rows += frame.rows
        size += frame.unpacked_bytes
        if rows >= _ROW_GROUP_ROWS or size >= _ROW_GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


class Salvaged(NamedTuple):
    """What became of one journal that was left behind; ``path`` is None where nothing could be saved."""

    journal: Path
    path: str | None
    rows: int
    torn_bytes: int
    problem: str | None


def salvage(place: Place, spool: Path) -> list[Salvaged]:
    """Finish every segment whose proxy is gone; those of living proxies are left alone."""
    return [
        found for journal in sorted(spool.rglob(".*" + JOURNAL_SUFFIX)) if (found := _salvage(journal, place, spool))
    ]


def _salvage(journal: Path, place: Place, spool: Path) -> Salvaged | None:
    lock = try_lock(journal)
    if lock is None:
        return None
    with lock:
        torn_bytes = 0
        try:
            with LeftJournal(journal) as left:
                for _ in left.frames():
                    pass
                said = _gap(left)
                torn_bytes = left.torn_bytes
            path, rows = finish(journal, place, spool, [said] if said is not None else [])
        except JournalError as error:
            # Created in the moment its proxy died: there was nothing in it yet.
            journal.unlink()
            return Salvaged(journal, None, 0, torn_bytes, f"nothing was in it: {error}")
        except OSError as error:
            return Salvaged(journal, None, 0, torn_bytes, str(error))
        journal.unlink()
        with contextlib.suppress(OSError):
            journal.parent.rmdir()  # an empty folder of a spool; one with segments stays
        return Salvaged(journal, path, rows, torn_bytes, None)


def _gap(left: LeftJournal) -> Frame | None:
    """The row that says what a kill may have cost; None for a journal of another schema version."""
    if not left.schema.equals(EXCHANGE):
        return None
    torn = f" ({left.torn_bytes} bytes of a half-written batch were dropped)" if left.torn_bytes else ""
    row = gap_row(
        *left.identity,
        "lost an unknown number of rows: the proxy was killed, and what it recorded in its last second "
        f"may be missing{torn}",
        None,
        None,
    )
    return Frame(batch_of([row]).replace_schema_metadata(left.schema.metadata), None)
