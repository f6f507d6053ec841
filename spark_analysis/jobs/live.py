"""The analysis while the test still runs: one stream of captured segments and outcome lines, judged batch by batch.

What Spark streams is the reading: each segment and each line once, by the checkpoint below `out`/live. A batch's rows
are written to a folder of the batch's own number, so a batch that is repeated after a kill replaces what it had written
and nothing is lost or counted twice. Almost every question needs the whole history (a commit names an older offset, a
retry may come after minutes, a consumer reads late), so after each batch the transforms and checks of `analyze` are
asked again of all that has been read so far; the time for that grows with the recording, and batches grow with it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis import tail
from notleader.spark_analysis.jobs.analyze import Analysis, Progress, judge
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.outcomes import BadLine, bad_line, last_word, said, set_aside
from notleader.spark_analysis.paths import InputError, is_local, local_path, size_bytes
from notleader.spark_analysis.plans import from_nowhere, gathered, let_go, settled
from notleader.spark_analysis.profile import OutcomeProfile, profile_capture
from notleader.spark_analysis.schemas import EXCHANGE, OPERATION
from notleader.spark_analysis.session import suit
from notleader.spark_analysis.transforms.attempts import with_touches

SEGMENTS_PER_BATCH = 1000
_WAIT_US = 10_000_000
_BAD_LINES = "file string, at_byte long, text string, reason string"


def watch(
    spark: SparkSession,
    captures: Sequence[str],
    outcome_files: Sequence[str],
    out: str,
    options: Options,
    *,
    every_s: float,
    ended: threading.Event,
    judged: Callable[[Analysis], None],
    progress: Progress = lambda _: None,
) -> None:
    """Judge again whenever something new was recorded, at most every `every_s`, until `ended`; then once more.

    `judged` is handed each analysis, and the last one after everything that was there at the end. What was read before
    an interruption is kept below `out`/live and not read again. Whatever stops the stream is raised.

    A client tells at once, a proxy when a segment is full: until then what was sent is nowhere. So what clients say of
    the time behind the last captured row waits for that, no longer than ten seconds.
    """
    whole = False

    def take(batch: DataFrame, number: int) -> None:
        nonlocal whole
        started = time.monotonic()
        progress(f"reading batch {number}")
        _keep(spark, batch, number, f"{out}/live")
        whole = ended.is_set()
        _judge_all(spark, out, options, judged, progress, started, None if whole else time.time_ns() // 1000 - _WAIT_US)

    query = (
        _recorded(spark, captures, outcome_files)
        .writeStream.option("checkpointLocation", f"{out}/live/checkpoint")
        .trigger(processingTime=f"{int(every_s * 1000)} milliseconds")
        .foreachBatch(take)
        .start()
    )
    try:
        while not ended.wait(0.2):
            if not query.isActive:
                break
        if query.isActive:
            progress("reading what is left")
            query.processAllAvailable()
    finally:
        failed = query.exception()
        query.stop()
    if failed is not None:
        raise failed
    if not whole:
        _judge_all(spark, out, options, judged, progress, time.monotonic(), None)


def _recorded(spark: SparkSession, captures: Sequence[str], outcome_files: Sequence[str]) -> DataFrame:
    """One stream of both: `exchange` (a captured row), or `value`, `file` and `at_byte` (a line)."""
    segments = [
        spark.readStream.schema(EXCHANGE)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .option("maxFilesPerTrigger", SEGMENTS_PER_BATCH)
        .parquet(folder)
        for folder in captures
    ]
    nothing = [F.lit(None).cast(kind).alias(name) for name, kind in (("value", "string"), ("file", "string"))]
    rows = [
        frame.select(
            F.struct(*EXCHANGE.fieldNames()).alias("exchange"), *nothing, F.lit(None).cast("long").alias("at_byte")
        )
        for frame in segments
    ]
    if outcome_files:
        far = [path for path in outcome_files if not is_local(path)]
        if far:
            raise InputError(f"outcomes {far[0]}: a live analysis follows local files; copy them beside it")
        spark.dataSource.register(tail.GrowingFiles)
        paths = json.dumps([str(local_path(path).absolute()) for path in outcome_files])
        lines = spark.readStream.format("growing_files").option("paths", paths).load()
        rows.append(lines.select(F.lit(None).cast(EXCHANGE).alias("exchange"), "value", "file", "at_byte"))
    return reduce(DataFrame.unionByName, rows)


def _keep(spark: SparkSession, batch: DataFrame, number: int, state: str) -> None:
    """Write one batch below `state`, in the place of what was written of it before."""
    suit(spark, size_bytes([state]))
    from_nowhere(spark)
    batch.persist()
    try:
        lines = batch.filter(F.col("value").isNotNull())
        for table, rows in (
            ("exchanges", batch.filter(F.col("exchange").isNotNull()).select("exchange.*")),
            ("said", said(lines)),
            ("set_aside", set_aside(lines, "at_byte")),
        ):
            rows.write.mode("overwrite").parquet(f"{state}/{table}/batch={number}")
    finally:
        batch.unpersist()


def _judge_all(
    spark: SparkSession,
    out: str,
    options: Options,
    judged: Callable[[Analysis], None],
    progress: Progress,
    started: float,
    sure_us: int | None,
) -> None:
    """Judge all batches: of what clients say what lies before the last captured row, or `sure_us`; None: all of it."""
    state = f"{out}/live"
    from_nowhere(spark)
    raw = settled(with_touches(spark.read.schema(EXCHANGE).parquet(f"{state}/exchanges")))
    capture = profile_capture(raw)
    if not capture.rows:
        return
    later: list[Callable[[], None]] = []
    said_so_far = gathered(spark.read.schema(OPERATION).parquet(f"{state}/said"))
    if sure_us is not None:
        until_us = max(capture.last_at_us or 0, sure_us)
        said_so_far = said_so_far.filter(F.coalesce("completed_at_us", "called_at_us", F.lit(0)) <= until_us)
    told = settled(last_word(said_so_far), f"{out}/operations", later)

    def bad(_: OutcomeProfile) -> list[BadLine]:
        return _bad_lines(spark, f"{state}/set_aside")

    judged(judge(spark, raw, told, capture, bad, out, options, started=started, progress=progress, later=later))
    let_go(spark)


def _bad_lines(spark: SparkSession, folder: str, limit: int = 20) -> list[BadLine]:
    rows = spark.read.schema(_BAD_LINES).parquet(folder).orderBy("file", "at_byte").limit(limit).collect()
    return [bad_line(row.file, tail.line_number(Path(row.file), row.at_byte), row.reason, row.text) for row in rows]
