"""Consumers that got nothing although there was something to read, and since when."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, table_of
from notleader.spark_analysis.transforms.attempts import was_answered
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import of_clients

READ = "read"
"""`operation` of what waits here: not said by any client."""

_PLACE = ("scope", "group", "topic", "partition")
_MOST = 10_000
_WAIT = (
    "struct<scope:string,group:string,topic:string,client:string,partition:int,operation_id:bigint,offset:bigint,"
    "lay_us:bigint,before_us:bigint,read_us:bigint>"
)
_STARVED = (
    "struct<operation_id:bigint,scope:string,client:string,operation:string,topic:string,partition:int,offset:bigint,"
    "called_at_us:bigint,completed_at_us:bigint,latency_us:bigint,outcome:string,attempt_count:int,"
    "transactional:boolean>"
)


def starved_reads(
    history: DataFrame, delivered: DataFrame, exchanges: DataFrame, operations: DataFrame, options: Options
) -> DataFrame | None:
    """Reads that waited for `--slow-ms` or more for what lay there: a few of HISTORY's columns, the operation `read`.

    `called_at_us`: since when the record lay there, by the acknowledgement that its sender got, and the group had read
    what comes before it. `completed_at_us`: when the broker's answer had it, or its consumer said that it got it,
    whichever came first; of what was never read, the last that was seen of the consumer. So what a consumer takes over
    its own work, having been handed what comes next, is no such time. Of records in transactions nobody knows here
    since when a consumer may read them.

    Where another member of the group goes on there is a row for each of the two. At most ten thousand; None of none.
    """
    read = delivered.withColumn("group", F.coalesce("group_id", "client"))
    acknowledged = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & ~F.col("transactional")
    lay = history.filter((F.col("operation") == "send") & acknowledged).select(
        "scope", "topic", "partition", "offset", F.col("completed_at_us").alias("lay_us")
    )
    slow_us = options.slow_ms * 1000
    waits = _later(read, lay, slow_us).unionByName(_never(read, lay))
    too_soon = F.col("read_us") - F.greatest("lay_us", "before_us") < slow_us
    met = waits.filter(~F.coalesce(too_soon, F.lit(False))).limit(_MOST).collect()
    if not met:
        return None
    waits = table_of(history.sparkSession, [row.asDict() for row in met], _WAIT)
    seen = (
        of_clients(exchanges, operations)
        .groupBy(F.col("scope").alias("s_scope"), F.col("t_client").alias("s_client"))
        .agg(
            F.min("request_at_us").alias("first_us"),
            F.max(F.greatest("request_at_us", F.coalesce("response_at_us", "request_at_us"))).alias("last_us"),
        )
    )
    waits = _handed_out(waits.join(broadcast(seen), same("s_", "scope", "client")), exchanges, operations)
    began = F.greatest("lay_us", F.coalesce("before_us", "first_us"))
    ended = F.least(F.coalesce("read_us", "last_us"), F.when(F.col("handed_us") >= began, F.col("handed_us")))
    # What it was handed before it had read what comes before lies with the consumer.
    held = F.coalesce(F.col("handed_us") < began, F.lit(False))
    waited = waits.filter(~held & (ended - began >= slow_us)).select(
        F.xxhash64("operation_id", "client", "offset").alias("operation_id"),
        "scope",
        "client",
        F.lit(READ).alias("operation"),
        "topic",
        "partition",
        "offset",
        began.alias("called_at_us"),
        ended.alias("completed_at_us"),
        (ended - began).alias("latency_us"),
        F.lit("ok").alias("outcome"),
        F.lit(0).alias("attempt_count"),
        F.lit(False).alias("transactional"),
    )
    found = waited.collect()
    return table_of(history.sparkSession, [row.asDict() for row in found], _STARVED) if found else None


def _later(read: DataFrame, lay: DataFrame, slow_us: int) -> DataFrame:
    """What was read `slow_us` or more after its group had read anything there: whose, where, and when that was."""
    order = Window.partitionBy(*_PLACE).orderBy("at_us", "first_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    gaps = read.withColumns({"before_us": F.max("at_us").over(before), "other": F.lag("client").over(order)}).filter(
        F.col("at_us") - F.coalesce("before_us", F.lit(0)) >= slow_us
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
