"""Joins points to the intervals that hold them without comparing every pair: Spark has no range join of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

# Cost: an interval is repeated once per bucket it touches, a point meets at most one bucket's worth of intervals.
OFFSETS_PER_BUCKET = 16
_LONGEST_BUCKETS = 4096


def join_offsets(points: DataFrame, intervals: DataFrame, *, how: str = "inner") -> DataFrame:
    """Each row of `points` (topic, partition, offset, scope) with each row of `intervals` that holds its offset.

    `intervals` has i_scope, i_topic, i_partition, first_offset, last_offset (both ends inside). One hashed integer
    is the join key, which is several times cheaper than four strings; the equalities are checked after it.
    """
    bucket = (F.col("offset") / OFFSETS_PER_BUCKET).cast("long")
    left = points.withColumn("_key", F.xxhash64("scope", "topic", "partition", bucket))
    return left.join(
        _bucketed(intervals),
        (F.col("_key") == F.col("_interval_key"))
        & F.col("topic").eqNullSafe(F.col("i_topic"))
        & (F.col("partition") == F.col("i_partition"))
        & F.col("scope").eqNullSafe(F.col("i_scope"))
        & F.col("offset").between(F.col("first_offset"), F.col("last_offset")),
        how,
    ).drop("_key", "_interval_key", "i_topic", "i_partition", "i_scope", "_b")


def _bucketed(intervals: DataFrame) -> DataFrame:
    low = (F.col("first_offset") / OFFSETS_PER_BUCKET).cast("long")
    high = F.least((F.col("last_offset") / OFFSETS_PER_BUCKET).cast("long"), low + _LONGEST_BUCKETS)
    return (
        intervals.filter((F.col("first_offset") >= 0) & (F.col("last_offset") >= F.col("first_offset")))
        .withColumn("_b", F.explode(F.sequence(low, high)))
        .withColumn("_interval_key", F.xxhash64("i_scope", "i_topic", "i_partition", "_b"))
    )


def overlaps_buckets(from_us: Column, until_us: Column, width_us: int, most: int = 600) -> Column:
    """The numbers of the time buckets that a window touches, at most `most` of them."""
    first = (from_us / width_us).cast("long")
    return F.sequence(first, F.greatest(first, F.least((until_us / width_us).cast("long"), first + most)))
