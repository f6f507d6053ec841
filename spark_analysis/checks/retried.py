"""Which sends took more than one attempt?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import count, duration, met, sends
from notleader.spark_analysis.options import Options


class Retried(HistoryCheck):
    """Acknowledged sends that went over the wire more than once: what retries are for."""

    name = "retried"
    title = "Retried"
    brief = "{n} retried"
    needs = ("sends", "capture")
    partly = True
    order = 60
    means = Meaning(
        invalid="never",
        valid="told: acknowledged after more than one attempt",
        unknown=(
            "no send was told of, or no exchange captured; or requests went wrong, and the capture doesn't name all "
            "messages, being below level `record` or the messages without the header `notleader-id`"
        ),
        evidence="outcome lines and the captured attempts",
        cause="what ended each attempt but the last",
    )

    def unsettled(self, tables: Tables) -> str | None:
        seen = tables.capture
        if seen.refused_produces and not seen.names_messages:
            wrong = count(seen.refused_produces, "request")
            if seen.batches_with_ids or seen.batches_with_keys:
                return f"{wrong} went wrong, and not all messages have the header notleader-id"
            return f"{wrong} went wrong, and below level record none names its messages"
        return None

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        again = is_send() & (F.col("outcome") == "ok") & (F.col("attempt_count") > 1)
        note = F.concat(F.col("attempt_count").cast("string"), F.lit(" attempts"))
        return F.when(again, case(self.name, "valid", "retried_by", note=note))

    def sentence(self, group: Group) -> str:
        if group.trouble is None and not group.rule:
            return f"{sends(group)} went out more than once without an error; slowest took {duration(group.slowest_us)}"
        verb = "was" if group.cases == 1 else "were"
        whose = " by the broker itself" if (group.trouble or "").startswith("error") and not group.rule else ""
        slowest = duration(group.slowest_us)
        return f"{sends(group)} {met(group)}{whose} and {verb} acknowledged on retry; slowest took {slowest}"

    def all_clear(self, tables: Tables) -> str:
        return "no send needed a second attempt"
