"""Did a group go back behind what it had committed?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges, of_api
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import touches_at
from notleader.spark_analysis.transforms.keys import same


class CommitLost(Check):
    """Records read after a successful commit of a later offset (a commit says: this is where to go on)."""

    name = "commit_lost"
    title = "Commit lost"
    brief = "{n} read again behind a commit"
    counts = ("record", "records")
    needs = ("commits", "consumer")
    of_causes = False
    order = 18
    means = Meaning(
        invalid=(
            "a group read a record after a commit beyond it, and in between was told an older offset as the "
            "committed one"
        ),
        valid="no such record; a group that was told no other place than the one it committed went back by itself",
        unknown="a group read a record after a commit beyond it, and what it was told in between was not captured",
        evidence="commits and reads, by group and partition, and captured OffsetFetch and OffsetCommit answers",
        cause="the rules that answered that commit in the broker's place, or changed it, or the offset that was told",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        group = F.coalesce("group_id", "client").alias("group")
        committed = tables.operations.filter((F.col("operation") == "commit") & (F.col("outcome") == "ok")).select(
            "scope", group, "topic", "partition", F.col("completed_at_us").alias("at_us"),
            F.col("offset").alias("committed"), F.lit(None).cast("long").alias("first_offset"),
            F.lit(None).cast("string").alias("message_id"),
        )  # fmt: skip
        read = tables.delivered.select(
            "scope", group, "topic", "partition", "at_us", F.lit(None).cast("long").alias("committed"),
            "first_offset", "message_id",
        )  # fmt: skip
        before = (
            Window.partitionBy("scope", "group", "topic", "partition")
            .orderBy("at_us")
            .rangeBetween(Window.unboundedPreceding, -1)
        )
        behind = (
            committed.unionByName(read)
            .withColumn(
                "last", F.max(F.when(F.col("committed").isNotNull(), F.struct("committed", "at_us"))).over(before)
            )
            .filter(F.col("first_offset") < F.col("last.committed"))
        )
        rows = behind.join(broadcast(_asked(tables)), same("w_", "scope", "group", "topic", "partition"), "left")
        told = F.filter(
            "answers",
            lambda a: (
                (a["at_us"] >= F.col("last.at_us"))
                & (a["at_us"] <= F.col("at_us"))
                & (a["offset"] < F.col("last.committed"))
            ),
        )
        unheard = F.coalesce(F.size("answers"), F.lit(0)) == 0
        faked = F.filter("commits", lambda c: c["offset"] == F.col("last.committed"))
        lost = F.size(told) > 0
        rows = rows.withColumn("seen", F.flatten(F.array(told, faked))).withColumns(
            {
                "rule": joined(F.array_distinct(F.flatten(F.transform("seen", lambda s: s["rules"])))),
                "kind": joined(F.array_distinct(F.flatten(F.transform("seen", lambda s: s["kinds"])))),
            }
        )
        # Whoever was never told another place than the one committed went back by itself: a seek.
        rows = rows.filter(unheard | lost)
        return from_exchanges(
            rows,
            self.name,
            F.when(lost, "invalid").otherwise("unknown"),
            client=F.col("group"),
            note=F.format_string("offset %d although %d was committed", "first_offset", "last.committed"),
        )

    def sentence(self, group: Group) -> str:
        what = (
            f"{group.client or 'a group'} read {count(group.cases, 'record')} of {place(group)}"
            " again after committing beyond them"
        )
        if group.verdict == "unknown":
            unheard = f"{what}; whether it was told to or sought to was not captured"
            return f"{unheard}; the commit was changed or made up{by_rule(group)}" if group.rule else unheard
        if not group.rule:
            return f"{what}, because it was told an older offset; no fault had a hand in it"
        return f"{what}; the commit, or the offset that it was told, was changed or made up{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return f"nobody was sent back behind {count(tables.outcomes.commits, 'commit')}"


_FAKED = ("answered", "altered_request", "altered_answer", "swallowed_request")


def _asked(tables: Tables) -> DataFrame:
    """w_scope, w_group, w_topic, w_partition → `answers` to OffsetFetch and `commits` that a rule faked.

    Each has at_us, offset, rules, kinds. A group that was never seen to ask has no row.
    """
    # OffsetFetch names its groups inside from version 8 on: what else was asked on the connection names the group.
    group = F.max("group_id").over(Window.partitionBy("scope", "proxy_id", "connection_id"))
    of_groups = tables.exchanges.filter(F.col("group_id").isNotNull() | (F.col("api_name") == "OffsetFetch"))
    rows = of_api(of_groups.withColumn("group_id", F.coalesce("group_id", group)), "OffsetFetch", "OffsetCommit")
    placed = rows.select("*", F.posexplode("partitions").alias("place", "p"))
    faked = F.filter(
        touches_at(F.col("place")), lambda t: t["did"].isin(*_FAKED) & (F.coalesce(t["error_code"], F.lit(0)) == 0)
    )
    told = F.struct(
        F.coalesce("response_at_us", "request_at_us").alias("at_us"),
        F.coalesce("p.base_offset", F.lit(-1)).alias("offset"),
        F.transform("faked", lambda t: t["rule"]).alias("rules"),
        F.transform("faked", lambda t: t["kind"]).alias("kinds"),
    )
    asked = F.col("api_name") == "OffsetFetch"
    good = F.col("response_at_us").isNotNull() & (F.coalesce("p.error_code", F.lit(0)) == 0)
    return (
        placed.withColumn("faked", faked)
        .groupBy(
            F.col("scope").alias("w_scope"),
            F.col("group_id").alias("w_group"),
            F.col("p.topic").alias("w_topic"),
            F.col("p.partition_index").alias("w_partition"),
        )
        .agg(
            F.collect_list(F.when(asked & good, told)).alias("answers"),
            F.collect_list(F.when(~asked & (F.size("faked") > 0), told)).alias("commits"),
        )
    )
