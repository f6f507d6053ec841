"""Did a consumer go back in a partition?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options


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
    order = 65
    means = Meaning(
        invalid="never",
        valid="told: a consumer got an offset at or before one that it had",
        unknown="nobody read",
        evidence="what consumers got, in their own order",
        cause="none is named",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        before = (
            Window.partitionBy("scope", "client", "topic", "partition")
            .orderBy("at_us", "first_offset")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        # A verifiable consumer tells a poll twice: as a range, and record by record when it is verbose.
        rows = (
            tables.delivered.filter(F.col("first_offset") == F.col("last_offset"))
            .withColumn("reached", F.max("last_offset").over(before))
            .filter(F.col("first_offset") <= F.col("reached"))
        )
        return from_exchanges(
            rows,
            self.name,
            "valid",
            operation_id=F.lit(None),
            note=F.format_string("offset %d after %d", "first_offset", "reached"),
        )

    def sentence(self, group: Group) -> str:
        reader = group.client or "a consumer"
        return f"{count(group.cases, 'record')} of {place(group)} came again or out of order to {reader}"

    def all_clear(self, tables: Tables) -> str:
        return f"every consumer read forwards only ({count(tables.outcomes.polled, 'record')})"
