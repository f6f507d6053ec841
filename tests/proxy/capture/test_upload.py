"""A remote store that is slow, or away, costs the recorder nothing until the spool is full; then the loss is told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.capture.limits import Limits
from notleader.proxy.capture.place import Place, open_place
from notleader.proxy.capture.reading import Capture
from notleader.proxy.capture.recording import Recording
from notleader.proxy.capture.segment import salvage
from tests.proxy.capture.entries import METADATA, gaps, hidden_files, maker, numbers, rows_of


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


def recording_to(place: Place, spool: Path, **limits: Any) -> Recording:
    made = Recording(place, place.spool(spool), maker(), METADATA, Limits(**limits))
    made.start()
    return made


def test_the_recorder_goes_on_while_a_segment_is_on_its_way(tmp_path: Path) -> None:
    place, store = slow_place("memory://lake/slow")
    recording = recording_to(place, tmp_path)
    for number in range(3):
        recording.add(rows_of([number]))
        recording.rotate()
    assert store.asked.wait(20)
    assert not recording.settle(0)
    assert recording.written_rows == 3
    store.let.set()
    assert recording.settle(20)
    recording.close()
    assert numbers(list(Capture("memory://lake/slow", tmp_path).rows())) == [0, 1, 2]
    assert recording.segments == 3
    assert not hidden_files(tmp_path)


def test_a_full_spool_loses_rows_and_says_so(tmp_path: Path) -> None:
    place, store = slow_place("memory://lake/full")
    recording = recording_to(place, tmp_path, spool_bytes=60_000)
    lost = 0
    for start in range(0, 2000, 100):
        recording.add(rows_of(range(start, start + 100)))
        recording.rotate()
        lost = recording.lost_rows
    assert lost
    assert recording.error is not None
    assert "the spool is full of what memory://lake/full did not take" in recording.error
    store.let.set()
    assert recording.settle(20)
    recording.rotate()
    recording.close()
    rows = list(Capture("memory://lake/full", tmp_path).rows())
    assert len(numbers(rows)) == 2000 - recording.lost_rows
    assert any("the spool is full" in gap for gap in gaps(rows))


def test_what_a_store_never_took_is_there_for_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("notleader.proxy.capture.recording._UPLOAD_GRACE_S", 0.2)
    place, store = slow_place("memory://lake/never")
    recording = recording_to(place, tmp_path)
    recording.add(rows_of([1]))
    recording.rotate()
    assert store.asked.wait(20)
    recording.add(rows_of([2]))
    recording.close()
    assert len([name for name in hidden_files(tmp_path) if name.endswith(".journal")]) == 2
    store.let.set()
    assert recording._uploads is not None
    recording._uploads._thread.join(20)
    found = salvage(open_place("memory://lake/never"), place.spool(tmp_path))
    assert [one.problem for one in found] == [None]
    rows = list(Capture("memory://lake/never", tmp_path).rows())
    assert sorted(numbers(rows)) == [1, 2]
