"""Whoever reads a capture while it is written gets each row once, the older segments before the growing one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.capture.reading import Capture, Follower
from tests.proxy.record.bench import Bench
from tests.proxy.record.entries import numbers


def put(recording: Bench, *sequence: int, finish: bool = False) -> None:
    recording.write(sequence)
    if finish:
        recording.rotate()


@pytest.mark.parametrize("read", [lambda capture: capture.rows(), lambda capture: Follower(capture).new()])
def test_finished_segments_come_before_the_growing_one(read: Callable[[Capture], Any], tmp_path: Path) -> None:
    recording = Bench(tmp_path)
    put(recording, 0, 1, finish=True)
    put(recording, 2)
    assert numbers(list(read(Capture(str(tmp_path))))) == [0, 1, 2]
    recording.close()


@pytest.mark.parametrize("follow", [False, True])
def test_a_segment_that_is_finished_while_it_is_looked_for_is_read_once(
    follow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Bench(tmp_path)
    put(recording, 0, finish=True)
    put(recording, 1)
    capture = Capture(str(tmp_path))
    follower = Follower(capture)
    growing = capture.growing

    def finished_meanwhile() -> Any:
        found = growing()
        recording.rotate()
        return found

    monkeypatch.setattr(capture, "growing", finished_meanwhile)
    assert numbers(list(follower.new() if follow else capture.rows())) == [0, 1]
    put(recording, 2)
    if follow:
        assert numbers(list(follower.new())) == [2]
    recording.close()
