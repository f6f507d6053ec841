"""What kills every recorder that meets it does so a few times, costs itself alone, and is said."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.recorder.following import DEADLY, Contents
from notleader.proxy.recorder.segment import Segment
from notleader.proxy.recorder.tries import TOGETHER, Tries
from tests.proxy.record.bench import Bench
from tests.proxy.record.blocks import block_of, tables
from tests.proxy.record.entries import exchange, gaps, hidden_files, numbers, read

POISON = 500
# A recorder that the kernel ends wherever a frame with the poisonous exchange is made into columns.
DIES = f"""
import os, signal, sys
from pathlib import Path
from notleader.proxy.recorder.following import Contents
from notleader.proxy.recorder.place import open_place
from notleader.proxy.recorder.salvage import salvage
real = Contents.table_of
def deadly(self, frames):
    table = real(self, frames)
    if {POISON} in table["exchange_seq"].to_pylist():
        os.kill(os.getpid(), signal.SIGSEGV)
    return table
Contents.table_of = deadly
for found in salvage(open_place(sys.argv[1]), Path(sys.argv[1])):
    print(found)
"""


class Death(BaseException):
    """Nobody catches it, as nobody catches a signal."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.leave()


def poisoned(bench: Bench) -> None:
    pointed_to = tables()
    bench.put([], block_of(pointed_to, range(12)))
    bench.put([exchange(POISON), exchange(POISON + 1)], block_of(pointed_to, range(20, 26)))
    bench.put([exchange(100)], block_of(pointed_to, range(30, 36)))


def all_but_the_poisonous(bench: Bench) -> None:
    found = read(bench.spool)
    assert sorted(numbers(found)) == [*range(12), *range(30, 36), 100]
    assert gaps(found) == [f"lost 8 rows: {DEADLY}"]
    assert not hidden_files(bench.spool)


def deaths(bench: Bench) -> int:
    """How many recorders die before the journal is a segment."""
    for number in range(20):
        try:
            bench.record()
        except Death:
            bench.recorder()
        else:
            return number
    raise AssertionError("they die for ever")


def test_a_frame_that_kills_is_left_out_after_a_few_deaths(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Contents.table_of

    def deadly(self: Contents, frames: Any) -> Any:
        table = real(self, frames)
        if POISON in table["exchange_seq"].to_pylist():
            raise Death
        return table

    monkeypatch.setattr(Contents, "table_of", deadly)
    poisoned(bench)
    bench.journals.close()
    assert deaths(bench) == TOGETHER + 2
    all_but_the_poisonous(bench)


def test_a_segment_that_kills_when_it_is_ended_becomes_a_gap_row(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Segment.close

    def deadly(self: Segment) -> None:
        if self._rows > 1:
            raise Death
        real(self)

    monkeypatch.setattr(Segment, "close", deadly)
    poisoned(bench)
    bench.journals.close()
    assert deaths(bench) == TOGETHER + 2
    assert gaps(read(bench.spool)) == [f"lost 27 rows: {DEADLY}"]
    assert not hidden_files(bench.spool)


def test_a_segment_that_cannot_be_made_is_tried_frame_by_frame_by_the_same_recorder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Contents.table_of

    def failing(self: Contents, frames: Any) -> Any:
        table = real(self, frames)
        if POISON in table["exchange_seq"].to_pylist():
            raise RuntimeError("no")
        return table

    monkeypatch.setattr(Contents, "table_of", failing)
    poisoned(bench)
    bench.journals.close()
    for _ in range(TOGETHER + 3):
        bench.record()
        for followed in bench.service._followed.values():
            followed.retry_at_s = 0
    all_but_the_poisonous(bench)


def test_recorders_that_the_kernel_ends(bench: Bench) -> None:
    poisoned(bench)
    bench.leave()
    died = 0
    while True:
        ended = subprocess.run([sys.executable, "-c", DIES, str(bench.spool)], capture_output=True, text=True)
        if not ended.returncode:
            break
        assert ended.returncode < 0, ended.stderr
        died += 1
        assert died < 20
    assert died == TOGETHER + 2
    assert "are in" in ended.stdout
    found = read(bench.spool)
    assert sorted(numbers(found)) == [*range(12), *range(30, 36), 100]
    assert f"lost 8 rows: {DEADLY}" in gaps(found)
    assert not hidden_files(bench.spool)


def test_one_that_is_ended_in_order_counts_for_nothing(bench: Bench) -> None:
    poisoned(bench)
    for _ in range(TOGETHER + 2):
        bench.service.turn()
        bench.service.drop()
        bench.recorder()
    assert Tries(bench.journal).times == 1
    bench.close()
    assert len(read(bench.spool)) == 27


def test_a_full_disk_leaves_no_half_written_count(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.write_text

    def torn(path: Path, text: str, encoding: str) -> int:
        real(path, text[:5], encoding)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", torn)
    Tries(bench.journal)
    assert not [name for name in hidden_files(bench.spool) if "tries" in name]
