"""Did every send get an answer?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, no_send
from notleader.spark_analysis.checks.phrases import because, calls, count, duration
from notleader.spark_analysis.options import Options

# What was called in the last moment of a recording nobody has waited for.
_AT_ONCE_US = 100_000


class Hang(HistoryCheck):
    """Operations that neither succeeded nor failed while the client lived."""

    name = "hang"
    title = "Never answered"
    brief = "{n} never completed"
    brief_unknown = "{n} not completed yet at the end"
    counts = ("operation", "operations")
    needs = ("operations",)
    order = 10
    means = Meaning(
        invalid=(
            "an operation is pending, and was called `--hang-ms` or more before its run or its client's last "
            "connection ended"
        ),
        valid="every operation has an outcome",
        unknown=(
            "an operation is pending and younger than that, or nobody said when it was called, or its client was gone "
            "`--slow-ms` after the call, or the recording 100 ms after it: nobody could have heard"
        ),
        evidence="the client's outcome lines; for the cause its exchanges",
        cause=(
            "the rules that were in its way for a quarter of the wait or more; where none was, what ended its "
            "last attempt"
        ),
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        # A client that is gone waits no longer; a moment before it went nobody could have heard anything.
        gone = F.col("gone_us") > F.col("called_at_us")
        until_us = F.when(gone, F.col("gone_us")).otherwise(end_us)
        waited = F.when(F.col("called_at_us").isNotNull(), F.greatest(until_us - F.col("called_at_us"), F.lit(0)))
        at_once = F.coalesce(waited < F.when(gone, options.slow_ms * 1000).otherwise(_AT_ONCE_US), F.lit(False))
        old = F.coalesce(waited >= options.hang_ms * 1000, F.lit(False)) & ~at_once
        verdict = F.when(old, "invalid").otherwise("unknown")
        return F.when(
            F.col("outcome") == "pending",
            case(self.name, verdict, "slow_by", duration_us=waited, operation=no_send(), note=F.col("operation")),
        )

    def sentence(self, group: Group) -> str:
        what = calls(group)
        if group.verdict == "unknown":
            ended = "the recording or its client's last connection ended"
            return f"{what} had no outcome yet when {ended}, {duration(group.slowest_us)} after the call"
        return (
            f"{what} never completed; the longest had waited {duration(group.slowest_us)} when the recording or its"
            f" client's last connection ended"
            f"{because(group)}"
        )

    def all_clear(self, tables: Tables) -> str:
        return f"every one of {count(tables.outcomes.sends, 'send')} got an outcome"
