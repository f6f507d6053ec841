"""Consumers that got nothing although there was something to read, and since when."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, table_of
from notleader.spark_analysis.schemas import HISTORY
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import handed_out
from notleader.spark_analysis.transforms.obstacles import TXN_OFFSET_COMMIT
from notleader.spark_analysis.transforms.sent_back import of_clients

READ = "read"
"""`operation` of what waits here: no client says so."""
OF_A_MEMBER = "read behind its group"
"""The same beside another member of its group: what that was told, and what took its connections, counts."""

_ATTEMPTS = HISTORY["attempts"].dataType
_PLACE = ("scope", "group", "topic", "partition")
# What a member of a group, or who would be one, asks for.
_OF_MEMBERS = ("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetFetch", "OffsetCommit",
               "ConsumerGroupHeartbeat")  # fmt: skip
_MOST = 10_000
_MOST_OF_ONE = 200
_MOST_MEMBERS = 20
_EVER = 1 << 62
# What is read from one poll is told within this time.
_SOON = 1_000_000
_WAIT = (
    "struct<scope:string,group:string,topic:string,partition:int,reader:string,offset:bigint,"
    "lay_us:bigint,before_us:bigint,read_us:bigint,again_us:bigint,unread:bigint,taken_over:boolean>"
)
_STARVED = (
    "struct<operation_id:bigint,scope:string,group:string,reader:string,client:string,operation:string,topic:string,"
    "partition:int,offset:bigint,called_at_us:bigint,completed_at_us:bigint,again_us:bigint,latency_us:bigint,"
    "before_us:bigint,fetches_us:bigint,unread:bigint,taken_over:boolean,"
    f"outcome:string,attempt_count:int,transactional:boolean,attempts:{_ATTEMPTS.simpleString()}>"
)


def starved_reads(
    history: DataFrame, delivered: DataFrame, exchanges: DataFrame, names: DataFrame, options: Options
) -> DataFrame | None:
    """Reads that waited for `--slow-ms` or more for what lay there: a few of HISTORY's columns, and of their own.

    A group read nothing of a partition for as long, until `again_us` (null: to the end), and of what came then, or was
    to come, this waited longest. `called_at_us`: since when it lay there, by the acknowledgement that its sender got,
    and the group had read anything there. `completed_at_us`: when a broker's answer had it, or its `reader` said that
    it got it, whichever came first; of what was never read, the last that was seen of the reader. So what a consumer
    takes over its own work, having been handed what comes next, is no such time. Of records in transactions nobody
    knows here since when a consumer may read them.

    `attempts` has the Fetch whose answer had it, if one is known: since that was asked for, only what stood in the way
    of that one Fetch can have kept it. `before_us` is when its group had read there last, `fetches_us` when its reader
    got its last answer to a Fetch, `unread` how many records its group never read there (null: it read on),
    `taken_over` whether another of its group had read there before. There is a row for each `client` of the group:
    what befalls any of its members may hold up all of them. At most ten thousand; None of none.
    """
    spark = history.sparkSession
    read = delivered.withColumn("group", F.coalesce("group_id", "client"))
    acknowledged = (F.col("outcome") == "ok") & F.col("offset").isNotNull() & ~F.col("transactional")
    lay = history.filter((F.col("operation") == "send") & acknowledged).select(
        "scope", "topic", "partition", "offset", F.col("completed_at_us").alias("lay_us")
    )
    slow_us = options.slow_ms * 1000
    waits = _later(read, lay, slow_us).unionByName(_never(read, lay))
    too_soon = F.col("read_us") - F.greatest("lay_us", "before_us") < slow_us
    met = waits.filter(~F.coalesce(too_soon, F.lit(False))).limit(_MOST).collect()
    if not met:
        return None
    seen = (
        of_clients(exchanges, names)
        .groupBy(F.col("scope").alias("s_scope"), F.col("t_client").alias("s_client"))
        .agg(
            F.min("request_at_us").alias("first_us"),
            F.max(F.greatest("request_at_us", F.coalesce("response_at_us", "request_at_us"))).alias("last_us"),
            F.max(F.when(F.col("api_name") == "Fetch", F.col("response_at_us"))).alias("fetches_us"),
        )
    )
    of_reader = [same("s_", "scope"), F.col("reader") == F.col("s_client")]
    waits = table_of(spark, [row.asDict() for row in met], _WAIT).join(broadcast(seen), of_reader)
    began = F.greatest("lay_us", F.coalesce("before_us", "first_us"))
    waits = _there(waits.withColumn("began_us", began), exchanges)
    waits = _handed_out(waits, exchanges, names)
    ended = F.least(F.coalesce("read_us", "last_us"), "handed_us")
    wait = F.struct((ended - F.col("began_us")).alias("us"), "offset", "began_us", ended.alias("ended_us"))
    longest = (
        waits.groupBy(*_PLACE, "reader", "again_us")
        .agg(
            F.max(wait).alias("w"),
            F.max_by("fetch", wait).alias("fetch"),
            F.max_by("before_us", wait).alias("before_us"),
            F.max("unread").alias("unread"),
            F.max("taken_over").alias("taken_over"),
            F.max("fetches_us").alias("fetches_us"),
        )
        .filter(F.col("w.us") >= slow_us)
    )
    # Who reads, processes and writes in transactions reads on when its producer has committed that (KIP-98).
    committing = of_clients(exchanges.filter(F.col("api_name") == TXN_OFFSET_COMMIT), names)
    committers = committing.select("scope", F.col("group_id").alias("group"), F.col("t_client").alias("client"))
    of_groups = read.select("scope", "group", "client").unionByName(committers.distinct())
    members = of_groups.groupBy(F.col("scope").alias("m_scope"), F.col("group").alias("m_group")).agg(
        F.slice(F.array_sort(F.collect_set("client")), 1, _MOST_MEMBERS).alias("members")
    )
    rows = longest.join(broadcast(members), same("m_", "scope", "group"))
    found = (
        rows.withColumn("client", F.explode(F.array_union(F.array("reader"), "members")))
        .select(
            F.xxhash64(*_PLACE, "client", "again_us").alias("operation_id"),
            *_PLACE,
            "reader",
            "client",
            F.when(F.col("client") == F.col("reader"), READ).otherwise(OF_A_MEMBER).alias("operation"),
            "w.offset",
            F.col("w.began_us").alias("called_at_us"),
            F.col("w.ended_us").alias("completed_at_us"),
            "again_us",
            F.col("w.us").alias("latency_us"),
            "before_us",
            "fetches_us",
            "unread",
            "taken_over",
            F.lit("ok").alias("outcome"),
            F.lit(0).alias("attempt_count"),
            F.lit(False).alias("transactional"),
            F.when(F.col("fetch").isNotNull(), F.array("fetch")).otherwise(F.array()).cast(_ATTEMPTS).alias("attempts"),
        )
        .collect()
    )
    return table_of(spark, [row.asDict(recursive=True) for row in found], _STARVED) if found else None


def _later(read: DataFrame, lay: DataFrame, slow_us: int) -> DataFrame:
    """What a group read when it had read nothing of a partition for `slow_us` or more: the first of it."""
    order = Window.partitionBy(*_PLACE).orderBy("at_us", "first_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    by_another = F.coalesce(F.last("client").over(before) != F.col("client"), F.lit(False))
    reads = read.withColumns({"before_us": F.max("at_us").over(before), "taken_over": by_another})
    paused = F.col("at_us") - F.coalesce("before_us", F.lit(0)) >= slow_us
    anew = F.struct("before_us", F.col("at_us").alias("again_us"), "taken_over")
    until_now = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    reads = reads.withColumn("since", F.last(F.when(paused, anew), ignorenulls=True).over(until_now))
    # What comes much later was waited for behind what came now.
    reads = reads.filter(F.col("at_us") - F.col("since.again_us") < slow_us)
    of_one = Window.partitionBy(*_PLACE, "since.again_us").orderBy("at_us", "first_offset")
    reads = reads.withColumn("number", F.row_number().over(of_one)).filter(F.col("number") <= _MOST_OF_ONE)
    rows = reads.select(
        *_PLACE,
        "since.before_us",
        "since.again_us",
        F.col("client").alias("reader"),
        F.col("at_us").alias("read_us"),
        F.col("first_offset").alias("offset"),
        F.lit(None).cast("long").alias("unread"),
        "since.taken_over",
    )
    return rows.join(lay, ["scope", "topic", "partition", "offset"])


def _never(read: DataFrame, lay: DataFrame) -> DataFrame:
    """The first record behind all that a group read of a partition: nobody of it got it."""
    furthest = read.groupBy(*_PLACE).agg(
        F.max("last_offset").alias("reached"),
        F.max("at_us").alias("before_us"),
        F.max_by("client", "at_us").alias("reader"),
    )
    return (
        lay.join(broadcast(furthest), ["scope", "topic", "partition"])
        .filter(F.col("offset") > F.col("reached"))
        .groupBy(*_PLACE, "before_us", "reader")
        .agg(
            F.min("offset").alias("offset"),
            F.min_by("lay_us", "offset").alias("lay_us"),
            F.count("*").alias("unread"),
        )
        .withColumns(
            {
                "read_us": F.lit(None).cast("long"),
                "again_us": F.lit(None).cast("long"),
                "taken_over": F.lit(False),
            }
        )
    )


def _there(waits: DataFrame, exchanges: DataFrame) -> DataFrame:
    """`waits` that begin no sooner than somebody was there again, where a member had left nobody in its group."""
    of_groups = exchanges.filter(F.col("api_name").isin(*_OF_MEMBERS) & F.col("group_id").isNotNull())
    order = Window.partitionBy("scope", "group_id").orderBy("request_at_us")
    # Whom others follow with their heartbeats has not left it empty.
    anew = F.lead("api_name").over(order).isin("FindCoordinator", "JoinGroup")
    gone = (
        of_groups.withColumns({"back_us": F.lead("request_at_us").over(order), "anew": anew})
        .filter((F.col("api_name") == "LeaveGroup") & F.col("anew"))
        .groupBy(F.col("scope").alias("g_scope"), F.col("group_id").alias("g_group"))
        .agg(F.array_sort(F.collect_list("back_us")).alias("backs"))
    )
    until_us = F.coalesce("read_us", "last_us")
    back_us = F.array_max(F.filter("backs", lambda back: back <= until_us))
    there = waits.join(broadcast(gone), same("g_", "scope", "group"), "left")
    return there.withColumn("began_us", F.greatest("began_us", back_us)).drop("g_scope", "g_group", "backs")


def _handed_out(waits: DataFrame, exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """`waits` with `handed_us`: when the broker's answer had it that the reader read, or first had what it never read.

    Besides `fetch`, the exchange of that answer, as an attempt. Null where no answer says what it had. What was handed
    out before the wait began, and not again, is none of them: it lay with its reader.
    """
    place = ("scope", "reader", "topic", "partition")
    answers = handed_out(exchanges, names).select(
        F.col("scope").alias("h_scope"),
        F.col("client").alias("h_reader"),
        F.col("topic").alias("h_topic"),
        F.col("partition").alias("h_partition"),
        "from_offset",
        (F.col("from_offset") + F.col("record_count")).alias("behind_offset"),
        F.col("fetched_us").alias("h_at_us"),
        "fetch",
    )
    spans = waits.groupBy(*place).agg(
        F.collect_set(F.struct("again_us", F.coalesce("before_us", F.lit(0)).alias("since_us"))).alias("spans")
    )
    theirs = answers.join(broadcast(spans), same("h_", *place)).select(
        *[F.col(name).alias(f"h_{name}") for name in place],
        "from_offset",
        "behind_offset",
        "h_at_us",
        "fetch",
        F.exists(
            "spans",
            lambda s: (
                (F.col("h_at_us") >= s["since_us"])
                & (F.col("h_at_us") <= F.coalesce(s["again_us"], F.lit(_EVER)) + _SOON)
            ),
        ).alias("meanwhile"),
    )
    knows = theirs.select(*[F.col(f"h_{name}").alias(f"k_{name}") for name in place]).distinct()
    had_it = [
        same("h_", *place),
        F.col("h_at_us").between(F.col("began_us"), F.coalesce("read_us", F.lit(_EVER))),
        F.col("from_offset") <= F.col("offset"),
        F.coalesce(F.col("behind_offset") > F.col("offset"), F.lit(True)),
    ]
    columns, read = waits.columns, F.col("read_us").isNotNull()
    handed = (
        waits.join(theirs.filter("meanwhile"), had_it, "left")
        .groupBy(*columns)
        .agg(
            F.when(read, F.max("h_at_us")).otherwise(F.min("h_at_us")).alias("handed_us"),
            F.when(read, F.max_by("fetch", "h_at_us")).otherwise(F.min_by("fetch", "h_at_us")).alias("fetch"),
        )
        .join(broadcast(knows.withColumn("known", F.lit(True))), same("k_", *place), "left")
    )
    return handed.filter(F.col("handed_us").isNotNull() | F.col("known").isNull() | ~read)
