"""A day of a lake is judged by itself, replaces itself, and lies beside the others as the page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from notleader.spark_analysis.jobs.analyze import analyze
from notleader.spark_analysis.options import Options

from .synthetic import Story

pytestmark = pytest.mark.spark

_PAGE = Path(__file__).resolve().parents[2] / "docs" / "analysis-at-scale.md"
_DAYS = {"2025-06-15": 3, "2025-06-16": 2}


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """`capture` of two days and `said`, by day."""
    for day, sends in _DAYS.items():
        story = Story(run_id=f"of-{day}")
        for number in range(sends):
            story.produce(number, message_ids=[f"m{number}"], base_offset=number)
            story.send(number, f"m{number}", offset=number)
        capture, said = story.write(tmp_path / day)
        (tmp_path / "said" / f"date={day}").mkdir(parents=True)
        shutil.move(said, tmp_path / "said" / f"date={day}" / "p.jsonl")
        (tmp_path / "capture").mkdir(exist_ok=True)
        shutil.move(capture / "date=2025-06-15", tmp_path / "capture" / f"date={day}")
    return tmp_path


def test_days_are_judged_one_by_one_and_read_together(spark: SparkSession, lake: Path) -> None:
    for day in (*_DAYS, "2025-06-16"):
        judged = analyze(
            spark, [f"{lake}/capture"], [f"{lake}/said/date={day}"], f"{lake}/verdicts/date={day}",
            Options(by_run=True), dates=[day],
        )  # fmt: skip
        assert judged.capture.exchanges == _DAYS[day]
        assert judged.drawn.matched["message_id"] == _DAYS[day]
    # What clients said in the other run is no part of it.
    of_one = analyze(
        spark, [f"{lake}/capture"], [f"{lake}/said"], f"{lake}/of-one", Options(), runs=["of-2025-06-16"]
    )  # fmt: skip
    assert (of_one.verdict, of_one.outcomes.sends) == ("valid", _DAYS["2025-06-16"])
    (line,) = re.findall(r"^spark\.read\.option\(\"basePath\".*$", _PAGE.read_text(), re.MULTILINE)
    history: DataFrame = eval(line.replace("s3a://bucket", str(lake)), {"spark": spark})
    assert {row["date"]: row["count"] for row in history.groupBy("date").count().collect()} == _DAYS
    (query,) = re.findall(r"^rows = duckdb\.sql\(\"(.*)\"\)$", _PAGE.read_text(), re.MULTILINE)
    query = query.replace("2026-03-01", "2025-06-16").replace("verdicts/", f"{lake}/verdicts/")
    rows = duckdb.sql(query)
    assert rows.columns == [*(name for name in history.columns if name != "date"), "date"]
    assert [row[-1] for row in rows.fetchall()] == ["2025-06-16"] * 2
