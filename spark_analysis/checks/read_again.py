"""Did a consumer go back in a partition?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import SENT, by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import seeks, told_places, with_senders_back


class ReadAgain(Check):
    """Polls whose first offset lies at or before one the same consumer had.

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
        valid="told: a consumer got an offset at or before one that it had",
        unknown="nobody read",
        evidence="what consumers got, in their own order",
        cause=(
            "a rule that told the consumer another place since it had read that far: OFFSET_OUT_OF_RANGE, an offset, a "
            "commit that never was; else (likely) one that refused, swallowed or cut off what keeps it in its group"
        ),
    )

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _again(tables.delivered)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        rows = _again(tables.delivered)
        return from_exchanges(
            _blamed(rows, tables) if tables.capture.faulted else rows,
            self.name,
            "valid",
            operation_id=F.lit(None),
            note=F.format_string("offset %d after %d", "first_offset", "reached"),
        )

    def sentence(self, group: Group) -> str:
        reader = group.client or "a consumer"
        what = f"{count(group.cases, 'record')} of {place(group)} came again or out of order to {reader}"
        return f"{what}; {SENT[group.trouble or 'group']}{by_rule(group)}{_likely(group)}" if group.rule else what

    def all_clear(self, tables: Tables) -> str:
        return f"every consumer read forwards only ({count(tables.outcomes.polled, 'record')})"


def _again(delivered: DataFrame) -> DataFrame:
    """Records that a client got though it had come further (`reached`), with how far and since when (`furthest`)."""
    before = (
        Window.partitionBy("scope", "client", "topic", "partition", "life")
        .orderBy("at_us", "first_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    furthest = F.max(F.struct("last_offset", (-F.col("at_us")).alias("since"))).over(before)
    again = delivered.withColumns({"furthest": furthest, "reached": F.col("furthest.last_offset")}).filter(
        F.col("first_offset") <= F.col("reached")
    )
    # Of a range that was told as one line, as many as it can have had of those.
    records = F.least("record_count", F.least("last_offset", "reached") - F.col("first_offset") + 1)
    each = F.explode(F.sequence(F.col("first_offset"), F.col("first_offset") + records - 1))
    return again.withColumn("first_offset", each)


def _likely(group: Group) -> str:
    return " (likely)" if group.trouble == "group" else ""


def _blamed(rows: DataFrame, tables: Tables) -> DataFrame:
    """`rows` with the rules that sent the consumer back, and how (`trouble`)."""
    told = told_places(tables.exchanges, tables.operations)
    found = with_senders_back(rows.withColumn("since_us", -F.col("furthest.since")), told)
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
