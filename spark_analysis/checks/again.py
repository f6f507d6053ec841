"""Records that somebody got although he had come further, and which rules sent him back."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, Tables, joined
from notleader.spark_analysis.checks.phrases import SENT, by_rule
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.commits import set_elsewhere
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import (
    members,
    met_on_the_wire,
    seeks,
    told_groups,
    told_places,
    went_itself,
    with_senders_back,
)


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


def blamed(again: DataFrame, tables: Tables, *, of_another: bool) -> DataFrame:
    """`again` with the rules that sent its reader back, by what it was told, and how (`trouble`).

    When one member is thrown out of a group, all of it is rebalanced: what any of them was told is a reason, too, where
    the reader itself was told nothing. `of_another` where what it read had been read by another of them, not by itself.
    """
    told = told_places(tables.exchanges, tables.names, in_transactions=tables.capture.commits_of_producers > 0)
    of_groups, in_group = told_groups(told, members(tables.exchanges, tables.names)), [same("t_", "scope", "group_id")]
    found = met_on_the_wire(again, tables.exchanges, tables.names).withColumn("since_us", -F.col("furthest.since"))
    if of_another:
        found = with_senders_back(found, of_groups, in_group, went_itself)
    else:
        found = (
            with_senders_back(found, told, disproven=went_itself)
            .withColumnRenamed("sent_by", "own")
            .drop("t_scope", "t_client", "told")
        )
        by_others = F.filter("sent_by", lambda t: (t["what"] == "group") & ~t["is_held"])
        found = with_senders_back(found, of_groups, in_group, went_itself).withColumn(
            "sent_by", F.when(F.size("own") > 0, F.col("own")).otherwise(by_others)
        )
    sought = broadcast(
        seeks(tables.operations)
        .unionByName(set_elsewhere(tables.exchanges, tables.operations, tables.names).drop("s_group"))
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
    likely = " (likely)" if group.trouble in ("group", "refused", "transaction") else ""
    return f"; {SENT[group.trouble or 'group']}{by_rule(group)}{likely}"
