"""Do records of one sender lie in the log in the order of the calls?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import because, by_client, count, place
from notleader.spark_analysis.options import Options


class Reordered(Check):
    """Sends of one thread to one partition whose offset is smaller than that of an earlier call."""

    name = "reordered"
    title = "Reordered"
    jepsen = "nonmonotonic send"
    needs = ("sends",)
    order = 13

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.ok > 1

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        placed = tables.history.filter(
            is_send() & (F.col("outcome") == "ok") & F.col("offset").isNotNull() & F.col("called_at_us").isNotNull()
        )
        # Calls in the same microsecond have no order between them: the frame ends one before.
        earlier = (
            Window.partitionBy("scope", "client", "thread", "topic", "partition")
            .orderBy("called_at_us")
            .rangeBetween(Window.unboundedPreceding, -1)
        )
        first = F.max(F.struct("offset", "message_id", "fault_names", "fault_kinds", "trouble", "attempts")).over(
            earlier
        )
        rows = placed.withColumn("before", first).filter(F.col("offset") < F.col("before.offset"))
        # The one that was overtaken is the one a fault held up.
        blamed = F.size("before.fault_names") > 0
        overtaken = rows.withColumns(
            {
                "fault_names": F.when(blamed, F.col("before.fault_names")).otherwise(F.col("fault_names")),
                "fault_kinds": F.when(blamed, F.col("before.fault_kinds")).otherwise(F.col("fault_kinds")),
                "trouble": F.coalesce("before.trouble", "trouble"),
                "attempts": F.concat(F.slice("before.attempts", 1, 5), F.slice("attempts", 1, 5)),
            }
        )
        note = F.concat(
            F.lit("offset "),
            F.col("offset"),
            F.lit(", though message "),
            F.coalesce(F.col("before.message_id"), F.lit("before it")),
            F.lit(" of an earlier call has "),
            F.col("before.offset"),
        )
        return as_cases(overtaken, self.name, "invalid", note=note)

    def sentence(self, group: Group) -> str:
        verb = "lies" if group.cases == 1 else "lie"
        what = f"{count(group.cases, 'send')} to {place(group)}{by_client(group)}"
        return f"{what} {verb} in the log before an earlier call's record{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "every partition holds its records in the order of the calls"
