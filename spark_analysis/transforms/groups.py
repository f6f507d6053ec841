"""Which consumer group a client is a member of, where its lines don't say: Kafka's verifiable consumer's never do."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.sent_back import of_clients

_APART_US = 60_000_000
_MOST_OF = 2 / 3
_ABOUT_ANY_GROUP = "Describe|^(DeleteGroups|FindCoordinator)$"


def without_share_groups(delivered: DataFrame, exchanges: DataFrame, names: DataFrame) -> DataFrame:
    """`delivered` without what members of share groups got (KIP-932): what one of them holds comes to another later."""
    fetched = exchanges.filter(F.col("api_name") == "ShareFetch")
    theirs = of_clients(fetched, names).select(F.col("scope").alias("s_scope"), F.col("t_client").alias("s_client"))
    return delivered.join(broadcast(theirs.distinct()), same("s_", "scope", "client"), "left_anti")


def with_groups(operations: DataFrame, exchanges: DataFrame) -> DataFrame:
    """`operations` with the `group_id` of polls and commits filled in where the capture knows it.

    By the client id that the group's requests name; by its commits, each the nearest OffsetCommit of that place and
    offset, most of which are one group's; and what tells neither its version nor its thread, as Kafka's verifiable
    consumer, is of the only group that was captured.
    """
    wanted = F.col("operation").isin("poll", "commit") & F.col("group_id").isNull()
    ungrouped = operations.filter(wanted)
    is_members = F.col("group_id").isNotNull() & ~F.col("api_name").rlike(_ABOUT_ANY_GROUP)  # not a tool's
    of_group = exchanges.filter((F.col("event") == "exchange") & is_members)
    captured = of_group.select("scope", "client_id", F.col("group_id").alias("of")).distinct()
    clients = ungrouped.groupBy("scope", "client").agg(
        F.max("client_id").alias("told_id"),
        F.bool_and(F.col("client_version").isNull() & F.col("thread").isNull()).alias("verifiable"),
    )
    alone = captured.groupBy(F.col("scope").alias("a_scope")).agg(
        F.max("of").alias("only"), F.count_distinct("of").alias("groups")
    )
    by_name = captured.groupBy(F.col("scope").alias("n_scope"), F.col("client_id").alias("n_client")).agg(
        F.max("of").alias("named"), F.count_distinct("of").alias("names")
    )
    found = (
        clients.join(
            broadcast(by_name.filter("names = 1")),
            _same("n_scope") & (F.coalesce("told_id", "client") == F.col("n_client")),
            "left",
        )
        .join(broadcast(_by_commits(ungrouped, of_group)), ["scope", "client"], "left")
        .join(broadcast(alone), _same("a_scope"), "left")
        .select(
            F.col("scope").alias("g_scope"),
            F.col("client").alias("g_client"),
            F.coalesce("named", "committed", F.when(F.col("verifiable") & (F.col("groups") == 1), F.col("only"))).alias(
                "found"
            ),
        )
        .filter(F.col("found").isNotNull())
    )
    return (
        operations.join(broadcast(found), _same("g_scope") & (F.col("client") == F.col("g_client")), "left")
        .withColumn("group_id", F.when(wanted, F.col("found")).otherwise(F.col("group_id")))
        .select(*operations.columns)
    )


def _same(scope: str) -> Column:
    return F.col("scope").eqNullSafe(F.col(scope))


def _by_commits(ungrouped: DataFrame, of_group: DataFrame) -> DataFrame:
    """scope, client, `committed`: whose OffsetCommits the client's commits are."""
    said = ungrouped.filter((F.col("operation") == "commit") & (F.col("offset") >= 0)).select(
        "operation_id", "scope", "client", "topic", "partition", "offset", "completed_at_us"
    )
    asked = of_group.filter(F.col("api_name") == "OffsetCommit").select(
        F.col("scope").alias("c_scope"),
        F.col("group_id").alias("of"),
        F.coalesce("response_at_us", "request_at_us").alias("c_at_us"),
        F.explode("partitions").alias("p"),
    )
    apart = F.abs(F.col("completed_at_us") - F.col("c_at_us"))
    met = said.join(
        asked,
        _same("c_scope")
        & (F.col("topic") == F.col("p.topic"))
        & (F.col("partition") == F.col("p.partition_index"))
        & (F.col("offset") == F.col("p.base_offset"))
        & (apart <= _APART_US),
    )
    nearest = met.groupBy("scope", "client", "operation_id").agg(F.min_by("of", apart).alias("of"))
    counted = nearest.groupBy("scope", "client", "of").agg(F.count("*").alias("times"))
    every = F.sum("times").over(Window.partitionBy("scope", "client"))
    most = counted.withColumn("every", every).filter(F.col("times") > F.col("every") * _MOST_OF)
    return most.select("scope", "client", F.col("of").alias("committed"))
