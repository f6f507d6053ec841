"""Joins points to the intervals that hold them without comparing every pair: Spark has no range join of its own."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

Span = tuple[str, str]

NEVER_US = (1 << 52) - 1
"""What may stand for the end of a span that has none."""

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


def interval(first: Column, last: Column, *, partition: str = "partition") -> list[Column]:
    """The columns of `intervals` that `join_offsets` asks for, of a row with scope, topic and that partition."""
    return [
        F.col("scope").alias("i_scope"),
        F.col("topic").alias("i_topic"),
        F.col(partition).alias("i_partition"),
        first.alias("first_offset"),
        last.alias("last_offset"),
    ]


def _bucketed(intervals: DataFrame) -> DataFrame:
    low = (F.col("first_offset") / OFFSETS_PER_BUCKET).cast("long")
    high = F.least((F.col("last_offset") / OFFSETS_PER_BUCKET).cast("long"), low + _LONGEST_BUCKETS)
    return (
        intervals.filter((F.col("first_offset") >= 0) & (F.col("last_offset") >= F.col("first_offset")))
        .withColumn("_b", F.explode(F.sequence(low, high)))
        .withColumn("_interval_key", F.xxhash64("i_scope", "i_topic", "i_partition", "_b"))
    )


# A span lies in cells of the first length that is as long as itself; a moment lies in a cell of each length.
_SHORTEST_BITS, _STEP_BITS, _LENGTHS = 10, 3, 15  # of 1 ms, eight times as long, and so on, up to 142 years


def join_spans(left: DataFrame, right: DataFrame, of_left: Span, of_right: Span, on: Column) -> DataFrame:
    """Each row of `left` with each of `right` of which the spans have a moment in common, both ends inside, and `on`.

    A span is the names of two columns, µs; the second is not before the first. What is compared is near each other: a
    span of a second meets those that begin within some seconds of it, and those that are as long as the way to it.
    """
    begun, ended, since, until = (F.col(name) for name in (*of_left, *of_right))
    asks, meets = reckoned(left, right, of_left, of_right)
    is_even = F.col("_cell").bitwiseAND(1) == 0
    near = asks.join(
        meets,
        (F.col("_cell") == F.col("_its_cell"))
        & on
        & (is_even == (since >= begun))
        & (since <= ended)
        & (begun <= until),
    )
    return near.drop("_cell", "_its_cell")


def reckoned(left: DataFrame, right: DataFrame, of_left: Span, of_right: Span) -> tuple[DataFrame, DataFrame]:
    """`left` with each `_cell` in which it looks for others, `right` with each, `_its_cell`, in which it is found."""
    begun, ended, since, until = (F.col(name) for name in (*of_left, *of_right))
    # Two spans meet where one begins in the other: the right in the left (even), or the left after the right (odd).
    asks = F.concat(_of_span(begun, ended, 2), _of_moment(begun, 2, 1))
    meets = F.concat(_of_moment(since, 2), _of_span(since, until, 2, 1))
    return left.withColumn("_cell", F.explode(asks)), right.withColumn("_its_cell", F.explode(meets))


def join_moments(spans: DataFrame, moments: DataFrame, of_span: Span, at: str, on: Column) -> DataFrame:
    """Each row of `spans` with each of `moments` that lies in its span, both ends inside, and `on`; as `join_spans`."""
    since, until = (F.col(name) for name in of_span)
    near = spans.withColumn("_cell", F.explode(_of_span(since, until))).join(
        moments.withColumn("_its_cell", F.explode(_of_moment(F.col(at)))),
        (F.col("_cell") == F.col("_its_cell")) & on & F.col(at).between(since, until),
    )
    return near.drop("_cell", "_its_cell")


def covered(spans: Column) -> Column:
    """How much time an array of spans covers, which are structs with `since` and `until`, sorted; 0 of none."""
    nothing = F.lit(0).cast("long")

    def take(so_far: Column, span: Column) -> Column:
        more = F.greatest(span["until"] - F.greatest(span["since"], so_far["reached"]), nothing)
        return F.struct(
            (so_far["covered"] + more).alias("covered"), F.greatest(so_far["reached"], span["until"]).alias("reached")
        )

    start = F.struct(nothing.alias("covered"), nothing.alias("reached"))
    return F.aggregate(spans, start, take, lambda told: told["covered"])


CLOSE = 20
"""Of what clocks may differ by, before they are set by each other, this part is left between two ends of calls."""


def of_call(skew_us: int) -> tuple[Column, Column]:
    """From when until when what an operation sent can have left, as far as its call and its end are known."""
    since = F.coalesce(F.col("called_at_us") - skew_us, F.lit(0))
    return since, F.coalesce(F.col("completed_at_us") + skew_us, F.lit(NEVER_US))


def _of_moment(at: Column, times: int = 1, more: int = 0) -> Column:
    """The cells that hold a moment, one of each length; of their numbers so many times, and so much more."""
    lengths = F.sequence(F.lit(0), F.lit(_LENGTHS - 1))
    return F.transform(lengths, lambda length: _cell(at, length) * times + more)


def _of_span(since: Column, until: Column, times: int = 1, more: int = 0) -> Column:
    """The cells of the first length that is as long as the span: one or two; their numbers as in `_of_moment`."""
    bits = F.length(F.bin(until - since))
    longer = F.ceil((bits - _SHORTEST_BITS) / F.lit(_STEP_BITS)).cast("int")
    length = F.least(F.greatest(longer, F.lit(0)), F.lit(_LENGTHS - 1))
    return F.array_distinct(F.array(*[_cell(at, length) * times + more for at in (since, until)]))


def _cell(at: Column, length: Column) -> Column:
    """The number of the cell of that length (its place among the lengths) in which a moment lies; each has its own."""
    return F.call_function("shiftright", at, length * _STEP_BITS + _SHORTEST_BITS) * _LENGTHS + length


_DIGIT_BITS, _DIGITS = 3, 10


def first_to_hold(spans: DataFrame, held: DataFrame) -> DataFrame:
    """`held` → `until_us`: of the spans that hold this one, ends inside, the end of that which ends first.

    Both have `key`, which is the same, `from_us` and `until_us`; a span that none holds has no row. `spans` are
    numbered in the order of their beginnings; those that begin before another are then whole blocks of numbers, at most
    seven of each size (1, 8, 64, …), and in each block the first that ends later is found in one walk.
    """
    both = spans.withColumn("held", F.lit(None).cast("long")).unionByName(held)
    holds = F.col("held").isNull()
    in_order = Window.partitionBy("key").orderBy("from_us", F.col("held").asc_nulls_first())
    counted = both.withColumns(
        {
            "before": F.count_if(holds).over(in_order.rowsBetween(Window.unboundedPreceding, 0)),
            "all": F.count_if(holds).over(Window.partitionBy("key")),
        }
    )

    def blocks(size: Column) -> Column:
        """Of this size: the one that a span is in, or those that begin before another and are in no larger one."""
        of_larger = _cut(F.col("before"), size + 1) * (1 << _DIGIT_BITS)
        whole = F.sequence(of_larger - 1, _cut(F.col("before"), size) - 1)
        mine = F.when(holds, F.array(_cut(F.col("before") - 1, size))).otherwise(
            F.filter(whole, lambda n: n >= of_larger)
        )
        return F.transform(mine, lambda number: F.struct(size.alias("size"), number.alias("number")))

    sizes = F.filter(F.sequence(F.lit(0), F.lit(_DIGITS - 1)), lambda size: _cut(F.col("all"), size) > 0)
    later = (
        Window.partitionBy("key", "block")
        .orderBy(F.col("until_us").desc(), F.col("held").asc_nulls_first())
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    return (
        counted.withColumn("block", F.explode(F.flatten(F.transform(sizes, blocks))))
        .withColumn("first_us", F.min(F.when(holds, F.col("until_us"))).over(later))
        .filter(~holds)
        .groupBy("held")
        .agg(F.min("first_us").alias("until_us"))
        .filter(F.col("until_us").isNotNull())
    )


def _cut(number: Column, digits: Column) -> Column:
    """`number` without its last digits, in base eight."""
    return F.call_function("shiftright", number, digits * _DIGIT_BITS)
