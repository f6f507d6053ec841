"""Did a consumer group pass over records that are in the log?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import count, place
from notleader.spark_analysis.options import Options


class Skipped(Check):
    """Records that someone saw in the log and a group that read on both sides of them did not get (a gap in a poll)."""

    name = "skipped"
    title = "Skipped by a consumer"
    brief = "{n} passed over by a reader"
    counts = ("record", "records")
    jepsen = "poll skip"
    needs = ("sends", "consumer")
    order = 17
    means = Meaning(
        invalid="a group read on both sides of a record that somebody else got, and not it",
        valid="no such record; without the log, of those sent in transactions none is asked for, as some are aborted",
        unknown="nobody read, or no send was told of",
        evidence="what consumers got, by group",
        cause="none is named",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        group = F.coalesce("group_id", "client")
        read = tables.delivered.withColumn("group", group)
        spans = read.groupBy(
            "group",
            F.col("scope").alias("s_scope"),
            F.col("topic").alias("s_topic"),
            F.col("partition").alias("s_partition"),
        ).agg(F.min("first_offset").alias("low"), F.max("last_offset").alias("high"))
        committed = F.coalesce(F.col("in_log") == "there", F.lit(False))
        there = (
            # Of a transaction's records those that were aborted are in the log, and a reader of committed ones passes
            # over them: without the log nothing here says how it ended.
            tables.history.filter(is_send() & F.col("message_id").isNotNull() & (~F.col("transactional") | committed))
            .withColumn("at", F.explode("landed"))
            .join(
                F.broadcast(spans),
                F.col("scope").eqNullSafe(F.col("s_scope"))
                & (F.col("at.topic") == F.col("s_topic"))
                & (F.col("at.partition") == F.col("s_partition"))
                & (F.col("at.offset") > F.col("low"))
                & (F.col("at.offset") < F.col("high")),
            )
            .withColumn("key", F.xxhash64("group", "scope", "at.topic", "at.partition", "at.offset"))
        )
        offsets = F.explode(F.sequence("first_offset", F.least("last_offset", F.col("first_offset") + 100_000)))
        got = read.withColumn("o", offsets).select(F.xxhash64("group", "scope", "topic", "partition", "o").alias("key"))
        missed = there.join(got, "key", "left_anti")
        return as_cases(
            missed,
            self.name,
            "invalid",
            client=F.col("group"),
            topic=F.col("at.topic"),
            partition=F.col("at.partition"),
            duration_us=F.lit(None),
            note=F.concat(F.lit("offset "), F.col("at.offset"), F.lit(" was seen by "), F.col("at.seen_by")),
        )

    def sentence(self, group: Group) -> str:
        verb = "is" if group.cases == 1 else "are"
        return (
            f"{count(group.cases, 'record')} of {place(group)} {verb} in the log,"
            f" but {group.client} read past {'it' if group.cases == 1 else 'them'}"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no consumer group passed over a record that another saw"
