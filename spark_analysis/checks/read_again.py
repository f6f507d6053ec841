"""Did a consumer go back in a partition, or read what another member of its group had read?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import SENT, by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import members, seeks, told_places, with_senders_back


class ReadAgain(Check):
    """Polls whose first offset lies at or before one that the same consumer, or another member of its group, had.

    At-least-once delivery allows it after a rebalance, so it is told without a verdict.
    """

    name = "read_again"
    title = "Read again"
    brief = "{n} read again"
    counts = ("record", "records")
    jepsen = "nonmonotonic poll"
    needs = ("consumer",)
    of_causes = False
    order = 65
    means = Meaning(
        invalid="never",
        valid="told: a consumer got an offset at or before one that it had, or that another member of its group had",
        unknown="nobody read",
        evidence="what consumers got, in their order; a group's members by their captured requests to join",
        cause=(
            "a rule that told the consumer another place since it had read that far: OFFSET_OUT_OF_RANGE, an offset, a "
            "commit that never was; else (likely) one that refused a commit of its place, or else what keeps it in its "
            "group, swallowed it or cut it off; behind another member, what any member was told counts"
        ),
    )

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _again(tables)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        rows = _again(tables)
        return from_exchanges(
            _blamed(rows, tables) if tables.capture.faulted else rows,
            self.name,
            "valid",
            operation_id=F.lit(None),
            operation=F.when(F.col("of_group"), OF_GROUP),
            note=F.concat(
                F.format_string("offset %d after %d", "first_offset", "reached"),
                F.when(F.col("of_group"), F.concat(F.lit(" by "), "furthest.client")).otherwise(""),
            ),
        )

    def sentence(self, group: Group) -> str:
        reader = group.client or "a consumer"
        how = f"came again or out of order to {reader}"
        if group.operation == OF_GROUP:
            how = f"came to {reader} although another member of its group had {'it' if group.cases == 1 else 'them'}"
        what = f"{count(group.cases, 'record')} of {place(group)} {how}"
        return f"{what}; {SENT[group.trouble or 'group']}{by_rule(group)}{_likely(group)}" if group.rule else what

    def all_clear(self, tables: Tables) -> str:
        return f"every consumer read forwards only ({count(tables.outcomes.polled, 'record')})"


OF_GROUP = "read again by its group"
"""`operation` of what another member of the reader's group had read."""


def _again(tables: Tables) -> DataFrame:
    """Records that a client got though it had come further, or else (`of_group`) another member of its group had.

    `reached` is how far, `furthest` also since when and who.
    """
    rows = tables.delivered.withColumns({"furthest": _furthest("client"), "of_group": F.lit(False)})
    back = F.col("first_offset") <= F.col("furthest.last_offset")
    if _shares_groups(tables):
        joins = members(tables.exchanges, tables.operations)
        its_own = [same("m_", "scope", "client"), F.col("group_id") == F.col("m_group")]
        rows = rows.join(broadcast(joins), its_own, "left").withColumn("theirs", _furthest("m_group"))
        of_group = F.col("m_group").isNotNull() & ~F.coalesce(back, F.lit(False))
        rows = rows.withColumn("of_group", of_group)
        rows = rows.withColumn("furthest", F.when(F.col("of_group"), F.col("theirs")).otherwise(F.col("furthest")))
    again = rows.withColumn("reached", F.col("furthest.last_offset")).filter(back)
    # Of a range that was told as one line, as many as it can have had of those.
    records = F.least("record_count", F.least("last_offset", "reached") - F.col("first_offset") + 1)
    each = F.explode(F.sequence(F.col("first_offset"), F.col("first_offset") + records - 1))
    return again.withColumn("first_offset", each)


def _furthest(whose: str) -> Column:
    """The largest offset that this client or group had read before, since when, and who of them had."""
    before = (
        Window.partitionBy("scope", whose, "topic", "partition", "life")
        .orderBy("at_us", "first_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return F.max(F.struct("last_offset", (-F.col("at_us")).alias("since"), "client")).over(before)


def _shares_groups(tables: Tables) -> bool:
    return tables.outcomes.consumers > 1 and tables.capture.grouped > 0


def _likely(group: Group) -> str:
    return " (likely)" if group.trouble in ("group", "refused") else ""


def _blamed(rows: DataFrame, tables: Tables) -> DataFrame:
    """`rows` with the rules that sent the consumer back, or any member of its group, and how (`trouble`)."""
    told = told_places(tables.exchanges, tables.operations).withColumn("t_of_group", F.lit(False))
    whose = F.col("client")
    if _shares_groups(tables):
        joins = members(tables.exchanges, tables.operations)
        theirs = joins.join(told, [same("t_", "scope", own="m_"), F.col("m_client") == F.col("t_client")])
        of_groups = theirs.groupBy("t_scope", F.col("m_group").alias("t_client"), F.lit(True).alias("t_of_group"))
        told = told.unionByName(of_groups.agg(F.flatten(F.collect_list("told")).alias("told")))
        whose = F.when(F.col("of_group"), F.col("group_id")).otherwise(whose)
    rows = rows.withColumns({"since_us": -F.col("furthest.since"), "whose": whose})
    found = with_senders_back(rows, told, [same("t_", "scope", "of_group"), F.col("whose") == F.col("t_client")])
    sought = broadcast(
        seeks(tables.operations)
        .groupBy("s_scope", "s_client", "s_topic", "s_partition")
        .agg(F.collect_list(F.struct("s_at_us", "s_offset")).alias("seeks"))
    )
    # Whoever said that it sought there was sent by nobody.
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
