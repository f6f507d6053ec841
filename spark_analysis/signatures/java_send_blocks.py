"""Does this look like an asynchronous send that waits for metadata?"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Group, HistoryCheck, Meaning, Tables, case, is_send
from notleader.spark_analysis.checks.phrases import by_client, count, duration
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.signatures.who import may_be

# Of 0.11 and of today.
_ITS_ERRORS = r"not present in metadata after \d+ ms|Failed to update metadata after \d+ ms"


class JavaSendBlocks(HistoryCheck):
    """A call held for `--blocked-ms` whose error speaks of metadata and that never reached the wire.

    Java's send() waits up to max.block.ms for metadata before it returns its future.
    """

    name = "looks_like_java_send_blocks"
    title = "Looks like java-send-blocks"
    brief = "looks like java-send-blocks"
    needs = ("sends", "faults")
    order = 8
    means = Meaning(
        invalid=(
            "a call blocked for `--blocked-ms`, failed with the Java producer's words for missing metadata, and never "
            "reached the wire, and a rule was in its way; not where the client is known to be another"
        ),
        valid="no such call",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines; that nothing of it was on the wire",
        cause="the rules that were in its way for a quarter of that time or more",
    )

    def case_of_row(self, options: Options, end_us: Column) -> Column:
        found = (
            is_send()
            & (F.col("blocked_us") >= options.blocked_ms * 1000)
            & (F.col("attempt_count") == 0)
            & F.coalesce(F.col("error").rlike(_ITS_ERRORS), F.lit(False))
            & (F.size("slow_by") > 0)
            & may_be("java")
        )
        blocked = {"duration_us": F.col("blocked_us"), "note": F.col("error")}
        return F.when(found, case(self.name, "invalid", "slow_by", **blocked))

    def sentence(self, group: Group) -> str:
        calls = f"{count(group.cases, 'send')} to {group.topic or 'a topic'}{by_client(group)}"
        return f"{calls} held the caller for up to {duration(group.slowest_us)} for metadata"

    def all_clear(self, tables: Tables) -> str:
        return "no send held its caller for metadata"
