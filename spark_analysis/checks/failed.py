"""Which sends did the client give up on?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, no_send
from notleader.spark_analysis.checks.phrases import because, calls, duration
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.attempts import last_attempt, trouble


class Failed(HistoryCheck):
    """Operations that the client reported as failed: bad news, honestly told, so no negative verdict by itself."""

    name = "failed"
    title = "Failed"
    brief = "{n} told an error"
    counts = ("operation", "operations")
    needs = ("operations",)
    order = 40
    means = Meaning(
        invalid="never",
        valid="told: what the client reported as failed (`fail`), and what may have happened (`info`)",
        unknown="no operation was told of",
        evidence="outcome lines",
        cause="what ended the last attempt: the rule that said this very error, or that kept the answer away",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        last = last_attempt()
        met = F.when(F.col("attempt_count") > 0, trouble(last["outcome"], last["error_code"]))
        told = {
            "operation": no_send(),
            "note": F.col("error"),
            "open": F.col("outcome") == "info",
            # How it ended is what its last attempt met.
            "trouble": F.when(F.col("trouble").isNotNull(), F.coalesce(met, F.col("trouble"))),
            "own_trouble": F.size("ended_by") == 0,
        }
        return F.when(F.col("outcome").isin("fail", "info"), case(self.name, "valid", "ended_by", **told))

    def sentence(self, group: Group) -> str:
        slowest = f", the slowest after {duration(group.slowest_us)}" if group.slowest_us else ""
        return f"{calls(group)} {_said(group)}{slowest}{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no operation failed"


def _said(group: Group) -> str:
    """What came of them: what failed was not carried out, and of the others nobody knows."""
    if not group.open:
        return "failed and said so"
    if group.open < group.cases:
        return f"ended with an error, {group.open:,} of them with one that leaves open what was done"
    return f"ended with an error that leaves open whether {'it was' if group.cases == 1 else 'they were'} carried out"
