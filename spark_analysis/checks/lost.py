"""Is every acknowledged record in the log?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import because, sends
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.intervals import join_offsets

_LOSES = ("answered", "altered_request", "altered_answer", "swallowed_request", "garbled")


class Lost(Check):
    """Acknowledged sends that no consumer got although one read past their offset.

    A send beyond what any consumer read, without an offset, or in a transaction is not judged: unknown.
    """

    name = "lost"
    title = "Lost though acknowledged"
    jepsen = "lost write"
    needs = ("sends", "consumer")
    order = 11
    means = Meaning(
        invalid="acknowledged with an offset, and a reader went past that offset without getting the record",
        valid="every acknowledged record was read, or nothing was acknowledged",
        unknown=(
            "acknowledged, but nobody read that far, it has no offset, it was sent in a transaction, or nobody "
            "read at all"
        ),
        evidence="acknowledgements with their offsets, and what consumers got",
        cause="a rule that answered, changed or swallowed the request of that record, without an error in the answer",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        unseen = tables.history.filter(is_send() & (F.col("outcome") == "ok") & (F.col("landed_count") == 0))
        read = tables.delivered.groupBy(
            F.col("scope").alias("r_scope"),
            F.col("topic").alias("r_topic"),
            F.col("partition").alias("r_partition"),
            "client",
        ).agg(F.min("first_offset").alias("low"), F.max("last_offset").alias("high"))
        # One consumer's own span: two consumers that each read an end say nothing about the middle.
        spans = read.groupBy("r_scope", "r_topic", "r_partition").agg(
            F.collect_list(F.struct("low", "high")).alias("spans")
        )
        judged = unseen.join(
            F.broadcast(spans),
            F.col("scope").eqNullSafe(F.col("r_scope"))
            & (F.col("topic") == F.col("r_topic"))
            & (F.col("partition") == F.col("r_partition")),
            "left",
        ).withColumn(
            "passed", F.coalesce(F.expr("exists(spans, s -> s.low <= offset and offset < s.high)"), F.lit(False))
        )
        at_offset = tables.delivered.select(
            F.col("scope").alias("i_scope"),
            F.col("topic").alias("i_topic"),
            F.col("partition").alias("i_partition"),
            "first_offset",
            "last_offset",
            F.col("message_id").alias("i_message_id"),
        )
        others = (
            join_offsets(
                judged.filter("passed").select("operation_id", "scope", "topic", "partition", "offset"), at_offset
            )
            .groupBy("operation_id")
            .agg(F.min("i_message_id").alias("other"))
        )
        rows = judged.join(others, "operation_id", "left")
        note = (
            F.when(F.col("offset").isNull(), F.lit("acknowledged without an offset"))
            .when(F.col("transactional"), F.lit("sent in a transaction, which may have been aborted"))
            .when(~F.col("passed"), F.lit("no consumer read past its offset"))
            .when(
                F.col("other").isNotNull(),
                F.concat(F.lit("offset "), F.col("offset"), F.lit(" holds message "), F.col("other")),
            )
            .otherwise(F.concat(F.lit("no consumer got offset "), F.col("offset")))
        )
        verdict = F.when(F.col("passed") & ~F.col("transactional"), "invalid").otherwise("unknown")
        # What only held it, or told of an error, lost nothing: it was acknowledged after that.
        rows = rows.withColumn(
            "lost_by",
            F.filter("touched_by", lambda c: c["error_code"].isNull() & c["did"].isin(*_LOSES)),
        )
        return as_cases(rows, self.name, verdict, "lost_by", note=note)

    def sentence(self, group: Group) -> str:
        verb = "was" if group.cases == 1 else "were"
        them, they, their = ("it", "it", "its") if group.cases == 1 else ("them", "they", "their")
        if group.verdict == "unknown":
            why = f"no consumer read past {them}, or {they} had no offset of {their} own"
            return f"{sends(group)} {verb} acknowledged but cannot be judged: {why}"
        what = f"a consumer read past {them} and never got {them}"
        return f"{sends(group)} {verb} acknowledged and lost: {what}{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return f"all {tables.outcomes.ok:,} acknowledged sends were read by a consumer"
