"""What a journal says is what its segment says, whoever dies in between; one bad row costs itself alone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from notleader.proxy.capture.reading import Capture
from notleader.proxy.record.block import NONE, Block
from notleader.proxy.record.journal import JournalReader
from notleader.proxy.record.limits import Limits
from notleader.proxy.recorder.columns import IS_COMPILED
from notleader.proxy.recorder.following import Contents, Frame
from notleader.proxy.recorder.place import Place, open_place
from notleader.proxy.recorder.salvage import Salvaged, salvage
from tests.proxy.record.bench import Bench
from tests.proxy.record.blocks import block_of, expected, tables
from tests.proxy.record.entries import exchange, gaps, hidden_files, numbers, read
from tests.proxy.record.packing import Packer

KILLED = "lost an unknown number of rows: the proxy was killed; its last second, and what had no answer, may be missing"
UNMADE = "could not be made into rows (the log says why)"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.leave()


def flushed(bench: Bench, block: Block) -> int:
    """How long the journal became."""
    bench.put([], block)
    return bench.journal.stat().st_size


def test_a_block_becomes_the_rows_that_it_stands_for(bench: Bench) -> None:
    pointed_to = tables()
    for start in (0, 40):
        flushed(bench, block_of(pointed_to, range(start, start + 40)))
    growing = list(Capture(str(bench.spool)).rows(frames=True))
    bench.close()
    assert read(bench.spool) == growing == expected(block_of(pointed_to, range(80)))


def test_rows_and_blocks_of_one_frame_are_in_time_and_frames_in_order(bench: Bench) -> None:
    pointed_to = tables()
    for start in (200, 100):
        bench.put(
            [exchange(number) for number in range(start + 95, start + 99)]
            + [exchange(number, client_id="by itself") for number in (start + 5, start + 2)],
            block_of(pointed_to, range(start, start + 10)),
        )
    flushed(bench, block_of(pointed_to, range(10)))
    bench.write([500, 400])
    growing = list(Capture(str(bench.spool)).rows(frames=True))
    bench.close()
    mixed = [0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 9, 95, 96, 97, 98]
    assert numbers(growing) == [*(200 + n for n in mixed), *(100 + n for n in mixed), *range(10), 500, 400]
    assert read(bench.spool) == growing


@pytest.mark.skipif(not IS_COMPILED, reason="without the compiled part all rows are made by way of a table")
def test_rows_come_behind_the_numbers_of_frames_that_have_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notleader.proxy.recorder.following._WORTH_A_GROUP", 10)
    pointed_to = tables()
    tabled: list[int] = []
    table_of = Contents.table_of

    def counted(contents: Contents, frames: Sequence[Frame]) -> object:
        tabled.append(sum(frame.rows for frame in frames))
        return table_of(contents, frames)

    monkeypatch.setattr(Contents, "table_of", counted)
    for start in (200, 100):
        bench.put([exchange(start + 5), exchange(start + 2)], block_of(pointed_to, range(start, start + 10)))
    bench.put([exchange(1)], block_of(pointed_to, range(9)))
    bench.close()
    many = [*range(200, 210), *range(100, 110)]
    assert numbers(read(bench.spool)) == [*many, 0, 1, 1, *range(2, 9), 205, 202, 105, 102]
    assert tabled == [14]


def test_an_entry_is_told_once_to_each_journal(bench: Bench) -> None:
    pointed_to = tables("c" * 1000)
    bare = len(block_of(pointed_to, range(36)).numbers)
    first = flushed(bench, block_of(pointed_to, range(36)))
    second = flushed(bench, block_of(pointed_to, range(36, 72)))
    assert bare < second - first < bare + 100
    pointed_to.whos.append((9, "127.0.0.1:9", "bootstrap", None, "later", None, None, None))
    late = Block(pointed_to)
    Packer(late).put(4, 0, 72, 72, 72_000, NONE, NONE, 72_500, 1, 1, 0)
    assert len(late.numbers) < flushed(bench, late) - second < 400
    bench.rotate()
    flushed(bench, block_of(pointed_to, range(73, 76)))
    bench.close()
    found = read(bench.spool)
    assert numbers(found) == list(range(76))
    assert [row["client_id"][:5] for row in found[70:74]] == ["ccccc", "ccccc", "later", "ccccc"]


def test_blocks_that_point_into_other_tables_follow_in_the_same_journal(bench: Bench) -> None:
    names = ["first", "second", "third"]
    for start, name in enumerate(names):
        flushed(bench, block_of(tables(name), range(start * 12, start * 12 + 12)))
    bench.close()
    found = read(bench.spool)
    assert bench.journals.segments == 1
    assert found == [
        row
        for start, name in enumerate(names)
        for row in expected(block_of(tables(name), range(start * 12, start * 12 + 12)))
    ]


# ---- who dies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("turns", range(8))
def test_a_recorder_that_is_killed_at_any_step_costs_nothing_and_doubles_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    """The step in which it dies is the turn-th; what it had made by then lies there."""
    monkeypatch.setattr("notleader.proxy.recorder.following._ROW_GROUP_ROWS", 10)
    pointed_to = tables()
    for start in range(0, 60, 12):
        bench.put([exchange(1000 + start)], block_of(pointed_to, range(start, start + 12)))
    bench.journals.rotate()
    for start in range(60, 120, 12):
        bench.put([], block_of(pointed_to, range(start, start + 12)))
    for _ in range(turns):
        bench.service.turn()
    # A kill: nothing is closed or deleted in order.
    bench.service._followed.clear()
    bench.recorder()
    bench.journals.close()
    bench.record()
    found = read(bench.spool)
    assert sorted(numbers(found)) == sorted([*range(120), *range(1000, 1060, 12)])
    assert not gaps(found)
    assert not hidden_files(bench.spool)


def test_killed_between_the_last_two_steps_the_segment_is_there_and_the_journal_goes(bench: Bench) -> None:
    bench.write(range(3))
    bench.journals.rotate()
    (journal,) = bench.journals.waiting
    bench.record()
    journal.touch()  # cut to nothing, and not deleted yet
    bench.recorder()
    bench.record()
    assert numbers(read(bench.spool)) == [0, 1, 2]
    assert not journal.exists()


def test_what_a_dead_proxy_left_is_finished_with_a_gap_row(bench: Bench) -> None:
    bench.write(range(7))
    bench.record()
    assert bench.journals._journal is not None
    bench.journals._journal.leave()  # the kernel does that for the dead
    bench.journals._journal, bench.journals._is_open = None, False
    for followed in bench.service._followed.values():
        followed.lock_at_s = 0
    bench.record()
    rows = read(bench.spool)
    assert numbers(rows) == list(range(7))
    assert gaps(rows) == [KILLED]
    assert not hidden_files(bench.spool)


def test_the_gap_of_a_killed_proxy_begins_where_what_is_kept_ends(bench: Bench) -> None:
    bench.write(range(7))
    bench.rotate()
    began_us = time.time_ns() // 1000
    bench.write([100, 101])
    left(bench)
    found = list(salvage(bench.place, bench.spool))
    (gap,) = (row for row in read(bench.folder) if row["event"] == "gap")
    assert gap["detail"] == KILLED
    assert gap["request_at_us"] == 101_500
    assert began_us <= gap["response_at_us"] <= time.time_ns() // 1000
    assert [one.killed for one in found] == [True]


def test_the_gap_of_a_proxy_killed_before_it_wrote_begins_with_its_journal(bench: Bench) -> None:
    before_us = time.time_ns() // 1000
    bench.write(range(7))
    bench.rotate()
    bench.leave()
    salvaged(bench)
    (gap,) = (row for row in read(bench.folder) if row["event"] == "gap")
    assert before_us <= gap["request_at_us"] <= gap["response_at_us"]


def left(bench: Bench) -> Path:
    """The journal of a proxy and a recorder that both were killed."""
    journal = bench.journal
    bench.leave()
    return journal


def salvaged(bench: Bench) -> Salvaged:
    (found,) = salvage(bench.place, bench.spool)
    return found


@pytest.mark.parametrize("rows", [0, 7])
def test_salvage_finishes_what_both_left_and_says_so(bench: Bench, rows: int) -> None:
    if rows:
        bench.write(range(rows))
    left(bench)
    found = salvaged(bench)
    assert (found.rows, found.torn_bytes, found.problem) == (rows + 1, 0, None)
    saved = read(bench.folder)
    assert numbers(saved) == list(range(rows))
    assert gaps(saved) == [KILLED]
    assert not hidden_files(bench.folder)
    assert list(salvage(bench.place, bench.folder)) == []


def test_salvage_leaves_a_living_recording_alone(bench: Bench) -> None:
    bench.write(range(7))
    assert list(salvage(bench.place, bench.folder)) == []
    bench.close()
    assert numbers(read(bench.folder)) == list(range(7))


def test_a_proxy_that_ended_in_order_before_its_recorder_lost_nothing(bench: Bench) -> None:
    bench.write(range(7))
    bench.journals.close()
    bench.leave()
    assert "a proxy ended with 7 rows unfinished" in str(salvaged(bench))
    assert not gaps(read(bench.folder))


def test_a_frame_that_is_torn_or_changed_anywhere_is_dropped_alone(bench: Bench) -> None:
    pointed_to = tables()
    whole = flushed(bench, block_of(pointed_to, range(12)))
    bench.put([exchange(30)], block_of(pointed_to, range(12, 24)))
    end = bench.journal.stat().st_size
    journal = left(bench)
    content = journal.read_bytes()

    def read_rows() -> tuple[int, int]:
        with JournalReader(journal) as reader:
            return len(list(reader.frames())), reader.size_bytes - reader.read_bytes

    for kept in (*range(whole, end, 97), end - 1):
        journal.write_bytes(content[:kept])
        assert read_rows() == (1, kept - whole)
    for broken in range(whole, end, 97):
        journal.write_bytes(content[:broken] + bytes((content[broken] ^ 0xFF,)) + content[broken + 1 :])
        assert read_rows() == (1, end - whole)
    journal.write_bytes(content[: end - 24])
    found = salvaged(bench)
    assert (found.rows, found.torn_bytes) == (13, end - 24 - whole)
    rows = read(bench.folder)
    assert rows[:12] == expected(block_of(pointed_to, range(12)))
    assert "bytes of a half-written batch were dropped" in gaps(rows)[0]


@pytest.mark.parametrize(("broken", "read_rows"), [("between", 12), ("its beginning", 0)])
def test_a_damaged_journal_is_kept_and_what_could_not_be_read_is_counted(
    bench: Bench, broken: str, read_rows: int
) -> None:
    pointed_to = tables()
    flushed(bench, block_of(pointed_to, range(12)))
    begins = bench.journal.stat().st_size
    flushed(bench, block_of(pointed_to, range(12, 24)))
    flushed(bench, block_of(pointed_to, range(24, 29)))
    journal = left(bench)
    content = bytearray(journal.read_bytes())
    content[begins + 20 if broken == "between" else 3] ^= 0xFF
    journal.write_bytes(content)
    found = salvaged(bench)
    assert found.kept is not None
    assert found.kept.read_bytes() == bytes(content)
    assert f"kept as {found.kept}" in str(found)
    assert list(salvage(bench.place, bench.folder)) == []
    if read_rows:
        rows = read(bench.folder)
        assert rows[:read_rows] == expected(block_of(pointed_to, range(read_rows)))
        assert gaps(rows) == [f"{KILLED}; its journal is damaged: 5 more rows can't be read"]
    else:
        assert found.path is None


@pytest.mark.parametrize("content", [b"notleader journal 6\n", b"something else entirely, and long enough"])
def test_a_journal_without_anything_in_it_is_removed(tmp_path: Path, content: bytes) -> None:
    bench = Bench(tmp_path / "capture")
    journal = bench.journal.with_name(".x-000001.parquet.journal")
    bench.leave()
    journal.write_bytes(content)
    (found,) = (one for one in salvage(bench.place, bench.folder) if one.journal == journal)
    assert found.path is None
    assert not journal.exists()


@pytest.mark.parametrize("content", [b"", b"dear diary"])
@pytest.mark.parametrize("name", [".my.journal", "date=2026-01-01/run=mine/.notes.journal", ".my.journal.new"])
def test_somebody_elses_journal_is_left_alone(tmp_path: Path, name: str, content: bytes) -> None:
    journal = tmp_path / name
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_bytes(content)
    assert list(salvage(open_place(tmp_path), tmp_path)) == []
    assert journal.read_bytes() == content


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 7])
def test_a_journal_of_another_version_stays(bench: Bench, version: int) -> None:
    left(bench).unlink()
    journal = bench.folder / ".x-000001.parquet.journal"
    journal.write_bytes(b"notleader journal %d\n" % version + bytes(100))
    assert "another version" in str(salvaged(bench).problem)
    assert journal.exists()


# ---- what is odd --------------------------------------------------------------------------------


def test_text_that_is_no_utf8_costs_nobody_else_anything(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are made of whole groups still, whatever some client calls its topics."""
    calls: list[int] = []
    from notleader.proxy.recorder import following

    real = following.table_of_packed
    monkeypatch.setattr(following, "table_of_packed", lambda *given: calls.append(1) or real(*given))
    pointed_to = tables("bad\udcff")
    pointed_to.templates[0] = ("\udcff\udcfe", *pointed_to.templates[0][1:])
    for start in range(0, 120, 12):
        bench.put([exchange(1000 + start, client_id="raw\udcff")], block_of(pointed_to, range(start, start + 12)))
    bench.close()
    found = read(bench.folder)
    assert sorted(numbers(found)) == sorted([*range(120), *range(1000, 1120, 12)])
    assert {row["client_id"] for row in found} == {"bad?", "raw?"}
    assert "??" in {part["topic"] for row in found for part in row["partitions"] or ()}
    assert len(calls) == 1
    assert not gaps(found)


def test_a_row_that_cannot_be_made_costs_itself_alone(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.put([exchange(1), exchange(2, api_key=1 << 20), exchange(3)])
    bench.put([exchange(4)])
    bench.close()
    assert numbers(read(bench.folder)) == [1, 3, 4]
    assert gaps(read(bench.folder)) == [f"lost 1 row: {UNMADE}"]
    assert caplog.text.count("could not be made") == 1


def test_a_frame_of_nonsense_costs_itself_alone(bench: Bench) -> None:
    bench.write([1])
    journal = bench.journals._journal
    assert journal is not None
    journal._frame(ord("R"), [b"what is this?"])
    journal._frame(ord("R"), [bytes(16) + b"\xff" * 40])
    bench.write([2])
    bench.close()
    assert numbers(read(bench.folder)) == [1, 2]
    assert gaps(read(bench.folder)) == [f"lost 2 rows: {UNMADE}"]


def test_a_segment_that_cannot_be_put_in_place_waits_and_nothing_is_lost(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unreachable(*_: object) -> None:
        raise OSError("the store is away")

    real = Place.put
    monkeypatch.setattr(Place, "put", unreachable)
    monkeypatch.setattr("notleader.proxy.recorder.service._RETRY_S", 0.0)
    for start in range(0, 30, 10):
        bench.write(range(start, start + 10))
        bench.journals.rotate()
        for _ in range(10):
            bench.service.turn()
    assert caplog.text.count("can't finish a segment") == 1
    assert b'"problem": "the capture can' in bench.heard()
    monkeypatch.setattr(Place, "put", real)
    bench.record()
    assert numbers(read(bench.folder)) == list(range(30))
    assert b'"problem": null' in bench.heard()
    assert bench.journals.lost_rows == 0


@pytest.mark.parametrize(
    ("limits", "kept"), [(Limits(keep_s=100), [2, 3]), (Limits(keep_bytes=1), []), (Limits(), [0, 1, 2, 3])]
)
def test_old_segments_go_by_age_and_by_size(tmp_path: Path, limits: Limits, kept: list[int]) -> None:
    bench = Bench(tmp_path)
    for number in range(4):
        bench.write([number])
        bench.rotate()
    for number, segment in enumerate(bench.place.segments()):
        if number < 2:
            os.utime(tmp_path / segment.path, (1_000_000 + number, 1_000_000 + number))
    bench.limits = limits
    bench.recorder()._keep()
    bench.close()
    assert numbers(read(tmp_path)) == kept


@pytest.mark.parametrize("is_told", [True, False])
def test_what_is_to_be_kept_holds_once_the_recorder_has_ended(tmp_path: Path, is_told: bool) -> None:
    """However lately it had looked, and whether it was told to end or its proxy is gone."""
    bench = Bench(tmp_path)
    bench.limits = Limits(keep_bytes=1)
    service = bench.recorder()
    service._job["rotate_s"] = 1000
    for number in range(3):
        bench.write([number])
        bench.rotate()
    assert len(bench.place.segments()) == 2
    bench.write([3])
    bench.journals.close()
    if is_told:
        bench._socks[-2].sendall(b'"finish"\n')
    else:
        bench._socks[-2].close()
        bench.journals.leave()
    service.run()
    bench.leave()
    assert bench.place.segments() == []


FOREIGN = [
    "sales.parquet",
    "other/deep/sales-000001.parquet",
    "date=2020-01-01/run=mine/x.parquet",
    "date=2020-01-01/run=mine/x-000001.parquet",
    "date=2020-01-01/run=mine/text-000001.parquet",
]


@pytest.mark.parametrize("limits", [Limits(keep_s=100), Limits(keep_bytes=1)])
def test_only_segments_of_ones_own_kind_go(tmp_path: Path, limits: Limits) -> None:
    """Not what other programs keep below the same folder, nor a capture that was copied deeper into it."""
    bench = Bench(tmp_path)
    bench.write([1])
    bench.rotate()
    (segment,) = bench.place.segments()
    copy = tmp_path / "kept" / segment.path
    copy.parent.mkdir(parents=True)
    shutil.copy(tmp_path / segment.path, copy)
    for name in FOREIGN:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if "text" in name:
            path.write_text("precious")
        else:
            pq.write_table(pa.table({"amount": [1, 2]}), path)
    for path in tmp_path.rglob("*.parquet"):
        os.utime(path, (1_000_000, 1_000_000))
    bench.limits = limits
    service = bench.recorder()
    service._keep()
    service._keep_at_s = 0
    service._keep()
    bench.leave()
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")}
    assert left == {*FOREIGN, f"kept/{segment.path}"}


def test_many_errors_are_told_once_for_each_answer(bench: Bench) -> None:
    """Those of shapes that only the recorder has read, and of exchanges that came whole."""
    import json

    from notleader.proxy.record.block import Tables, Unread
    from notleader.proxy.record.rows import Level
    from notleader.proxy.wire.names import ApiKey
    from tests.proxy.session.conversation import request, response

    bench.leave()
    bench = Bench(bench.folder / "errors", level=Level.PARTITION)
    asked = request(ApiKey.Heartbeat, 4, 1, {"group_id": "g"})[4:]
    answered = response(ApiKey.Heartbeat, 4, 1, {"error_code": 27})[4:]
    whole = exchange(1, api_key=12, api_version=4, request=asked, response=answered)
    shapes = Tables()
    shapes.whos.append((1, "127.0.0.1:1", "bootstrap", None, "c", None, None, None))
    shapes.whats.append(Unread(whole, "Heartbeat", asked, answered))
    block = Block(shapes)
    packer = Packer(block)
    for number in range(2, 5):
        packer.put(0, 0, number, number, 1, 1, 2, 2, 30, 30, 0)
    bench.put([whole], block)
    bench.record()
    said = [json.loads(line) for line in bench.heard().splitlines()]
    assert [one["errors"] for one in said if one.get("errors")] == [[[12, 27, 4]]]
    bench.close()
    found = read(bench.folder)
    assert [(row["api_name"], row["error_code"], row["group_id"]) for row in found] == [("Heartbeat", 27, "g")] * 4


def test_a_journal_is_on_the_disk_itself_within_half_a_second(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    bench.write([1])
    bench.record()
    bench.service._tick()
    assert len(synced) == 1
    bench.service._sync_at_s = 0
    bench.service._tick()
    assert len(synced) == 1, "nothing new"
    bench.write([2])
    bench.service._sync_at_s = 0
    bench.service._tick()
    assert len(synced) == 2
