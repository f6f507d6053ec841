"""Captures that can be read, and those that are refused with one line."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.io import read_captures
from notleader.spark_analysis.paths import SMALL_BYTES, InputError, check_paths, size_bytes
from notleader.spark_analysis.schemas import EXCHANGE, SchemaError
from notleader.spark_analysis.session import suit
from tests.proxy.recorder.test_segment import recorded

from .synthetic import EXCHANGE as WRITTEN
from .synthetic import Story


def test_missing_and_empty_folders_are_told_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        check_paths([str(tmp_path / "nowhere")], [])
    with pytest.raises(InputError, match=r"holds no \.parquet file"):
        check_paths([str(tmp_path)], [])
    (tmp_path / "capture").write_text("")
    with pytest.raises(InputError, match="is not a capture folder"):
        check_paths([str(tmp_path / "capture")], [])


def test_outcomes_that_no_file_matches_are_told_before_spark_starts(tmp_path: Path) -> None:
    pattern = str(tmp_path / "said-*.jsonl")
    with pytest.raises(InputError, match=re.escape(f"outcomes file {pattern} does not exist")):
        check_paths([], [pattern])
    check_paths([], [pattern], growing=True)  # they may come
    (tmp_path / "said-1.jsonl").write_text("")
    check_paths([], [pattern])
    # What only Hadoop can tell is left to it.
    check_paths([], [str(tmp_path / "said-{1,2}.json*"), f"{tmp_path}/said-[^2].jsonl"])


def test_remote_paths_are_left_to_spark(tmp_path: Path) -> None:
    check_paths(["s3a://bucket/capture"], ["s3a://bucket/said"])
    assert size_bytes([str(tmp_path)]) == 0
    # It may be of any size: no plan for a short run.
    assert size_bytes(["s3a://bucket/capture", str(tmp_path)]) > SMALL_BYTES


@pytest.mark.spark
def test_several_folders_runs_and_dates(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("1", "02"):
        story = Story(run_id=name)
        story.exchange(0, "Metadata")
        story.write(tmp_path / name)
    folders = [str(tmp_path / name / "capture") for name in ("1", "02")]
    both = read_captures(spark, folders)
    assert both.columns == [*EXCHANGE.fieldNames(), "touches"]
    assert both.count() == 2
    one = read_captures(spark, folders, runs=["02"], dates=["2025-06-15"])
    assert [row.run_id for row in one.collect()] == ["02"]
    # Files of other runs and days are not even opened; of a short run's table, kept in memory, no plan tells.
    suit(spark, 1 << 30)
    try:
        one = read_captures(spark, folders, runs=["02"], dates=["2025-06-15"])
    finally:
        suit(spark, 0)
    spark.conf.set("spark.sql.debug.maxToStringFields", "100")  # sessions of ours don't have plans written out
    pruned = re.findall(r"PartitionFilters: \[([^\]]*)\]", one._jdf.queryExecution().executedPlan().toString())
    spark.conf.set("spark.sql.debug.maxToStringFields", "0")
    assert len(pruned) == 2
    assert all("run" in filters and "date" in filters for filters in pruned)
    assert read_captures(spark, folders, dates=["2025-06-15"]).count() == 2
    assert read_captures(spark, folders, dates=["2025-06-16"]).count() == 0


@pytest.mark.spark
def test_a_run_whose_name_could_be_a_number_is_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would write that number out, in 361 million digits, and never come back."""
    for name in ("15e361470418", "007"):
        story = Story(run_id=name)
        story.exchange(0, "Metadata")
        story.write(tmp_path)
    rows = read_captures(spark, [str(tmp_path / "capture")], runs=["15e361470418"]).collect()
    assert [row.run_id for row in rows] == ["15e361470418"]


@pytest.mark.spark
def test_a_folder_within_a_capture_is_a_capture(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(run_id="7")
    story.exchange(0, "Metadata")
    story.write(tmp_path)
    (day,) = (tmp_path / "capture").iterdir()
    (run,) = day.iterdir()
    (segment,) = run.glob("*.parquet")
    for within in (day, run, segment):
        assert read_captures(spark, [str(within)], runs=["7"], dates=["2025-06-15"]).count() == 1
        assert read_captures(spark, [str(within)], runs=["8"]).count() == 0


@pytest.mark.spark
def test_another_type_or_a_missing_column_is_one_clear_line(spark: SparkSession, tmp_path: Path) -> None:
    rows = Story().exchange(0, "Metadata")
    table = pa.Table.from_pylist([rows], schema=WRITTEN)
    place = table.schema.get_field_index("error_code")
    pq.write_table(table.set_column(place, "error_code", pa.array(["six"])), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="column error_code is string, expected smallint") as error:
        read_captures(spark, [str(tmp_path)])
    assert "\n" not in str(error.value)
    pq.write_table(table.drop_columns(["outcome"]), tmp_path / "a.parquet")
    with pytest.raises(SchemaError, match="column outcome is missing"):
        read_captures(spark, [str(tmp_path)])
    pq.write_table(table.drop_columns(["seed", "detail"]), tmp_path / "a.parquet")
    assert read_captures(spark, [str(tmp_path)]).first().seed is None


@pytest.mark.spark
def test_a_segment_of_the_recorder_reads_as_its_rows_written_plainly(spark: SparkSession, tmp_path: Path) -> None:
    segment = recorded(tmp_path / "capture")
    table = pq.ParquetFile(segment).read()
    pq.write_table(table, tmp_path / "plain.parquet")
    ours, theirs = (spark.read.parquet(str(path)) for path in (segment, tmp_path / "plain.parquet"))
    assert ours.schema == theirs.schema
    assert ours.collect() == theirs.collect()
    assert read_captures(spark, [str(tmp_path / "capture")]).count() == table.num_rows


@pytest.mark.spark
def test_many_folders_are_one_scan(spark: SparkSession, tmp_path: Path) -> None:
    """Each folder a scan of its own made a plan that took Spark longer than the data; an odd one is a second scan."""
    folders = []
    for number in range(12):
        story = Story(run_id=f"r{number}")
        story.exchange(0, "Metadata")
        folders.append(str(story.write(tmp_path / str(number))[0]))
    rows = read_captures(spark, folders)
    assert {row.run_id for row in rows.collect()} == {f"r{number}" for number in range(12)}
    assert "Union" not in rows._jdf.queryExecution().toString()
    assert {row.run_id for row in read_captures(spark, folders, runs=["r3"]).collect()} == {"r3"}
    table = pa.Table.from_pylist(Story(run_id="old").exchanges or [Story().exchange(0, "Metadata")], schema=WRITTEN)
    (tmp_path / "plain").mkdir()
    pq.write_table(table.drop_columns(["seed"]), tmp_path / "plain/a.parquet")
    assert read_captures(spark, [*folders, str(tmp_path / "plain")]).count() == 13
