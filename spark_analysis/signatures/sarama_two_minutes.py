"""Does this look like a budget of seconds that became minutes?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import by_rule, duration, sends
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.signatures.who import may_be

_LONG_US = 5_000_000
_UNANSWERED = "forall(attempts, a -> a.response_at_us is null)"
# What only sarama, and only Go's dialler, say.
_ITS_ERRORS = r"run out of available brokers|dial tcp .*i/o timeout|dial tcp: i/o timeout"


class SaramaTwoMinutes(HistoryCheck):
    """A send of sarama's failed after 5 s or more, and its error is that of dialling in vain: timeouts added up.

    Sarama: 2 ReadTimeouts and Metadata.Retry.Max + 1 DialTimeouts, one after the other, whatever the caller's budget.
    """

    name = "looks_like_sarama_two_minutes"
    title = "Looks like sarama-two-minutes"
    brief = "looks like sarama-two-minutes"
    needs = ("sends", "faults")
    order = 6
    means = Meaning(
        invalid=(
            "a send failed after 5 s or more, none of its attempts was answered (it may have had none that the "
            "proxy saw), and its error is sarama's of dialling in vain; not where the client is known to be "
            "another"
        ),
        valid="no such send",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines and attempts",
        cause="the rules that were in its way for a quarter of that time or more",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        silent = F.expr(_UNANSWERED)
        its_own = may_be("sarama") & F.coalesce(F.col("error").rlike(_ITS_ERRORS), F.lit(False))
        late = (F.col("latency_us") >= _LONG_US) & F.col("outcome").isin("fail", "info")
        found = is_send() & late & silent & its_own
        return F.when(found, case(self.name, "invalid", "slow_by", note=F.col("error")))

    def sentence(self, group: Group) -> str:
        return (
            f"{sends(group)} failed only after {duration(group.slowest_us)} without an answer{by_rule(group)}, and with"
            " the error of dialling in vain: read and dial timeouts added up"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no failure took many timeouts to come"
