"""The same recording to a folder, a file URL and a store that fsspec reaches; what can't be reached is said."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.capture.reading import Capture
from notleader.proxy.record.limits import CaptureError, Limits
from notleader.proxy.record.rows import Level
from notleader.proxy.recorder.place import Place, open_place
from notleader.proxy.recorder.salvage import salvage
from tests.proxy.record.bench import Bench
from tests.proxy.record.entries import gaps, hidden_files, numbers, read


class SlowStore:
    """A filesystem that takes nothing until it is let."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.let = threading.Event()
        self.asked = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def open_output_stream(self, path: str) -> Any:
        if path.endswith(".parquet"):
            self.asked.set()
            assert self.let.wait(20)
        return self._inner.open_output_stream(path)


def slow_place(url: str) -> tuple[Place, SlowStore]:
    place = open_place(url)
    store = SlowStore(place.filesystem)
    return Place(place.shown, store, place.root, None, place.atomic), store


def recorded(place: Place, spool: Path, *, kept: Limits | None = None) -> Bench:
    bench = Bench(spool, kept, place)
    for number in range(3):
        bench.write([number])
        bench.rotate()
    return bench


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    recorded(open_place(folder.as_uri()), tmp_path / "spool").close()
    assert numbers(read(folder)) == [0, 1, 2]
    assert not (tmp_path / "spool").exists()


def test_a_remote_store_gets_whole_segments_and_the_spool_is_left_empty(tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    url = "memory://lake/captures"
    place = open_place(url)
    recording = recorded(place, spool)
    recording.write([3])
    capture = Capture(url, spool)
    # The growing one is seen too, from the spool.
    assert numbers(list(capture.rows())) == [0, 1, 2, 3]
    assert [one.state for one in capture.listed()] == ["finished"] * 3 + ["growing"]
    recording.close()
    assert [path for path in spool.rglob("*") if path.is_file()] == []
    assert numbers(list(Capture(url, spool).rows())) == [0, 1, 2, 3]
    assert [segment.run_id for segment in place.segments()] == ["run-1"] * 4


def test_what_a_killed_proxy_had_in_the_spool_is_sent_by_the_next_start(tmp_path: Path) -> None:
    place = open_place("memory://lake/killed")
    recording = Bench(tmp_path, place=place)
    recording.write([7])
    recording.leave()
    (found,) = salvage(place, place.spool(tmp_path))
    assert found.path is not None
    assert numbers(list(Capture("memory://lake/killed", tmp_path).rows())) == [7]


def test_a_segment_that_a_repair_of_the_spool_itself_made_is_sent_by_the_next_start(tmp_path: Path) -> None:
    place = open_place("memory://lake/astray")
    recording = Bench(tmp_path, place=place)
    recording.write([7])
    recording.leave()
    spool = place.spool(tmp_path)
    list(salvage(open_place(spool), spool))
    (spool / "date=2026-01-01/run=other").mkdir(parents=True)
    foreign = spool / "date=2026-01-01/run=other/table-000001.parquet"
    foreign.write_bytes(b"somebody else's")
    (found,) = salvage(place, spool)
    assert str(found).endswith(f"waited for its store: it is in {found.path} now")
    assert [path for path in spool.rglob("*") if path.is_file()] == [foreign]
    assert numbers(list(Capture("memory://lake/astray", tmp_path).rows())) == [7]


def test_a_segment_in_the_spool_stays_there_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = open_place("memory://lake/away")
    recorded(open_place(place.spool(tmp_path)), tmp_path).close()

    def away(*_: object) -> None:
        raise OSError("away")

    monkeypatch.setattr(Place, "put", away)
    assert {found.problem for found in salvage(place, place.spool(tmp_path))} == {"away"}
    assert len(open_place(place.spool(tmp_path)).segments()) == 3


def test_old_segments_of_a_remote_store_go_too(tmp_path: Path) -> None:
    place = open_place("memory://lake/old")
    recorded(place, tmp_path, kept=Limits(keep_bytes=1, rotate_s=0)).close()
    assert place.segments() == []


def test_the_recorder_goes_on_while_a_segment_is_on_its_way(tmp_path: Path) -> None:
    place, store = slow_place("memory://lake/slow")
    bench = Bench(tmp_path, place=place)
    for number in range(3):
        bench.write([number])
        bench.journals.rotate()
        for _ in range(10):
            bench.service.turn()
    assert store.asked.wait(20)
    assert (bench.journals.written_rows, len(bench.journals.waiting)) == (3, 3)
    store.let.set()
    bench.close()
    assert numbers(list(Capture("memory://lake/slow", tmp_path).rows())) == [0, 1, 2]
    assert bench.journals.segments == 3
    assert not hidden_files(tmp_path)


def test_what_a_store_never_took_is_there_for_the_next_start(tmp_path: Path) -> None:
    place, store = slow_place("memory://lake/never")
    bench = Bench(tmp_path, place=place)
    for number in range(2):
        bench.write([number])
        bench.journals.rotate()
    bench.service.turn()
    bench.leave()
    store.let.set()
    found = list(salvage(open_place("memory://lake/never"), place.spool(tmp_path)))
    assert [one.problem for one in found] == [None] * 3
    rows = list(Capture("memory://lake/never", tmp_path).rows())
    assert sorted(numbers(rows)) == [0, 1]
    assert len(gaps(rows)) == 1  # of the journal that was empty: nobody knows what did not reach it


def test_a_spool_is_never_larger_than_it_may_be_and_stops_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Journals and what is made of them together, and what another proxy left there."""
    most_bytes = 1 << 20
    place, store = slow_place("memory://lake/full")
    bench = Bench(tmp_path, place=place, level=Level.PAYLOAD, most_waiting_bytes=most_bytes)
    spool = place.spool(tmp_path)
    (spool / ".left.parquet.journal").write_bytes(bytes(100_000))
    with caplog.at_level(logging.WARNING, "notleader.capture"):
        for number in range(400):
            bench.at(number / 4)
            bench.write([number], request=os.urandom(10_000))
            bench.service.turn()
            assert sum(path.stat().st_size for path in spool.rglob("*") if path.is_file()) <= most_bytes
    (said,) = (record.getMessage() for record in caplog.records)
    assert "recording stopped" in said
    assert said.endswith("KiB of 1 MiB; it resumes when there is room")
    bench.at(200.0)  # nobody asks any more
    assert bench.journals.error is not None
    assert len(bench.journals.waiting) < 10

    lost = bench.journals.lost_rows
    store.let.set()
    bench.record()
    caplog.clear()
    with caplog.at_level(logging.WARNING, "notleader.capture"):
        for number in range(400, 440):
            bench.at(number / 4 + 200)
            bench.write([number], request=os.urandom(10_000))
            bench.record()
    (said,) = (record.getMessage() for record in caplog.records)
    assert said.endswith(f"{lost} rows were lost")
    bench.close()
    rows = list(Capture("memory://lake/full", tmp_path).rows())
    assert len(numbers(rows)) == 440 - lost
    assert [row["detail"].partition(":")[0] for row in rows if row["event"] == "gap"] == [f"lost {lost} rows"]


def test_two_places_share_no_spool(tmp_path: Path) -> None:
    first, second = open_place("memory://lake/a"), open_place("memory://lake/b")
    assert first.spool(tmp_path) != second.spool(tmp_path)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nosuch://x/y", "nosuch"),
        ("memory://", "name a bucket"),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(url: str, said: str) -> None:
    with pytest.raises(CaptureError) as raised:
        open_place(url)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_fsspec_the_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(CaptureError, match="pip install fsspec"):
        open_place("nosuch://x/y")


def test_secrets_of_a_url_are_not_shown() -> None:
    place = open_place("s3://key:secret@bucket/prefix?region=us-east-1")
    assert place.shown == "s3://bucket/prefix"


def test_there_is_nothing_to_read_at_a_place_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="there is nothing at"):
        Capture(str(tmp_path / "none"))
