"""Is something in the log that the client reported as failed?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import because, count, sends
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.log import settled_by_log

_APPENDED = (
    "exists(attempts, a -> a.error_code = 0 and a.base_offset >= 0 and a.match_kind in ('message_id', 'sequence'))"
)


class Phantom(HistoryCheck):
    """Sends reported as failed that are in the log: a resend would double them.

    By the log, else by what consumers got or the broker said it appended. What is only in an aborted transaction isn't.
    """

    name = "phantom"
    title = "In the log though failed"
    brief = "{n} in the log though failed"
    jepsen = "aborted read"
    needs = ("sends",)
    wire = True
    reading = True
    order = 14
    means = Meaning(
        invalid=(
            "reported as failed, and it is in the log, aborted transactions aside; without the log: a consumer "
            "got it, or the broker said that it was appended"
        ),
        valid="no failed send is in the log; without it: none was read by a consumer",
        unknown="nobody read and no log was given, or the log can't tell, and the broker's answers show no case",
        evidence="the client's word, the log, what consumers got, and the broker's answers",
        cause="what ended the last attempt of that send",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        appended = F.coalesce(F.expr(_APPENDED), F.lit(False)) & ~settled_by_log()
        seen = F.col("landed_count") > 0
        first = F.get("landed", F.lit(0))
        note = F.concat(
            F.when(first["seen_by"] == "log", "it is in the log at offset ").otherwise("a consumer got it at offset "),
            first["offset"],
        )
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
