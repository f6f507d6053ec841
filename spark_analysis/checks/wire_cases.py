"""Cases that come from exchanges rather than from operations."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import as_cases, joined
from notleader.spark_analysis.schemas import CASE
from notleader.spark_analysis.transforms.attempts import wire
from notleader.spark_analysis.transforms.choices import OF_THE_WAIT

ASKS = ("Metadata", "FindCoordinator")
"""What a metadata storm is made of."""


def sample(exchanges: DataFrame, **given: Column) -> DataFrame:
    """`exchanges` with `seen`, the WIRE evidence of each row."""
    nothing = {name: F.lit(None) for name in ("match_kind", "attempt_id", "topic", "partition_index", "base_offset")}
    return exchanges.withColumn("seen", wire(**{**nothing, **given}))


def first_seen() -> Column:
    """An aggregate: up to ten of the group's exchanges, the earliest first."""
    return F.array_sort(F.min_by("seen", "request_at_us", 10))


def storm(
    exchanges: DataFrame, who: Column, check: str, per_s: int, *apart: str, said: Column | None = None
) -> DataFrame:
    """A case for each second in which `who` did this `per_s` times or more; `duration_us` is its median pause.

    `apart` are the columns that tell apart those who share a name; a row that two segments hold counts once. What was
    asked again only after a pause of the client's own (the median, from one's answer to the next one's request) is told
    and no storm: a pause of half the time that the bound leaves for each (5 ms at 100 a second). `said` are the touches
    of each row that count; by default what rules did to it, other than holding it. A rule is named that touched a good
    part of them: the rest of a storm that it struck once or twice is not its doing.
    """
    backoff_us = 500_000 // per_s
    second = F.floor(F.col("request_at_us") / 1_000_000)
    before = Window.partitionBy("scope", "proxy_id", "connection_id").orderBy("request_at_us", "exchange_seq")
    since_answer = F.col("request_at_us") - F.lag("response_at_us").over(before)
    # What only held an exchange is no reason to send the next one at once.
    if said is None:
        said = F.filter("touches", lambda t: ~t["did"].isin("held_request", "held_answer", "shaped"))
    by = F.array_distinct(F.transform(said, lambda t: F.struct(t["rule"], t["kind"])))
    rows = (
        sample(exchanges.withColumn("pause_us", since_answer))
        .withColumn("by", by)
        .groupBy("scope", who.alias("client"), *apart, second.alias("second"))
        .agg(
            F.count_distinct("proxy_id", "connection_id", F.coalesce("exchange_seq", F.lit(-1))).alias("times"),
            F.min("request_at_us").alias("at_us"),
            # Where nothing was behind an answer there was no pause; before the answer it was none either.
            F.greatest(F.percentile_approx("pause_us", 0.5, 1000), F.lit(0)).alias("duration_us"),
            first_seen().alias("exchanges"),
            F.flatten(F.collect_list(F.when(F.size("by") > 0, F.col("by")))).alias("by"),
        )
        .filter(F.col("times") >= per_s)
    )
    many = F.filter(
        F.array_sort(F.array_distinct("by")),
        lambda rule: F.size(F.filter("by", lambda one: one == rule)) >= F.col("times") * OF_THE_WAIT,
    )
    rows = rows.withColumn("by", many)
    return from_exchanges(
        rows,
        check,
        F.when(F.col("duration_us") < backoff_us, "invalid").otherwise("valid"),
        rule=joined(F.array_distinct(F.transform("by", lambda one: one["rule"]))),
        kind=joined(F.array_distinct(F.transform("by", lambda one: one["kind"]))),
        note=F.concat(F.col("times"), F.lit(" in one second")),
    )


def from_exchanges(rows: DataFrame, check: str, verdict: Column | str, **given: Column) -> DataFrame:
    """CASE rows from rows that are no operations: what they have of a CASE and what is `given`, all else null."""
    own = {name: F.col(name) if name in rows.columns else F.lit(None) for name in CASE.fieldNames()[2:]}
    return as_cases(rows, check, verdict, **{**own, **given})


def of_api(exchanges: DataFrame, *names: str) -> DataFrame:
    return exchanges.filter(F.col("api_name").isin(*names))
