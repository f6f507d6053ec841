"""Does one place in the log hold one record for everybody?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, is_send
from notleader.spark_analysis.checks.phrases import count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options


class InconsistentOffsets(Check):
    """Offsets for which two clients name different messages."""

    name = "inconsistent_offsets"
    title = "Inconsistent offsets"
    jepsen = "inconsistent offsets"
    needs = ("operations",)
    order = 16
    means = Meaning(
        invalid="one offset holds different messages for two clients",
        valid="no such offset",
        unknown="no operation was told of",
        evidence="acknowledgements and reads with a message id and an offset",
        cause="none is named",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        place_ = ("scope", "topic", "partition", "offset")
        acked = tables.history.filter(is_send() & (F.col("outcome") == "ok")).select(
            *place_, "message_id", F.coalesce("completed_at_us", "called_at_us").alias("at_us"), "client"
        )
        read = tables.delivered.filter(F.col("first_offset") == F.col("last_offset")).select(
            "scope", "topic", "partition", F.col("first_offset").alias("offset"), "message_id", "at_us", "client"
        )
        named = acked.unionByName(read).filter(
            F.col("offset").isNotNull() & F.col("message_id").isNotNull() & F.col("partition").isNotNull()
        )
        rows = (
            named.groupBy(*place_)
            .agg(
                F.min("message_id").alias("one"),
                F.max("message_id").alias("other"),
                F.min("at_us").alias("at_us"),
                F.min_by("client", "message_id").alias("one_client"),
                F.max_by("client", "message_id").alias("other_client"),
            )
            .filter(F.col("one") != F.col("other"))
        )
        note = F.format_string(
            "offset %d is %s for %s and %s for %s", "offset", "one", "one_client", "other", "other_client"
        )
        return from_exchanges(
            rows,
            self.name,
            "invalid",
            client=F.col("one_client"),
            message_id=F.col("one"),
            note=note,
        )

    def sentence(self, group: Group) -> str:
        verb = "holds" if group.cases == 1 else "hold"
        return f"{count(group.cases, 'offset')} of {place(group)} {verb} different messages for different clients"

    def all_clear(self, tables: Tables) -> str:
        return "every offset holds the same message for everybody"
