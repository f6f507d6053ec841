"""One row per client operation: what was said of it, its attempts on the wire, their faults, where it landed."""

from __future__ import annotations

import json
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, by_key, in_key_order, settled
from notleader.spark_analysis.profile import CaptureProfile, OutcomeProfile, begin_us
from notleader.spark_analysis.schemas import HISTORY, WIRE, conform
from notleader.spark_analysis.transforms.attempts import appended, trouble, was_answered, wire
from notleader.spark_analysis.transforms.intervals import (
    CLOSE,
    first_to_hold,
    interval,
    join_moments,
    join_offsets,
    of_call,
)
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.landed import landed_of, message_key, places, places_by_offset
from notleader.spark_analysis.transforms.log import Log, judged_by_log, seen_in, without_log

# From sure to guessed. The first three name one batch, the fourth one that looks the same and went out again; a key may
# repeat; a time only says "then".
MATCH_KINDS = ("message_id", "sequence", "offset", "batch", "key_hash", "time")
_SURE = 4
_OPEN_US = 600_000_000


def run_of(runs: tuple[tuple[str, int, int], ...]) -> Column:
    """The run an operation belongs to: its own word, else the run whose time holds it or lies nearest."""
    if not runs:
        return F.col("run_id")
    at = F.coalesce("called_at_us", "completed_at_us", "returned_at_us", F.lit(0))
    # One constant, however many there are: a plan repeats this often.
    known = F.from_json(F.lit(json.dumps([dict(zip(_RUN, run, strict=True)) for run in runs])), _RUNS)

    def distance(run: Column) -> Column:
        return F.struct(F.greatest(run["first"] - at, at - run["last"], F.lit(0)).alias("us"), run["run"].alias("run"))

    return F.coalesce("run_id", F.array_min(F.transform(known, distance))["run"])


_RUN = ("run", "first", "last")
_RUNS = "array<struct<run:string,first:bigint,last:bigint>>"


def build_history(
    operations: DataFrame,
    attempts: DataFrame,
    delivered: DataFrame,
    fetch: DataFrame | None,
    capture: CaptureProfile,
    outcomes: OutcomeProfile,
    options: Options,
    log: Log | None = None,
    commits: DataFrame | None = None,
) -> DataFrame:
    """The HISTORY of `operations` (one row each, `scope` filled); an operation without attempts keeps its row.

    `commits` are the attempts of commits (`commit_entries`), where there are any.
    """
    # One shuffle by the message's key serves all: its calls, its attempts and its places meet in one partition.
    rows = _calls(operations.filter((F.col("operation") != "poll") | F.col("offset").isNull()))
    if capture.batches_with_ids:
        rows = rows.join(_carried(attempts), "_key", "left").withColumn("entries", _of_call())
    else:
        rows = rows.withColumn("entries", F.lit(None).cast(_ENTRIES))
    logged = None
    if log is not None:
        since_us = begin_us(capture, outcomes) - options.skew_ms * 1000
        logged = seen_in(log.rows, attempts, since_us)
    there = places(delivered, fetch, logged)
    rows = rows.join(there, "_key", "left").withColumn("landed", landed_of(F.col("message_id"), F.col("topic")))
    sends = operations.filter(F.col("operation") == "send").select(*_SEND)
    guessed = _links(sends, there, attempts, capture, outcomes, options)
    if guessed is not None:
        rows = rows.join(guessed, "operation_id", "left")
        rows = rows.withColumn("entries", _surest("entries", "others", "least"))
    if commits is not None:
        rows = rows.join(commits, "operation_id", "left").withColumn("entries", F.coalesce("commit_entries", "entries"))
    if outcomes.polled and (outcomes.polls_without_ids or outcomes.unnamed_sends):
        rows = rows.join(places_by_offset(sends, delivered), "operation_id", "left")
        rows = rows.withColumn("landed", F.coalesce("landed", "landed_here"))
    rows = judged_by_log(rows, log) if log is not None else without_log(rows)
    return _shape(rows, _named(capture, options))


def _named(capture: CaptureProfile, options: Options) -> Column:
    """Every record of every batch of the row's scope has its message's id: what isn't there was not on the wire."""
    if capture.names_messages or not options.by_run:
        return F.lit(capture.produce_batches > 0 and capture.names_messages)
    return ~F.col("scope").isin(*capture.nameless_runs)


_ENTRIES = f"array<struct<attempt_id:bigint,rank:int,wire:{WIRE.simpleString()},transactional:boolean,acks_0:boolean>>"
_SEND = (
    "operation_id",
    "scope",
    "client_id",
    "message_id",
    "topic",
    "partition",
    "offset",
    "key_hash",
    "outcome",
    "called_at_us",
    "completed_at_us",
)


def _calls(said: DataFrame) -> DataFrame:
    """`said` with `_key`, which calls of one message share, and when those before and after it to its topic were."""
    alike = "OVER (PARTITION BY _key, message_id, operation, topic ORDER BY coalesce(called_at_us, completed_at_us))"
    named = (F.col("operation") == "send") & F.col("message_id").isNotNull()
    # What has no name must not pile up under one key.
    keyed = said.withColumn("_key", F.when(named, message_key()).otherwise(F.xxhash64("operation_id")))
    return by_key(keyed, "_key").withColumns(
        {
            "_next_called": F.expr(f"lead(coalesce(called_at_us, completed_at_us)) {alike}"),
            "_last_done": F.expr(f"lag(coalesce(completed_at_us, called_at_us)) {alike}"),
        }
    )


def _carried(attempts: DataFrame) -> DataFrame:
    """`_key` → the attempts whose batch names that message: the header's id makes them sure."""
    carried = attempts.withColumn("message_id", F.explode("message_ids")).filter(F.col("message_id").isNotNull())
    last = F.col("base_offset") + F.size("message_ids") - 1
    rows = _linked(carried, 1).select(message_key().alias("_key"), "message_id", _entry(), last.alias("last_offset"))
    entries = F.collect_list(F.struct("message_id", "entry", "last_offset")).alias("carried")
    return in_key_order(rows, "_key").groupBy("_key").agg(entries)


def _of_call() -> Column:
    """Of the attempts that carried a send's id those of this call: an id sent several times is told apart by time.

    Of calls that were open at once, each has those during it that appended nothing, or at the place that it was told.
    """
    # The border between two calls is one moment, or an attempt near it would belong to both.
    begun, ended = F.coalesce("called_at_us", "_last_done"), F.coalesce("completed_at_us", "_next_called")
    border = F.when(F.col("called_at_us").isNotNull(), F.col("_next_called")).otherwise(ended)
    at_once = (F.col("_last_done") > F.col("called_at_us")) | (F.col("_next_called") < F.col("completed_at_us"))

    def its_own(c: Column) -> Column:
        attempt = c["entry"]["wire"]
        at = attempt["request_at_us"]
        after = F.col("_last_done").isNull() | (at >= begun)
        before = F.col("_next_called").isNull() | (at < border)
        held = F.col("offset").between(attempt["base_offset"], c["last_offset"])
        here = (attempt["partition_index"] == F.col("partition")) & held
        nowhere = (attempt["error_code"] != 0) | (attempt["base_offset"] < 0)
        during = at.between(F.col("called_at_us"), F.coalesce("completed_at_us", at))
        of_several = during & F.coalesce(here | nowhere, F.lit(True))
        # Whoever passes a record on with its headers sends it to another topic.
        there = F.coalesce(attempt["topic"] == F.col("topic"), F.lit(True))
        then = F.when(F.coalesce(at_once, F.lit(False)), of_several).otherwise(after & before)
        return (c["message_id"] == F.col("message_id")) & there & then

    # A batch names an id once; a proxy that repeats it must not make two attempts of one.
    return F.array_distinct(F.transform(F.filter("carried", its_own), lambda c: c["entry"]))


def _surest(named: str, others: str, least: str) -> Column:
    """The attempts that name the message, and of `others`, which name none, those as sure as these or the surest.

    `least` is the rank of the surest of `others`: worked out here, it would be once for each of them.
    """
    known = F.coalesce(named, F.array().cast(_ENTRIES))
    found = F.coalesce(others, F.array().cast(_ENTRIES))
    best = F.when(F.size(known) > 0, F.lit(_SURE)).otherwise(F.greatest(least, F.lit(_SURE)))
    its_own = F.transform(known, lambda e: e["attempt_id"])
    more = F.filter(found, lambda e: (e["rank"] <= best) & ~F.array_contains(its_own, e["attempt_id"]))
    return F.concat(known, more)


def _links(
    sends: DataFrame,
    there: DataFrame,
    attempts: DataFrame,
    capture: CaptureProfile,
    outcomes: OutcomeProfile,
    options: Options,
) -> DataFrame | None:
    """`operation_id` → `others`, the attempts found without a message id, and `least`, the rank of the surest of them.

    None when every send and batch has one.
    """
    if capture.produce_batches and capture.names_messages and not outcomes.unnamed_sends:
        return None
    # With ids on every batch, a send that has an id and no match was never on the wire: no guessing.
    rest = sends.filter(F.col("message_id").isNull() | ~_named(capture, options))
    skew_us = options.skew_ms * 1000
    attempts = settled(attempts)
    by_offset = settled(_by_offset(_with_places(rest, there), attempts, skew_us))
    found = [by_offset, _by_sequence(by_offset, attempts)]
    if capture.faulted or capture.failed:
        found.append(_by_batch(by_offset, attempts))
    # A guess beside something sure would be taken out again.
    rest = rest.join(by_offset.select("operation_id"), "operation_id", "left_anti")
    if capture.batches_with_keys:
        by_key = settled(_by_key(rest, attempts, skew_us))
        found.append(by_key)
        rest = rest.join(by_key.select("operation_id"), "operation_id", "left_anti")
    if capture.faulted:
        found.append(_by_time(rest, attempts, options))
    every = reduce(DataFrame.unionByName, [links.select("operation_id", "attempt_id", _entry()) for links in found])
    # The surest of an attempt's matches; a copy of a segment tells each twice.
    once = every.groupBy("operation_id", "attempt_id").agg(F.min_by("entry", "entry.rank").alias("entry"))
    of_send = once.groupBy("operation_id")
    return of_send.agg(F.collect_list("entry").alias("others"), F.min("entry.rank").alias("least"))


def _entry() -> Column:
    """What is known of one attempt of one send."""
    return F.struct("attempt_id", "rank", "wire", "transactional", "acks_0").alias("entry")


def _linked(rows: DataFrame, rank: int) -> DataFrame:
    kind = F.lit(MATCH_KINDS[rank - 1])
    return rows.withColumns(
        {
            "rank": F.lit(rank),
            "wire": wire(match_kind=kind, api_name=F.lit("Produce")),
            "transactional": F.col("transactional_id").isNotNull(),
            "acks_0": F.coalesce(F.col("acks") == 0, F.lit(False)),
        }
    )


def _attempts_as(attempts: DataFrame) -> DataFrame:
    """`attempts` with the names that a send also has moved out of the way."""
    return attempts.withColumnsRenamed(
        {"scope": "a_scope", "topic": "a_topic", "client_id": "a_client_id", "message_id": "a_message_id"}
    ).withColumnsRenamed({"outcome": "wire_outcome"})


def _back(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"outcome": F.col("wire_outcome"), "topic": F.col("a_topic")})


def _with_places(sends: DataFrame, there: DataFrame) -> DataFrame:
    """`sends` that have an offset: those that were told one, and each once per other place of its message (`besides`).

    `there` are the `places` of messages.
    """
    told = F.struct(F.col("partition").alias("partition"), F.col("offset").alias("offset"))
    named = sends.filter(F.col("message_id").isNotNull()).withColumn("told", F.when(F.col("offset").isNotNull(), told))
    of_message = there.select(F.col("_key").alias("t_key"), F.explode("seen").alias("s"))
    # What is counted from a batch's first offset is off by the holes in it.
    exact = of_message.filter(F.col("s.place.seen_by") != "fetch")
    found = (
        named.drop("partition", "offset")
        .withColumn("_key", message_key())
        .join(exact, (F.col("_key") == F.col("t_key")) & (F.col("message_id") == F.col("s.message_id")))
        .filter(F.col("topic").isNull() | (F.col("topic") == F.col("s.place.topic")))
        .filter(F.col("told").isNull() | (F.col("told") != F.struct("s.place.partition", "s.place.offset")))
        .withColumns({"topic": F.col("s.place.topic"), "besides": F.col("told").isNotNull()})
        .select(
            *[name for name in sends.columns if name not in ("partition", "offset")],
            "besides",
            "s.place.partition",
            "s.place.offset",
        )
    )
    return sends.filter(F.col("offset").isNotNull()).withColumn("besides", F.lit(False)).unionByName(found)


def _by_offset(sends: DataFrame, attempts: DataFrame, skew_us: int) -> DataFrame:
    """Links by the offset of a send's record, and the answer that told it, whether or not that arrived."""
    last = F.col("base_offset") + F.greatest(F.coalesce("record_count", F.lit(1)), F.lit(1)) - 1
    places = interval(F.col("base_offset"), last, partition="partition_index")
    answered = appended(attempts).select("*", *places)
    since, until = of_call(skew_us)
    # At a place that it wasn't told it was sent by this call, and not by another of the same message.
    close_us = skew_us // CLOSE
    of_this = F.col("request_at_us").between(F.col("called_at_us") - close_us, F.col("completed_at_us") + close_us)
    then = F.col("request_at_us").between(since, until) & (~F.col("besides") | F.coalesce(of_this, F.lit(False)))
    return _linked(_back(join_offsets(sends, _attempts_as(answered)).filter(then)), 3)


def _by_sequence(linked: DataFrame, attempts: DataFrame) -> DataFrame:
    """Links to the other attempts of the same batch: an idempotent producer repeats id, epoch and sequence."""
    batch = ("scope", "topic", "partition_index", "producer_id", "producer_epoch", "base_sequence")
    of_send = (
        linked.filter((F.col("producer_id") >= 0) & (F.col("base_sequence") >= 0))
        .select("operation_id", "called_at_us", "completed_at_us", *batch)
        .distinct()
        .withColumn("_key", F.xxhash64(*batch))
    )
    renamed = attempts.withColumn("_a_key", F.xxhash64(*batch)).withColumnsRenamed({n: f"b_{n}" for n in batch})
    rows = of_send.join(renamed, (F.col("_key") == F.col("_a_key")) & same("b_", *batch))
    return _linked(rows, 2)


def _by_batch(linked: DataFrame, attempts: DataFrame) -> DataFrame:
    """Links to earlier attempts of what seems to be the same batch, of producers whose batches have no sequence.

    Refused or unanswered, of the same client and partition, with as many records and bytes; since the call, and over
    when the one went out that was acknowledged. Each belongs to the first send of which that is true.
    """
    shape = ("topic", "partition_index", "record_count", "batch_bytes")
    anonymous = F.coalesce("producer_id", F.lit(-1)) < 0
    told = was_answered(F.col("outcome"))
    known = linked.filter("besides").select(F.col("attempt_id").alias("k_attempt_id")).distinct()
    in_vain = (~told | (F.coalesce("error_code", F.lit(0)) != 0)) & (F.coalesce("acks", F.lit(-1)) != 0)
    nameless = ~F.exists(F.coalesce("message_ids", F.array().cast("array<string>")), lambda i: i.isNotNull())
    troubled = (
        attempts.filter(anonymous & nameless & in_vain)
        .withColumn("_t_shape", F.xxhash64("scope", "client_id", *shape))
        .join(broadcast(known), F.col("attempt_id") == F.col("k_attempt_id"), "left_anti")
    )
    acknowledged = (
        linked.filter(
            ~F.col("besides") & anonymous & F.col("batch_bytes").isNotNull() & F.col("called_at_us").isNotNull()
        )
        .select(
            "operation_id",
            "called_at_us",
            F.col("request_at_us").alias("sent_us"),
            F.xxhash64("a_scope", "a_client_id", "a_topic", *shape[1:]).alias("_shape"),
        )
        .distinct()
        .join(broadcast(troubled.select("_t_shape").distinct()), F.col("_shape") == F.col("_t_shape"), "left_semi")
    )
    # The first to be sent of those that were called before the attempt, and sent when it was over.
    first = first_to_hold(
        acknowledged.select(
            F.col("_shape").alias("key"), F.col("called_at_us").alias("from_us"), F.col("sent_us").alias("until_us")
        ),
        troubled.select(
            F.col("_t_shape").alias("key"),
            F.col("request_at_us").alias("from_us"),
            F.coalesce("response_at_us", "request_at_us").alias("until_us"),
            F.col("attempt_id").alias("held"),
        ),
    )
    belongs = troubled.join(first, F.col("attempt_id") == F.col("held"))
    met = acknowledged.join(
        belongs,
        (F.col("_shape") == F.col("_t_shape"))
        & (F.col("sent_us") == F.col("until_us"))
        & (F.col("called_at_us") <= F.col("request_at_us")),
    )
    return _linked(met, 4)


def _by_key(sends: DataFrame, attempts: DataFrame, skew_us: int) -> DataFrame:
    """Links by the record's key and the time of the call; several sends of one key at once stay together."""
    keyed = _attempts_as(attempts.withColumn("a_key_hash", F.explode("key_hashes")))
    since, until = of_call(skew_us)
    rows = join_moments(
        sends.filter(F.col("key_hash").isNotNull()).withColumns({"_since": since, "_until": until}),
        keyed,
        ("_since", "_until"),
        "request_at_us",
        (F.col("key_hash") == F.col("a_key_hash"))
        & F.col("topic").eqNullSafe(F.col("a_topic"))
        & F.col("scope").eqNullSafe(F.col("a_scope"))
        & _same_client(),
    )
    return _linked(_back(rows), 5).dropDuplicates(["operation_id", "attempt_id"])


def _same_client() -> Column:
    return F.col("client_id").isNull() | F.col("a_client_id").isNull() | (F.col("client_id") == F.col("a_client_id"))


def _by_time(sends: DataFrame, attempts: DataFrame, options: Options) -> DataFrame:
    """Links a send that went wrong or slow, or was told no place, to the faulted attempts of its topic: a guess."""
    slow = F.col("completed_at_us") - F.col("called_at_us") >= options.told_ms * 1000
    suspects = sends.filter(
        ((F.col("outcome") != "ok") | slow | F.col("offset").isNull())
        & F.col("topic").isNotNull()
        & F.col("called_at_us").isNotNull()
    )
    # An end that never came is open: what came long after the call explains nothing.
    until = F.coalesce("completed_at_us", F.col("called_at_us") + _OPEN_US)
    rows = join_moments(
        suspects.withColumn("_until", F.greatest(until, "called_at_us")),
        _attempts_as(attempts).filter(F.size("fault_names") > 0),
        ("called_at_us", "_until"),
        "request_at_us",
        (F.col("topic") == F.col("a_topic"))
        & F.col("scope").eqNullSafe(F.col("a_scope"))
        & (F.col("partition").isNull() | (F.col("partition") == F.col("partition_index")))
        & _same_client(),
    )
    return _linked(_back(rows), 6)


def _shape(rows: DataFrame, named: Column) -> DataFrame:
    empty_wire = F.array().cast(HISTORY["attempts"].dataType)
    in_time = F.array_sort(F.transform("entries", lambda e: e["wire"].cast(WIRE)))
    with_attempts = rows.withColumns(
        {
            "attempts": F.coalesce(in_time, empty_wire),
            "landed": F.coalesce("landed", F.array().cast(HISTORY["landed"].dataType)),
        }
    )
    weakest = F.array_max(F.transform("entries", lambda e: e["rank"]))
    # By the client's clock alone, or where it never said when it called, by the proxy's alone: never from both.
    wire_us = F.array_max("attempts.response_at_us") - F.get("attempts", F.lit(0))["request_at_us"]
    # A Produce with acks=0 has no answer.
    acks_0 = F.coalesce(F.exists("entries", lambda e: e["acks_0"]), F.lit(False))
    troubles = F.filter(
        F.transform("attempts", lambda a: trouble(a["outcome"], a["error_code"])),
        lambda t: t.isNotNull() & ~(acks_0 & (t == "outcome:no_response")),
    )
    is_send = F.col("operation") == "send"
    unsent = named & is_send & F.col("message_id").isNotNull() & (F.size("attempts") == 0)
    shaped = with_attempts.withColumns(
        {
            "blocked_us": F.col("returned_at_us") - F.col("called_at_us"),
            "latency_us": F.when(
                F.col("completed_at_us").isNotNull(),
                F.coalesce(F.col("completed_at_us") - F.col("called_at_us"), wire_us),
            ),
            "match_kind": F.when(F.size("attempts") == 0, F.lit("none")).otherwise(
                F.element_at(F.array(*[F.lit(kind) for kind in MATCH_KINDS]), weakest)
            ),
            # A send that never completed doesn't know its place; the wire does.
            "topic": F.coalesce("topic", F.when(is_send, F.get("attempts", F.lit(0))["topic"])),
            "partition": F.coalesce("partition", F.when(is_send, F.get("attempts", F.lit(0))["partition_index"])),
            "attempt_count": F.size("attempts"),
            "transactional": F.coalesce(F.exists("entries", lambda e: e["transactional"]), F.lit(False)),
            "fault_names": F.array_distinct(F.flatten(F.col("attempts.fault_names"))),
            "fault_kinds": F.array_distinct(F.flatten(F.col("attempts.fault_kinds"))),
            "trouble": F.coalesce(F.get(troubles, F.lit(0)), F.when(unsent, F.lit("unsent"))),
            "landed_count": F.size("landed"),
            "attempts": F.slice("attempts", 1, 100),
            "life": F.lit(1),
        }
    )
    return conform(shaped, HISTORY, "history")
