"""Is something in the log that the client reported as failed?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import because, count, sends
from notleader.spark_analysis.options import Options

_APPENDED = (
    "exists(attempts, a -> a.error_code = 0 and a.base_offset >= 0 and a.match_kind in ('message_id', 'sequence'))"
)


class Phantom(HistoryCheck):
    """Sends reported as failed that a consumer got, or that the broker said it appended; a resend would double them."""

    name = "phantom"
    title = "In the log though failed"
    jepsen = "aborted read"
    needs = ("sends",)
    wire = True
    reading = True
    order = 14
    means = Meaning(
        invalid="reported as failed, and a reader got it or the broker said that it was appended",
        valid="no failed send was read",
        unknown="nobody read, and the broker's answers show no case",
        evidence="the client's word, what consumers got, and the broker's answers",
        cause="what ended the last attempt of that send",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        appended = F.coalesce(F.expr(_APPENDED), F.lit(False))
        seen = F.col("landed_count") > 0
        note = F.when(seen, F.concat(F.lit("a consumer got it at offset "), F.get("landed", F.lit(0))["offset"]))
        return F.when(
            is_send() & (F.col("outcome") == "fail") & (seen | appended),
            case(self.name, "invalid", "ended_by", note=F.coalesce(note, F.lit("the broker said it was appended"))),
        )

    def sentence(self, group: Group) -> str:
        verb = "was" if group.cases == 1 else "were"
        return f"{sends(group)} {verb} reported as failed and {verb} in the log all the same{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        if not tables.outcomes.failed:
            return "no send failed"
        return f"none of {count(tables.outcomes.failed, 'failed send')} turned up in the log"
