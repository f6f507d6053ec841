"""Records that somebody got although he had come further, and which rules sent him back."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, joined
from notleader.spark_analysis.checks.phrases import SENT, by_rule
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.commits import set_elsewhere
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import seeks, with_senders_back


def furthest(whose: str) -> Column:
    """The last offset of a place that was read by then of all that have the same `whose`, since when, and by whom."""
    before = (
        Window.partitionBy("scope", whose, "topic", "partition", "life")
        .orderBy("at_us", "first_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return F.max(F.struct("last_offset", (-F.col("at_us")).alias("since"), "client")).over(before)


def each_behind(reads: DataFrame) -> DataFrame:
    """`reads` with a row for each record at or before `reached`, the offset of its `furthest`."""
    reads = reads.withColumn("reached", F.col("furthest.last_offset"))
    # Of a range that was told as one line, as many as it can have had of those.
    records = F.least("record_count", F.least("last_offset", "reached") - F.col("first_offset") + 1)
    each = F.explode(F.sequence(F.col("first_offset"), F.col("first_offset") + records - 1))
    return reads.withColumn("first_offset", each)


def blamed(
    again: DataFrame, told: DataFrame, exchanges: DataFrame, operations: DataFrame, whose: Sequence[Column] = ()
) -> DataFrame:
    """`again` with the rules that sent its reader back, by what it was `told`, and how (`trouble`).

    `whose` as in `with_senders_back`.
    """
    found = with_senders_back(again.withColumn("since_us", -F.col("furthest.since")), told, whose)
    sought = broadcast(
        seeks(operations)
        .unionByName(set_elsewhere(exchanges, operations).drop("s_group"))
        .groupBy("s_scope", "s_client", "s_topic", "s_partition")
        .agg(F.collect_list(F.struct("s_at_us", "s_offset")).alias("seeks"))
    )
    # Whoever said that it sought there was sent by nobody; nor was whose group was set there past the proxy.
    itself = F.exists(
        "seeks",
        lambda s: (
            s["s_at_us"].between(F.col("since_us"), F.col("at_us"))
            & (s["s_offset"].isNull() | (s["s_offset"] <= F.col("first_offset")))
        ),
    )
    found = found.join(
        sought,
        same("s_", "scope", "client", "topic", "partition"),
        "left",
    ).withColumn("sent_by", F.when(F.coalesce(itself, F.lit(False)), F.array()).otherwise(F.col("sent_by")))
    return found.withColumns(
        {
            "rule": joined(F.array_sort(F.array_distinct("sent_by.rule"))),
            "kind": joined(F.array_sort(F.array_distinct("sent_by.kind"))),
            "trouble": F.array_max("sent_by.what"),
        }
    )


def sent_by(group: Group) -> str:
    """`; the commit of its place was refused by rule no-commits (error) (likely)`, or nothing when no rule did it."""
    if not group.rule:
        return ""
    likely = " (likely)" if group.trouble in ("group", "refused") else ""
    return f"; {SENT[group.trouble or 'group']}{by_rule(group)}{likely}"
