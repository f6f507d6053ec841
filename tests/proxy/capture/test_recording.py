"""Rows reach the disk in time, segments appear whole, and what is lost is said."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from notleader.proxy.capture.block import ALL_TOLD, Block, Tables, What, pack_numbers
from notleader.proxy.capture.journal import Journal, LeftJournal
from notleader.proxy.capture.limits import CaptureError, Limits
from notleader.proxy.capture.place import Place, open_place
from notleader.proxy.capture.recording import Recording
from notleader.proxy.capture.rows import COLUMNS
from notleader.proxy.capture.schema import EXCHANGE
from notleader.proxy.capture.segment import salvage
from tests.proxy.capture.entries import METADATA, PROXY, RUN, gaps, hidden_files, maker, numbers, read, rows_of


class Bench:
    """A recording with a clock and a disk that the test moves."""

    def __init__(self, folder: Path, limits: Limits | None = None, place: Place | None = None) -> None:
        self.now_s = 0.0
        self.free_bytes = 1 << 40
        self.folder = folder
        self.place = place or open_place(folder)
        self.recording = Recording(
            self.place,
            self.place.spool(folder),
            maker(),
            METADATA,
            limits or Limits(),
            clock=lambda: self.now_s,
            free_bytes=lambda _: self.free_bytes,
        )
        self.recording.start()

    def at(self, now_s: float) -> None:
        self.now_s = now_s
        self.recording.tick()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    if made.recording._journal is not None:
        made.recording._journal.leave()


def test_a_segment_appears_whole_under_its_day_and_run(bench: Bench) -> None:
    bench.recording.add(rows_of(range(5)))
    bench.at(0.5)
    assert not read(bench.folder)
    assert len(hidden_files(bench.folder)) == 1
    bench.at(10.5)
    assert numbers(read(bench.folder)) == [0, 1, 2, 3, 4]
    assert not hidden_files(bench.folder)
    (segment,) = bench.place.segments()
    day, run, name = segment.path.split("/")
    assert (run, name) == (f"run={RUN}", f"{PROXY}-000001.parquet")
    assert day.startswith("date=20")
    assert segment.run_id == RUN
    metadata = pq.read_metadata(bench.folder / segment.path).metadata
    assert metadata[b"notleader.run_id"] == RUN.encode()
    assert (bench.recording.written_rows, bench.recording.segments) == (5, 1)


def test_rows_are_safe_from_a_kill_once_they_are_flushed(bench: Bench) -> None:
    bench.recording.add(rows_of(range(3)))
    assert bench.recording.due() == 0.5
    bench.at(0.5)
    (journal,) = bench.folder.rglob(".*.journal")
    with LeftJournal(journal) as left:
        assert sum(len(table) for table in left.tables()) == 3
        assert left.torn_bytes == 0


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each journal had whenever it was written through to the disk itself."""
    seen: list[int] = []
    sync = Journal.sync

    def noted(journal: Journal) -> None:
        seen.append(journal.rows)
        sync(journal)

    monkeypatch.setattr(Journal, "sync", noted)
    return seen


def test_many_rows_do_not_wait_in_memory_and_are_on_the_disk_in_time(bench: Bench, synced: list[int]) -> None:
    for start in range(0, 9000, 1000):
        bench.recording.add(rows_of(range(start, start + 1000)))
    assert bench.recording.written_rows >= 6000  # in the kernel's hands: a killed process loses none of these
    assert synced == [0]  # the empty journal
    bench.at(0.5)
    assert synced == [0, 9000]
    bench.at(1.0)
    assert synced == [0, 9000]  # nothing new


def test_a_journal_is_on_the_disk_before_it_waits_to_be_finished(bench: Bench, synced: list[int]) -> None:
    for start in range(0, 9000, 1000):
        bench.recording.add(rows_of(range(start, start + 1000)))
    written = bench.recording.written_rows
    bench.recording._buffer.clear()
    bench.recording.rotate()
    assert synced == [0, written]
    assert numbers(read(bench.folder)) == list(range(written))


def test_a_large_segment_is_finished_early(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Limits(rotate_bytes=1 << 16))
    for start in range(0, 2000, 500):
        bench.recording.add(rows_of(range(start, start + 500)))
        bench.recording.flush()
    assert bench.recording.segments >= 3
    bench.recording.close()
    assert numbers(read(tmp_path)) == list(range(2000))


def test_answers_that_tell_a_thousand_partitions_do_not_pile_up(bench: Bench) -> None:
    """Each of these is small on the wire's side of the recorder and 100 KiB on the disk's."""
    kind = EXCHANGE.field("partitions").type.value_type
    told = [{field.name: None for field in kind} | {"topic": f"t{number}"} for number in range(1000)]
    partitions = COLUMNS.index("partitions")
    row = list(rows_of([0])[0])
    row[partitions] = told
    for _ in range(80):
        bench.recording.add([tuple(row)])
    assert bench.recording.written_rows
    tables = Tables()
    tables.whos.append((1, "127.0.0.1:1", "bootstrap", None, "c", None, None, None))
    tables.whats.append(What((3, "Metadata", 1, "answered", 0, None, None, None, None, None), told))
    written = bench.recording.written_rows
    for number in range(400):
        block = Block(tables)
        block.numbers += pack_numbers(0, 0, number, number, 1, 1, 2, 2, 30, 90_000, ALL_TOLD)
        block.told = len(told)
        bench.recording.add_block(block)
    assert bench.recording.written_rows >= written + 100
    bench.recording.close()
    assert {len(found["partitions"]) for found in read(bench.folder)} == {1000}


def test_who_rests_gives_back_what_writing_took(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[float] = []
    monkeypatch.setattr("notleader.proxy.capture.recording.give_back", lambda: given_back.append(bench.now_s))
    for now_s in (10.0, 11.0, 12.0):
        bench.recording.add(rows_of([int(now_s)]))
        bench.at(now_s)
        bench.recording.rotate()
    assert given_back == [10.0], "not with every segment"
    due_s = bench.recording.due()
    assert due_s is not None
    bench.at(due_s)
    assert given_back == [10.0, 15.0]
    assert bench.recording.due() is None


def test_what_opening_a_journal_and_making_rows_took_is_given_back_while_it_grows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[float] = []
    monkeypatch.setattr("notleader.proxy.capture.recording.give_back", lambda: given_back.append(bench.now_s))
    for now_s in (0.5, 1.0, 2.0, 6.0, 6.5):
        bench.recording.add(rows_of([1]))
        bench.at(now_s)
    assert given_back == [1.0, 6.0]
    bench.at(10.9)
    assert given_back == [1.0, 6.0], "not more often than every five seconds"
    bench.at(11.0)
    assert given_back == [1.0, 6.0, 11.0]


def test_numbering_goes_on_where_an_earlier_recording_of_the_run_ended(tmp_path: Path) -> None:
    for start in (0, 10):
        bench = Bench(tmp_path)
        bench.recording.add(rows_of(range(start, start + 2)))
        bench.recording.close()
    assert numbers(read(tmp_path)) == [0, 1, 10, 11]


@pytest.mark.parametrize(
    ("limits", "kept"), [(Limits(keep_s=100), [2, 3]), (Limits(keep_bytes=1), []), (Limits(), [0, 1, 2, 3])]
)
def test_old_segments_go_by_age_and_by_size(tmp_path: Path, limits: Limits, kept: list[int]) -> None:
    bench = Bench(tmp_path)
    for number in range(4):
        bench.recording.add(rows_of([number]))
        bench.recording.rotate()
    for number, segment in enumerate(bench.place.segments()):
        if number < 2:
            os.utime(tmp_path / segment.path, (1_000_000 + number, 1_000_000 + number))
    bench = Bench(tmp_path, limits)
    bench.recording.rotate()
    assert numbers(read(tmp_path)) == kept


def test_a_full_disk_stops_recording_and_room_resumes_it_with_a_gap_row(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.recording.add(rows_of(range(10)))
    bench.at(0.5)
    bench.free_bytes = 1000
    with caplog.at_level(logging.WARNING, "notleader.capture"):
        bench.recording.add(rows_of(range(10, 20)))
        bench.at(1.0)
        for second in range(2, 30):
            bench.recording.add(rows_of(range(second * 10, second * 10 + 10)))
            bench.at(float(second))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "recording stopped, traffic goes on" in caplog.text
    assert bench.recording.error is not None
    assert bench.recording.lost_rows == 280
    # What had been recorded until then can be read already.
    assert numbers(read(bench.folder)) == list(range(10))

    bench.free_bytes = 1 << 30
    bench.at(31.0)
    assert "recording resumed after 30 s; 280 rows were lost" in caplog.text
    assert bench.recording.error is None
    bench.recording.add(rows_of([1000]))
    bench.recording.close()
    rows = read(bench.folder)
    assert numbers(rows) == [*range(20), 1000]
    (gap,) = (row for row in rows if row["event"] == "gap")
    assert gap["detail"].startswith(f"lost 280 rows: can't write to {bench.folder}")
    assert (gap["request_at_us"], gap["response_at_us"]) == (20_000, 299_000)


def test_a_write_that_fails_leaves_no_half_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)
    bench.recording.add(rows_of([1]))
    bench.at(0.5)
    real = Journal._frame

    def torn(self: Journal, pieces: Any) -> None:
        self._write(b"half a frame")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Journal, "_frame", torn)
    bench.recording.add(rows_of([2]))
    bench.at(1.0)
    assert "No space left on device" in str(bench.recording.error)
    monkeypatch.setattr(Journal, "_frame", real)
    bench.at(2.0)
    bench.recording.add(rows_of([3]))
    bench.recording.close()
    rows = read(tmp_path)
    assert numbers(rows) == [1, 2, 3]
    assert not gaps(rows)


def test_a_segment_that_cannot_be_finished_waits_and_nothing_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("the store is away")

    real = Place.put
    monkeypatch.setattr(Place, "put", unreachable)
    for start in range(0, 30, 10):
        bench.recording.add(rows_of(range(start, start + 10)))
        bench.recording.rotate()
    assert caplog.text.count("can't finish a segment") == 1
    assert len(hidden_files(bench.folder)) == 3
    monkeypatch.setattr(Place, "put", real)
    bench.at(1.0)
    assert numbers(read(bench.folder)) == list(range(30))
    assert (bench.recording.lost_rows, bench.recording.error) == (0, None)
    assert not hidden_files(bench.folder)


def test_text_that_is_no_utf8_is_kept_readable_and_a_row_that_fits_nowhere_is_told(bench: Bench) -> None:
    rows = rows_of([1, 2])
    odd = rows_of([3], client_id="bad\udcff")
    at = COLUMNS.index("api_key")
    impossible = [(*row[:at], 1 << 40, *row[at + 1 :]) for row in rows_of([4])]
    bench.recording.add([*rows, *odd, *impossible])
    bench.recording.close()
    found = read(bench.folder)
    assert numbers(found) == [1, 2, 3]
    assert found[2]["client_id"] == "bad?"
    assert bench.recording.lost_rows == 1
    assert gaps(found) == ["lost 1 row: could not be made into rows (the log says why)"]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="can't write the capture folder"):
        Bench(tmp_path / "file" / "below")


# ---- what a killed proxy leaves -----------------------------------------------------------------


def leave(bench: Bench) -> Path:
    """Forget a recording as a kill would; its journal."""
    assert bench.recording._journal is not None
    bench.recording._journal.leave()
    (journal,) = bench.folder.rglob(".*.journal")
    return journal


def test_salvage_finishes_what_a_killed_proxy_left_and_says_so(bench: Bench) -> None:
    bench.recording.add(rows_of(range(7)))
    bench.at(0.5)
    leave(bench)
    (found,) = salvage(bench.place, bench.folder)
    assert (found.rows, found.torn_bytes, found.problem) == (8, 0, None)
    rows = read(bench.folder)
    assert numbers(rows) == list(range(7))
    assert gaps(rows) == [
        "lost an unknown number of rows: the proxy was killed, and what it recorded in its last second may be missing"
    ]
    assert rows[-1]["run_id"] == RUN
    assert not hidden_files(bench.folder)
    assert salvage(bench.place, bench.folder) == []


def test_salvage_leaves_a_living_recording_alone(bench: Bench) -> None:
    bench.recording.add(rows_of(range(7)))
    bench.at(0.5)
    assert salvage(bench.place, bench.folder) == []
    bench.recording.close()
    assert numbers(read(bench.folder)) == list(range(7))


@pytest.mark.parametrize("cut", [1, 7, 400])
def test_salvage_drops_a_torn_last_batch_only(bench: Bench, cut: int) -> None:
    for start in (0, 5):
        bench.recording.add(rows_of(range(start, start + 5)))
        bench.recording.flush()
    journal = leave(bench)
    journal.write_bytes(journal.read_bytes()[:-cut])
    (found,) = salvage(bench.place, bench.folder)
    assert found.torn_bytes > 0
    rows = read(bench.folder)
    assert numbers(rows) == [0, 1, 2, 3, 4]
    assert "bytes of a half-written batch were dropped" in gaps(rows)[0]


def test_salvage_trusts_no_batch_whose_checksum_is_wrong(bench: Bench) -> None:
    for start in (0, 5):
        bench.recording.add(rows_of(range(start, start + 5)))
        bench.recording.flush()
    journal = leave(bench)
    data = bytearray(journal.read_bytes())
    data[-100] ^= 0xFF
    journal.write_bytes(data)
    salvage(bench.place, bench.folder)
    assert numbers(read(bench.folder)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"notleader journal 1\n", b"something else entirely, and long enough"])
def test_a_journal_without_anything_in_it_is_removed(bench: Bench, content: bytes) -> None:
    journal = bench.folder / ".x-000001.parquet.journal"
    journal.write_bytes(content)
    (found,) = salvage(bench.place, bench.folder)
    assert found.path is None
    assert not journal.exists()
