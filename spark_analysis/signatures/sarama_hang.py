"""Does this look like sarama's forgotten batch?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration
from notleader.spark_analysis.options import Options

_ALL_REFUSED = "attempt_count > 1 and forall(attempts, a -> a.error_code = 6)"


class SaramaHang(Check):
    """A batch of several, refused NOT_LEADER_OR_FOLLOWER each time, of which sends were never answered.

    Sarama before 1.38.0, idempotent: the last retry returns one message's error and forgets the rest of the batch, so
    SendMessages waits for ever. A recorder outside it sees them all pending.
    """

    name = "looks_like_sarama_hang"
    title = "Looks like sarama-hang"
    needs = ("sends", "faults")
    order = 5
    means = Meaning(
        invalid="several messages of a batch, refused on each attempt, of which some never ended",
        valid="no such batch",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines and the batch's attempts",
        cause="what ended the batch's last attempt",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.pending > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        refused = tables.history.filter(is_send() & F.expr(_ALL_REFUSED)).withColumns(
            {"batch": F.get("attempts", F.lit(0))["attempt_id"], "end_us": tables.end_of_run()}
        )
        shown = F.struct("message_id", "operation_id", "ended_by", "attempts", "attempt_count")
        rows = (
            refused.groupBy("scope", "client", "topic", "partition", "batch")
            .agg(
                F.count_if(F.col("outcome") == "pending").alias("pending"),
                F.count_if(F.col("outcome").isin("fail", "info")).alias("failed"),
                F.min("called_at_us").alias("called_at_us"),
                F.max("end_us").alias("end_us"),
                F.max_by(shown, F.col("outcome") == "pending").alias("s"),
            )
            .filter((F.col("pending") > 0) & (F.col("pending") + F.col("failed") > 1))
            .select("*", "s.*")
        )
        note = F.format_string(
            "%d x NOT_LEADER_OR_FOLLOWER, %d told an error, %d pending", "attempt_count", "failed", "pending"
        )
        return as_cases(
            rows,
            self.name,
            "invalid",
            "ended_by",
            trouble=F.lit("error:6"),
            at_us=F.col("called_at_us"),
            duration_us=F.col("end_us") - F.col("called_at_us"),
            note=note,
        )

    def sentence(self, group: Group) -> str:
        batches = count(group.cases, "batch", "batches")
        return (
            f"{batches}{by_client(group)} refused NOT_LEADER_OR_FOLLOWER{by_rule(group)} on each retry,"
            f" and then nothing for {duration(group.slowest_us)}"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no batch was half answered"
