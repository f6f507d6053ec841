"""How a table lies in a plan: over many partitions where there is much of it, in one where there is little.

A shuffle, a broadcast and a second task cost some ten milliseconds each, whatever they carry: more than all the rows of
a short run. A session that is set up for such a run (`session.suit`) has one shuffle partition and takes no hints, and
what lies in one partition is joined, grouped and sorted where it lies: a query is one job of one task. What several
queries read is worked out once: kept in memory in a short run, else written as Parquet and read back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.traceback_utils import SCCallSiteSync


def is_short(rows: DataFrame) -> bool:
    """Whether the session of `rows` is set up for a short run."""
    return bool(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") == "1")


def table_of(spark: SparkSession, rows: Sequence[Mapping[str, Any]], struct: str) -> DataFrame:
    """A table of a few rows that Python has, each of that type; `createDataFrame` would start a Python worker."""
    told = F.from_json(F.lit(json.dumps(list(rows))), f"array<{struct}>")
    return spark.range(1, numPartitions=1).select(F.inline(told))


def gathered(rows: DataFrame) -> DataFrame:
    """`rows`, just read: in one partition in a short run, else as they are."""
    return rows.coalesce(1) if is_short(rows) else rows


def settled(rows: DataFrame, path: str | None = None, later: list[Callable[[], None]] | None = None) -> DataFrame:
    """`rows`, worked out now, for many queries; written to `path`, if there is one.

    A short run, which doesn't read that back, leaves the writing to `later`, where there is such a list. Without a path
    a long run leaves them as they are, and whoever asks has them worked out again.
    """
    if is_short(rows):
        rows = rows.coalesce(1).localCheckpoint()
        if path is not None:
            writing = partial(rows.write.mode("overwrite").parquet, path)
            writing() if later is None else later.append(writing)
        return rows
    if path is None:
        return rows
    rows.write.mode("overwrite").parquet(path)
    return rows.sparkSession.read.schema(rows.schema).parquet(path)


def let_go(spark: SparkSession) -> None:
    """Free what short runs have kept in memory in this process; no table of theirs is to be read after that."""
    for rows in spark.sparkContext._jsc.getPersistentRDDs().values():
        rows.unpersist()


def threads(spark: SparkSession, at_once: int) -> ThreadPoolExecutor:
    """Threads in which queries are planned and run beside each other."""
    return ThreadPoolExecutor(at_once, initializer=from_nowhere, initargs=(spark,))


def from_nowhere(spark: SparkSession) -> None:
    """Let Spark not look up, at each step of a query that this thread plans, where in its own code that is.

    It is shown in Spark's pages alone, which a local session hasn't got, and takes a twentieth of a short run.
    """
    if str(spark.sparkContext.master).startswith("local"):
        for form in ("callSite.short", "callSite.long"):
            spark.sparkContext.setLocalProperty(form, "notleader")
        # PySpark would name the line of each `collect`, and afterwards none.
        SCCallSiteSync._spark_stack_depth = max(SCCallSiteSync._spark_stack_depth, 1)


def by_key(rows: DataFrame, key: str) -> DataFrame:
    """`rows` with those of one `key` in one partition; what lies in one partition stays there."""
    return rows if is_short(rows) else rows.hint("repartition", F.col(key))


def broadcast(rows: DataFrame) -> DataFrame:
    """`rows`, few enough to lie beside each partition of what they are joined with; in a short run there is but one."""
    return rows if is_short(rows) else F.broadcast(rows)


def in_key_order(rows: DataFrame, key: str, *then: str) -> DataFrame:
    """`by_key`, and in a long run in the order of the key, and `then`, for a `groupBy` of many small groups, or a join.

    Grouped by hash they would be sorted anyway, and twice: Spark gives up its table of groups at ten thousand. One sort
    by an integer serves the groups and the join behind them.
    """
    placed = by_key(rows, key)
    return placed if is_short(rows) else placed.sortWithinPartitions(key, *then)


def those_after(partition: Sequence[str], order: Sequence[str]) -> WindowSpec:
    """The rows of a partition that come after this one in that order, for what doesn't go by theirs (min, max, …).

    Said from the end on: a frame that is open behind is worked out anew for each row, one that is open before in one
    walk (a storm's 20,000 requests on one connection take 200 million steps, or 20,000).
    """
    from_the_end = Window.partitionBy(*partition).orderBy(*[F.col(name).desc() for name in order])
    return from_the_end.rowsBetween(Window.unboundedPreceding, -1)
