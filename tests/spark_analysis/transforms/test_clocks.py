"""A client's clock that is wrong by seconds or an hour changes no verdict, and is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.jobs.analyze import Analysis, analyze
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story, incident

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
TIMES = ("called_at_us", "returned_at_us", "completed_at_us")


def judged(spark: SparkSession, folder: Path, story: Story) -> Analysis:
    capture, said = story.write(folder)
    return analyze(spark, [str(capture)], [str(said)], str(folder / "out"), Options())


def told(analysis: Analysis) -> list[tuple[Any, ...]]:
    """What was found, with how long it took to a tenth of a second."""
    return sorted(
        (f.check, f.verdict, f.count, f.group and (f.group.client, f.group.rule, f.group.trouble))
        for f in analysis.findings
    )


def wrong_by(ahead_us: int) -> Story:
    """The run with one of everything, whose clients' clocks are that far ahead."""
    story = incident()
    for fetch in (row for row in story.exchanges if row["api_name"] == "Fetch"):
        fetch["partitions"] = []
    for row in story.outcomes:
        row.update({name: row[name] + ahead_us for name in TIMES if row.get(name) is not None})
    return story


@pytest.fixture(scope="module")
def right(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return judged(spark, tmp_path_factory.mktemp("right"), wrong_by(0))


@pytest.mark.parametrize("ahead_us", [HOUR_US, -5_000_000])
def test_a_wrong_clock_changes_no_verdict_and_is_told(
    spark: SparkSession, tmp_path: Path, right: Analysis, ahead_us: int
) -> None:
    wrong = judged(spark, tmp_path, wrong_by(ahead_us))
    assert right.clocks == ()
    assert told(wrong) == told(right)
    by_client = {clock.client: clock.ahead_us for clock in wrong.clocks}
    # The messages bound it to the time between a call and its request, and an answer and its completion.
    assert by_client["app"] == pytest.approx(ahead_us, abs=2000)
    # Nothing of the reader's was seen; what is in one file is of one machine.
    assert wrong.drawn.last_us - wrong.drawn.first_us < 60_000_000


def test_a_latency_is_never_a_difference_of_two_clocks(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.produce(0, message_ids=["m0"], base_offset=0, took_ms=7)
    # A verifiable client says when it was told, and not when it called.
    story.send(9000, "m0", offset=0, called_at_us=None, returned_at_us=None)
    judged(spark, tmp_path, story)
    (row,) = spark.read.parquet(str(tmp_path / "out" / "history")).collect()
    assert row.latency_us == 7000


def test_a_clock_that_was_set_back_is_told_and_not_corrected_by_half(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    for number in range(20):
        story.produce(100 * number + 0.2, message_ids=[f"m{number}"], base_offset=number)
        story.send(100 * number - (30_000 if number >= 10 else 0), f"m{number}", offset=number)
    (clock,) = judged(spark, tmp_path, story).clocks
    assert clock.ahead_us == 0
    assert clock.set_by_us == pytest.approx(30_000_000, abs=5000)
