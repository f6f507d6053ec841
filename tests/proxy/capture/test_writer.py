"""The writer's thread: memory has a bound in rows and in bytes, and what goes beyond is told; readers live."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.capture.block import ROW_BYTES
from notleader.proxy.capture.filter import compile_filter
from notleader.proxy.capture.limits import Limits
from notleader.proxy.capture.place import open_place
from notleader.proxy.capture.quick import Quick
from notleader.proxy.capture.rows import Level, Row, Rows
from notleader.proxy.capture.writer import CaptureWriter
from tests.proxy.capture.entries import METADATA, PROXY, RUN, exchange, gaps, numbers, read


class SlowRows(Rows):
    """Makes no row until it is let."""

    def __init__(self) -> None:
        super().__init__(RUN, PROXY, 7, Level.HEADER)
        self.let = threading.Event()

    def of(self, entry: Any) -> Row:
        assert self.let.wait(10)
        return super().of(entry)


def writer_to(folder: Path, rows: Rows, **limits: Any) -> CaptureWriter:
    writer = CaptureWriter(rows, open_place(folder), metadata=METADATA, limits=Limits(), **limits)
    writer.start()
    return writer


def test_more_rows_than_may_wait_are_dropped_and_told(tmp_path: Path) -> None:
    rows = SlowRows()
    writer = writer_to(tmp_path, rows, max_pending_rows=10)
    for start in range(0, 40, 5):
        writer.write([exchange(number) for number in range(start, start + 5)])
    assert writer.queued_rows == 15
    assert writer.lost_rows == 25
    rows.let.set()
    writer.stop()
    found = read(tmp_path)
    assert numbers(found) == list(range(15))
    assert gaps(found) == ["lost 25 rows: the recorder could not keep up"]
    (gap,) = (row for row in found if row["event"] == "gap")
    assert (gap["request_at_us"], gap["response_at_us"]) == (15_000, 39_000)
    assert writer.queued_rows == writer.queued_bytes == 0


def test_large_frames_that_wait_are_bounded_in_bytes(tmp_path: Path) -> None:
    rows = SlowRows()
    writer = writer_to(tmp_path, rows, max_pending_bytes=3 << 20)
    for number in range(10):
        writer.write([exchange(number, response=b"x", response_bytes=1 << 20)])
    assert writer.queued_rows == 3
    assert writer.queued_bytes == 3 << 20
    # Without frames there is room still: rows alone are small.
    writer.write([exchange(10, response_bytes=1 << 20)])
    rows.let.set()
    writer.stop()
    assert numbers(read(tmp_path)) == [0, 1, 2, 10]
    assert writer.lost_rows == 7


def test_exchanges_that_the_loop_has_read_are_bounded_by_their_numbers_alone(tmp_path: Path) -> None:
    rows = SlowRows()
    quick = Quick(Level.HEADER, rows.topics)
    writer = writer_to(tmp_path, rows, quick=quick, max_pending_rows=10, max_pending_bytes=3 * 25 * ROW_BYTES + 100)
    taking = writer.taking
    assert taking is not None
    writer.write([exchange(0)])
    for start in range(1, 101, 25):
        assert all(taking.take(exchange(number)) for number in range(start, start + 25))
        writer.hand_over()
    assert (writer.queued_rows, writer.queued_bytes, writer.lost_rows) == (76, 3 * 25 * ROW_BYTES, 25)
    rows.let.set()
    writer.stop()
    found = read(tmp_path)
    assert numbers(found) == list(range(76))
    assert gaps(found) == ["lost 25 rows: the recorder could not keep up"]
    assert writer.queued_rows == writer.queued_bytes == 0


async def test_a_mark_and_a_rotation_are_on_disk_at_once(tmp_path: Path) -> None:
    writer = writer_to(tmp_path, Rows(RUN, PROXY, 7, Level.HEADER))
    writer.write([exchange(1)])
    writer.mark("here")
    await writer.rotate()
    assert [row["event"] for row in read(tmp_path)] == ["exchange", "mark"]
    assert writer.status()["segments"] == 1
    writer.stop()


async def test_a_rotation_that_fails_does_not_end_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = writer_to(tmp_path, Rows(RUN, PROXY, 7, Level.HEADER))
    with monkeypatch.context() as broken:
        broken.setattr("notleader.proxy.capture.recording.finish", lambda *_, **__: 1 / 0)
        writer.write([exchange(1)])
        await writer.rotate()
    assert "the capture failed to write" in caplog.text
    writer.write([exchange(2)])
    await writer.rotate()
    writer.stop()
    assert numbers(read(tmp_path)) == [1, 2]


async def test_who_asks_for_a_rotation_as_the_writer_stops_is_not_left_waiting(tmp_path: Path) -> None:
    writer = writer_to(tmp_path, Rows(RUN, PROXY, 7, Level.HEADER))
    writer.write([exchange(1)])
    writer.stop()
    async with asyncio.timeout(60):
        await writer.rotate()
    assert numbers(read(tmp_path)) == [1]


async def test_a_reader_gets_what_its_filter_accepts_and_a_gap_for_what_it_missed() -> None:
    writer = CaptureWriter(Rows(RUN, PROXY, 7, Level.HEADER), None)
    writer.start()
    with writer.subscribe(compile_filter("exchange_seq >= 5"), limit=3) as queue:
        writer.write([exchange(number) for number in range(10)])
        async with asyncio.timeout(60):
            while not queue.full():
                await asyncio.sleep(0.01)
            assert [queue.get_nowait()["exchange_seq"] for _ in range(3)] == [5, 6, 7]
            writer.write([exchange(10)])
            gap, row = await queue.get(), await queue.get()
    assert gap["event"] == "gap"
    assert gap["detail"] == "skipped 2 rows: this reader is too slow for the traffic"
    assert row["exchange_seq"] == 10
    writer.stop()


def test_a_row_that_cannot_be_made_costs_itself_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    writer = writer_to(tmp_path, Rows(RUN, PROXY, 7, Level.HEADER))
    broken: Any = object()
    writer.write([exchange(1), broken, exchange(2)])
    writer.stop()
    assert numbers(read(tmp_path)) == [1, 2]
    assert writer.lost_rows == 1
    assert gaps(read(tmp_path)) == ["lost 1 row: could not be made into rows (the log says why)"]
