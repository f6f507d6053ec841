"""Did a call that should return at once hold its caller?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case
from notleader.spark_analysis.checks.phrases import because, by_client, count, duration, place
from notleader.spark_analysis.options import Options


class BlockedCall(HistoryCheck):
    """Calls that returned later than the bound; one that returned together with its success was a synchronous one."""

    name = "blocked_call"
    title = "Blocked calls"
    brief = "{n} blocked for up to {slowest}"
    counts = ("call", "calls")
    needs = ("operations",)
    order = 20
    means = Meaning(
        invalid="a call came back `--blocked-ms` or more after it was made, and not together with its success",
        valid="no such call",
        unknown="no operation was told of",
        evidence="`called_at_us` and `returned_at_us`, both by the client's clock",
        cause="the rules that were in its way for a quarter of that time or more",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        synchronous = (F.col("outcome") == "ok") & (F.col("returned_at_us") >= F.col("completed_at_us"))
        return F.when(
            (F.col("operation") != "poll")
            & (F.col("blocked_us") >= options.blocked_ms * 1000)
            & ~F.coalesce(synchronous, F.lit(False)),
            case(self.name, "invalid", "slow_by", duration_us=F.col("blocked_us"), note=F.col("error")),
        )

    def sentence(self, group: Group) -> str:
        calls = f"{count(group.cases, 'call')} for {place(group)}{by_client(group)}"
        return f"{calls} blocked for up to {duration(group.slowest_us)} before returning{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no call blocked beyond the bound"
