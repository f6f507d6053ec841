"""The same recording to a folder, a file URL and a store that fsspec reaches; what can't be reached is said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from notleader.proxy.capture.limits import CaptureError, Limits
from notleader.proxy.capture.place import Place, open_place
from notleader.proxy.capture.reading import Capture
from notleader.proxy.capture.recording import Recording
from notleader.proxy.capture.segment import salvage
from tests.proxy.capture.entries import METADATA, maker, numbers, read, rows_of


def recorded(place: Place, spool: Path, *, kept: Limits | None = None) -> Recording:
    recording = Recording(place, place.spool(spool), maker(), METADATA, kept or Limits())
    recording.start()
    for number in range(3):
        recording.add(rows_of([number]))
        recording.rotate()
    assert recording.settle(20)
    return recording


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
    recording.add(rows_of([3]))
    recording.flush()
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
    recording = Recording(place, place.spool(tmp_path), maker(), METADATA, Limits())
    recording.start()
    recording.add(rows_of([7]))
    recording.flush()
    assert recording._journal is not None
    recording._journal.leave()
    (found,) = salvage(place, place.spool(tmp_path))
    assert found.path is not None
    assert numbers(list(Capture("memory://lake/killed", tmp_path).rows())) == [7]


def test_old_segments_of_a_remote_store_go_too(tmp_path: Path) -> None:
    place = open_place("memory://lake/old")
    recorded(place, tmp_path, kept=Limits(keep_bytes=1, rotate_s=0)).close()
    assert place.segments() == []


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
