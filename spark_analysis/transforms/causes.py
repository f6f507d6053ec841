"""Which rules had a hand in what became of an operation, link by link, and how; docs/verdicts.md says it in prose.

A rule stands in the way for a while (an obstacle): it holds the first exchange of a connection's queue, keeps a
partition's batch from being acknowledged, tells a client that there is no leader, takes its connections. An operation
that went wrong is compared with the obstacles of its own client alone; how long each was in its way is its weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, is_short, settled, threads
from notleader.spark_analysis.transforms.attempts import (
    AT_ITS_END_US,
    SWALLOWED,
    THROTTLED,
    any_did,
    begun_us,
    last_attempt,
    was_answered,
    went_unheard,
)
from notleader.spark_analysis.transforms.choices import (
    CAUSES,
    KEPT,
    OF_THE_WAIT,
    as_cause,
    choices,
    lost_its_connection,
    misled,
    misplaced,
    own_causes,
    reasons,
)
from notleader.spark_analysis.transforms.following import following, is_out_of_sequence, names_error
from notleader.spark_analysis.transforms.intervals import covered, join_spans
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import (
    CUTS,
    HOLDS,
    MUTED,
    SWALLOWS,
    Stood,
    clients_of,
    ends_of,
    obstacles_of,
)
from notleader.spark_analysis.transforms.presence import with_gone
from notleader.spark_analysis.transforms.refused_reads import refused_reads
from notleader.spark_analysis.transforms.sent_back import LONG_US
from notleader.spark_analysis.transforms.starved import OF_A_MEMBER, READ

_LOSE_THE_UNREAD = ("cut", "silenced", "garbled")
# Who never reads a partition again after a rule had been in its way, and fetches on for so long, has lost it.
_STOPS_US = 2_000_000
_GOES_ON_US = 5_000_000
# What a client has written waits for so long, at most, until a busy proxy reads it.
_UNREAD_US = 50_000
_MOST_STRUCK = 10_000
_CALLED_TOGETHER_US = 1_000
_IN_ITS_WAY, _AT_ITS_BROKER = range(2)
_COMPARED = {"waits": CAUSES, "told": CAUSES, "follows": CAUSES, "kept": KEPT}
"""What the comparison found of an operation."""


class Struck(NamedTuple):
    """One rule and one client that it reached; µs, UTC. `last_us`: when it last got in the client's way.

    `until_us`: when the last exchange or connection that it held, swallowed or silenced was over for the client.
    Without `hits` (then `first_us` and `last_us` are None) it reached nothing of the client's own: it refused or
    silenced whoever came.
    """

    scope: str
    client: str
    rule: str
    kind: str
    first_us: int | None
    last_us: int | None
    hits: int
    until_us: int


def with_causes(
    history: DataFrame,
    exchanges: DataFrame,
    names: DataFrame,
    options: Options,
    stood: Callable[[], Stood],
    gone: Callable[[], DataFrame],
    end_us: Column,
    out: str | None,
    later: list[Callable[[], None]] | None = None,
    *,
    failed_reads: bool = True,
    starved: Callable[[], DataFrame | None] = lambda: None,
) -> tuple[DataFrame, DataFrame | None, tuple[Struck, ...]]:
    """`history` with CAUSES columns: what made an operation wait, how it ended, and why it was sent again.

    `slow_by` holds the rules that account for its time, `ended_by` those of how its last attempt ended, `retried_by`
    those of all attempts but the last, `touched_by` all that touched it. Each is empty where no rule had a hand in it.
    `stood` is `what_stood`, or is on its way; `gone` is `gone_of` the history. Without `failed_reads` there are none to
    look at. `starved` tells the reads that waited. With `out` what was compared is written there as Parquet once, for
    the checks to read again and again. Besides, the same of the reads that waited, if there are any, and whom each rule
    struck, and when.
    """
    rows = history.withColumn("end_us", F.coalesce("completed_at_us", end_us))

    def with_reads() -> tuple[DataFrame, list[str] | None]:
        """What is compared; and where reads are among it, the columns that they alone have."""
        reads = starved()
        if reads is None:
            return rows, None
        # Few, and asked for again and again below.
        reads = settled(with_gone(reads.withColumn("end_us", F.col("completed_at_us")), gone()))
        own = [name for name in reads.columns if name not in rows.columns]
        return rows.unionByName(reads, allowMissingColumns=True), own

    with threads(history.sparkSession, 1) as pool:
        # Planning is most of a short run: the operations are made ready while what stood in their way is worked out.
        reading = pool.submit(with_reads)
        readying = pool.submit(lambda: _wronged(reading.result()[0], rows, exchanges, options))
        owning = pool.submit(lambda: reading.result()[0].withColumns(own_causes()))
        following_up = pool.submit(lambda: following(_broken(owning.result())))
        obstacles = obstacles_of(stood(), settled(clients_of(rows, names)), rows)
        obstacles = settled(obstacles) if is_short(obstacles) else obstacles.persist()
        striking = pool.submit(_struck, obstacles, rows)
        follows = following_up.result()
        if reading.result()[1] is not None:
            follows = follows.unionByName(_stopped(reading.result()[0], obstacles))
        compared = _weights(readying.result(), obstacles).join(follows, "operation_id", "full")
        if failed_reads:
            compared = _with_reads(compared, refused_reads(rows, exchanges, names))
        if out is not None:
            compared = settled(compared, out, later)
        compared = _with_calls(compared, owning.result(), options)
        struck = striking.result()
    if out is not None:
        obstacles.unpersist()
    found = reasons()
    told = (
        owning.result()
        .join(compared, "operation_id", "left")
        .withColumns({name: F.coalesce(name, F.array().cast(kind)) for name, kind in _COMPARED.items()})
        .withColumns(found)
        .withColumns(choices())
        .drop("end_us", *_COMPARED, "_own", "_last", "_again_by", "_broker", *found)
    )
    told = settled(told, None) if out is not None else told
    of_reads = reading.result()[1]
    if of_reads is None:
        return told, None, struck
    is_read = F.col("operation").isin(READ, OF_A_MEMBER)
    return told.filter(~is_read).drop(*of_reads), told.filter(is_read), struck


def _stopped(rows: DataFrame, obstacles: DataFrame) -> DataFrame:
    """`operation_id` → `follows`: what had been in the way of who never read on there, and went on fetching elsewhere.

    That is what told it something else, swallowed or cut off what it asked for, about when it had read there last.
    """
    never = (F.col("operation") == READ) & F.col("again_us").isNull() & (F.size("attempts") == 0)
    goes_on = F.col("fetches_us") - F.col("called_at_us") >= _GOES_ON_US
    stopped = rows.filter(never & goes_on & F.col("before_us").isNotNull()).select(
        "operation_id",
        *[F.col(name).alias(f"o_{name}") for name in ("scope", "client", "topic", "partition")],
        "latency_us",
        "before_us",
    )
    then = (F.col("from_us") <= F.col("before_us") + _STOPS_US) & (F.col("until_us") >= F.col("before_us") - _STOPS_US)
    breaks = F.col("how").isin("told", "cut", "read") & ~F.col("did").isin(*HOLDS)
    met = stopped.join(obstacles.filter(breaks), [same("o_", "scope", "client"), _told_of_it(), then])
    touch = F.struct("rule", "kind", "did", "error_code")
    cause = as_cause(touch, "follows", F.lit(False), F.col("latency_us"))
    found = met.groupBy("operation_id").agg(F.collect_set(cause).cast(CAUSES).alias("follows"))
    return found.select("operation_id", "follows")


def _with_reads(compared: DataFrame, reads: DataFrame) -> DataFrame:
    """What a failed read names as `told`, what it came right after as `follows`."""
    nothing = F.array().cast(CAUSES)
    every = compared.join(reads, "operation_id", "full")
    told = F.concat(F.coalesce("told", nothing), F.coalesce("said", nothing))
    return every.withColumns({"told": told, "follows": F.coalesce("follows", "reads")}).drop("said", "reads")


def _with_calls(compared: DataFrame, operations: DataFrame, options: Options) -> DataFrame:
    """`compared` where what was told together with others, long after its own answer, waited for what these did."""
    sends = (F.col("operation") == "send") & F.col("called_at_us").isNotNull()
    slow = operations.filter(sends & (F.col("latency_us") >= F.least("budget_ms", F.lit(options.told_ms)) * 1000))
    answered_us = last_attempt()["response_at_us"]
    good_part_us = F.col("latency_us") * OF_THE_WAIT
    slow = slow.select(
        "operation_id", "scope", "client", "called_at_us", "completed_at_us", "latency_us", "_own",
        F.coalesce(F.col("completed_at_us") - answered_us >= good_part_us, F.lit(False)).alias("idle"),
    ).join(compared.select("operation_id", F.col("waits").alias("theirs")), "operation_id", "left")  # fmt: skip
    nothing = F.array().cast(CAUSES)
    heavy = F.filter(F.concat("_own", F.coalesce("theirs", nothing)), lambda cause: cause["weight_us"] >= good_part_us)
    gives = slow.filter(~F.col("idle") & (F.size(heavy) > 0)).select(
        F.col("scope").alias("g_scope"),
        F.col("client").alias("g_client"),
        F.col("completed_at_us").alias("g_completed_at_us"),
        F.col("called_at_us").alias("g_called_at_us"),
        F.transform(heavy, lambda cause: cause.withField("how", F.lit("call")).withField("sure", F.lit(False))).alias(
            "by"
        ),
    )
    of_one_call = [
        same("g_", "scope", "client", "completed_at_us"),
        F.abs(F.col("called_at_us") - F.col("g_called_at_us")) <= _CALLED_TOGETHER_US,
    ]
    together = slow.filter("idle").join(gives, of_one_call)
    calls = together.groupBy("operation_id").agg(F.array_distinct(F.flatten(F.collect_list("by"))).alias("calls"))
    every = compared.join(calls, "operation_id", "full")
    waits = F.concat(F.coalesce("waits", nothing), F.coalesce("calls", nothing))
    return every.withColumn("waits", waits).drop("calls")


def _struck(obstacles: DataFrame, history: DataFrame) -> tuple[Struck, ...]:
    """Whom the rules reached: by what stood in a client's way, and by what was done to its batches."""
    batches = history.select("scope", "client", F.explode("attempts").alias("a")).select(
        "scope", "client", "a", F.explode("a.touches").alias("t")
    )
    touched = batches.select(
        "scope",
        "client",
        "t.rule",
        "t.kind",
        F.col("a.request_at_us").alias("from_us"),
        F.coalesce("a.response_at_us", "a.request_at_us").alias("last_hit_us"),
        F.lit(1).cast("long").alias("hits"),
        F.coalesce("a.response_at_us", "a.request_at_us").alias("until_us"),
    )
    # What a client was told it may act on for long: that is its own doing. What never came it still waits for.
    waits = F.when(F.col("how") == "behind", F.col("until_us")).otherwise(F.col("last_hit_us"))
    # Nobody's connection is no hit on this client; yet nothing is over before it can connect again.
    own = F.col("how") != "anybody"
    every = (
        obstacles.withColumns(
            {
                "until_us": F.greatest(waits, "last_hit_us", F.when(F.col("how") != "partition", F.col("stands_us"))),
                "hits": F.when(own, F.col("hits")).otherwise(F.lit(0)),
                "last_hit_us": F.when(own, F.col("last_hit_us")),
                "from_us": F.when(own, F.col("from_us")),
            }
        )
        .select(*touched.columns)
        .unionByName(touched)
    )
    rows = (
        every.groupBy("scope", "client", "rule", "kind")
        .agg(
            F.min("from_us").alias("first_us"),
            F.max("last_hit_us").alias("last_us"),
            F.sum("hits").alias("hits"),
            F.max("until_us").alias("until_us"),
        )
        .orderBy("first_us")
        .limit(_MOST_STRUCK)
        .collect()
    )
    return tuple(Struck(**row.asDict()) for row in rows)


def without_causes(history: DataFrame) -> DataFrame:
    """`history` of a capture in which no rule struck."""
    nothing = F.array().cast(CAUSES)
    return history.withColumns(dict.fromkeys(("slow_by", "ended_by", "retried_by", "touched_by"), nothing))


def _wronged(rows: DataFrame, history: DataFrame, exchanges: DataFrame, options: Options) -> DataFrame:
    """Those of `rows` that something may have happened to, when and on which connections, and their brokers."""
    return _at_their_brokers(_to_their_ends(_suspects(rows, options), exchanges), history)


def _suspects(history: DataFrame, options: Options) -> DataFrame:
    """Operations that something may have happened to, with the time in which it must have."""
    slow = F.greatest(F.coalesce("latency_us", F.lit(0)), F.coalesce("blocked_us", F.lit(0)))
    bound = F.least("budget_ms", F.lit(options.told_ms)) * 1000
    last = last_attempt()
    answered = was_answered(last["outcome"]) & (F.coalesce(last["error_code"], F.lit(0)) == 0)
    # A send that is told of when its transaction ends waits for that once it is answered.
    to_its_end = F.col("end_us") - last["response_at_us"] >= (F.col("end_us") - begun_us()) * OF_THE_WAIT
    answered &= ~(F.col("transactional") & F.coalesce(to_its_end, F.lit(False)))
    # Nobody answers what goes with acks=0, of which "no_response" is no trouble: it is over when it is passed on.
    pends = F.col("outcome") == "pending"
    passed_on = pends & (last["outcome"] == "no_response") & F.col("trouble").isNull()
    passed_on &= ~any_did(last["touches"], *SWALLOWS, *CUTS)
    passed_on &= F.forall(last["touches"], lambda t: ~t["did"].isin(*HOLDS) | t["held_us"].isNotNull())
    passed_on_us = last["request_at_us"] + F.coalesce(F.array_max(last["touches"]["held_us"]), F.lit(0))
    # Called done, as ever with acks=0, and never seen: it may have lain in a socket.
    unread = (F.col("outcome") == "ok") & F.coalesce(F.col("trouble") == "unsent", F.lit(False))
    wrong = (F.col("outcome") != "ok") | (slow >= bound) | (F.col("attempt_count") > 1) | unread
    gone_us = F.when(F.col("operation") == OF_A_MEMBER, F.col("gone_us"))
    # Where nothing is read there is none of that.
    taken_over = F.coalesce("taken_over", F.lit(False)) if "taken_over" in history.columns else F.lit(False)
    return history.filter(wrong & begun_us().isNotNull()).select(
        "operation_id",
        "error",
        unread.alias("unread"),
        F.col("operation").isin(READ, OF_A_MEMBER).alias("reads"),
        (F.col("operation") == OF_A_MEMBER).alias("of_a_member"),
        taken_over.alias("taken_over"),
        F.col("scope").alias("o_scope"),
        F.col("client").alias("o_client"),
        F.col("topic").alias("o_topic"),
        F.col("partition").alias("o_partition"),
        begun_us().alias("begun_us"),
        F.greatest("end_us", begun_us() + 1).alias("ended_us"),
        # Once it was on the wire and answered there, what the client was told elsewhere kept it no longer; nor does
        # what befell a member of its group that has gone.
        F.least(F.coalesce(F.when(answered | passed_on, last["request_at_us"]), F.col("end_us")), gone_us).alias(
            "sent_us"
        ),
        # When it was over on the wire, whose client never said how it ended.
        F.when(
            pends,
            F.coalesce(F.when(answered, last["response_at_us"]), F.when(passed_on, passed_on_us)),
        ).alias("heard_us"),
        # It went to one broker alone, which never said that it is the wrong one.
        ((F.col("outcome") == "ok") & ~F.exists("attempts", misplaced)).alias("went_well"),
        F.transform(
            "attempts",
            lambda a, place: F.struct(
                F.xxhash64("scope", a["proxy_id"], a["connection_id"]).alias("connection"),
                a["request_at_us"].alias("asked_us"),
                a["node_id"].alias("node_id"),
                F.coalesce(a["response_at_us"], F.get("attempts", place + 1)["request_at_us"]).alias("over_us"),
                a["response_at_us"].isNull().alias("open"),
                any_did(a["touches"], *SWALLOWED).alias("eaten"),
                place.alias("place"),
                misled(a).alias("misled"),
                _left_us(a, place).alias("left_us"),
                _comes_late(a, place).alias("late"),
            ),
        ).alias("o_lines"),
    )


def _left_us(attempt: Column, place: Column) -> Column:
    """When the client gave up an attempt that had no answer by then: it tried again, or the operation ended; or null.

    Who tries again what was acknowledged had left before that was told, nobody knows when.
    """
    again_us = F.get("attempts", place + 1)["request_at_us"]
    return F.when(
        went_unheard(attempt, again_us),
        F.least(F.coalesce(again_us, F.col("end_us")), attempt["response_at_us"]),
    )


def _comes_late(attempt: Column, place: Column) -> Column:
    """The attempt was read after one that its client sent later: on a newer connection to the same broker."""
    before = F.slice("attempts", 1, place)

    def newer(other: Column) -> Column:
        same_broker = (other["proxy_id"] == attempt["proxy_id"]) & (other["node_id"] == attempt["node_id"])
        return same_broker & (other["connection_id"] > attempt["connection_id"])

    return F.exists(before, newer)


def _to_their_ends(suspects: DataFrame, exchanges: DataFrame) -> DataFrame:
    """`suspects`, of whose `o_lines` those without an answer were over (`over_us`) when their connection ended."""
    lines = suspects.select("operation_id", F.inline(F.filter("o_lines", lambda line: line["open"])))
    found = (
        lines.select("operation_id", "connection")
        .distinct()
        .join(ends_of(exchanges), "connection")
        .groupBy("operation_id")
        .agg(F.map_from_entries(F.collect_list(F.struct("connection", "ended_us"))).alias("ends"))
    )

    def to_its_end(line: Column) -> Column:
        ended_us = F.when(line["open"], F.col("ends")[line["connection"]])
        left_us = F.when(line["left_us"].isNotNull(), F.least(line["left_us"], ended_us))
        return line.withField("over_us", F.least(line["over_us"], ended_us)).withField("left_us", left_us)

    rows = suspects.join(found, "operation_id", "left")
    return rows.withColumn("o_lines", F.transform("o_lines", to_its_end)).drop("ends")


def _at_their_brokers(suspects: DataFrame, history: DataFrame) -> DataFrame:
    """`suspects` with `o_nodes`, their brokers: where they never were on the wire those of their partition's sends.

    And `o_stays`: from when to when sends of their partition went to which broker.
    """
    place = ("scope", "topic", "partition")
    at_us = F.col("a.request_at_us")
    stay = F.struct("node_id", "first_us", "last_us")
    known = (
        history.filter((F.col("operation") == "send") & F.col("partition").isNotNull())
        .select(*[F.col(name).alias(f"p_{name}") for name in place], F.explode("attempts").alias("a"))
        .groupBy(*[f"p_{name}" for name in place], F.col("a.node_id").alias("node_id"))
        .agg(F.min(at_us).alias("first_us"), F.max(at_us).alias("last_us"))
        .filter(F.col("node_id").isNotNull())
        .groupBy(*[f"p_{name}" for name in place])
        .agg(F.collect_list(stay).alias("o_stays"))
    )
    rows = suspects.join(broadcast(known), same("p_", *place, own="o_"), "left")
    known_nodes = F.col("o_stays.node_id")
    nodes = F.when(F.size("o_lines") == 0, known_nodes).otherwise(F.col("o_lines.node_id"))
    nodes = F.when(F.col("reads"), F.array_union(nodes, F.coalesce(known_nodes, F.array()))).otherwise(nodes)
    return rows.withColumn("o_nodes", nodes).drop(*[f"p_{name}" for name in place])


def _told_of_it() -> Column:
    """An obstacle that told of some `places` alone told of the operation's, or of what may be that."""

    def may_be(of: Column) -> Column:
        here = F.coalesce(of["topic"] == F.col("o_topic"), F.lit(True))
        return here & F.coalesce(of["partition"] == F.col("o_partition"), F.lit(True))

    return F.coalesce(F.exists("places", may_be), F.lit(True))


def _met(suspects: DataFrame, obstacles: DataFrame) -> DataFrame:
    """Each of `suspects` with each of its client's obstacles that was in its way, and what both together say.

    `on_its_way`: the obstacle stood on a connection that the operation was sent on. `lies_there`: it may have been lost
    there after the client had called it done. `kept_us`: until when it can have been kept, by what stood there.
    """
    how, did = F.col("how"), F.col("did")
    queued = (how == "behind") & (did != "silenced")
    # Whoever was sent there before stands in front.
    on_its_way = F.exists(
        "o_lines",
        lambda line: (line["connection"] == F.col("connection")) & (~queued | (line["asked_us"] >= F.col("order_us"))),
    )
    # Of what a rule has swallowed a silence keeps nothing more, where its connection went on (it has no `read_us`).
    spared = (
        (did == "silenced")
        & F.col("read_us").isNull()
        & F.exists("o_lines", lambda line: (line["connection"] == F.col("connection")) & line["eaten"])
    )
    # What a read waited for may have stood in the way of the Fetches before the one that had its record.
    unsent = (F.size("o_lines") == 0) | F.col("reads")
    pairs = join_spans(
        suspects.withColumn("over_us", F.greatest("ended_us", "sent_us")),
        obstacles.withColumn("since_us", F.coalesce(F.col("read_us") - _UNREAD_US, "from_us")),
        ("begun_us", "over_us"),
        ("since_us", "until_us"),
        F.col("o_scope").eqNullSafe(F.col("scope")) & (F.col("o_client") == F.col("client")),
    ).withColumns(
        {
            "on_its_way": on_its_way,
            # A client that has its fill of unanswered requests at a broker sends that broker no more, on no connection.
            "same_broker": F.coalesce(F.array_contains("o_nodes", F.col("node_id")), F.lit(False)),
            "known_broker": F.coalesce(F.size("o_nodes") > 0, F.lit(False)),
            "of_connection": how.isin("cut", "anybody"),
        }
    )
    # A connection that is silenced keeps the answers of what is on it, too.
    silenced = (did == "silenced") & F.col("on_its_way")
    until_sent = F.col("of_connection") | (how == "told") | ((how == "behind") & ~F.col("on_its_way"))
    # Where the answer may be under way for long, nobody knows when it was heard.
    heard_us = F.when(~did.isin("silenced", "shaped"), F.col("heard_us"))
    kept_us = F.when(until_sent & ~silenced, F.col("sent_us")).otherwise(F.least("ended_us", heard_us))
    # It was written to the broker that its partition was sent to, where that is known, and to a connection still there.
    elsewhere = F.col("known_broker") & ~F.col("same_broker") & F.col("node_id").isNotNull()
    too_late = F.coalesce(F.col("begun_us") > F.col("stands_us"), F.lit(False))
    unread = F.col("unread") & F.col("read_us").isNotNull() & did.isin(*_LOSE_THE_UNREAD)
    pairs = pairs.withColumns({"silenced": silenced, "kept_us": kept_us, "lies_there": unread & ~elsewhere & ~too_late})
    # Where nothing of its partition was ever sent, nobody knows to which broker it would have gone.
    any_broker = unsent & (F.col("node_id").isNull() | ~F.col("known_broker"))
    here = F.col("topic").isNull() | (
        F.col("topic").eqNullSafe(F.col("o_topic"))
        & (F.col("o_partition").isNull() | F.col("partition").isNull() | (F.col("partition") == F.col("o_partition")))
    )
    # What is at another broker now, or was never anywhere else and went well there, has no need of that connection.
    one_place = F.col("went_well") & ~F.array_contains("o_nodes", F.col("node_id"))
    needless = F.coalesce(one_place & ~F.col("asked_else") & ~_was_there(), F.lit(False))
    told_of = _told_of_it()
    in_its_way = (
        F.when(how == "behind", F.col("on_its_way") | F.col("same_broker") | any_broker)
        .when(F.col("of_connection"), F.col("on_its_way") | unsent | ~needless)
        .when(how == "partition", here & (F.col("order_us") <= F.col("begun_us")) & ~F.col("reads"))
        .when(how == "read", told_of & F.col("reads"))
        .otherwise(here & told_of)
    )
    stood_us = F.when(F.col("lies_there"), F.col("since_us")).otherwise(F.col("from_us"))
    of_its_group = ~F.col("of_a_member") | how.isin("told", "cut")
    # Who takes over what another had waits for their group, which trifles don't hold up, however many.
    trifles = did.isin(*HOLDS, THROTTLED) & (F.col("covered_us") < F.col("hits") * LONG_US)
    of_its_group &= ~(F.col("taken_over") & trifles)
    return pairs.filter(
        of_its_group
        & (stood_us < F.col("kept_us"))
        & (F.col("until_us") > F.col("begun_us"))
        & in_its_way
        & ~F.coalesce(spared, F.lit(False))
    )


def _was_there() -> Column:
    """The operation's partition was at the obstacle's broker, and nowhere else since, when that began."""
    stays, then_us = F.col("o_stays"), F.col("from_us")
    here = F.filter(stays, lambda stay: (stay["node_id"] == F.col("node_id")) & (stay["first_us"] <= then_us))
    left_us = F.least(F.get(here, F.lit(0))["last_us"], then_us)
    moved = F.exists(
        stays,
        lambda stay: (
            (stay["node_id"] != F.col("node_id")) & (stay["first_us"] <= then_us) & (stay["last_us"] > left_us)
        ),
    )
    return (F.size(here) > 0) & ~moved


def _weights(suspects: DataFrame, obstacles: DataFrame) -> DataFrame:
    """`operation_id` → `waits`, the CAUSES that were in its way, and `told`, those that told its client its error."""
    how = F.col("how")
    of_connection, on_its_way, kept_us = F.col("of_connection"), F.col("on_its_way"), F.col("kept_us")
    free_us = F.array_max(
        F.transform(
            F.filter("o_lines", lambda line: line["asked_us"] < kept_us),
            lambda line: F.coalesce(line["over_us"], kept_us),
        )
    )
    far = of_connection & ~on_its_way & F.col("known_broker") & ~F.col("same_broker")
    # Whose client was not back there before needed it no longer once it was free again.
    lasts = of_connection & (F.col("until_us") > kept_us)
    over_us = F.when(lasts, F.least(F.coalesce("stands_us", "until_us"), "until_us")).otherwise(F.col("until_us"))
    # Nor did what goes elsewhere when its client was told elsewhere; what others went well with stands no more.
    well = F.filter("well", lambda w: (w["topic"] == F.col("o_topic")) & (w["partition"] == F.col("o_partition")))
    over_us = F.least(over_us, F.when(far, F.col("else_us")), F.get(well, F.lit(0))["well_us"])
    since_us = F.greatest("begun_us", "from_us", F.when(of_connection & ~on_its_way, free_us))
    rows = _met(suspects, obstacles).withColumns(
        {
            "kept_since_us": since_us,
            "length_us": F.col("ended_us") - F.col("begun_us"),
            "overlap_us": F.least(kept_us, over_us) - since_us,
        }
    )
    since_us, overlap_us = F.col("kept_since_us"), F.col("overlap_us")
    density = F.col("covered_us") / (F.col("until_us") - F.col("from_us"))
    # What a batch kept behind it when its own connection was silent, too, may have waited for that.
    known_us = F.when(F.col("stands_us").isNotNull(), F.least(kept_us, "stands_us") - since_us).otherwise(overlap_us)
    rows = rows.withColumns(
        {
            "weight_us": F.when(F.col("lies_there"), F.lit(1)).otherwise(overlap_us * density).cast("long"),
            "known_us": known_us,
            "kept_behind": (how == "partition") & (known_us >= F.col("length_us") * OF_THE_WAIT),
        }
    ).filter("weight_us > 0")
    # Whoever is told to wait may have waited for something else.
    held = (how == "behind") & (F.col("did") != THROTTLED)
    rows = rows.withColumns(
        {
            "sure": (held & on_its_way) | F.col("silenced") | F.col("kept_behind"),
            "kept_until_us": since_us + F.when(F.col("kept_behind"), F.col("known_us")).otherwise(F.col("weight_us")),
        }
    )
    # How near it was: surely in its way; or behind others at its broker, or before its shut listener.
    at_its_broker = (how == "behind") | ((how == "anybody") & F.col("same_broker"))
    near = F.when(F.col("sure"), F.lit(_IN_ITS_WAY)).when(at_its_broker, F.lit(_AT_ITS_BROKER))
    span = F.struct(since_us.alias("since"), F.col("kept_until_us").alias("until"), near.alias("near"))
    rows = rows.withColumns(
        {
            "far": far,
            "kept_at": _kept_at(),
            "span": F.when(near.isNotNull(), span),
            "taken": F.struct(since_us.alias("since"), (since_us + F.col("weight_us")).alias("until")),
            "stood": F.struct("connection", "from_us", F.coalesce("stands_us", "until_us").alias("until_us")),
            "how": F.when((how == "behind") & ~on_its_way, "broker")
            .when(F.col("lies_there"), "unread")
            .when(F.col("silenced"), "own")
            .otherwise(how),
        }
    )
    holds_request = on_its_way & (F.col("did") == "held_request")
    by_way = rows.groupBy("operation_id", "error", "rule", "kind", "how").agg(
        F.max_by(F.struct("did", "error_code"), "weight_us").alias("w"),
        F.max("sure").alias("sure"),
        F.max("on_its_way").alias("mine"),
        F.min("far").alias("far"),
        F.collect_list("span").alias("spans"),
        F.max("length_us").alias("length_us"),
        F.collect_list(F.when(F.col("silenced"), F.col("stood"))).alias("silences"),
        F.collect_list(F.when(holds_request, F.col("stood"))).alias("holds"),
        F.array_distinct(F.flatten(F.collect_list("kept_at"))).alias("kept_at"),
        # One rule may have been in its way in several places at once.
        covered(F.array_sort(F.collect_list("taken"))).alias("weight_us"),
    )
    cause = F.struct("rule", "kind", "how", "w.did", "w.error_code", "sure", "weight_us")
    told = F.when(names_error(F.col("error"), F.col("w.error_code")), cause)
    every = by_way.groupBy("operation_id").agg(
        F.collect_list(F.struct(cause.alias("cause"), "mine", "far", "silences", "kept_at")).alias("waits"),
        F.flatten(F.collect_list("holds")).alias("holds"),
        F.collect_list(told).cast(CAUSES).alias("told"),
        F.max("length_us").alias("length_us"),
        F.array_sort(F.flatten(F.collect_list("spans"))).alias("spans"),
        F.bool_or(lost_its_connection(cause)).alias("lost"),
    )
    # While it surely waited for one thing, what befell its client elsewhere kept it no longer; while it waited at its
    # own broker, or nobody got to that one, what befell its client or anybody at another did not.

    def in_the_rest(w: Column) -> Column:
        cause = w["cause"]
        nearer = F.when(w["far"], _AT_ITS_BROKER).otherwise(_IN_ITS_WAY)
        left_us = F.col("length_us") - covered(F.filter("spans", lambda span: span["near"] <= nearer))
        rest = cause.withField("weight_us", F.least(cause["weight_us"], left_us))
        return F.when(w["mine"] | cause["sure"], cause).otherwise(rest)

    def within_a_hold(silence: Column) -> Column:
        return F.exists(
            "holds",
            lambda hold: (
                (hold["connection"] == silence["connection"])
                & (hold["from_us"] <= silence["from_us"])
                & (hold["until_us"] >= silence["until_us"])
            ),
        )

    def kept(w: Column) -> Column:
        # A silence that came and went while the request on that connection was held kept nothing.
        held = (F.size(w["silences"]) > 0) & F.forall(w["silences"], within_a_hold)
        # Who lost a connection to one broker has no need of what nobody gets to at another.
        elsewhere = (w["cause"]["how"] == "anybody") & w["far"] & F.col("lost")
        return ~held & ~elsewhere

    counting = F.filter("waits", kept)
    places = F.flatten(
        F.transform(counting, lambda w: F.transform(w["kept_at"], lambda at: F.struct(at.alias("place"), w["cause"])))
    )
    return every.select(
        "operation_id",
        F.transform(counting, in_the_rest).cast(CAUSES).alias("waits"),
        "told",
        places.cast(KEPT).alias("kept"),
    )


def _kept_at() -> Column:
    """The places of the attempts that an obstacle on their connection kept from an answer until they were given up.

    It did so for a good part of the time, and to the end of it. Of what told the client a leader or coordinator the
    places of the attempts that went there afterwards, in vain. Besides, of attempts that lay in a silenced connection
    while their client sent the message elsewhere, the place before: what was read later is no retry of that.
    """
    density = F.col("covered_us") / (F.col("until_us") - F.col("from_us"))

    def kept(line: Column) -> Column:
        waited_us = line["left_us"] - line["asked_us"]
        over_us = F.least("until_us", F.when(F.col("silenced"), F.col("stands_us")))
        kept_us = (F.least(line["left_us"], over_us) - F.greatest("from_us", line["asked_us"])) * density
        to_the_end = over_us >= line["left_us"] - AT_ITS_END_US
        behind = F.col("silenced") | (line["asked_us"] >= F.col("order_us"))
        return behind & ~line["eaten"] & to_the_end & (kept_us > 0) & (kept_us >= waited_us * OF_THE_WAIT)

    def sent_there(line: Column) -> Column:
        return line["misled"] & line["asked_us"].between(F.col("from_us"), F.col("until_us"))

    def lay(line: Column) -> Column:
        return F.col("silenced") & (F.col("stands_us") <= line["asked_us"]) & line["late"]

    def places_of(which: Callable[[Column], Column], shift: int) -> Column:
        found = F.filter("o_lines", lambda line: (line["connection"] == F.col("connection")) & which(line))
        return F.transform(found, lambda line: line["place"] - shift)

    places = F.concat(places_of(kept, 0), places_of(lay, 1))
    stands_there = F.col("silenced") | ((F.col("how") == "behind") & (F.col("did") != THROTTLED))
    # A leader or coordinator that a rule made up: the broker that it sent the client to says that it is none.
    makes_up = (F.col("how") == "told") & F.col("did").isin("altered_answer", "answered")
    led = F.transform(F.filter("o_lines", sent_there), lambda line: line["place"])
    return F.when(stands_there, places).when(makes_up, led).otherwise(F.array().cast("array<int>"))


def _broken(history: DataFrame) -> DataFrame:
    """What went wrong by rules and what may follow from it, as `following` takes it; `history` has `own_causes`."""
    last = last_attempt()
    failed = F.col("outcome").isin("fail", "info")
    # What pends ends when all does.
    wrong = failed | (F.col("outcome") == "pending") | (F.col("attempt_count") > 1)
    well = history.filter(F.col("outcome") == "ok").groupBy(
        F.col("scope").alias("g_scope"), F.col("client").alias("g_client")
    )
    last_ok = well.agg(F.max("completed_at_us").alias("last_ok_us"))
    of_it = same("g_", "scope", "client")
    ends = ~F.col("operation").isin("send", "poll", "commit", "seek") & F.col("topic").isNull()
    rows = history.filter(wrong | ends).join(broadcast(last_ok), of_it, "left")
    kept = F.filter("_own", lambda c: ~c["did"].isin(*HOLDS, "shaped", MUTED, THROTTLED))
    called = F.coalesce("called_at_us", "end_us")
    out_of_sequence = F.filter("attempts", is_out_of_sequence)
    return rows.select(
        "operation_id",
        "scope",
        "client",
        "topic",
        "error",
        called.alias("called_us"),
        F.least(last["response_at_us"], "end_us").alias("heard_us"),
        F.col("end_us").alias("at_us"),
        "last_ok_us",
        failed.alias("failed"),
        ((F.col("outcome") == "pending") & was_answered(last["outcome"])).alias("unheard"),
        (F.size("attempts") == 0).alias("unsent"),
        "transactional",
        ends.alias("ends"),
        F.when(F.col("_broker"), last["error_code"]).alias("refused"),
        "partition",
        F.when(F.col("outcome") == "ok", F.get(out_of_sequence, F.lit(0))["request_at_us"]).alias("out_us"),
        F.when(failed & (F.size("_last") > 0), F.col("_last")).otherwise(kept).alias("because"),
    )
