"""What the brokers' own log says of each send: the last word on lost, duplicate, phantom and reordered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import appended
from notleader.spark_analysis.transforms.keys import same

IN_LOG = ("there", "aborted", "open", "superseded", "deleted", "absent", "unread")
"""What `in_log` of a history row may be.

there: in the log, and a `read_committed` consumer gets it. aborted, open: only in a transaction that was aborted, or
had not ended. superseded: compacted away behind a later record of its key. deleted: it may have been there, before the
log's present start or in a topic that is compacted. absent: the log was read and does not have it. unread: the log
can't tell, for it could not be read there, was read before the send, is of a later life, or
holds records without ids."""

VISIBLE = "log"
OLDER = "log:older"
_HIDDEN = {"aborted": "log:aborted", "open": "log:open"}


@dataclass(frozen=True, slots=True)
class LogProfile:
    """A log that was read: its records, those in aborted transactions, its partitions, and what could not be read."""

    records: int
    aborted: int
    partitions: int
    problems: tuple[str, ...]
    compacted: bool

    def as_dict(self) -> dict[str, object]:
        """As findings.json has it."""
        return {
            "records": self.records,
            "aborted": self.aborted,
            "partitions": self.partitions,
            "problems": list(self.problems),
        }


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read: `rows` in the columns of LOG and `scope`, with what `covered` and `profile_log` say."""

    rows: DataFrame
    cover: DataFrame
    profile: LogProfile


def as_log(rows: DataFrame, runs: tuple[str, ...], *, by_run: bool) -> Log:
    """The log of all `runs`; InputError where it can't be told apart by them, or was read twice."""
    if not by_run:
        scoped = rows.withColumn("scope", F.lit(""))
    elif len(runs) == 1:
        scoped = rows.withColumn("scope", F.coalesce("run_id", F.lit(runs[0])))
    else:
        scoped = rows.withColumn("scope", F.col("run_id"))
        if not rows.filter(F.col("run_id").isNull()).isEmpty():
            raise InputError("each run had a cluster of its own: say whose log it is, by notleader log read --run ID")
    cover = covered(scoped)
    return Log(scoped, cover, profile_log(cover))


def without_log(rows: DataFrame) -> DataFrame:
    """`rows`, a history in the making, where no log was given."""
    return rows.withColumns({name: F.lit(None).cast("string") for name in ("in_log", "log_here")})


def covered(log: DataFrame) -> DataFrame:
    """One row per partition of `log` (LOG and `scope`): from where to where it was read, and what that is worth."""
    own = F.col("event") == "partition"
    record = F.col("event") == "record"
    problem = F.coalesce("problem", F.when(F.col("log_end_offset").isNull(), F.lit("it was not read")))
    compacted = F.bool_or(F.when(own, F.contains("cleanup_policy", F.lit("compact"))))
    return log.groupBy(*[F.col(name).alias(f"c_{name}") for name in ("scope", "topic", "partition")]).agg(
        F.count_if(own).alias("readings"),
        F.min(F.when(own, F.col("log_start_offset"))).alias("start"),
        F.max(F.when(own, F.col("log_end_offset"))).alias("end"),
        F.min(F.when(own, F.col("read_at_us"))).alias("read_at_us"),
        F.min(F.when(own, problem)).alias("problem"),
        F.coalesce(compacted, F.lit(False)).alias("compacted"),
        F.min(F.when(own, F.col("delete_retention_ms"))).alias("tombstones_stay_ms"),
        F.count_if(record & F.col("message_id").isNull()).alias("unnamed"),
        F.count_if(record).alias("records"),
        F.count_if(record & (F.col("transaction") == "aborted")).alias("aborted"),
    )


def profile_log(cover: DataFrame) -> LogProfile:
    """Count what was read; InputError for a partition that was read twice, as its records would count twice."""
    rows = cover.collect()
    for row in rows:
        if row.readings > 1:
            raise InputError(
                f"the log of {row.c_topic}-{row.c_partition} is given {row.readings} times: give one reading"
            )
    return LogProfile(
        sum(row.records for row in rows),
        sum(row.aborted for row in rows),
        len(rows),
        tuple(sorted(f"{row.c_topic}-{row.c_partition}: {row.problem}" for row in rows if row.problem)),
        any(row.compacted for row in rows),
    )


def seen_in(log: DataFrame, attempts: DataFrame, since_us: int) -> DataFrame:
    """The records of `log` with `seen_by`: `VISIBLE`, or another word where a `read_committed` consumer gets none.

    Or `OLDER`, where it is from before `since_us` and no send of these runs wrote it: its id was used before. The
    application may give timestamps of its own, and a first append may have had no answer: it is older where its
    timestamp says so, and its offset, too, which lies below all at which the broker appended in these runs.
    """
    first = (
        appended(attempts)
        .groupBy(
            F.col("scope").alias("f_scope"),
            F.col("topic").alias("f_topic"),
            F.col("partition_index").alias("f_partition"),
        )
        .agg(F.min("base_offset").alias("f_offset"))
    )
    older = (F.col("timestamp_ms") * 1000 < since_us) & (F.col("offset") < F.col("f_offset"))
    seen_by = (
        F.when(older, OLDER)
        .when(F.col("transaction") == "aborted", _HIDDEN["aborted"])
        .when(F.col("transaction") == "open", _HIDDEN["open"])
        .otherwise(VISIBLE)
    )
    records = log.filter(F.col("event") == "record")
    placed = records.join(broadcast(first), same("f_", "scope", "topic", "partition"), "left")
    return placed.withColumn("seen_by", seen_by).select(*log.columns, "seen_by")


def judged_by_log(rows: DataFrame, log: Log) -> DataFrame:
    """`rows`, a history in the making, with `in_log` and `log_here`, and `landed` as the log has it.

    `landed` stays what readers said where the log can't tell, and beside its one place where the log's records have no
    ids; what is only in an aborted or open transaction has landed nowhere. `rows` has `seen` (places by id), `entries`
    (attempts) and `landed`.
    """
    of_wire = F.get("entries", F.lit(0))["wire"]
    placed = rows.withColumns(
        {
            "_topic": F.coalesce("topic", of_wire["topic"]),
            "_partition": F.coalesce("partition", of_wire["partition_index"]),
        }
    )
    placed = _with_neighbour(_with_cover(placed, log.cover), log.rows)
    if log.profile.compacted:
        placed = _with_later(placed, log.rows)
    else:
        placed = placed.withColumn("_later", F.lit(None).cast("long"))
    # An id that was sent to two topics is in the log of each on its own account.
    its_own = F.filter(
        "seen",
        lambda s: (
            (s["message_id"] == F.col("message_id"))
            & s["place"]["seen_by"].startswith(VISIBLE)
            & F.coalesce(s["place"]["topic"] == F.col("_topic"), F.lit(True))
        ),
    )
    by_id = F.coalesce(F.transform(its_own, lambda s: s["place"]), F.array().cast(rows.schema["landed"].dataType))
    told = placed.withColumn("_by_id", by_id)
    told = told.withColumn("in_log", F.when(F.col("operation") == "send", _said()))
    visible = F.filter("_by_id", lambda p: p["seen_by"] == VISIBLE)
    here = F.array(
        F.struct(
            F.col("_topic").alias("topic"),
            F.col("_partition").alias("partition"),
            F.col("offset"),
            F.lit(VISIBLE).alias("seen_by"),
        )
    )
    read = F.coalesce("landed", F.array().cast(rows.schema["landed"].dataType))
    elsewhere = F.filter(read, lambda p: p["partition"].isNull() | ~_at(p))
    told_here = F.slice(F.sort_array(F.concat(here.cast(rows.schema["landed"].dataType), elsewhere)), 1, 100)
    landed = (
        F.when(
            F.col("in_log") == "there",
            F.when(F.size(visible) > 0, F.slice(F.sort_array(visible), 1, 100)).otherwise(told_here),
        )
        .when(F.col("in_log").isin("aborted", "open"), F.array().cast(rows.schema["landed"].dataType))
        .otherwise(F.col("landed"))
    )
    return told.withColumns({"landed": landed, "log_here": F.col("_at.message_id")}).select(
        *rows.columns, "in_log", "log_here"
    )


def _said() -> Column:
    """The first of these that is so; the order is from what was seen to what was not."""

    def seen(by: str) -> Column:
        return F.exists("_by_id", lambda p: p["seen_by"] == by)

    cover, at = F.col("_cover"), F.col("_at")
    same_key = F.coalesce(F.col("key_hash") == at["key_hash"], F.lit(True))
    unnamed_here = (at["event"] == "record") & (F.col("message_id").isNull() | at["message_id"].isNull()) & same_key
    sent_at = F.coalesce(
        F.array_max(F.transform("entries", lambda e: e["wire"]["request_at_us"])), F.col("called_at_us")
    )
    beyond = F.col("offset").isNull() | (F.col("offset") >= cover["end"])
    other_here = F.coalesce(at["event"] == "record", F.lit(False))
    # The last record of its key goes only when it is a tombstone, and not before its time.
    too_soon = sent_at + cover["tombstones_stay_ms"] * 1000 > cover["read_at_us"]
    named = F.col("message_id").isNotNull() & (cover["unnamed"] == 0)
    return (
        F.when(seen(VISIBLE), "there")
        .when(seen(_HIDDEN["open"]), "open")
        .when(seen(_HIDDEN["aborted"]), "aborted")
        .when(cover.isNull(), None)
        .when(unnamed_here, F.coalesce(F.when(at["transaction"] != "committed", at["transaction"]), F.lit("there")))
        .when(beyond & (sent_at > cover["read_at_us"]), "unread")
        .when(cover["problem"].isNotNull() & ~other_here, "unread")
        .when(F.col("offset").isNull() & ~named, "unread")
        .when(F.coalesce(F.col("offset") < cover["start"], cover["start"] > 0), "deleted")
        .when((F.col("_later") > F.coalesce("offset", F.lit(-1))) & ~other_here, "superseded")
        .when(
            cover["compacted"] & ~other_here & ~F.coalesce(F.col("key_hash").isNotNull() & too_soon, F.lit(False)),
            "deleted",
        )
        .otherwise("absent")
    )


def _at(place: Column) -> Column:
    """Whether `place` is where the client was told that its message is, of a history in the making."""
    return (
        (place["topic"] == F.col("_topic"))
        & (place["partition"] == F.col("_partition"))
        & (place["offset"] == F.col("offset"))
    )


def _with_cover(rows: DataFrame, cover: DataFrame) -> DataFrame:
    """`_cover`: what is known of the partition's log, or of all of the topic's where nobody knows the partition."""
    facts = ("start", "end", "read_at_us", "problem", "compacted", "tombstones_stay_ms", "unnamed")
    of_topic = cover.groupBy(F.col("c_scope").alias("t_scope"), F.col("c_topic").alias("t_topic")).agg(
        F.struct(
            F.max("start").alias("start"),
            F.max("end").alias("end"),
            F.min("read_at_us").alias("read_at_us"),
            F.min("problem").alias("problem"),
            F.bool_or("compacted").alias("compacted"),
            F.min("tombstones_stay_ms").alias("tombstones_stay_ms"),
            F.sum("unnamed").alias("unnamed"),
        ).alias("of_topic")
    )
    of_partition = cover.select("c_scope", "c_topic", "c_partition", F.struct(*facts).alias("of_partition"))
    joined = rows.join(
        broadcast(of_partition),
        F.col("scope").eqNullSafe(F.col("c_scope"))
        & (F.col("_topic") == F.col("c_topic"))
        & (F.col("_partition") == F.col("c_partition")),
        "left",
    ).join(
        broadcast(of_topic),
        F.col("scope").eqNullSafe(F.col("t_scope")) & (F.col("_topic") == F.col("t_topic")),
        "left",
    )
    # A topic is read whole: what it has no cover of was no partition of it then.
    nothing = {
        **{name: F.lit(0).cast("long") for name in ("start", "end", "unnamed")},
        "problem": F.lit(None).cast("string"),
    }
    empty = F.struct(*[nothing.get(name, F.col(f"of_topic.{name}")).alias(name) for name in facts])
    empty = F.when(F.col("of_topic").isNotNull(), empty)
    known = F.when(F.col("_partition").isNull(), F.col("of_topic"))
    return joined.withColumn("_cover", known.otherwise(F.coalesce("of_partition", empty)))


def _with_neighbour(rows: DataFrame, log: DataFrame) -> DataFrame:
    """`_at`: what is in the log at the offset that the client was told."""
    there = log.filter(F.col("event").isin("record", "control")).select(
        F.xxhash64("scope", "topic", "partition", "offset").alias("_log_key"),
        F.struct("event", "message_id", "key_hash", "transaction").alias("_at"),
    )
    # What has no offset meets nothing, and must not meet under one key.
    told = F.when(F.col("offset").isNotNull(), F.xxhash64("scope", "_topic", "_partition", "offset"))
    return rows.join(there, told == F.col("_log_key"), "left")


def _with_later(rows: DataFrame, log: DataFrame) -> DataFrame:
    """`_later`: the last offset that is known of the send's key, by the log or by what was acknowledged."""
    of_log = log.filter((F.col("event") == "record") & F.col("key_hash").isNotNull()).select(
        "scope", "topic", "partition", "key_hash", "offset"
    )
    told = rows.filter(F.col("key_hash").isNotNull() & F.col("offset").isNotNull()).select(
        "scope", F.col("_topic").alias("topic"), F.col("_partition").alias("partition"), "key_hash", "offset"
    )
    latest = (
        of_log.unionByName(told)
        .groupBy(F.xxhash64("scope", "topic", "partition", "key_hash").alias("_latest_key"))
        .agg(F.max("offset").alias("_later"))
    )
    keyed = F.when(
        F.col("_cover.compacted") & F.col("key_hash").isNotNull(),
        F.xxhash64("scope", "_topic", "_partition", "key_hash"),
    )
    return rows.join(latest, keyed == F.col("_latest_key"), "left")


def settled_by_log() -> Column:
    """The log says of a history row whether and where its message is."""
    return F.coalesce(F.col("in_log") != "unread", F.lit(False))


def located_without_id() -> Column:
    """The log has a record where a history row's client was told that its message is, and that record has no id.

    So it says that the message is there, and nothing of other places.
    """
    told = F.exists("landed", lambda p: (p["seen_by"] == VISIBLE) & (p["offset"] == F.col("offset")))
    nameless = F.col("message_id").isNotNull() & F.col("log_here").isNull()
    return F.coalesce((F.col("in_log") == "there") & nameless & told, F.lit(False))


class Unjudged(NamedTuple):
    """Of how many sends nobody says what became of them, and of how many nobody whether they are there once only."""

    sends: int
    copies: int


def unjudged(history: DataFrame, delivered: DataFrame) -> Unjudged:
    """The sends of which neither the log says so nor a consumer: none went as far in their partition.

    Of a send that has no partition it is enough that its topic was read.
    """
    open_, uncounted = ~settled_by_log(), located_without_id()
    sends = history.filter((F.col("operation") == "send") & (open_ | uncounted)).withColumn("open", open_)
    place = ("scope", "topic", "partition", "life")
    read = delivered.groupBy(*[F.col(name).alias(f"r_{name}") for name in place]).agg(F.max("last_offset").alias("far"))
    topics = delivered.select(F.col("scope").alias("t_scope"), F.col("topic").alias("t_topic")).distinct()
    placed, unplaced = sends.filter("partition is not null"), sends.filter("partition is null")
    behind = placed.join(broadcast(read), same("r_", *place), "left").filter(
        F.col("far").isNull() | (F.col("offset") > F.col("far"))
    )
    elsewhere = unplaced.join(broadcast(topics), same("t_", "scope", "topic"), "left_anti")
    counted = behind.select("open").unionByName(elsewhere.select("open")).agg(F.count_if("open"), F.count("*")).first()
    return Unjudged(*counted) if counted else Unjudged(0, 0)
