"""Did a call that should return at once hold its caller?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import (
    Group,
    HistoryCheck,
    Meaning,
    Tables,
    case,
    is_send,
    no_send,
    unless_little,
)
from notleader.spark_analysis.checks.phrases import because, calls, count, duration
from notleader.spark_analysis.options import Options

# Who looks at the clock twice, when a call came back and for its outcome, sees it go on in between.
_TOGETHER_US = 200
# What isn't a send waits for its own result, and nothing comes of it later.
_TOGETHER_OF_OTHERS_US = 100_000


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
        valid="no such call; what is no send, succeeded and was held up by a rule is told",
        unknown="no operation was told of, or of some nobody said when they were called and when they returned",
        evidence="`called_at_us` and `returned_at_us`, both by the client's clock",
        cause="the rules that were in its way for a quarter of that time or more",
    )

    def unsettled(self, tables: Tables) -> str | None:
        unreturned = tables.outcomes.unreturned
        return f"of {count(unreturned, 'call')} nobody said when it returned" if unreturned else None

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        together_us = F.when(is_send(), _TOGETHER_US).otherwise(_TOGETHER_OF_OTHERS_US)
        came_first = F.coalesce(F.col("returned_at_us") < F.col("completed_at_us") - together_us, F.lit(False))
        synchronous = F.coalesce((F.col("outcome") == "ok") & ~came_first, F.lit(False))
        # That a group or a transaction takes its time to begin is news only where a rule made it longer.
        told = ~is_send() & (F.size("slow_by") > 0)
        # Of one that nobody said to have returned before its success that is all that is known.
        took_us = F.coalesce("blocked_us", F.when(synchronous & ~is_send(), F.col("latency_us")))
        return F.when(
            (F.col("operation") != "poll") & (took_us >= options.blocked_ms * 1000) & (~synchronous | told),
            case(
                self.name,
                F.when(synchronous, "valid").otherwise("invalid"),
                "slow_by",
                operation=no_send(),
                duration_us=took_us,
                note=F.col("error"),
                **unless_little(),
            ),
        )

    def sentence(self, group: Group) -> str:
        if group.verdict == "valid":
            return f"{calls(group)} took up to {duration(group.slowest_us)} and succeeded{because(group)}"
        return f"{calls(group)} blocked for up to {duration(group.slowest_us)} before returning{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no call blocked beyond the bound"
