"""Did sends take longer than they may?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send, unless_little
from notleader.spark_analysis.checks.phrases import because, duration, sends
from notleader.spark_analysis.options import Options


class Late(HistoryCheck):
    """Sends that ended later than `--late-ms` or the client's own budget; without a bound, slow ones are mentioned."""

    name = "late"
    title = "Late or over budget"
    brief = "{n} waited up to {slowest}"
    needs = ("sends",)
    order = 30
    means = Meaning(
        invalid="a send ended later than `--late-ms` or its own `budget_ms`",
        valid="no send did; without a bound, sends that took `--slow-ms` and succeeded are told",
        unknown="no send was told of",
        evidence="`called_at_us` and `completed_at_us`, both by the client's clock",
        cause="the rules that were in its way for a quarter of that time or more",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        stated = F.lit(options.late_ms).cast("long")
        budget = F.least(F.col("budget_ms"), stated)
        over = F.coalesce(F.col("latency_us") > budget * 1000, F.lit(False))
        slow = F.col("latency_us") >= options.slow_ms * 1000
        note = F.when(over, F.concat(F.lit("bound "), budget.cast("string"), F.lit(" ms")))
        verdict = F.when(over, "invalid").otherwise("valid")
        # A failure says itself when it came; it counts here only when it broke a bound.
        noticed = is_send() & (over | (slow & budget.isNull() & (F.col("outcome") == "ok")))
        return F.when(noticed, case(self.name, verdict, "slow_by", note=note, **unless_little()))

    def sentence(self, group: Group) -> str:
        if group.verdict == "invalid":
            return (
                f"{sends(group)} ended after the bound, the slowest after {duration(group.slowest_us)}{because(group)}"
            )
        return f"{sends(group)} took up to {duration(group.slowest_us)} and succeeded{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no send was late"
