"""Which rules had a hand in what became of an operation, link by link, and how; docs/verdicts.md says it in prose.

A rule stands in the way for a while (an obstacle): it holds the first exchange of a connection's queue, keeps a
partition's batch from being acknowledged, tells a client that there is no leader, takes its connections. An operation
that went wrong is compared with the obstacles of its own client alone; how long each was in its way is its weight.
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.options import Options
from notleader.spark_analysis.schemas import CAUSE
from notleader.spark_analysis.transforms.attempts import touches
from notleader.spark_analysis.transforms.following import FOLLOWING, following, names_error
from notleader.spark_analysis.transforms.intervals import overlaps_buckets

CAUSES = f"array<{CAUSE.simpleString()}>"
"""The type of the columns `slow_by`, `ended_by` and `retried_by`."""

_HOLDS = ("held_request", "held_answer")
_SWALLOWS = ("swallowed_request", "swallowed_answer", "muted", "silenced")
_CUTS = ("cut", "refused", "garbled", "silenced")
# A client pauses after an error; what it does much later has other reasons.
_MOST_STRUCK = 10_000
_PAUSE_US = 10_000_000
# Obstacles of one rule that follow each other this closely are one.
_APART_US = 100_000
_BUCKET_US = 10_000_000
# A rule explains a wait when it was in the way for this part of it, and for this part of what the heaviest was.
_OF_THE_WAIT = 0.25
_OF_THE_HEAVIEST = 0.5
# Errors of a broker that is asked for what is another's.
_NOT_THERE = (3, 5, 6)
# A failure that came sooner was not waited for.
_AT_ONCE_US = 100_000


class Struck(NamedTuple):
    """One rule and one client that it reached; µs, UTC. `last_us`: when it last got in the client's way.

    `until_us`: when the last exchange or connection that it held, swallowed or silenced was over for the client.
    """

    scope: str
    client: str
    rule: str
    kind: str
    first_us: int
    last_us: int
    hits: int
    until_us: int


def with_causes(
    history: DataFrame,
    exchanges: DataFrame,
    operations: DataFrame,
    options: Options,
    end_us: Column,
    last_us: Column,
    out: str | None,
) -> tuple[DataFrame, tuple[Struck, ...]]:
    """`history` with CAUSES columns: what made an operation wait, how it ended, and why it was sent again.

    `slow_by` holds the rules that account for its time, `ended_by` those of how its last attempt ended, `retried_by`
    those of all attempts but the last, `touched_by` all that touched it. Each is empty where no rule had a hand in it.
    With `out` what was compared is written there as Parquet once, for the checks to read again and again. Besides,
    whom each rule struck, and when.
    """
    spark = history.sparkSession
    rows = history.withColumn("end_us", F.coalesce("completed_at_us", end_us))
    names = clients_of(rows, operations)
    obstacles = _obstacles(exchanges, names, rows, last_us).persist()
    struck = _struck(obstacles, rows)
    compared = _weights(_suspects(rows, options), obstacles).join(following(_broken(rows)), "operation_id", "full")
    if out is not None:
        compared.write.mode("overwrite").parquet(out)
        compared = spark.read.schema(compared.schema).parquet(out)
        obstacles.unpersist()
    told = (
        rows.join(compared, "operation_id", "left")
        .withColumns(_own_causes())
        .withColumns(_choices())
        .drop("end_us", "_waits", "_told", "_follows", "_own", "_last", "_broker")
    )
    return told, struck


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
    every = (
        obstacles.filter(F.col("how") != "anybody")
        .withColumn("until_us", F.greatest(waits, "last_hit_us"))
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


def connection(within: str = "") -> Column:
    """One connection of one proxy, as a number; from the row itself, or from a struct in it (`within`, with a dot)."""
    return F.xxhash64("scope", F.col(f"{within}proxy_id"), F.col(f"{within}connection_id"))


def clients_of(history: DataFrame, operations: DataFrame) -> DataFrame:
    """scope, client, `connection` or `wire_id`: whose connections and client ids these are, where that is one's."""
    used = (
        history.select("scope", "client", F.explode("attempts").alias("a"))
        .filter(F.col("a.match_kind") != "time")
        .select("scope", "client", connection("a.").alias("connection"))
        .distinct()
    )
    return used.withColumn("wire_id", F.lit(None).cast("string")).unionByName(
        names_of(operations).withColumn("connection", F.lit(None).cast("long"))
    )


def names_of(operations: DataFrame) -> DataFrame:
    """scope, client, `wire_id`: the client ids that are one client's alone."""
    of_kafka = operations.filter(F.col("client_id").isNotNull())
    said = of_kafka.select("scope", "client", F.col("client_id").alias("wire_id"))
    named = operations.select("scope", "client", F.col("client").alias("wire_id"))
    by_name = said.unionByName(named).distinct()
    alone = Window.partitionBy("scope", "wire_id")
    return by_name.withColumn("owners", F.count("*").over(alone)).filter("owners = 1").drop("owners")


def _suspects(history: DataFrame, options: Options) -> DataFrame:
    """Operations that something may have happened to, with the time in which it must have."""
    slow = F.greatest(F.coalesce("latency_us", F.lit(0)), F.coalesce("blocked_us", F.lit(0)))
    bound = F.least(F.coalesce("budget_ms", F.lit(options.slow_ms)), F.lit(options.slow_ms)) * 1000
    first = F.get("attempts", F.lit(0))["request_at_us"]
    last = F.get("attempts", F.size("attempts") - 1)
    answered = last["outcome"].isin("answered", "altered", "injected") & (F.coalesce(last["error_code"], F.lit(0)) == 0)
    wrong = (F.col("outcome") != "ok") | (slow >= bound) | (F.col("attempt_count") > 1)
    return history.filter(wrong & F.coalesce(F.col("called_at_us"), first).isNotNull()).select(
        "operation_id",
        "error",
        F.col("scope").alias("o_scope"),
        F.col("client").alias("o_client"),
        F.col("topic").alias("o_topic"),
        F.col("partition").alias("o_partition"),
        F.coalesce("called_at_us", first).alias("begun_us"),
        F.greatest("end_us", F.coalesce("called_at_us", first) + 1).alias("ended_us"),
        # Once it was on the wire and answered there, what the client was told elsewhere kept it no longer.
        F.coalesce(F.when(answered, last["request_at_us"]), F.col("end_us")).alias("sent_us"),
        F.array_distinct(
            F.transform("attempts", lambda a: F.xxhash64("scope", a["proxy_id"], a["connection_id"]))
        ).alias("o_connections"),
        F.array_distinct(F.transform("attempts", lambda a: a["node_id"])).alias("o_nodes"),
    )


def _obstacles(exchanges: DataFrame, names: DataFrame, history: DataFrame, last_us: Column) -> DataFrame:
    """scope, client, how, connection, topic, partition, rule, kind, did, error_code, from_us, until_us, covered_us."""
    told = exchanges.withColumns({"connection": connection(), "touches": touches(), "run_end_us": last_us})
    touched = told.filter(F.size("touches") > 0)
    lines = told.join(F.broadcast(touched.select("connection").distinct()), "connection", "left_semi")
    found = [_lines(lines), _answers(told, touched), _cuts(told, touched)]
    owned = _of_clients(reduce(DataFrame.unionByName, found), names)
    every = owned.unionByName(_partitions(history))
    return _bursts(every.filter(F.col("until_us") > F.col("from_us")))


_SHAPE = (
    "scope",
    "how",
    "connection",
    "node_id",
    "wire_id",
    "topic",
    "partition",
    "rule",
    "kind",
    "did",
    "error_code",
    "from_us",
    "until_us",
    "hit_us",
)


def _shape(rows: DataFrame, how: str, *more: str) -> DataFrame:
    """Obstacle rows from exchange rows with `t`, `from_us`, `until_us`; topic and partition where they have them."""
    anywhere = {n: F.lit(None).cast(kind) for n, kind in (("topic", "string"), ("partition", "int"))}
    missing = {n: column for n, column in anywhere.items() if n not in rows.columns}
    if "hit_us" not in rows.columns:
        rows = rows.withColumn("hit_us", F.coalesce("response_at_us", "request_at_us"))
    given = {"how": F.lit(how), "wire_id": F.col("client_id"), **missing}
    parts = {n: F.col(f"t.{n}") for n in ("rule", "kind", "did", "error_code")}
    return rows.withColumns({**given, **parts}).select(*more, *_SHAPE)


def _lines(exchanges: DataFrame) -> DataFrame:
    """What the head of a connection's queue waited for, all behind it waited for too: Kafka answers in order."""
    order = Window.partitionBy("connection").orderBy("exchange_seq", "request_at_us")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    later = order.rowsBetween(1, Window.unboundedFollowing)
    is_exchange = F.col("event") == "exchange"
    rows = exchanges.withColumns(
        {
            "forwarded_before": F.max("forwarded_at_us").over(earlier),
            "answered_before": F.max("response_at_us").over(earlier),
            "answered_after": F.min("response_at_us").over(later),
            "closed_us": F.max(F.when(F.col("event") == "disconnect", F.col("request_at_us"))).over(
                Window.partitionBy("connection")
            ),
        }
    ).filter(is_exchange & (F.size("touches") > 0))
    gone = F.coalesce("closed_us", "run_end_us")
    rows = rows.withColumn("t", F.explode("touches")).filter(F.col("t.did").isin(*_HOLDS, *_SWALLOWS))
    did = F.col("t.did")
    answered_by_broker = F.coalesce("broker_responded_at_us", "request_at_us")
    begun = (
        F.when(did == "held_request", F.greatest("request_at_us", "forwarded_before"))
        .when(did == "held_answer", F.greatest(answered_by_broker, "answered_before"))
        .otherwise(F.greatest("request_at_us", "answered_before"))
    )
    ended = F.when(did == "held_request", F.coalesce("forwarded_at_us", gone)).otherwise(
        F.coalesce("response_at_us", "answered_after", gone)
    )
    # A hold of which only the ends are recorded: the whole exchange.
    whole = did.isin(*_HOLDS) & F.when(
        did == "held_request", F.coalesce(F.col("forwarded_at_us") == F.col("request_at_us"), F.lit(False))
    ).otherwise(F.col("broker_responded_at_us").isNull())
    rows = rows.withColumns(
        {
            "from_us": F.when(whole, F.col("request_at_us")).otherwise(begun),
            "until_us": F.when(whole, F.coalesce("response_at_us", gone)).otherwise(ended),
        }
    )
    # Of several rules that held it each answers for as long as it did.
    alone = F.coalesce(F.col("from_us") + F.col("t.held_us"), F.col("until_us"))
    return _shape(rows.withColumn("until_us", F.least("until_us", alone)), "behind")


def _answers(exchanges: DataFrame, touched: DataFrame) -> DataFrame:
    """What a client was told, or not told, about everything but its batches: until it was told something else."""
    others = touched.filter((F.col("event") == "exchange") & ~F.col("api_name").isin("Produce", "Fetch"))
    apis = others.select("scope", "client_id", "api_name").distinct()
    order = Window.partitionBy("scope", "client_id", "api_name").orderBy("request_at_us", "exchange_seq")
    asked = exchanges.filter(F.col("event") == "exchange").join(
        F.broadcast(apis.withColumnsRenamed({n: f"k_{n}" for n in apis.columns})),
        F.col("scope").eqNullSafe(F.col("k_scope"))
        & F.col("client_id").eqNullSafe(F.col("k_client_id"))
        & (F.col("api_name") == F.col("k_api_name")),
        "left_semi",
    )
    answered = F.coalesce("response_at_us", "request_at_us")
    next_answer = F.lead(answered).over(order)
    rows = asked.withColumn("next_us", next_answer).filter(F.size("touches") > 0)
    rows = rows.withColumn("t", F.explode("touches")).filter(~F.col("t.did").isin("repeated", "shaped", "refused"))
    held = F.col("t.did").isin(*_HOLDS)
    rows = rows.withColumns(
        {
            "from_us": F.col("request_at_us"),
            "until_us": F.when(held, F.coalesce("response_at_us", "run_end_us")).otherwise(
                F.least(F.greatest("next_us", answered), answered + _PAUSE_US)
            ),
        }
    )
    return _shape(rows, "told")


def _cuts(exchanges: DataFrame, touched: DataFrame) -> DataFrame:
    """Connections that were cut, refused or silenced: until the client is answered again by that node."""
    again = Window.partitionBy("scope", "client_id", "node_id").orderBy("request_at_us", "exchange_seq")
    nodes = touched.withColumn("t", F.explode("touches")).filter(F.col("t.did").isin(*_CUTS))
    nodes = nodes.select(
        F.col("scope").alias("k_scope"), F.col("client_id").alias("k_client_id"), F.col("node_id").alias("k_node_id")
    ).distinct()
    rows = exchanges.join(
        F.broadcast(nodes),
        F.col("scope").eqNullSafe(F.col("k_scope"))
        & F.col("client_id").eqNullSafe(F.col("k_client_id"))
        & F.col("node_id").eqNullSafe(F.col("k_node_id")),
        "left_semi",
    ).withColumn("again_us", F.min("response_at_us").over(again.rowsBetween(1, Window.unboundedFollowing)))
    rows = rows.filter(F.size("touches") > 0).withColumn("t", F.explode("touches")).filter(F.col("t.did").isin(*_CUTS))
    rule = Window.partitionBy("scope", F.col("t.rule"))
    rows = rows.withColumn("rule_last_us", F.max("request_at_us").over(rule)).withColumns(
        {
            "from_us": F.col("request_at_us"),
            "until_us": F.least(F.coalesce("again_us", "run_end_us"), F.col("rule_last_us") + _PAUSE_US),
        }
    )
    return _shape(rows, "cut")


def _of_clients(obstacles: DataFrame, names: DataFrame) -> DataFrame:
    """Each obstacle under the clients whose it is; a rule that touched nobody we know is nobody's obstacle."""
    by_connection = names.filter(F.col("connection").isNotNull()).select(
        F.col("connection").alias("n_connection"), F.col("client").alias("c_client")
    )
    by_name = names.filter(F.col("wire_id").isNotNull()).select(
        F.col("scope").alias("n_scope"), F.col("wire_id").alias("n_wire_id"), F.col("client").alias("w_client")
    )
    rows = obstacles.join(F.broadcast(by_connection), F.col("connection") == F.col("n_connection"), "left")
    rows = rows.join(
        F.broadcast(by_name),
        F.col("scope").eqNullSafe(F.col("n_scope")) & (F.col("wire_id") == F.col("n_wire_id")),
        "left",
    )
    # A client id that one client alone has on the wire is its own on every connection.
    theirs = (
        rows.filter(F.col("c_client").isNotNull() & F.col("wire_id").isNotNull())
        .groupBy(F.col("scope").alias("t_scope"), F.col("wire_id").alias("t_wire_id"))
        .agg(F.min("c_client").alias("t_client"), F.count_distinct("c_client").alias("owners"))
        .filter("owners = 1")
    )
    rows = rows.join(
        F.broadcast(theirs),
        F.col("scope").eqNullSafe(F.col("t_scope")) & (F.col("wire_id") == F.col("t_wire_id")),
        "left",
    )
    rows = rows.withColumn("client", F.coalesce("c_client", "w_client", "t_client"))
    known = rows.filter(F.col("client").isNotNull()).select("client", *_SHAPE)
    # A connection that never got as far as a client id may be anybody's.
    nobody = F.col("client").isNull() & (F.col("how") == "cut") & F.col("wire_id").isNull()
    everybody = names.select(F.col("scope").alias("e_scope"), F.col("client").alias("e_client")).distinct()
    anybody = (
        rows.filter(nobody & F.col("did").isin("refused", "silenced"))
        .drop("client")
        .join(F.broadcast(everybody), F.col("scope").eqNullSafe(F.col("e_scope")))
        .withColumns({"client": F.col("e_client"), "how": F.lit("anybody")})
    )
    return known.unionByName(anybody.select("client", *_SHAPE))


def _partitions(history: DataFrame) -> DataFrame:
    """A batch that a rule kept from being acknowledged keeps what comes after it on its partition, until its retry."""
    sends = history.filter(F.col("operation") == "send")
    attempts = sends.select("scope", "client", F.posexplode("attempts").alias("place", "a"), "attempts", "end_us")
    rows = attempts.filter(F.size("a.touches") > 0).withColumns(
        {"t": F.explode("a.touches"), "next_us": F.get("attempts", F.col("place") + 1)["request_at_us"]}
    )
    unanswered = F.col("t.did").isin(*_SWALLOWS, *_CUTS)
    code = F.col("t.error_code").isNotNull()
    answered = F.coalesce("a.response_at_us", "a.request_at_us")
    until = F.when(unanswered, F.coalesce("next_us", "end_us")).otherwise(
        F.least(F.coalesce("next_us", "end_us"), answered + _PAUSE_US)
    )
    rows = rows.filter(unanswered | code).withColumns(
        {
            "connection": connection("a."),
            "client_id": F.lit(None).cast("string"),
            "node_id": F.col("a.node_id"),
            "topic": F.col("a.topic"),
            "partition": F.col("a.partition_index"),
            "from_us": F.col("a.request_at_us"),
            "until_us": until,
            "hit_us": answered,
        }
    )
    places = (
        "scope",
        "client",
        "connection",
        "node_id",
        "topic",
        "partition",
        "t",
        "from_us",
        "until_us",
        "hit_us",
        "client_id",
    )
    return _shape(rows.select(*places).distinct(), "partition", "client")


def _bursts(obstacles: DataFrame) -> DataFrame:
    """Obstacles of one rule at one place that follow each other closely, as one; `covered_us` is what they cover."""
    place = ("client", *[name for name in _SHAPE if name not in ("wire_id", "from_us", "until_us", "hit_us")])
    order = Window.partitionBy(*place).orderBy("from_us", "until_us")
    reached = F.max("until_us").over(order.rowsBetween(Window.unboundedPreceding, -1))
    rows = obstacles.withColumn("reached", reached).withColumns(
        {
            "new_us": F.greatest(F.col("until_us") - F.greatest("from_us", F.coalesce("reached", "from_us")), F.lit(0)),
            "apart": F.coalesce(F.col("from_us") - F.col("reached") > _APART_US, F.lit(True)),
        }
    )
    rows = rows.withColumn("burst", F.sum(F.col("apart").cast("int")).over(order))
    return rows.groupBy(*place, "burst").agg(
        F.min("from_us").alias("from_us"),
        F.max("until_us").alias("until_us"),
        F.sum("new_us").alias("covered_us"),
        F.max("hit_us").alias("last_hit_us"),
        F.count("*").alias("hits"),
    )


def _weights(suspects: DataFrame, obstacles: DataFrame) -> DataFrame:
    """`operation_id` → `_waits`, the CAUSES that were in its way, and `_told`, those that told its client its error."""
    on_its_way = F.array_contains("o_connections", F.col("connection"))
    unsent = F.size("o_connections") == 0
    # A client that has its fill of unanswered requests at a broker sends that broker no more, on no connection.
    same_broker = F.col("node_id").isNotNull() & F.array_contains("o_nodes", F.col("node_id"))
    until_sent = F.col("how").isin("told", "cut", "anybody") | ((F.col("how") == "behind") & ~on_its_way)
    last = F.when(until_sent, F.col("sent_us")).otherwise(F.col("ended_us"))
    spans = overlaps_buckets(F.col("begun_us"), F.col("ended_us"), _BUCKET_US)
    theirs = suspects.withColumn("_bucket", F.explode(spans))
    stretches = overlaps_buckets(F.col("from_us"), F.col("until_us"), _BUCKET_US)
    ways = obstacles.withColumn("_w_bucket", F.explode(stretches))
    first_common = (F.greatest("begun_us", "from_us") / _BUCKET_US).cast("long")
    here = F.col("topic").isNull() | (
        F.col("topic").eqNullSafe(F.col("o_topic"))
        & (F.col("o_partition").isNull() | F.col("partition").isNull() | (F.col("partition") == F.col("o_partition")))
    )
    in_the_way = (
        F.when(F.col("how") == "behind", on_its_way | unsent | same_broker)
        .when(F.col("how") == "cut", on_its_way | unsent | here)
        .otherwise(here)
    )
    met = theirs.join(
        ways,
        (F.col("_bucket") == F.col("_w_bucket"))
        & F.col("o_scope").eqNullSafe(F.col("scope"))
        & (F.col("o_client") == F.col("client"))
        & (F.col("_bucket") == first_common)
        & (F.col("from_us") < last)
        & (F.col("until_us") > F.col("begun_us"))
        & in_the_way,
    )
    overlap = F.least(last, F.col("until_us")) - F.greatest("begun_us", "from_us")
    density = F.col("covered_us") / (F.col("until_us") - F.col("from_us"))
    rows = met.withColumns(
        {
            "weight_us": (overlap * density).cast("long"),
            "sure": ((F.col("how") == "behind") & on_its_way) | (F.col("how") == "partition"),
            "length_us": F.col("ended_us") - F.col("begun_us"),
            "how": F.when((F.col("how") == "behind") & ~on_its_way, "broker").otherwise(F.col("how")),
        }
    )
    by_way = rows.groupBy("operation_id", "error", "rule", "kind", "how").agg(
        F.max_by(F.struct("did", "error_code"), "weight_us").alias("w"),
        F.max("sure").alias("sure"),
        F.least(F.sum("weight_us"), F.max("length_us")).alias("weight_us"),
    )
    cause = F.struct("rule", "kind", "how", "w.did", "w.error_code", "sure", "weight_us")
    told = F.when(names_error(F.col("error"), F.col("w.error_code")), cause)
    return by_way.groupBy("operation_id").agg(
        F.collect_list(cause).cast(CAUSES).alias("_waits"), F.collect_list(told).cast(CAUSES).alias("_told")
    )


def _broken(history: DataFrame) -> DataFrame:
    """What went wrong by rules and what may follow from it, as `following` takes it."""
    last = F.get("attempts", F.size("attempts") - 1)
    own = _own_causes()
    failed = F.col("outcome").isin("fail", "info")
    # What pends ends when all does.
    wrong = failed | (F.col("outcome") == "pending") | (F.col("attempt_count") > 1)
    well = history.filter(F.col("outcome") == "ok").groupBy(
        F.col("scope").alias("g_scope"), F.col("client").alias("g_client")
    )
    last_ok = well.agg(F.max("completed_at_us").alias("last_ok_us"))
    same = F.col("scope").eqNullSafe(F.col("g_scope")) & F.col("client").eqNullSafe(F.col("g_client"))
    rows = (
        history.filter(wrong)
        .join(F.broadcast(last_ok), same, "left")
        .withColumns(dict.fromkeys(("_waits", "_told", "_follows"), F.array().cast(CAUSES)))
    )
    rows = rows.withColumns({name: own[name] for name in ("_own", "_last", "_broker")})
    kept = F.filter("_own", lambda c: ~c["did"].isin(*_HOLDS, "shaped"))
    called = F.coalesce("called_at_us", "end_us")
    return rows.select(
        "operation_id",
        "scope",
        "client",
        "topic",
        "error",
        called.alias("called_us"),
        F.col("end_us").alias("at_us"),
        "last_ok_us",
        failed.alias("failed"),
        (F.size("attempts") == 0).alias("unsent"),
        F.when(F.col("_broker"), last["error_code"]).alias("refused"),
        F.when(failed & (F.size("_last") > 0), F.col("_last")).otherwise(kept).alias("because"),
    )


def _own_causes() -> dict[str, Column]:
    """What rules did to the operation's own attempts (`_own`), to the last of them (`_last`); what the broker said."""
    last = F.get("attempts", F.size("attempts") - 1)

    def told(found: Column, attempt: Column) -> Column:
        """What was found on an attempt as CAUSES; those that held it weigh how long they did."""
        whole = F.coalesce(attempt["response_at_us"] - attempt["request_at_us"], F.lit(0))

        def cause(t: Column) -> Column:
            held_us = F.when(t["did"].isin(*_HOLDS), F.coalesce(t["held_us"], whole)).otherwise(F.lit(0))
            return F.struct(
                t["rule"].alias("rule"), t["kind"].alias("kind"), F.lit("own").alias("how"), t["did"].alias("did"),
                t["error_code"].alias("error_code"), F.lit(True).alias("sure"),
                held_us.cast("long").alias("weight_us"),
            )  # fmt: skip

        return F.transform(found, cause)

    nothing = F.array().cast(CAUSES)
    own = F.array_distinct(F.flatten(F.transform("attempts", lambda a: told(a["touches"], a))))
    answered = last["outcome"].isin("answered", "altered", "injected")

    def part_of_the_end(t: Column) -> Column:
        kept = _kept_away(t, last) & _for_long(t, F.col("end_us") - last["request_at_us"])
        return F.when(answered, _said(t, last) | (t["did"] == "garbled")).otherwise(kept)

    ends = told(F.filter(last["touches"], part_of_the_end), last)
    # An attempt counts for the retry that followed: by its error, or by not being answered until then.
    numbers = F.sequence(F.lit(0), F.size("attempts") - 2)

    def why_again(place: Column) -> Column:
        attempt, following = F.get("attempts", place), F.get("attempts", place + 1)
        silent = attempt["response_at_us"].isNull() | (attempt["response_at_us"] > following["request_at_us"])
        silent = silent | ~attempt["outcome"].isin("answered", "altered", "injected")

        waited_us = following["request_at_us"] - attempt["request_at_us"]

        def counts(t: Column) -> Column:
            kept = silent & _kept_away(t, attempt) & _for_long(t, waited_us)
            return _said(t, attempt) | kept | t["did"].isin("garbled", "repeated")

        return told(F.filter(attempt["touches"], counts), attempt)

    again = F.when(F.size("attempts") > 1, F.array_distinct(F.flatten(F.transform(numbers, why_again))))
    return {
        "_own": F.coalesce(own, nothing).cast(CAUSES),
        "_last": F.coalesce(ends, nothing).cast(CAUSES),
        "retried_by": F.coalesce(again, nothing).cast(CAUSES),
        "_broker": answered & F.coalesce(last["error_code"] != 0, F.lit(False)),
        "_waits": F.coalesce("_waits", nothing),
        "_told": F.coalesce("_told", nothing),
        "_follows": F.coalesce("_follows", nothing),
    }


def _said(t: Column, attempt: Column) -> Column:
    """The attempt's error is this rule's: it said that very code, or changed the request that was then refused."""
    own = t["error_code"].isNotNull() & (t["error_code"] == attempt["error_code"])
    refused = (t["did"] == "altered_request") & F.coalesce(attempt["error_code"] != 0, F.lit(False))
    return own | refused


def _kept_away(t: Column, attempt: Column) -> Column:
    """This kept an attempt from being answered: what only held it did so where nothing swallowed it or cut it off."""
    for_good = (*_SWALLOWS, *_CUTS, "kept_behind")
    gone = F.exists(attempt["touches"], lambda other: other["did"].isin(*for_good))
    return t["did"].isin(*for_good) | (t["did"].isin(*_HOLDS) & ~gone)


def _for_long(t: Column, wait_us: Column) -> Column:
    """What held an exchange for a trifle is no reason not to wait for it any longer."""
    return F.coalesce(t["held_us"] >= wait_us * _OF_THE_WAIT, F.lit(True))


def _choices() -> dict[str, Column]:
    length = F.greatest(
        F.col("end_us") - F.coalesce("called_at_us", F.get("attempts", F.lit(0))["request_at_us"]), F.lit(1)
    )
    last = F.get("attempts", F.size("attempts") - 1)

    def heavy(among: Column) -> Column:
        most = F.array_max(F.transform(among, lambda w: w["weight_us"]))
        return F.filter(
            among,
            lambda w: (w["weight_us"] >= length * _OF_THE_WAIT) & (w["weight_us"] >= most * _OF_THE_HEAVIEST),
        )

    def as_own(w: Column) -> Column:
        """An obstacle that the operation's own attempt was the head of is told as what happened to itself."""
        same = F.filter("_own", lambda o: (o["rule"] == w["rule"]) & (o["did"] == w["did"]))
        mine = F.size(same) > 0
        return w.withField("how", F.when(mine, F.lit("own")).otherwise(w["how"])).withField("sure", w["sure"] | mine)

    its_own = heavy(F.filter("_waits", lambda w: w["how"] != "anybody"))
    anybody = heavy(F.filter("_waits", lambda w: w["how"] == "anybody"))
    # What befell a client that nobody can name is a reason where there is no other.
    waits = F.array_distinct(F.transform(F.when(F.size(its_own) > 0, its_own).otherwise(anybody), as_own))
    follows = F.coalesce(last["error_code"].isin(*FOLLOWING), F.lit(False)) & F.col("_broker")

    def before(causes: str) -> Column:
        lasting = F.filter(causes, lambda w: ~w["did"].isin(*_HOLDS))
        return F.transform(lasting, lambda w: w.withField("sure", F.lit(False)))

    earlier = F.when(F.size(before("_own")) > 0, before("_own")).when(F.size("_follows") > 0, F.col("_follows"))
    # Nothing of it was on the wire: what told its client this very error, else what its time went by with.
    unsent = F.size("attempts") == 0
    # A leader that a rule made up: the broker that it sent the client to says that it is none.
    sent_there = F.transform(
        F.filter("_waits", lambda w: (w["how"] == "told") & w["did"].isin("altered_answer", "answered")),
        lambda w: w.withField("sure", F.lit(False)),
    )

    def misled(attempt: Column) -> Column:
        own = F.coalesce(attempt["error_code"].isin(*_NOT_THERE), F.lit(False))
        return own & ~F.exists(attempt["touches"], lambda t: t["error_code"].eqNullSafe(attempt["error_code"]))

    again = F.exists(F.slice("attempts", 1, F.greatest(F.size("attempts") - 1, F.lit(0))), misled)
    retried = F.when((F.size("retried_by") == 0) & again, sent_there).otherwise(F.col("retried_by"))
    kept = F.when(length >= _AT_ONCE_US, waits).otherwise(F.filter(waits, lambda w: ~w["did"].isin(*_HOLDS)))
    ended = (
        F.when(F.size("_last") > 0, F.col("_last"))
        .when(
            F.col("_broker"),
            F.when(follows, earlier.otherwise(before("_waits")))
            .when(misled(last), sent_there)
            .otherwise(F.array().cast(CAUSES)),
        )
        .when(unsent & (F.size("_told") > 0), F.col("_told"))
        .when(unsent & (F.size("_follows") > 0), F.col("_follows"))
        .otherwise(kept)
    )
    # A wait without an end began where the last attempt ended, however short that was beside it.
    pends = F.when(F.col("outcome") == "pending", F.col("_last")).otherwise(F.array().cast(CAUSES))
    slow = (
        F.when(F.size(waits) > 0, waits)
        .when(F.size(pends) > 0, pends)
        .when(unsent, F.col("_follows"))
        .otherwise(F.array().cast(CAUSES))
    )
    return {
        "slow_by": slow.cast(CAUSES),
        "ended_by": ended.cast(CAUSES),
        "retried_by": retried.cast(CAUSES),
        "touched_by": F.col("_own"),
    }
