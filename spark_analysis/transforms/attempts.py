"""What went over the wire, one row per partition of one Produce request."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.schemas import ATTEMPT, TOUCH, WIRE, as_field, conform


def topic_names(exchanges: DataFrame) -> DataFrame:
    """`topic_id` → `topic`, from every exchange that shows both (Produce 13 and Fetch 13 carry ids alone)."""
    entries = exchanges.select(F.explode("partitions").alias("p")).select("p.topic_id", "p.topic")
    return entries.filter(F.col("topic_id").isNotNull() & F.col("topic").isNotNull()).distinct()


def with_topics(exchanges: DataFrame) -> DataFrame:
    """`exchanges` with the topic names filled in where only an id was captured and the name is known elsewhere."""
    pairs = topic_names(exchanges).agg(
        F.map_from_entries(F.array_distinct(F.collect_set(F.struct("topic_id", "topic")))).alias("topics")
    )
    named = F.transform(
        "partitions",
        lambda p: p.withField("topic", F.coalesce(p["topic"], F.col("topics")[p["topic_id"]], p["topic_id"])),
    )
    return exchanges.crossJoin(broadcast(pairs)).withColumn("partitions", named).drop("topics")


def error_of(partition: str) -> Column:
    """The error code that an answer gave one of the row's partitions, a column name; null where it gave none.

    An answer that has codes for partitions means those alone: an incremental Fetch answer (KIP-227) leaves out those
    that have nothing new. One with a code for the whole says it of all.
    """
    of_others = F.exists("partitions", lambda p: F.coalesce(p["error_code"], F.lit(0)) != 0)
    return F.coalesce(f"{partition}.error_code", F.when(~of_others, F.col("error_code")))


def produce_attempts(exchanges: DataFrame) -> DataFrame:
    """One ATTEMPT row per partition of each Produce request; the partition's own error code counts, if it has one."""
    produce = exchanges.filter((F.col("event") == "exchange") & (F.col("api_name") == "Produce"))
    placed = produce.select("*", F.posexplode("partitions").alias("place", "p")).withColumn("error_code", error_of("p"))
    placed = placed.withColumn("touches", touches_at(F.col("place"), F.col("error_code"))).join(
        broadcast(_cut_connections(exchanges)), list(_CONNECTION), "left"
    )
    unheard, asks = F.col("outcome") == "no_response", F.coalesce("acks", F.lit(-1)) != 0
    # What needs no answer had been taken, unless it came behind what the broker closed the connection over.
    behind = F.filter("ends", lambda e: e["seq"] < F.col("exchange_seq"))
    all_of_it = F.filter("ends", lambda e: ~e["spoilt"] & (e["t"]["did"] != _BEHIND))
    reached = F.when(asks, F.array_union(all_of_it, behind)).otherwise(F.filter(behind, lambda e: e["spoilt"]))
    under_it = F.when(unheard, F.array_except(F.transform(reached, lambda e: e["t"]), "touches"))
    rows = placed.withColumn("touches", F.concat("touches", F.coalesce(under_it, F.array().cast(_TOUCHES)))).select(
        F.xxhash64(
            "run_id", "proxy_id", "connection_id", "exchange_seq", "p.topic", "p.partition_index", "p.base_sequence"
        ).alias("attempt_id"),
        *_same("run_id", "proxy_id", "connection_id", "exchange_seq", "node_id", "client_id"),
        *[F.col(f"p.{name}").alias(name) for name in _OF_PARTITION],
        *_same("error_code", "outcome", "acks", "request_at_us", "forwarded_at_us", "response_at_us"),
        F.array_distinct(F.transform("touches", lambda t: t["rule"])).alias("fault_names"),
        F.array_distinct(F.transform("touches", lambda t: t["kind"])).alias("fault_kinds"),
        *_same("fault_phase", "touches", "transactional_id"),
    )
    return conform(rows, ATTEMPT, "attempts")


def appended(attempts: DataFrame) -> DataFrame:
    """Of `attempts` those whose batch a broker appended, at an offset that it told."""
    return attempts.filter((F.coalesce("error_code", F.lit(0)) == 0) & (F.col("base_offset") >= 0))


SWALLOWED = ("swallowed_request", "swallowed_answer")
THROTTLED = "throttled"
"""What a rule did that gave an answer a throttle time, and nothing more (KIP-219); in the capture an altered answer."""
_ENDS_IT = (*SWALLOWED, "answered", "cut")
_CONNECTION = ("run_id", "proxy_id", "connection_id")


AT_ITS_END_US = 100_000
# How soon a broker closes a connection over what it can't take, and how `detail` begins of one that it ended.
_CLOSES_US = 1_000_000
_CLOSED_BY_BROKER = "the broker "
_BEHIND = "kept_behind"
"""What an exchange that was swallowed, or held to the end, does to those behind it that got no answer either."""


def _cut_connections(exchanges: DataFrame) -> DataFrame:
    """`ends`, what kept a connection's requests from their answers: a cut all, what is swallowed or held those behind.

    As (`seq`, `t`): the first exchange that it happened to, and the touch of the others. Kafka answers a connection in
    order. A broker that can't take what needs no answer closes the connection over it: where a rule had changed that,
    it is the rule's cut.
    """
    did = F.col("t.did")
    unanswered = F.col("response_at_us").isNull() & (F.col("event") == "exchange")
    # Still held when its connection ended: the request was not passed on, or the answer was there; and nothing ate it.
    eaten = any_did("touches", *SWALLOWED)
    held = ((did == "held_request") & F.col("forwarded_at_us").isNull()) | (
        (did == "held_answer") & F.col("broker_responded_at_us").isNotNull()
    )
    held = held & unanswered & ~eaten
    kept = did.isin(*SWALLOWED) | held
    closes = F.col("event") == "disconnect"
    cut = did.isin("cut", "garbled")
    spoilt = (did == "altered_request") & (F.col("acks") == 0) & unanswered & ~eaten
    spoils_us = F.when(spoilt, F.col("forwarded_at_us") + _CLOSES_US)
    as_cut = F.col("t").withField("did", F.lit("cut"))
    ended = (
        exchanges.filter(closes | (F.size("touches") > 0))
        .withColumn("t", F.explode_outer("touches"))
        .filter(cut | kept | closes | spoilt)
        .withColumns(
            {
                "held": F.coalesce(held, F.lit(False)),
                "over_us": F.when(held, F.col("broker_responded_at_us") + F.col("t.held_us")).otherwise(spoils_us),
                "t": F.when(kept, F.col("t").withField("did", F.lit(_BEHIND)))
                .when(cut, F.col("t"))
                .when(spoilt, as_cut),
                "spoilt": F.coalesce(spoilt, F.lit(False)),
            }
        )
    )
    by_broker = F.startswith("detail", F.lit(_CLOSED_BY_BROKER))
    first = ended.groupBy(*_CONNECTION, "t", "held", "spoilt").agg(
        F.min("exchange_seq").alias("seq"),
        F.max("over_us").alias("over_us"),
        F.max(F.when(closes, F.col("request_at_us"))).alias("closed_us"),
        F.max(F.when(closes, by_broker)).alias("by_broker"),
    )
    ends = F.array_sort(
        F.collect_list(F.when(F.col("t").isNotNull(), F.struct("seq", "t", "held", "over_us", "spoilt")))
    )
    # What was let go before the connection ended was kept by something else from then on.
    to_the_end = F.filter("ends", lambda e: F.coalesce(e["over_us"] >= F.col("closed_us") - AT_ITS_END_US, F.lit(True)))
    # Who is held behind the first of them waits for that one: his own hold may be long over.
    front = F.array_min(F.transform(F.filter("ends", lambda e: e["t"]["did"] == _BEHIND), lambda e: e["seq"]))
    counting = F.filter(
        "ends", lambda e: (~e["held"] | (e["seq"] <= front)) & (~e["spoilt"] | F.coalesce("by_broker", F.lit(False)))
    )
    return (
        first.groupBy(*_CONNECTION)
        .agg(ends.alias("ends"), F.max("closed_us").alias("closed_us"), F.max("by_broker").alias("by_broker"))
        .withColumn("ends", to_the_end)
        .select(*_CONNECTION, counting.alias("ends"))
        .filter(F.size("ends") > 0)
    )


def any_did(touches: str | Column, *words: str) -> Column:
    """Whether one of `touches` did one of that."""
    return F.exists(touches, lambda t: t["did"].isin(*words))


def is_as_it_was() -> Column:
    """No rule did more to the row's exchange than hold it, or tell its client to wait: what was said is as it was."""
    late = ("held_request", "held_answer", "shaped", "muted", THROTTLED)
    return ~F.exists("touches", lambda t: ~t["did"].isin(*late))


def changes_records(touch: Column) -> Column:
    """A rule changed the answer of a Fetch, and told no error in it: records were not as the broker had sent them."""
    return (touch["did"] == "altered_answer") & (F.coalesce(touch["error_code"], F.lit(0)) == 0)


def tells_of_time_alone(touch: Column) -> Column:
    """Whether what a rule changed of an answer is its throttle time (KIP-219), nothing of what it says."""
    return _word(touch["did"], touch["kind"]) == THROTTLED


def kept_from_broker(attempt: Column) -> Column:
    """Whether a rule took the broker's place for this attempt, swallowed it, or cut it off before it was sent on."""
    early = attempt["fault_phase"].eqNullSafe(F.lit("before_broker"))
    by_rule = any_did(attempt["touches"], "answered", "swallowed_request") | (
        any_did(attempt["touches"], "cut") & early
    )
    return by_rule & (F.coalesce(attempt["base_offset"], F.lit(-1)) < 0)


def with_touches(exchanges: DataFrame) -> DataFrame:
    """`exchanges` with `touches`, what rules did to each, as TOUCH structs.

    Captures from before version 2 name the rules only: what these did is then read from how the exchange ended. A rule
    about an answer that never came did nothing.
    """
    return exchanges.withColumn("touches", _touched())


def _touched() -> Column:
    before = F.col("fault_phase").eqNullSafe("before_broker")
    did = (
        F.when(F.col("outcome") == "injected", "answered")
        .when(F.col("outcome") == "altered", "altered_answer")
        .when(F.col("outcome") == "closed", "cut")
        .when(F.col("outcome") == "answered", F.when(before, "held_request").otherwise("held_answer"))
        .otherwise(F.when(before, "swallowed_request").otherwise("swallowed_answer"))
    )
    named = F.transform(
        F.arrays_zip("fault_names", "fault_kinds"),
        lambda f: F.struct(
            f["fault_names"].alias("rule"),
            f["fault_kinds"].alias("kind"),
            _word(did, f["fault_kinds"]).alias("did"),
            _own_error(did, F.col("error_code")).alias("error_code"),
            F.lit(None).cast("long").alias("held_us"),
        ),
    )
    never_came = (F.col("outcome") == "no_response") & F.col("broker_responded_at_us").isNull()
    idle = F.coalesce((F.col("fault_phase") == "after_broker") & never_came, F.lit(False))
    known = F.when(F.col("effects").isNull() & ~idle, named).otherwise(_as_touches(F.col("effects")))
    return F.coalesce(known, F.array()).cast(_TOUCHES)


def touches_at(place: Column, error_code: Column | None = None) -> Column:
    """Of `touches` those that reached the row's partition at `place`, which was answered with `error_code`."""
    reached = F.filter("effects", lambda e: e["partitions"].isNull() | F.array_contains(e["partitions"], place))
    named = F.col("touches")
    if error_code is not None:
        named = F.transform(named, lambda t: t.withField("error_code", _own_error(t["did"], error_code)))
    return F.when(F.col("effects").isNull(), named).otherwise(_as_touches(reached)).cast(_TOUCHES)


def _as_touches(effects: Column) -> Column:
    # What was to come when it had been held never came where its connection ended before: that has its own outcome.
    gone = F.col("outcome").eqNullSafe("no_response")
    done = F.filter(effects, lambda e: ~(gone & e["did"].isin(*_ENDS_IT)))
    return F.transform(
        done,
        lambda e: F.struct(*[e[f.name].alias(f.name) for f in TOUCH.fields]).withField(
            "did", _word(e["did"], e["kind"])
        ),
    )


def _word(did: Column, kind: Column) -> Column:
    """What a rule did, in the words of a TOUCH: an answer in which only the throttle time is another says the same."""
    return F.when((did == "altered_answer") & (kind == "throttle"), F.lit(THROTTLED)).otherwise(did)


def _own_error(did: Column, error_code: Column) -> Column:
    """The error that a rule answered with, where its exchange says only what it did."""
    return F.when(did.isin("answered", "altered_answer") & (error_code != 0), error_code)


_TOUCHES = f"array<{TOUCH.simpleString()}>"
_OF_PARTITION = (
    "topic",
    "partition_index",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
    "batch_bytes",
    "base_offset",
    "message_ids",
    "key_hashes",
)


def _same(*names: str) -> list[Column]:
    return [F.col(name) for name in names]


def wire(**given: Column) -> Column:
    """The WIRE struct of an attempt or exchange row, as evidence; `given` columns replace the row's own."""
    return F.struct(*[as_field(f, given.get(f.name)) for f in WIRE.fields])


def wire_of_place(touches: Column, **given: Column) -> Column:
    """The WIRE struct of what an exchange row asks of its partition `p`, which stands at `place`; not of a Produce."""
    return wire(
        match_kind=F.lit("offset"),
        error_code=error_of("p"),
        base_offset=F.col("p.base_offset"),
        attempt_id=F.xxhash64("run_id", "proxy_id", "connection_id", "exchange_seq", "place"),
        topic=F.col("p.topic"),
        partition_index=F.col("p.partition_index"),
        touches=touches,
        **given,
    )


def was_answered(outcome: Column) -> Column:
    """Whether an exchange of that `outcome` ended with an answer at the client, the broker's or another."""
    return outcome.isin("answered", "altered", "injected")


def went_unheard(attempt: Column, again_us: Column) -> Column:
    """Whether its client, which sent the same again at `again_us` (null: never), can't have heard an attempt's answer.

    It came later, or never; or it was an acknowledgement, which nobody answers by sending again.
    """
    never = ~was_answered(attempt["outcome"]) | attempt["response_at_us"].isNull()
    acknowledged = F.coalesce(attempt["error_code"] == 0, F.lit(False)) & again_us.isNotNull()
    return never | F.coalesce(attempt["response_at_us"] > again_us, F.lit(False)) | acknowledged


def trouble(outcome: Column, error_code: Column) -> Column:
    """What an attempt met, as `error:<code>` or `outcome:<word>`, null when it was answered without an error."""
    # What the broker said in an answer that never arrived is no answer.
    return F.when(~was_answered(outcome), F.concat(F.lit("outcome:"), outcome)).when(
        error_code.isNotNull() & (error_code != 0), F.concat(F.lit("error:"), error_code.cast("string"))
    )


def last_attempt() -> Column:
    """The last attempt of a history row; null where it has none."""
    return F.get("attempts", F.size("attempts") - 1)


def by_the_broker_itself(attempt: Column) -> Column:
    """The attempt's error, where it has one, is none that a rule said."""
    return ~F.exists(attempt["touches"], lambda t: t["error_code"].eqNullSafe(attempt["error_code"]))


def all_but_last() -> Column:
    """The attempts of a history row that were made again; none where it has none."""
    return F.slice("attempts", 1, F.greatest(F.size("attempts") - 1, F.lit(0)))


def begun_us() -> Column:
    """When a history row began: when it was called, or where nobody said so, when its first request came."""
    return F.coalesce("called_at_us", F.get("attempts", F.lit(0))["request_at_us"])
