"""Did a group go back behind what it had committed?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options


class CommitLost(Check):
    """Records read after a successful commit of a later offset (a commit says: this is where to go on)."""

    name = "commit_lost"
    title = "Commit lost"
    needs = ("commits", "consumer")
    order = 18
    means = Meaning(
        invalid="a group read a record after a commit beyond it",
        valid="no such record",
        unknown="no commit was told of, or nobody read",
        evidence="commits and reads, by group and partition",
        cause="none is named",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        group = F.coalesce("group_id", "client").alias("group")
        committed = tables.operations.filter(
            (F.col("operation") == "commit") & (F.col("outcome") == "ok") & F.col("offset").isNotNull()
        ).select(
            "scope", group, "topic", "partition", F.col("completed_at_us").alias("at_us"),
            F.col("offset").alias("committed"), F.lit(None).cast("long").alias("first_offset"),
            F.lit(None).cast("string").alias("message_id"),
        )  # fmt: skip
        read = tables.delivered.select(
            "scope", group, "topic", "partition", "at_us", F.lit(None).cast("long").alias("committed"),
            "first_offset", "message_id",
        )  # fmt: skip
        before = (
            Window.partitionBy("scope", "group", "topic", "partition")
            .orderBy("at_us")
            .rangeBetween(Window.unboundedPreceding, -1)
        )
        rows = (
            committed.unionByName(read)
            .withColumn("last_commit", F.max("committed").over(before))
            .filter(F.col("first_offset") < F.col("last_commit"))
        )
        return from_exchanges(
            rows,
            self.name,
            "invalid",
            client=F.col("group"),
            note=F.format_string("offset %d although %d was committed", "first_offset", "last_commit"),
        )

    def sentence(self, group: Group) -> str:
        return (
            f"{group.client or 'a group'} read {count(group.cases, 'record')} of {place(group)}"
            " again after committing beyond them"
        )

    def all_clear(self, tables: Tables) -> str:
        return f"nobody read behind {count(tables.outcomes.commits, 'commit')}"
