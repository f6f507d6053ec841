"""Does this look like a budget of seconds that became minutes?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import by_rule, duration, sends
from notleader.spark_analysis.options import Options

_LONG_US = 15_000_000
_UNANSWERED = "attempt_count > 0 and forall(attempts, a -> a.response_at_us is null)"


class SaramaTwoMinutes(HistoryCheck):
    """A send failed after 15 s or more while its broker answered nothing: timeouts of reads and dials added up.

    Sarama: 2 ReadTimeouts and Metadata.Retry.Max + 1 DialTimeouts, one after the other, whatever the caller's budget.
    """

    name = "looks_like_sarama_two_minutes"
    title = "Looks like sarama-two-minutes"
    needs = ("sends", "faults")
    order = 6
    means = Meaning(
        invalid="failed after 15 s or more, and no attempt was answered",
        valid="no such send",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines and attempts",
        cause="what ended the last attempt",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        silent = F.expr(_UNANSWERED)
        found = is_send() & F.col("outcome").isin("fail", "info") & (F.col("latency_us") >= _LONG_US) & silent
        return F.when(found, case(self.name, "invalid", "ended_by", note=F.col("error")))

    def sentence(self, group: Group) -> str:
        return (
            f"{sends(group)} failed only after {duration(group.slowest_us)} without an"
            f" answer{by_rule(group)}: read and dial timeouts added up"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no failure took many timeouts to come"
