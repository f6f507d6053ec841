"""Consumers that got nothing although there was something to read, and since when."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.schemas import HISTORY
from notleader.spark_analysis.transforms.attempts import was_answered
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import of_clients

READ = "read"
"""`operation` of what waits here: not said by any client."""

_PLACE = ("scope", "group", "topic", "partition")


def starved_reads(
    history: DataFrame, delivered: DataFrame, exchanges: DataFrame, operations: DataFrame, options: Options
) -> DataFrame:
    """Reads that waited for `--slow-ms` or more for what lay there, as HISTORY rows of the operation `read`.

    `called_at_us`: since when the record lay there, by the acknowledgement that its sender got, and the group had read
    what comes before it. `completed_at_us`: when the broker's answer had it, or its consumer said that it got it,
    whichever came first; of what was never read, the last that was seen of the consumer. So what a consumer takes over
    its own work, having been handed what comes next, is no such time. Of records in transactions nobody knows here
    since when a consumer may read them.

    Where another member of the group goes on there is a row for each of the two.
    """
    read = delivered.withColumn("group", F.coalesce("group_id", "client"))
    lay = history.filter(
        (F.col("operation") == "send")
        & (F.col("outcome") == "ok")
        & F.col("offset").isNotNull()
        & ~F.col("transactional")
    ).select("scope", "topic", "partition", "offset", F.col("completed_at_us").alias("lay_us"))
    seen = (
        of_clients(exchanges, operations)
        .groupBy(F.col("scope").alias("s_scope"), F.col("t_client").alias("s_client"))
        .agg(
            F.min("request_at_us").alias("first_us"),
            F.max(F.greatest("request_at_us", F.coalesce("response_at_us", "request_at_us"))).alias("last_us"),
        )
    )
    waits = _later(read, lay, options).unionByName(_never(read, lay))
    waits = waits.join(broadcast(seen), same("s_", "scope", "client"))
    waits = _handed_out(waits, exchanges, operations)
    began = F.greatest("lay_us", F.coalesce("before_us", "first_us"))
    ended = F.least(F.coalesce("read_us", "last_us"), F.when(F.col("handed_us") >= began, F.col("handed_us")))
    # What it was handed before the one that it read last lies with the consumer.
    held = F.coalesce(F.col("handed_us") < began, F.lit(False))
    waited = waits.filter(~held).withColumns({"called_at_us": began, "completed_at_us": ended})
    rows = waited.withColumns(
        {
            "latency_us": ended - began,
            "operation": F.lit(READ),
            "outcome": F.lit("ok"),
            "operation_id": F.xxhash64("operation_id", "client", "offset"),
            "attempts": F.array().cast(HISTORY["attempts"].dataType),
            "attempt_count": F.lit(0),
            "transactional": F.lit(False),
        }
    ).filter(F.col("latency_us") >= options.slow_ms * 1000)
    return rows.select(*[_as(rows, name) for name in history.columns])


def _as(rows: DataFrame, name: str) -> Column:
    kind = HISTORY[name].dataType if name in HISTORY.fieldNames() else None
    return F.col(name) if name in rows.columns else F.lit(None).cast(kind or "bigint").alias(name)


def _later(read: DataFrame, lay: DataFrame, options: Options) -> DataFrame:
    """What was read `--slow-ms` or more after its group had read anything there: whose, where, and when that was."""
    order = Window.partitionBy(*_PLACE).orderBy("at_us", "first_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    gaps = read.withColumns({"before_us": F.max("at_us").over(before), "other": F.lag("client").over(order)}).filter(
        F.col("at_us") - F.coalesce("before_us", F.lit(0)) >= options.slow_ms * 1000
    )
    clients = F.array_distinct(F.array_compact(F.array("client", "other")))
    rows = gaps.select(
        *_PLACE,
        "operation_id",
        "before_us",
        F.col("at_us").alias("read_us"),
        F.col("first_offset").alias("offset"),
        F.explode(clients).alias("client"),
    )
    return rows.join(lay, ["scope", "topic", "partition", "offset"])


def _never(read: DataFrame, lay: DataFrame) -> DataFrame:
    """The first record behind all that a group read of a partition: nobody of it got it."""
    furthest = read.groupBy(*_PLACE).agg(
        F.max("last_offset").alias("reached"),
        F.max("at_us").alias("before_us"),
        F.max_by("client", "at_us").alias("client"),
        F.max_by("operation_id", "at_us").alias("operation_id"),
    )
    return (
        lay.join(broadcast(furthest), ["scope", "topic", "partition"])
        .filter(F.col("offset") > F.col("reached"))
        .groupBy(*_PLACE, "before_us", "client", "operation_id")
        .agg(F.min("offset").alias("offset"), F.min_by("lay_us", "offset").alias("lay_us"))
        .withColumn("read_us", F.lit(None).cast("long"))
    )


def _handed_out(waits: DataFrame, exchanges: DataFrame, operations: DataFrame) -> DataFrame:
    """`waits` with `handed_us`: when the broker had answered its client with a batch that begins at it or before it."""
    fetches = exchanges.filter((F.col("api_name") == "Fetch") & was_answered(F.col("outcome")))
    batches = fetches.withColumn("p", F.explode("partitions")).filter(
        (F.col("p.base_offset") >= 0) & (F.coalesce("p.error_code", F.lit(0)) == 0)
    )
    answers = (
        of_clients(batches, operations)
        .groupBy(
            "scope",
            F.col("t_client").alias("client"),
            F.col("p.topic").alias("topic"),
            F.col("p.partition_index").alias("partition"),
            F.col("p.base_offset").alias("offset"),
        )
        .agg(
            F.struct(
                F.min("response_at_us").alias("at_us"),
                (F.col("offset") + F.max("p.record_count")).alias("behind"),
            ).alias("handed")
        )
    )
    order = Window.partitionBy("scope", "client", "topic", "partition").orderBy("offset", F.col("handed").isNull())
    rows = waits.unionByName(answers, allowMissingColumns=True)
    rows = rows.withColumn("handed", F.last("handed", ignorenulls=True).over(order)).filter(F.col("lay_us").isNotNull())
    # What was read surely was in the last batch that begins before it.
    there = F.col("read_us").isNotNull() | ~F.coalesce(F.col("handed.behind") <= F.col("offset"), F.lit(False))
    return rows.withColumn("handed_us", F.when(there, F.col("handed.at_us")))
