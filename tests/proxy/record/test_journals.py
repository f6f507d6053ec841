"""There is always a journal, each becomes a segment, and what could not be written is said."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from notleader.proxy.record.journal import SUFFIX, Journal, JournalReader
from notleader.proxy.record.limits import CaptureError, Limits
from notleader.proxy.recorder.salvage import salvage
from tests.proxy.record.bench import FULL, Bench
from tests.proxy.record.entries import PROXY, RUN, gaps, hidden_files, numbers, read


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.leave()


def test_a_segment_appears_whole_under_its_day_and_run(bench: Bench) -> None:
    bench.write(range(5))
    bench.record()
    assert not read(bench.folder)
    bench.at(10.5)
    bench.record()
    assert numbers(read(bench.folder)) == [0, 1, 2, 3, 4]
    (segment,) = bench.place.segments()
    day, run, name = segment.path.split("/")
    assert (run, name) == (f"run={RUN}", f"{PROXY}-000001.parquet")
    assert day.startswith("date=20")
    assert segment.run_id == RUN
    metadata = pq.read_metadata(bench.folder / segment.path).metadata
    assert metadata[b"notleader.run_id"] == RUN.encode()
    assert (bench.journals.written_rows, bench.journals.segments) == (5, 1)


def test_there_is_a_journal_before_the_first_row_and_across_every_rotation(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bench.journal.exists()
    seen: list[list[str]] = []
    seal = Journal.seal

    def noted(journal: Journal) -> None:
        seen.append([name for name in hidden_files(bench.folder) if name.endswith(SUFFIX)])
        seal(journal)

    monkeypatch.setattr(Journal, "seal", noted)
    for number in range(3):
        bench.write([number])
        bench.rotate()
    # At the moment in which one ends the next one is there.
    assert [len(names) for names in seen] == [2, 2, 2]
    assert bench.journal.exists()


def test_an_empty_journal_makes_no_segment(bench: Bench) -> None:
    bench.rotate()
    bench.at(100.0)
    bench.journals.close()
    bench.record()
    assert not hidden_files(bench.folder)
    assert bench.place.segments() == []


def test_a_large_segment_is_finished_early(tmp_path: Path) -> None:
    bench = Bench(tmp_path, Limits(rotate_bytes=1 << 16))
    for start in range(0, 2000, 500):
        bench.write(range(start, start + 500))
        bench.record()
    assert bench.journals.segments >= 3
    bench.close()
    assert numbers(read(tmp_path)) == list(range(2000))


def test_a_disk_that_fills_up_again_at_once_is_told_as_one_outage(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for second in (1, 3, 5):
        bench.free_bytes = 1000
        bench.at(second)
        bench.write(range(10))
        assert bench.journals.error is not None
        bench.free_bytes = 1 << 30
        bench.at(second + 1)
        assert bench.journals.error is None
    bench.at(10)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    bench.at(11)
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "recording resumed after 5 s; 30 rows were lost" in caplog.text
    bench.free_bytes = 1000
    bench.write([1])
    bench.free_bytes = 1 << 30
    bench.at(13)
    bench.journals.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"] * 2


def test_a_full_disk_stops_recording_and_room_resumes_it_with_a_gap_row(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.write(range(10))
    bench.free_bytes = 1000
    with caplog.at_level(logging.WARNING, "notleader.capture"):
        for second in range(2, 30):
            bench.now_s = float(second)
            bench.write(range(second * 10, second * 10 + 10))
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "recording stopped, traffic goes on" in caplog.text
    assert bench.journals.error is not None
    assert bench.journals.lost_rows == 280
    # What had been recorded until then can be read already: Parquet is smaller.
    bench.record()
    assert numbers(read(bench.folder)) == list(range(10))

    bench.free_bytes = 1 << 30
    bench.at(31.0)
    assert bench.journals.error is None
    bench.at(36.0)
    assert "recording resumed after 29 s; 280 rows were lost" in caplog.text
    bench.write([1000])
    bench.journals.close()
    bench.record()
    rows = read(bench.folder)
    assert numbers(rows) == [*range(10), 1000]
    (gap,) = (row for row in rows if row["event"] == "gap")
    assert gap["detail"].startswith(f"lost 280 rows: can't write to {bench.folder}")
    assert (gap["request_at_us"], gap["response_at_us"]) == (20_000, 299_000)


@pytest.mark.parametrize("with_rows", [True, False])
@pytest.mark.parametrize("is_killed", [True, False])
def test_what_a_full_disk_cost_is_said_by_who_ends_with_it_full(
    bench: Bench, *, with_rows: bool, is_killed: bool
) -> None:
    """In the room that the journal has for it, so that whoever finishes it can make the gap row."""
    if with_rows:
        bench.write(range(10))
    bench.free_bytes = 1000
    for second in range(2, 8):
        bench.now_s = float(second)
        bench.write(range(second * 10, second * 10 + 10))
    if not is_killed:
        bench.journals.close()
    bench.leave()
    assert all(one.problem is None for one in salvage(bench.place, bench.spool))
    rows = read(bench.folder)
    assert numbers(rows) == list(range(10 if with_rows else 0))
    told, *killed = (row for row in rows if row["event"] == "gap")
    assert told["detail"].startswith(f"lost 60 rows: can't write to {bench.folder}")
    assert (told["request_at_us"], told["response_at_us"]) == (20_000, 79_000)
    assert [row["request_at_us"] >= 79_000 for row in killed] == [True] * is_killed


def test_a_word_of_losses_holds_no_longer_once_rows_tell_them(bench: Bench) -> None:
    bench.write([1])
    real, bench.free_bytes = bench.free_bytes, 1000
    bench.now_s = 2.0
    bench.write([2])
    bench.free_bytes = real
    bench.at(4.0)
    bench.leave()
    list(salvage(bench.place, bench.spool))
    assert sum(detail.startswith("lost 1 row:") for detail in gaps(read(bench.folder))) == 1


def test_a_journal_whose_end_has_no_room_was_ended_all_the_same(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    bench.write([1])
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        bench.journals.close()
    bench.leave()
    assert [one.killed for one in salvage(bench.place, bench.spool)] == [False]
    rows = read(bench.folder)
    assert (numbers(rows), gaps(rows)) == ([1], [])


def test_many_reasons_for_losses_are_one_where_the_room_is_short(bench: Bench) -> None:
    journal = Journal(bench.folder / ".x-000009.parquet.journal", {})
    journal.leave_word([("ö" * 300 + str(number), 2, 10 - number, 20 + number) for number in range(5)])
    with JournalReader(journal.path) as reader:
        ((reason, rows, first_us, last_us),) = reader.last_word().losses
    journal.remove()
    assert (reason, rows, first_us, last_us) == ("ö" * 200, 10, 6, 24)


def test_more_than_may_wait_for_the_recorder_is_lost_and_said(tmp_path: Path) -> None:
    bench = Bench(tmp_path, most_waiting_bytes=100_000)
    for start in range(0, 2000, 100):
        bench.now_s = start / 10
        bench.write(range(start, start + 100))
    lost = bench.journals.lost_rows
    assert 0 < lost < 2000
    assert sum(file.stat().st_size for file in tmp_path.rglob(".*.journal")) <= 100_000 + 1000
    assert FULL in str(bench.journals.error)
    bench.record()  # it lives after all
    bench.now_s += 10
    bench.write(range(2000, 2010))
    bench.close()
    rows = read(tmp_path)
    assert len(numbers(rows)) == 2010 - lost
    (gap,) = gaps(rows)
    assert gap.startswith(f"lost {lost} rows: can't write to {tmp_path}: {FULL}")


def test_a_write_that_fails_leaves_no_half_frame(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.write([1])
    real = os.write

    def torn(file: int, pieces: Sequence[bytes]) -> int:
        return real(file, b"".join(pieces)[:50])

    def full(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", torn)
        patched.setattr(os, "write", full)
        bench.write([2])
    assert "No space left on device" in str(bench.journals.error)
    bench.now_s = 2.0
    bench.write([3])
    bench.journals.close()
    bench.record()
    rows = read(bench.folder)
    assert numbers(rows) == [1, 3]
    assert gaps(rows) == [f"lost 1 row: can't write to {bench.folder}: No space left on device"]


@pytest.mark.parametrize("what", ["folder", "contents"])
def test_a_folder_that_is_deleted_is_made_anew_and_the_loss_told_once(
    what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "capture"
    bench = Bench(folder)
    bench.write(range(5))
    bench.record()
    for found in [folder] if what == "folder" else list(folder.iterdir()):
        shutil.rmtree(found)
    with caplog.at_level(logging.WARNING, "notleader.capture"):
        for number in range(5, 50):
            bench.write([number])
            bench.record()
    assert len(caplog.records) == 1
    assert "was deleted with 5 rows in it" in caplog.text
    assert bench.journals.lost_rows == 5
    bench.close()
    rows = read(folder)
    assert numbers(rows) == list(range(5, 50))
    (gap,) = (row for row in rows if row["event"] == "gap")
    assert gap["detail"] == "lost 5 rows: the capture's journal was deleted before its segment was made"
    assert (gap["request_at_us"], gap["response_at_us"]) == (0, 4000)
    assert not hidden_files(folder)
    assert not list(salvage(bench.place, folder))


def test_a_journal_that_waits_for_the_recorder_and_is_deleted_is_lost_too(bench: Bench) -> None:
    bench.write(range(5))
    bench.journals.rotate()
    (waiting,) = bench.journals.waiting
    waiting.unlink()
    bench.write([7])
    bench.journals.close()
    bench.record()
    assert (bench.journals.lost_rows, bench.journals.segments) == (5, 1)
    assert numbers(read(bench.folder)) == [7]
    assert len(gaps(read(bench.folder))) == 1


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="can't write the capture folder"):
        Bench(tmp_path / "file" / "below")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.EACCES, f"uid {os.geteuid()} may not write there"),
        (errno.EROFS, "mount a volume there"),
        (errno.ENOSPC, "make room there"),
        (errno.ENOTDIR, "a file is in its way"),
        (errno.EIO, "; name another folder"),
    ],
)
def test_what_to_do_where_it_cannot_be_written_is_said(
    code: int, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CaptureError, match=advice):
        Bench(tmp_path / "new")


def test_a_journal_is_for_its_owner_alone_to_read(bench: Bench) -> None:
    assert bench.journal.stat().st_mode & 0o777 == 0o600
