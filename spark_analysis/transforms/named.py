"""Ids for sends whose client told none: that of the record which lies where the client says that its own does."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import appended
from notleader.spark_analysis.transforms.intervals import interval, join_offsets, of_call
from notleader.spark_analysis.transforms.keys import same

_OF_CLIENT = ("scope", "client_id", "topic", "partition")


def is_unnamed_send() -> Column:
    return (F.col("operation") == "send") & F.col("message_id").isNull()


def with_ids(operations: DataFrame, attempts: DataFrame, log: DataFrame | None, skew_us: int) -> DataFrame:
    """`operations` whose sends have the message id that their record's header has, where that is known.

    A client before KIP-512 tells its callback where a record lies and not which one it was. What was acknowledged has
    the id that the batch appended there named at that place, or else that of the record which is there in the `log`,
    by its timestamp since before the send was told. What failed has no place: the ids on the wire of its client and
    partition that are nobody's then are theirs, in the order in which they ended, if there are just as many.
    """
    nameless = operations.filter(is_unnamed_send())
    carried = attempts.filter(F.exists("message_ids", lambda name: name.isNotNull()))
    placed = _by_place(nameless, carried, log, skew_us)
    told = operations.filter((F.col("operation") == "send") & F.col("message_id").isNotNull())
    told = told.select("scope", "topic", "message_id").unionByName(
        placed.select("scope", "topic", F.col("name").alias("message_id"))
    )
    names = placed.select("operation_id", "name").unionByName(_of_the_rest(nameless, carried, told, skew_us))
    rows = operations.join(names, "operation_id", "left")
    return rows.withColumn("message_id", F.coalesce("message_id", "name")).drop("name")


def _by_place(sends: DataFrame, carried: DataFrame, log: DataFrame | None, skew_us: int) -> DataFrame:
    """operation_id, scope, topic, `name`: the id at the offset that it was told, of the last batch appended there."""
    first = F.col("base_offset")
    known = appended(carried).select(
        *interval(first, first + F.size("message_ids") - 1, partition="partition_index"),
        "message_ids",
        F.col("request_at_us").alias("at_us"),
        F.lit(True).alias("on_wire"),
    )
    if log is not None:
        records = log.filter((F.col("event") == "record") & F.col("message_id").isNotNull())
        in_log = records.select(
            *interval(F.col("offset"), F.col("offset")),
            F.array("message_id").alias("message_ids"),
            (F.col("timestamp_ms") * 1000).alias("at_us"),
            F.lit(False).alias("on_wire"),
        )
        known = known.unionByName(in_log)
    points = sends.filter(F.col("offset").isNotNull()).select(
        "operation_id", "scope", "topic", "partition", "offset", "called_at_us", "completed_at_us"
    )
    there = join_offsets(points, known).filter(F.col("at_us").between(*of_call(skew_us)))
    name = F.get("message_ids", (F.col("offset") - F.col("first_offset")).cast("int"))
    named = there.withColumn("name", name).filter(F.col("name").isNotNull())
    return named.groupBy("operation_id", "scope", "topic").agg(
        F.max_by("name", F.struct("on_wire", "at_us")).alias("name")
    )


def _of_the_rest(sends: DataFrame, carried: DataFrame, told: DataFrame, skew_us: int) -> DataFrame:
    """operation_id, `name`: of what failed, by exclusion."""
    known = told.select(*[F.col(name).alias(f"n_{name}") for name in ("scope", "topic", "message_id")])
    orphans = (
        carried.withColumn("message_id", F.explode("message_ids"))
        .filter(F.col("message_id").isNotNull())
        .join(known, same("n_", "scope", "topic", "message_id"), "left_anti")
        .withColumnRenamed("partition_index", "partition")
        .groupBy(*_OF_CLIENT, "message_id")
        .agg(
            F.min("request_at_us").alias("asked_us"),
            F.max(F.coalesce("response_at_us", "request_at_us")).alias("over_us"),
        )
    )
    orphans = _in_order(orphans, F.col("over_us"), F.col("message_id")).select(
        *[F.col(name).alias(f"n_{name}") for name in (*_OF_CLIENT, "place", "of")],
        F.col("message_id").alias("name"),
        "asked_us",
    )
    failed = sends.filter(F.col("offset").isNull() & F.col("outcome").isin("fail", "info"))
    failed = _in_order(failed, F.col("completed_at_us"), F.col("operation_id"))
    since_us, until_us = of_call(skew_us)
    meets = [same("n_", *_OF_CLIENT, "place", "of"), F.col("asked_us").between(since_us, until_us)]
    return failed.join(broadcast(orphans), meets).select("operation_id", "name")


def _in_order(rows: DataFrame, *by: Column) -> DataFrame:
    """`rows` with `place`, by that order among those `of` their client and partition, which are so many."""
    theirs = Window.partitionBy(*_OF_CLIENT)
    return rows.withColumns({"place": F.row_number().over(theirs.orderBy(*by)), "of": F.count("*").over(theirs)})
