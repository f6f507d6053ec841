"""The analysis finds what is true of real runs, names the rules that did it, and accuses nothing that is right.

A third of the scenarios is judged here as it was recorded, and a few are played; `make test-truth` plays all of them
(python -m tests.truth), and writes what came of it into docs/held-to-the-truth.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from notleader.spark_analysis.session import build_session
from tests.truth.catalogue import EVERY
from tests.truth.judging import analysed
from tests.truth.playing import play
from tests.truth.third import is_of_the_third, unpacked

pytestmark = pytest.mark.spark


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Any]:
    session = build_session(log_file=tmp_path / "spark.log")
    yield session
    session.stop()


def test_a_third_as_it_was_recorded(tmp_path: Path, spark: Any) -> None:
    played, missing = unpacked(filter(is_of_the_third, EVERY), tmp_path)
    assert not missing, f"play these and keep them (python -m tests.truth --no-judge --pack): {', '.join(missing)}"
    assert len(played) * 3 >= len(EVERY)
    judged = analysed(lambda: spark, played, tmp_path / "analyses", together=len(played))
    assert not judged.wrong, "\n".join(map(str, judged.wrong))


@pytest.mark.kafka
def test_the_few_of_the_fast_cut(tmp_path: Path, spark: Any) -> None:
    played, failed = play([scenario for scenario in EVERY if scenario.fast], tmp_path)
    assert not failed, "\n".join(failed)
    judged = analysed(lambda: spark, played, tmp_path / "analyses")
    # A machine that stands still for a second makes sends late that no rule touched. What is wrong is so once more.
    doubtful = {mark.scenario for mark in judged.wrong}
    anew, failed = play([scenario for scenario in EVERY if scenario.name in doubtful], tmp_path / "anew")
    assert not failed, "\n".join(failed)
    wrong = analysed(lambda: spark, anew, tmp_path / "analyses-anew").wrong if anew else []
    assert not judged.void + wrong, "\n".join([*judged.void, *map(str, wrong)])
    assert {mark.check for mark in judged.marks} > {"duplicate", "failed", "late", "lost", "retried"}
