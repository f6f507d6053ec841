"""Did a consumer group pass over records that are in the log?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send, joined
from notleader.spark_analysis.checks.phrases import SENT, by_rule, count, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.obstacles import names_of
from notleader.spark_analysis.transforms.sent_back import seeks, told_places, with_senders_back

_OUT_OF_RANGE = 1
_LONGEST = 100_000


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
        valid=(
            "no such record; without the log, of those sent in transactions none is asked for, as some are aborted; "
            "of a group that asked for an offset of its own accord, between two reads, and went on there, or whose "
            "member said that it sought (`seek`)"
        ),
        unknown="nobody read, or no send was told of",
        evidence="what consumers got, by group, their seeks, and captured ListOffsets answers",
        cause="a rule that told the reader another place before it jumped: OFFSET_OUT_OF_RANGE, an offset, a commit",
    )

    def signs(self, tables: Tables, options: Options) -> DataFrame:
        read = _read(tables)
        # Of a longer range only the beginning counts as read.
        long = read.filter(F.col("last_offset") - F.col("first_offset") > _LONGEST)
        return _gaps(read).select("j_low").unionByName(long.select(F.col("first_offset").alias("j_low")))

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        read = _read(tables)
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
        offsets = F.explode(F.sequence("first_offset", F.least("last_offset", F.col("first_offset") + _LONGEST)))
        got = read.withColumn("o", offsets).select(F.xxhash64("group", "scope", "topic", "partition", "o").alias("key"))
        missed = (
            there.join(got, "key", "left_anti")
            .join(
                F.broadcast(_gaps(read)),
                F.col("group").eqNullSafe(F.col("j_group"))
                & F.col("scope").eqNullSafe(F.col("j_scope"))
                & (F.col("at.topic") == F.col("j_topic"))
                & (F.col("at.partition") == F.col("j_partition"))
                & (F.col("at.offset") > F.col("j_low"))
                & (F.col("at.offset") < F.col("j_high")),
                "left",
            )
            .join(
                F.broadcast(_sought(tables, read)),
                ["j_group", "j_scope", "j_topic", "j_partition", "j_low"],
                "left_anti",
            )
        )
        return as_cases(
            _blamed(missed, tables) if tables.capture.faulted else missed,
            self.name,
            "invalid",
            client=F.col("group"),
            topic=F.col("at.topic"),
            partition=F.col("at.partition"),
            duration_us=F.lit(None),
            note=F.concat(F.lit("offset "), F.col("at.offset"), F.lit(" was seen by "), F.col("at.seen_by")),
            **(
                {name: F.col(f"_{name}") for name in ("rule", "kind", "trouble")}
                if tables.capture.faulted
                else dict.fromkeys(("rule", "kind", "trouble"), F.lit(None))
            ),
        )

    def sentence(self, group: Group) -> str:
        verb = "is" if group.cases == 1 else "are"
        what = (
            f"{count(group.cases, 'record')} of {place(group)} {verb} in the log,"
            f" but {group.client} read past {'it' if group.cases == 1 else 'them'}"
        )
        return f"{what}; {SENT[group.trouble or 'place']}{by_rule(group)}" if group.rule else what

    def all_clear(self, tables: Tables) -> str:
        return "no consumer group passed over a record that another saw"


def _read(tables: Tables) -> DataFrame:
    """What was delivered, and to whose `group`: one that has none is a group by itself."""
    return tables.delivered.withColumn("group", F.coalesce("group_id", "client"))


def _gaps(read: DataFrame) -> DataFrame:
    """j_group, j_scope, j_topic, j_partition, j_low, j_high, j_client, j_from_us, j_until_us: what a group passed over.

    Between the offsets `j_low` and `j_high`, which it got one after the other; the second one `j_client` did.
    """
    order = Window.partitionBy("group", "scope", "topic", "partition").orderBy("first_offset", "last_offset")
    following = {"high": "first_offset", "high_us": "at_us", "high_client": "client"}
    rows = read.withColumns({name: F.lead(of).over(order) for name, of in following.items()})
    return rows.filter(F.col("high") > F.col("last_offset") + 1).select(
        F.col("group").alias("j_group"),
        F.col("scope").alias("j_scope"),
        F.col("topic").alias("j_topic"),
        F.col("partition").alias("j_partition"),
        F.col("last_offset").alias("j_low"),
        F.col("high").alias("j_high"),
        F.col("high_client").alias("j_client"),
        F.col("at_us").alias("j_from_us"),
        F.col("high_us").alias("j_until_us"),
    )


def _blamed(missed: DataFrame, tables: Tables) -> DataFrame:
    """`missed` with `_rule`, `_kind`, `_trouble`: the rules that told the reader where to go on."""
    places = {"client": "j_client", "topic": "j_topic", "partition": "j_partition", "first_offset": "j_high"}
    asked = {**places, "at_us": "j_until_us", "since_us": "j_from_us"}
    rows = missed.select(
        F.struct(*[F.col(name) for name in missed.columns]).alias("_m"),
        "scope",
        *[F.col(of).alias(name) for name, of in asked.items()],
    )
    told = with_senders_back(rows, told_places(tables.exchanges, tables.operations))
    sure = F.filter("sent_by", lambda t: t["what"] != "group")
    return told.select(
        "_m.*",
        joined(F.array_sort(F.array_distinct(F.transform(sure, lambda t: t["rule"])))).alias("_rule"),
        joined(F.array_sort(F.array_distinct(F.transform(sure, lambda t: t["kind"])))).alias("_kind"),
        F.array_max(F.transform(sure, lambda t: t["what"])).alias("_trouble"),
    )


def _sought(tables: Tables, read: DataFrame) -> DataFrame:
    """j_group, j_scope, j_topic, j_partition, j_low: gaps over which a member jumped to an offset it had asked for.

    Not where it had to ask: OFFSET_OUT_OF_RANGE, or no committed offset, sends a consumer to ListOffsets as well.
    """
    gaps = _gaps(read)
    out_of_range = (F.col("api_name") == "Fetch") & (F.col("p.error_code") == _OUT_OF_RANGE)
    asked = (
        tables.exchanges.filter(
            (F.col("event") == "exchange") & F.col("api_name").isin("ListOffsets", "OffsetFetch", "Fetch")
        )
        .withColumn("p", F.explode("partitions"))
        .filter((F.col("api_name") != "Fetch") | out_of_range)
        .join(
            F.broadcast(
                names_of(tables.operations).select(
                    F.col("scope").alias("n_scope"), F.col("wire_id").alias("n_id"), F.col("client").alias("n_client")
                )
            ),
            F.col("scope").eqNullSafe(F.col("n_scope")) & (F.col("client_id") == F.col("n_id")),
        )
    )
    met = gaps.join(
        asked,
        F.col("j_scope").eqNullSafe(F.col("scope"))
        & (F.col("j_client") == F.col("n_client"))
        & (F.col("j_topic") == F.col("p.topic"))
        & (F.col("j_partition") == F.col("p.partition_index"))
        & F.col("request_at_us").between(F.col("j_from_us"), F.col("j_until_us")),
    )
    gap = ("j_group", "j_scope", "j_topic", "j_partition", "j_low")
    there = (F.col("api_name") == "ListOffsets") & F.col("p.base_offset").between(F.col("j_low") + 1, F.col("j_high"))
    by_capture = (
        met.groupBy(*gap)
        .agg(F.count_if(there).alias("there"), F.count_if(F.col("api_name") != "ListOffsets").alias("sent"))
        .filter((F.col("there") > 0) & (F.col("sent") == 0))
        .select(*gap)
    )
    # Over what it had fetched before a consumer seeks without asking: only its own word tells.
    said = seeks(tables.operations)
    by_word = gaps.join(
        said,
        F.col("j_scope").eqNullSafe(F.col("s_scope"))
        & (F.col("j_client") == F.col("s_client"))
        & (F.col("j_topic") == F.col("s_topic"))
        & (F.col("j_partition") == F.col("s_partition"))
        & F.col("s_at_us").between(F.col("j_from_us"), F.col("j_until_us"))
        & (F.col("s_offset").isNull() | F.col("s_offset").between(F.col("j_low") + 1, F.col("j_high"))),
        "left_semi",
    ).select(*gap)
    return by_capture.unionByName(by_word).distinct()
