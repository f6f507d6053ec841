"""Commits on the wire: which OffsetCommit carried a commit that a client told of."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import is_as_it_was, touches_at, wire_of_place
from notleader.spark_analysis.transforms.history import MATCH_KINDS
from notleader.spark_analysis.transforms.intervals import CLOSE, join_moments, of_call
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import COMMITS, TXN_OFFSET_COMMIT
from notleader.spark_analysis.transforms.sent_back import of_clients


def commit_entries(operations: DataFrame, exchanges: DataFrame, names: DataFrame, skew_us: int) -> DataFrame:
    """`operation_id` → `commit_entries`: the attempts of each commit, by group, place, offset and time.

    `operations` and `exchanges` have a `scope`, `names` are `names_of` the operations. What has the client id of
    another client alone is no attempt, but for what producers commit for a group (KIP-98). A commit that doesn't say
    its offset, or its place, has the requests of its group that left during its call: matched by time.
    """
    asked = exchanges.filter(
        (F.col("event") == "exchange") & F.col("api_name").isin(*COMMITS) & F.col("group_id").isNotNull()
    ).select("*", F.posexplode("partitions").alias("place", "p"))
    touched = touches_at(F.col("place"))
    carried = of_clients(asked, names, "left").select(
        F.when(F.col("api_name") != TXN_OFFSET_COMMIT, F.col("t_client")).alias("c_client"),
        F.col("scope").alias("c_scope"),
        F.col("group_id").alias("c_group"),
        F.col("p.base_offset").alias("c_offset"),
        F.col("place"),
        F.col("request_at_us").alias("c_at_us"),
        wire_of_place(
            touched,
            fault_names=F.array_distinct(F.transform(touched, lambda t: t["rule"])),
            fault_kinds=F.array_distinct(F.transform(touched, lambda t: t["kind"])),
        ).alias("wire"),
    )
    said = operations.filter((F.col("operation") == "commit") & F.col("group_id").isNotNull()).select(
        "operation_id", "scope", "client", "group_id", "topic", "partition", "offset", "called_at_us", "completed_at_us"
    )
    by_time = _of_no_offset()
    since, until = of_call(skew_us)
    # What leaves before a call, or after it, is another's.
    close_us = skew_us // CLOSE
    called_us = F.coalesce(F.col("called_at_us") - close_us, F.col("completed_at_us") - skew_us)
    since = F.when(by_time, called_us).otherwise(since)
    until = F.when(by_time, F.coalesce(F.col("completed_at_us") + close_us, until)).otherwise(until)
    met = join_moments(
        said.withColumns({"_asks": _asks(), "_since": since, "_until": until}),
        carried.withColumn("_meets", F.explode(_meets())),
        ("_since", "_until"),
        "c_at_us",
        (F.col("_asks") == F.col("_meets"))
        & F.col("scope").eqNullSafe(F.col("c_scope"))
        & (F.col("group_id") == F.col("c_group"))
        & F.coalesce(F.col("client") == F.col("c_client"), F.lit(True))
        & _here(),
    )
    kind = F.when(by_time, "time").otherwise(F.col("wire.match_kind"))
    entry = F.struct(
        F.col("wire.attempt_id").alias("attempt_id"),
        F.array_position(F.array(*map(F.lit, MATCH_KINDS)), kind).cast("int").alias("rank"),
        F.col("wire").withField("match_kind", kind).alias("wire"),
        F.lit(False).alias("transactional"),
        F.lit(False).alias("acks_0"),
    )
    return met.groupBy("operation_id").agg(F.array_distinct(F.collect_list(entry)).alias("commit_entries"))


def known_commits(exchanges: DataFrame, operations: DataFrame) -> DataFrame:
    """k_scope, k_group, k_topic, k_partition, k_offset, k_at_us: what anybody tried to commit, and since when."""
    asked = exchanges.filter(F.col("api_name").isin(*COMMITS)).select(
        F.col("scope").alias("k_scope"),
        F.col("group_id").alias("k_group"),
        F.col("request_at_us").alias("k_at_us"),
        F.explode("partitions").alias("p"),
    )
    on_wire = asked.select(
        "k_scope",
        "k_group",
        F.col("p.topic").alias("k_topic"),
        F.col("p.partition_index").alias("k_partition"),
        F.col("p.base_offset").alias("k_offset"),
        "k_at_us",
    )
    said = operations.filter(F.col("operation") == "commit").select(
        F.col("scope").alias("k_scope"),
        F.coalesce("group_id", "client").alias("k_group"),
        F.col("topic").alias("k_topic"),
        F.col("partition").alias("k_partition"),
        F.col("offset").alias("k_offset"),
        F.coalesce("called_at_us", "completed_at_us").alias("k_at_us"),
    )
    tried = on_wire.unionByName(said).filter(F.col("k_offset") >= 0)
    return tried.groupBy("k_scope", "k_group", "k_topic", "k_partition", "k_offset").agg(
        F.min("k_at_us").alias("k_at_us")
    )


def set_elsewhere(exchanges: DataFrame, operations: DataFrame, names: DataFrame) -> DataFrame:
    """s_scope, s_group, s_client, s_topic, s_partition, s_offset, s_at_us: places of groups that nobody here had set.

    As members were told them, where no rule touched that, nor a commit of that group there: somebody may have set them
    past the proxy.
    """
    asked = exchanges.filter((F.col("api_name") == "OffsetFetch") & is_as_it_was())
    told = of_clients(with_groups_of_connections(exchanges, asked), names).select(
        F.col("scope").alias("s_scope"),
        F.col("group_id").alias("s_group"),
        F.col("t_client").alias("s_client"),
        F.col("request_at_us").alias("s_at_us"),
        F.explode("partitions").alias("p"),
    )
    places = {"s_topic": "p.topic", "s_partition": "p.partition_index", "s_offset": "p.base_offset"}
    told = told.withColumns({name: F.col(of) for name, of in places.items()}).drop("p").filter(F.col("s_offset") >= 0)
    known = [
        same("k_", "scope", "group", "topic", "partition", "offset", own="s_"),
        F.col("k_at_us") <= F.col("s_at_us"),
    ]
    touched = exchanges.filter((F.col("api_name") == "OffsetCommit") & ~is_as_it_was()).select(
        F.col("scope").alias("u_scope"),
        F.col("group_id").alias("u_group"),
        F.explode("partitions.topic").alias("u_topic"),
    )
    told = told.join(broadcast(touched.distinct()), same("u_", "scope", "group", "topic", own="s_"), "left_anti")
    return told.join(known_commits(exchanges, operations), known, "left_anti")


def with_groups_of_connections(exchanges: DataFrame, rows: DataFrame) -> DataFrame:
    """`rows` of exchanges with the `group_id` that others on their connections name, where they have none.

    OffsetFetch names its groups inside from version 8 on.
    """
    connection = ("scope", "proxy_id", "connection_id")
    named = exchanges.filter(F.col("group_id").isNotNull()).groupBy(*[F.col(c).alias(f"n_{c}") for c in connection])
    named = named.agg(F.max("group_id").alias("n_group"))
    found = rows.join(broadcast(named), same("n_", *connection), "left")
    return found.withColumn("group_id", F.coalesce("group_id", "n_group")).select(*rows.columns)


def _here() -> Column:
    place = (F.col("topic") == F.col("wire.topic")) & (F.col("partition") == F.col("wire.partition_index"))
    offset = _of_no_offset() | (F.col("offset") == F.col("c_offset"))
    return F.when(F.col("topic").isNull(), F.col("place") == 0).otherwise(place & offset)


def _of_no_offset() -> Column:
    return F.col("offset").isNull() | (F.col("offset") < 0)


def _asks() -> Column:
    """By how much of its place a commit is looked for, as one number: all of it, as a rule."""
    place = (F.col("group_id"), F.col("topic"), F.col("partition"))
    return (
        F.when(F.col("topic").isNull(), F.xxhash64("group_id"))
        .when(_of_no_offset(), F.xxhash64(*place))
        .otherwise(F.xxhash64(*place, "offset"))
    )


def _meets() -> Column:
    """The numbers by which a commit on the wire may be looked for, as `_asks` has them."""
    place = (F.col("c_group"), F.col("wire.topic"), F.col("wire.partition_index"))
    return F.array(F.xxhash64("c_group"), F.xxhash64(*place), F.xxhash64(*place, "c_offset"))
