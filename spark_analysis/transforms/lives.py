"""A topic that is made anew begins again at offset 0, and what its log says is of its last life alone."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.profile import begins
from notleader.spark_analysis.schemas import HISTORY, conform
from notleader.spark_analysis.transforms.keys import same

# The first to be told of the new beginning may be told a little later than the wire was.
_LATER_US = 1_000


def in_one_life(rows: DataFrame) -> DataFrame:
    """`rows` where no partition began twice: all of them are of its first `life`, which is the last."""
    return rows.withColumns({"life": F.lit(1), "is_last_life": F.lit(True)})


def with_lives(rows: DataFrame, exchanges: DataFrame, at: Column) -> DataFrame:
    """`rows` (scope, topic, partition) with `life`, which of the partition's lives it was `at` (µs), from 1.

    A life begins when the broker appends at offset 0. A batch that an idempotent producer sent again is answered with
    the offset that it has: that is no beginning. `is_last_life`: the log that was read is of this one.
    """
    placed = exchanges.filter(
        (F.col("event") == "exchange") & (F.col("api_name") == "Produce") & F.col("outcome").isin("answered", "dropped")
    )
    parts = placed.select(
        "scope",
        F.coalesce("broker_responded_at_us", "response_at_us").alias("begun_us"),
        F.explode("partitions").alias("p"),
    ).filter(begins(F.col("p")))
    place = {"l_scope": "scope", "l_topic": "p.topic", "l_partition": "p.partition_index"}
    sequence = F.struct("p.producer_id", "p.producer_epoch", "p.base_sequence", F.get("p.message_ids", F.lit(0)))
    batch = F.when(F.col("p.base_sequence") >= 0, F.xxhash64(sequence)).otherwise(F.col("begun_us"))
    begun = (
        parts.groupBy(*[F.col(of).alias(name) for name, of in place.items()], batch.alias("batch"))
        .agg(F.min("begun_us").alias("begun_us"))
        .groupBy(*place)
        # The first life needs no beginning. A copy of a segment tells each beginning twice.
        .agg(F.array_sort(F.array_distinct(F.collect_list("begun_us"))).alias("begun"))
        .filter(F.size("begun") > 1)
    )
    joined = rows.join(
        broadcast(begun),
        F.col("scope").eqNullSafe(F.col("l_scope"))
        & (F.col("topic") == F.col("l_topic"))
        & (F.col("partition") == F.col("l_partition")),
        "left",
    )
    # What has no time is of the end.
    since = F.size(F.filter("begun", lambda one: one <= F.coalesce(at + _LATER_US, F.lit(1 << 62))))
    lives = F.greatest(F.coalesce(F.size("begun"), F.lit(0)), F.lit(1))
    told = joined.withColumn("life", F.greatest(F.coalesce(since, F.lit(0)), F.lit(1)))
    return told.withColumn("is_last_life", F.col("life") == lives).drop(*place, "begun")


def history_of_lives(history: DataFrame, exchanges: DataFrame, log: DataFrame | None, *, anew: bool) -> DataFrame:
    """HISTORY with each row's `life`; of those before the last the log says nothing but that it has their ids.

    Where no partition began `anew`, the `log` may still be that of a topic with another id than these rows' had.
    """
    at = F.coalesce("completed_at_us", "called_at_us")
    rows = history.drop("life")
    told = with_lives(rows, exchanges, at) if anew else in_one_life(rows)
    if log is not None:
        told = _of_the_log_s_topic(told, exchanges, log, at)
    by_place = F.col("message_id").isNull() | F.col("in_log").isin("absent", "superseded", "deleted")
    unread = ~F.col("is_last_life") & F.col("in_log").isNotNull() & by_place
    nowhere = F.when(unread & (F.col("in_log") == "there"), F.slice("landed", 1, 0)).otherwise(F.col("landed"))
    judged = told.withColumn("landed", nowhere).withColumns(
        {
            "landed_count": F.size("landed"),
            "in_log": F.when(unread, "unread").otherwise(F.col("in_log")),
            "log_here": F.when(F.col("is_last_life"), F.col("log_here")),
        }
    )
    return conform(judged, HISTORY, "history")


def _of_the_log_s_topic(rows: DataFrame, exchanges: DataFrame, log: DataFrame, at: Column) -> DataFrame:
    """`rows` of which none is of the `is_last_life` that was told before its topic had the id that the log's has.

    Only where somebody was told another id of that topic, which nothing shows to be older but that it is not the log's.
    """
    theirs = log.filter((F.col("event") == "partition") & F.col("topic_id").isNotNull())
    theirs = theirs.select("scope", "topic", F.col("topic_id").alias("log_id")).distinct()
    seen = (
        exchanges.select(
            "scope", F.coalesce("response_at_us", "request_at_us").alias("at_us"), F.explode("partitions").alias("p")
        )
        .filter(F.col("p.topic_id").isNotNull())
        .groupBy("scope", F.col("p.topic").alias("topic"), F.col("p.topic_id").alias("topic_id"))
        .agg(F.min("at_us").alias("at_us"))
    )
    others = F.col("topic_id") != F.col("log_id")
    of_topic = (
        seen.join(broadcast(theirs), ["scope", "topic"])
        .groupBy(F.col("scope").alias("i_scope"), F.col("topic").alias("i_topic"))
        .agg(F.min(F.when(~others, F.col("at_us"))).alias("since_us"), F.bool_or(others).alias("had_another"))
        .filter("had_another")
    )
    joined = rows.join(broadcast(of_topic), same("i_", "scope", "topic"), "left")
    before = F.col("had_another") & (at < F.coalesce("since_us", F.lit(1 << 62)))
    is_last = F.col("is_last_life") & ~F.coalesce(before, F.lit(False))
    return joined.withColumn("is_last_life", is_last).drop("i_scope", "i_topic", "since_us", "had_another")
