"""What a flush writes is what a segment says: blocks as they are, the entries they point into told once."""

from __future__ import annotations

import errno
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from notleader.proxy.capture.block import PART_BYTES, ROW_BYTES, Block, pack_numbers
from notleader.proxy.capture.journal import LeftJournal
from notleader.proxy.capture.limits import Limits
from notleader.proxy.capture.place import open_place
from notleader.proxy.capture.reading import Capture
from notleader.proxy.capture.recording import Recording
from notleader.proxy.capture.rows import COLUMNS
from notleader.proxy.capture.schema import EXCHANGE, batch_of
from notleader.proxy.capture.segment import salvage
from tests.proxy.capture.blocks import block_of, expected, tables
from tests.proxy.capture.entries import METADATA, PROXY, RUN, gaps, hidden_files, maker, numbers, read, rows_of


def recording_to(folder: Path) -> Recording:
    made = Recording(open_place(folder), folder, maker(), METADATA, Limits())
    made.start()
    return made


@pytest.fixture
def recording(tmp_path: Path) -> Iterator[Recording]:
    made = recording_to(tmp_path)
    yield made
    if made._journal is not None:
        made._journal.leave()


def journal_of(recording: Recording) -> Path:
    (found,) = recording.spool.rglob(".*.journal")
    return found


def flushed(recording: Recording, block: Block) -> int:
    """How long the journal became."""
    recording.add_block(block)
    recording.flush()
    return journal_of(recording).stat().st_size


def test_a_block_becomes_the_rows_that_it_stands_for(recording: Recording) -> None:
    pointed_to = tables()
    for start in (0, 40):
        flushed(recording, block_of(pointed_to, range(start, start + 40)))
    growing = list(Capture(str(recording.spool)).rows(frames=True))
    recording.close()
    assert read(recording.spool) == growing == expected(block_of(pointed_to, range(80)))
    assert recording.written_rows == 80


def test_rows_and_blocks_of_one_flush_are_in_time_and_flushes_in_order(recording: Recording) -> None:
    pointed_to = tables()
    for start in (200, 100):
        recording.add_block(block_of(pointed_to, range(start, start + 10)))
        recording.add(rows_of(range(start + 95, start + 99)))
        recording.add(rows_of([start + 5, start + 2], client_id="by itself"))
        recording.flush()
    flushed(recording, block_of(pointed_to, range(10)))
    recording.add(rows_of([500, 400]))
    recording.flush()
    growing = list(Capture(str(recording.spool)).rows(frames=True))
    recording.close()
    mixed = [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 95, 96, 97, 98]
    assert numbers(growing) == [*(200 + n for n in mixed), *(100 + n for n in mixed), *range(10), 500, 400]
    assert read(recording.spool) == growing
    assert [row for row in growing if row["client_id"] == "c" and 100 <= row["exchange_seq"] < 110] == expected(
        block_of(pointed_to, range(100, 110))
    )


def test_an_entry_is_told_once_to_each_journal(recording: Recording) -> None:
    pointed_to = tables("c" * 1000)
    bare = len(block_of(pointed_to, range(36)).numbers) + len(block_of(pointed_to, range(36)).parts)
    first = flushed(recording, block_of(pointed_to, range(36)))
    second = flushed(recording, block_of(pointed_to, range(36, 72)))
    assert bare < second - first < bare + 100
    pointed_to.whos.append((9, "127.0.0.1:9", "bootstrap", None, "later", None, None, None))
    late = Block(pointed_to)
    late.numbers += pack_numbers(4, 0, 72, 72, 72_000, 0, 0, 72_500, 1, 1, 0)
    assert ROW_BYTES < flushed(recording, late) - second < 4000
    recording.rotate()
    flushed(recording, block_of(pointed_to, range(73, 76)))
    recording.close()
    found = read(recording.spool)
    assert numbers(found) == list(range(76))
    assert [row["client_id"][:5] for row in found[70:74]] == ["ccccc", "ccccc", "later", "ccccc"]


def test_blocks_that_point_into_other_tables_follow_in_the_same_journal(recording: Recording) -> None:
    names = ["first", "second", "third"]
    for start, name in enumerate(names):
        recording.add_block(block_of(tables(name), range(start * 12, start * 12 + 12)))
    recording.close()
    found = read(recording.spool)
    assert recording.segments == 1
    assert found == [
        row
        for start, name in enumerate(names)
        for row in expected(block_of(tables(name), range(start * 12, start * 12 + 12)))
    ]


def test_a_frame_that_is_torn_anywhere_is_dropped_alone(tmp_path: Path) -> None:
    recording = recording_to(tmp_path)
    pointed_to = tables()
    whole = flushed(recording, block_of(pointed_to, range(12)))
    recording.add(rows_of([30]))
    end = flushed(recording, block_of(pointed_to, range(12, 24)))
    journal = journal_of(recording)
    assert recording._journal is not None
    recording._journal.leave()
    content = journal.read_bytes()
    for kept in (*range(whole, end, 97), end - 1):
        journal.write_bytes(content[:kept])
        with LeftJournal(journal) as left:
            assert [len(table) for table in left.tables()] == [12]
            assert left.torn_bytes == kept - whole
    for broken in range(whole, end, 97):
        journal.write_bytes(content[:broken] + bytes((content[broken] ^ 0xFF,)) + content[broken + 1 :])
        with LeftJournal(journal) as left:
            assert [len(table) for table in left.tables()] == [12]
    journal.write_bytes(content[: end - PART_BYTES])
    (found,) = salvage(open_place(tmp_path), tmp_path)
    assert (found.rows, found.torn_bytes) == (13, end - PART_BYTES - whole)
    rows = read(tmp_path)
    assert rows[:12] == expected(block_of(pointed_to, range(12)))
    assert "bytes of a half-written batch were dropped" in gaps(rows)[0]
    assert rows[-1]["run_id"] == RUN


def test_a_journal_of_the_first_version_is_salvaged(tmp_path: Path) -> None:
    def frame(message: Any) -> bytes:
        content = message.to_pybytes()
        return struct.pack(">II", len(content), zlib.crc32(content)) + content

    rows = rows_of(range(5))
    content = b"notleader journal 1\n" + frame(EXCHANGE.with_metadata(METADATA).serialize())
    content += frame(batch_of(rows[:2]).serialize()) + frame(batch_of(rows[2:]).serialize())
    journal = tmp_path / ".x-000001.parquet.journal"
    journal.write_bytes(content + b"half")
    (found,) = salvage(open_place(tmp_path), tmp_path)
    assert (found.rows, found.torn_bytes, found.problem) == (6, 4, None)
    assert read(tmp_path)[:5] == [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert not hidden_files(tmp_path)


def test_a_journal_of_another_version_with_other_columns_stays(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())]).serialize().to_pybytes()
    journal = tmp_path / ".x-000001.parquet.journal"
    frame = struct.pack(">II", len(schema), zlib.crc32(schema)) + schema
    journal.write_bytes(b"notleader journal 2\n" + frame)
    (found,) = salvage(open_place(tmp_path), tmp_path)
    assert found.problem is not None
    assert "another version" in found.problem
    assert journal.exists()


def test_what_fits_no_column_is_made_row_by_row(recording: Recording) -> None:
    pointed_to = tables("bad\udcff")
    flushed(recording, block_of(pointed_to, range(12)))
    fine = tables()
    recording.add_block(block_of(fine, range(12, 24)))
    rows = list(block_of(fine, range(24, 27)).rows(RUN, PROXY, 7))
    huge = COLUMNS.index("correlation_id")
    rows[1] = (*rows[1][:huge], 1 << 40, *rows[1][huge + 1 :])
    recording.add(rows)
    recording.add_block(block_of(fine, range(27, 36)))
    recording.close()
    found = read(recording.spool)
    assert numbers(found) == [*range(25), *range(26, 36)]
    assert {row["client_id"] for row in found[:12]} == {"bad?"}
    assert found[12:24] == expected(block_of(fine, range(12, 24)))
    assert gaps(found) == ["lost 1 row: could not be made into rows (the log says why)"]
    assert (recording.lost_rows, recording.written_rows) == (1, 36)


@pytest.mark.parametrize("taken", [True, False])
def test_what_the_disk_did_not_take_is_looked_at_again(
    recording: Recording, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """Its pages may be gone. What it did take is not summed up a second time: this process has just written it."""
    pointed_to = tables()
    length = flushed(recording, block_of(pointed_to, range(40)))

    def fails(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    if not taken:
        monkeypatch.setattr(os, "fdatasync", fails)
    flushed(recording, block_of(pointed_to, range(40, 80)))
    with journal_of(recording).open("r+b") as file:
        file.seek(length + 8 + 32 + 16)  # the sequence number of its first exchange, behind lengths and sum
        file.write(bytes(8))
    recording.close()
    assert len(read(recording.spool)) == (80 if taken else 40)
