"""One Spark session for all tests of the analysis, and a short way from a story to its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from notleader.spark_analysis.checks import Tables
from notleader.spark_analysis.findings import Finding, find
from notleader.spark_analysis.io import read_captures, read_logs
from notleader.spark_analysis.jobs.analyze import build_tables, exchanges_of, explained
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.outcomes import good, read_outcomes
from notleader.spark_analysis.paths import SMALL_BYTES
from notleader.spark_analysis.profile import profile_capture, profile_outcomes
from notleader.spark_analysis.session import build_session, suit
from notleader.spark_analysis.transforms.log import as_log, unjudged

from .synthetic import Story

Built = tuple[Tables, list[Finding]]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A `local[1]` session, quiet, for the whole test run.

    It plans for short runs, and hundreds of them: to this Java the optimising compiler is worth its cost.
    """
    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    session = build_session("local[1]", input_bytes=SMALL_BYTES + 1, log_file=log_file)
    suit(session, 0)
    yield session
    session.stop()


def tables_of(spark: SparkSession, folder: Path, story: Story, options: Options) -> Tables:
    """The tables of a story's analysis, the history computed once; `folder` is empty."""
    capture_folder, outcomes_file = story.write(folder)
    raw = read_captures(spark, [str(capture_folder)])
    read_outcomes(spark, [str(outcomes_file)]).write.parquet(str(folder / "operations"))
    told = spark.read.parquet(str(folder / "operations"))
    capture = profile_capture(raw)
    log = None
    if story.log:
        runs = tuple(run for run, _, _ in capture.runs)
        log = as_log(read_logs(spark, [str(folder / "log")]), runs, by_run=options.by_run)
    exchanges = exchanges_of(raw, capture, options)
    tables = build_tables(exchanges, good(told), capture, profile_outcomes(told), options, log)
    tables.history.write.parquet(str(folder / "history"))
    history = spark.read.parquet(str(folder / "history"))
    left = unjudged(history, tables.delivered) if log is not None or tables.outcomes.polled else None
    tables = replace(tables, history=history, unjudged=left)
    return explained(tables, options, str(folder / "causes"))


@pytest.fixture(scope="session")
def build(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tables]:
    """story, options → the tables of its analysis."""

    def built(story: Story, options: Options) -> Tables:
        return tables_of(spark, tmp_path_factory.mktemp("story"), story, options)

    return built


@pytest.fixture(scope="session")
def analyse(build: Callable[..., Tables]) -> Callable[..., Built]:
    """story, options → (tables, findings)."""

    def analysed(story: Story, options: Options) -> Built:
        tables = build(story, options)
        return tables, find(tables, options)

    return analysed


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    """A small frame as dicts."""
    return [row.asDict(recursive=True) for row in frame.collect()]


def path_of(folder: Path) -> str:
    return str(folder)
