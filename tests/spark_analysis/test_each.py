"""A Spark that starts before there is work for it: when, and that the work may come later. Without Spark."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from notleader.spark_analysis import each, resident


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each Spark that was started."""
    sparks: list[str] = []
    monkeypatch.setattr(each, "_own_spark", lambda at_end: sparks.append("spark"))
    return sparks


def test_it_starts_before_the_first_job_is_asked_for(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resident, "is_there", lambda: False)
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "off")

    def jobs() -> Iterator[str]:
        assert started == ["spark"]
        yield from ()

    assert each.main(jobs(), io.StringIO(), early=True) == 0


@pytest.mark.parametrize(("early", "stays"), [(True, True), (False, False)])
def test_it_does_not_where_one_stays_or_nobody_is_early(
    started: list[str], monkeypatch: pytest.MonkeyPatch, *, early: bool, stays: bool
) -> None:
    monkeypatch.setattr(resident, "is_there", lambda: stays)
    assert each.main(iter(()), io.StringIO(), early=early) == 0
    assert started == []


def test_it_leaves_one_behind_where_one_may_stay(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    monkeypatch.setattr(resident, "is_there", lambda: False)
    monkeypatch.setattr(resident, "start", lambda: left.append("spark"))
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "keep")
    assert each.main(iter(()), io.StringIO(), early=True) == 0
    assert (left, started) == (["spark"], [])


def test_where_none_can_be_left_it_has_one_of_its_own(started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unable() -> None:
        raise resident.UnavailableError("no folder for a socket")

    monkeypatch.setattr(resident, "is_there", lambda: False)
    monkeypatch.setattr(resident, "start", unable)
    monkeypatch.setenv("NOTLEADER_SPARK_WARM", "keep")
    assert each.main(iter(()), io.StringIO(), early=True) == 0
    assert started == ["spark"]


def test_the_jobs_may_come_later(tmp_path: Path) -> None:
    file, fresh = tmp_path / "jobs.jsonl", tmp_path / "jobs.part"
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.extend(each._lines(file)))
    reader.start()
    time.sleep(0.1)
    assert got == []
    fresh.write_text("one\ntwo\n")
    fresh.rename(file)
    reader.join(10)
    assert got == ["one", "two"]


def test_what_was_found_is_told_before_the_report_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()

    def by_resident(job: Any, size: int, judged: Callable[[list[Any]], None]) -> dict[str, Any]:
        judged([{"check": "lost"}])
        assert json.loads(told.getvalue()) == {"out": "there", "judged": [{"check": "lost"}]}
        return {"out": job["out"], "verdict": "invalid"}

    monkeypatch.setattr(each, "_checked", lambda job: 1)
    monkeypatch.setattr(each, "_by_resident", by_resident)
    assert each.main(['{"out": "there"}'], told) == 0
    assert [list(json.loads(line)) for line in told.getvalue().splitlines()] == [["out", "judged"], ["out", "verdict"]]
