"""Where records really landed, as far as the log, consumers and captured Fetch answers show it."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast, in_key_order
from notleader.spark_analysis.schemas import LANDED, as_field
from notleader.spark_analysis.transforms.attempts import changes_records, touches_at, was_answered, wire_of_place
from notleader.spark_analysis.transforms.intervals import interval, join_offsets
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.log import OLDER
from notleader.spark_analysis.transforms.sent_back import is_out_of_range, of_clients, said_places, seeks

PREFETCHED_US = 10_000_000
"""Where no Fetch says when a reader had been handed what it read, it may have lain there for so long."""
_OF_READER = ("scope", "topic", "partition", "life", "client")


def deliveries(operations: DataFrame, scope: Column) -> DataFrame:
    """One row per run of offsets that a consumer said it got: scope, client, place, ids, `at_us`, `polled_at_us`."""
    polls = operations.filter((F.col("operation") == "poll") & F.col("offset").isNotNull())
    return polls.select(
        scope.alias("scope"),
        "operation_id",
        "client",
        "client_id",
        "group_id",
        "topic",
        "partition",
        F.col("offset").alias("first_offset"),
        F.coalesce("last_offset", "offset").alias("last_offset"),
        F.coalesce("record_count", F.lit(1)).alias("record_count"),
        "message_id",
        F.coalesce("completed_at_us", "returned_at_us", "called_at_us").alias("at_us"),
    )


def fetched(exchanges: DataFrame, scope: Column) -> DataFrame:
    """One row per message id in a Fetch answer that the proxy did not touch, at its offset in a gapless batch."""
    fetches = exchanges.filter(
        (F.col("event") == "exchange") & (F.col("api_name") == "Fetch") & (F.col("outcome") == "answered")
    )
    parts = fetches.select(scope.alias("scope"), F.explode("partitions").alias("p")).filter(
        (F.coalesce("p.error_code", F.lit(0)) == 0) & (F.col("p.base_offset") >= 0) & (F.size("p.message_ids") > 0)
    )
    ids = parts.select("scope", "p", F.posexplode("p.message_ids").alias("i", "message_id"))
    return ids.filter(F.col("message_id").isNotNull()).select(
        "scope",
        F.col("p.topic").alias("topic"),
        F.col("p.partition_index").alias("partition"),
        (F.col("p.base_offset") + F.col("i")).alias("offset"),
        "message_id",
    )


def handed_out(exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """What answers of brokers gave whom: scope, client, topic, partition, from_offset, record_count, `fetched_us`.

    `fetch` is the exchange as an attempt.
    """
    fetches = exchanges.filter((F.col("api_name") == "Fetch") & was_answered(F.col("outcome")))
    touches = touches_at(F.col("place"))
    handed = ~F.exists(touches, changes_records)
    batches = fetches.select("*", F.posexplode("partitions").alias("place", "p")).filter(
        (F.col("p.base_offset") >= 0) & (F.coalesce("p.error_code", F.lit(0)) == 0) & handed
    )
    return of_clients(batches, names).select(
        "scope",
        F.col("t_client").alias("client"),
        "p.topic",
        F.col("p.partition_index").alias("partition"),
        F.col("p.base_offset").alias("from_offset"),
        "p.record_count",
        F.col("response_at_us").alias("fetched_us"),
        wire_of_place(touches).alias("fetch"),
    )


def spans(delivered: DataFrame, jumped: DataFrame) -> DataFrame:
    """The `spans` that each consumer read, `low` to `high`, by place and life, whose names begin with `r_`.

    One consumer's own each: two consumers that each read an end say nothing about the middle. Nor does one that went on
    elsewhere (`jumped`): what it read from there on is another span.
    """
    place = [F.col(name).alias(f"r_{name}") for name in ("scope", "topic", "partition", "life")]
    order = Window.partitionBy(*_OF_READER).orderBy("at_us", "first_offset")
    until_now = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    here = [same("j_", *_OF_READER, "first_offset")]
    legs = delivered.join(broadcast(jumped.select("*", F.lit(1).alias("jump"))), here, "left").withColumn(
        "leg", F.coalesce(F.sum("jump").over(until_now), F.lit(0))
    )
    read = legs.groupBy(*place, "client", "leg").agg(
        F.min("first_offset").alias("low"), F.max("last_offset").alias("high")
    )
    of_place = ("r_scope", "r_topic", "r_partition", "r_life")
    return read.groupBy(*of_place).agg(F.collect_list(F.struct("low", "high")).alias("spans"))


def with_passed(
    sends: DataFrame, delivered: DataFrame, exchanges: DataFrame, operations: DataFrame, names: DataFrame
) -> DataFrame:
    """`sends` with `passed`: a reader had come to where each was told to be, and went on behind it."""
    read = broadcast(spans(delivered, jumps(delivered, exchanges, operations, names)))
    passed = F.exists("spans", lambda span: (span["low"] <= F.col("offset")) & (F.col("offset") < span["high"]))
    place = ("scope", "topic", "partition", "life")
    judged = sends.join(read, same("r_", *place), "left").withColumn("passed", F.coalesce(passed, F.lit(False)))
    return judged.drop("spans", *[f"r_{name}" for name in place])


def jumps(delivered: DataFrame, exchanges: DataFrame, operations: DataFrame, names: DataFrame) -> DataFrame:
    """_OF_READER and first_offset of a read, all behind `j_`: its consumer was told to go on there, or said it sought.

    It was told by an offset of ListOffsets or OffsetFetch beyond what it had read, or by OFFSET_OUT_OF_RANGE: since
    then, or before it read what comes before, for a consumer fetches ahead.
    """
    order = Window.partitionBy(*_OF_READER).orderBy("at_us", "first_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    gaps = delivered.withColumns(
        {"reached": F.max("last_offset").over(before), "since_us": F.max("at_us").over(before)}
    ).filter(F.col("first_offset") > F.col("reached") + 1)
    api = F.col("api_name")
    told = exchanges.select("*", F.explode("partitions").alias("p")).filter(
        (api.isin("ListOffsets", "OffsetFetch") & (F.col("p.base_offset") >= 0)) | is_out_of_range()
    )
    offset = F.when(api != "Fetch", F.col("p.base_offset"))
    said = said_places(told, names, F.coalesce("response_at_us", "request_at_us"), offset=offset)
    there = F.col("s_offset").isNull() | F.col("s_offset").between(F.col("reached") + 1, F.col("first_offset"))
    meanwhile = F.col("s_at_us").between(F.col("since_us") - PREFETCHED_US, F.col("at_us"))
    found = gaps.join(
        said.unionByName(seeks(operations)), [same("s_", "scope", "client", "topic", "partition"), there, meanwhile]
    )
    return found.select(*[F.col(name).alias(f"j_{name}") for name in (*_OF_READER, "first_offset")]).distinct()


def one_by_one(delivered: DataFrame) -> DataFrame:
    """What a consumer named: one record, by its message's id."""
    return delivered.filter((F.col("message_id") != "") & (F.col("first_offset") == F.col("last_offset")))


def message_key() -> Column:
    """One integer for a message id in its scope: a join by it is several times cheaper than by strings."""
    return F.xxhash64("scope", "message_id")


def places(delivered: DataFrame, fetch: DataFrame | None, log: DataFrame | None = None) -> DataFrame:
    """One row per message key: `seen`, every distinct place that a message of this key was seen at.

    `log` has the records of the log, with `seen_by`.
    """
    rows = one_by_one(delivered).select(
        message_key().alias("_key"), "message_id", _place(F.col("first_offset"), "consumer").alias("place")
    )
    if fetch is not None:
        rows = rows.unionByName(
            fetch.filter(F.col("message_id") != "").select(
                message_key().alias("_key"), "message_id", _place(F.col("offset"), "fetch").alias("place")
            )
        )
    if log is not None:
        rows = rows.unionByName(
            log.filter(F.col("message_id") != "").select(
                message_key().alias("_key"), "message_id", _place(F.col("offset"), F.col("seen_by")).alias("place")
            )
        )
    return in_key_order(rows, "_key").groupBy("_key").agg(_distinct(F.struct("message_id", "place")).alias("seen"))


def landed_of(message_id: Column, topic: Column) -> Column:
    """`landed` of a message by its readers, from `seen`: at most 100 places, null when there is none.

    A place is none of its own where the log has a record from before the run; nor one in another topic, to which
    somebody sent it, too, or whoever passed it on with its headers.
    """

    def here(s: Column) -> Column:
        return (s["message_id"] == message_id) & F.coalesce(s["place"]["topic"] == topic, F.lit(True))

    seen = F.transform(F.filter("seen", here), lambda s: s["place"])
    older = F.transform(F.filter(seen, lambda p: p["seen_by"] == OLDER), lambda p: p.dropFields("seen_by"))
    its_own = F.filter(
        seen,
        lambda p: p["seen_by"].isin("consumer", "fetch") & ~F.array_contains(older, p.dropFields("seen_by")),
    )
    # A place counted from a batch's first offset is off by the holes in it: what a consumer said comes first.
    said = F.filter(its_own, lambda p: p["seen_by"] == "consumer")
    best = F.when(F.size(said) > 0, said).otherwise(its_own)
    return F.when(F.size(best) > 0, F.slice(F.sort_array(best), 1, 100))


def _distinct(struct: Column) -> Column:
    """The group's distinct structs.

    Once an aggregate of more keys than `spark.sql.objectHashAggregate.sortBased.fallbackThreshold` sorts, collect_set
    takes equal structs for different ones: what it has spilt is another kind of row than what comes after.
    """
    return F.array_distinct(F.collect_set(struct))


def _place(offset: Column, seen_by: str | Column) -> Column:
    columns = {
        "topic": F.col("topic"),
        "partition": F.col("partition"),
        "offset": offset,
        "seen_by": F.lit(seen_by) if isinstance(seen_by, str) else seen_by,
    }
    return F.struct(*[as_field(f, columns[f.name]) for f in LANDED.fields])


def places_by_offset(sends: DataFrame, delivered: DataFrame) -> DataFrame:
    """`operation_id` → `landed` for sends whose offset a consumer got, where one of the two names no message id."""
    runs = delivered.filter(
        # A run with holes (control records, compaction) does not say which offsets it holds.
        F.col("record_count") == F.col("last_offset") - F.col("first_offset") + 1
    ).select(*interval(F.col("first_offset"), F.col("last_offset")), F.col("message_id").alias("i_message_id"))
    points = sends.filter(F.col("offset").isNotNull()).select(
        "operation_id", "scope", "topic", "partition", "offset", "message_id"
    )
    seen = join_offsets(points, runs.distinct()).filter(F.col("message_id").isNull() | F.col("i_message_id").isNull())
    return seen.groupBy("operation_id").agg(
        F.slice(_distinct(_place(F.col("offset"), "consumer")), 1, 100).alias("landed_here")
    )
