"""Did a consumer go back in a partition?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.again import blamed, each_behind, furthest, sent_by
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
    of_causes = False
    order = 65
    means = Meaning(
        invalid="never",
        valid="told: a consumer got an offset at or before one that it had",
        unknown="nobody read; of share groups (KIP-932), which are given records in no order",
        evidence="what consumers got, in their own order",
        cause=(
            "a rule that told the consumer another place since it had read that far: OFFSET_OUT_OF_RANGE, an offset, a "
            "commit that never was; else (likely) one that refused a commit of its place, or ended the transaction "
            "that was to commit it (KIP-98), or else what keeps it or another in its group, held or swallowed that, or "
            "cut it off: since then, a second before, or while it was no member of its group; but not of a record that "
            "it was first sent when it was a member again, or that lies before where its group had told it to go on"
        ),
    )

    def unsettled(self, tables: Tables) -> str | None:
        return super().unsettled(tables) or tables.of_share_groups()

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        return _again(tables.in_order)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        rows = _again(tables.in_order)
        if tables.capture.faulted:
            rows = blamed(rows, tables, of_another=False)
        return from_exchanges(
            rows,
            self.name,
            "valid",
            operation_id=F.lit(None),
            note=F.format_string("offset %d after %d", "first_offset", "reached"),
        )

    def sentence(self, group: Group) -> str:
        reader = group.client or "a consumer"
        what = f"{count(group.cases, 'record')} of {place(group)} came again or out of order to {reader}"
        return what + sent_by(group)

    def all_clear(self, tables: Tables) -> str:
        return f"every consumer read forwards only ({count(tables.outcomes.polled, 'record')})"


def _again(delivered: DataFrame) -> DataFrame:
    """Records that a client got though it had come further (`reached`), with how far and since when (`furthest`)."""
    reads = delivered.withColumn("furthest", furthest("client"))
    return each_behind(reads.filter(F.col("first_offset") <= F.col("furthest.last_offset")))
