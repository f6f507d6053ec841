"""What keeps a large analysis in bounds: no Python in its plans, and generated captures with skew judged rightly."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.analysis.generate import generate
from benchmarks.analysis.question import ask_duckdb, ask_spark
from notleader.spark_analysis.checks import Tables, all_checks
from notleader.spark_analysis.findings import cases, grouped
from notleader.spark_analysis.jobs.analyze import analyze, draw
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import SMALL_BYTES
from notleader.spark_analysis.session import shuffle_partitions
from notleader.spark_analysis.transforms import timeline

from .synthetic import Story, incident

pytestmark = pytest.mark.spark


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toString())


def test_no_python_runs_in_any_plan(build: Callable[[Story, Options], Tables]) -> None:
    tables = build(incident(120), Options())
    frames = {
        "exchanges": tables.exchanges,
        "operations": tables.operations,
        "attempts": tables.attempts,
        "delivered": tables.delivered,
        "history": tables.history,
        "findings": grouped(cases(tables, Options(), all_checks())),
        "traffic": timeline.traffic(tables.exchanges, 0, 1000),
        "faults": timeline.fault_hits(tables.exchanges, 0, tables.end_us, 1000),
        "outcomes": timeline.outcomes_over_time(tables.history, 0, 1000),
        "clients": timeline.clients(tables.history, tables.delivered),
        "spread": timeline.latency_spread(tables.history),
        "matched": timeline.matched(tables.history),
    }
    python = re.compile(r"Python|Pandas|InArrow|ArrowEval")
    assert {name for name, frame in frames.items() if python.search(plan(frame))} == set()


def test_what_the_report_draws_is_bounded_however_many_exchanges_there_are(
    build: Callable[[Story, Options], Tables],
) -> None:
    few, many = (draw(build(incident(messages), Options())) for messages in (120, 1200))
    series = {(row["api_name"], row["node_id"], row["client"]) for row in many.traffic}
    assert len(many.traffic) <= timeline.MOST_BINS * len(series)
    assert len(many.outcomes) <= timeline.MOST_BINS
    assert len(many.clients) == len(few.clients)


def test_a_generated_capture_with_a_hot_partition_and_a_chatty_client_is_judged_as_planted(
    spark: SparkSession, tmp_path: Path
) -> None:
    capture, outcomes = str(tmp_path / "capture"), str(tmp_path / "outcomes")
    planted = generate(6000, capture, outcomes, lost_every=500, doubled_every=700)
    assert planted.lost > 0
    assert planted.doubled > 0
    told = {(r.client_id, r.partition): r["count"] for r in _records(spark, capture).collect()}
    assert sum(n for (_, p), n in told.items() if p == 0) > sum(told.values()) * 0.4
    assert sum(n for (c, _), n in told.items() if c == "chatty") > sum(told.values()) * 0.3
    analysis = analyze(spark, [capture], [outcomes], str(tmp_path / "out"), Options())
    counts = {finding.check: 0 for finding in analysis.findings}
    for finding in analysis.findings:
        counts[finding.check] += finding.count
    assert (counts["retried"], counts["lost"], counts["duplicate"]) == (planted.retried, planted.lost, planted.doubled)
    assert analysis.capture.exchanges == planted.exchanges
    answer = ask_spark(spark, capture, outcomes)
    assert answer == ask_duckdb(capture, outcomes, threads=2, memory="1g")
    assert answer["sends"] == asdict(planted)["sends"]
    assert (answer["retried"], answer["lost"], answer["twice"]) == (planted.retried, planted.lost, planted.doubled)


def _records(spark: SparkSession, capture: str) -> DataFrame:
    produce = spark.read.parquet(capture).filter("api_name = 'Produce'")
    return produce.selectExpr("client_id", "partitions[0].partition_index as partition").groupBy(
        "client_id", "partition"
    ).count()  # fmt: skip


def test_a_shuffle_is_cut_by_the_size_of_the_input() -> None:
    assert shuffle_partitions(1000, local=True) == 1
    assert shuffle_partitions(10 << 30, local=True) == 640
    assert shuffle_partitions(1000, local=False) == 1
    assert shuffle_partitions(SMALL_BYTES + 1, local=False) == 16
    assert shuffle_partitions(10 << 40, local=False) == 2000
