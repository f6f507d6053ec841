"""When each client was gone: its last connection ended, and it never tried for another."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import clients_of, connection


def with_gone(rows: DataFrame, gone: DataFrame) -> DataFrame:
    """`rows` with `gone_us` as `gone_of` tells it, null while the client may have lived to the end of the recording."""
    return rows.join(broadcast(gone), same("g_", "scope", "client"), "left").drop("g_scope", "g_client")


def gone_of(exchanges: DataFrame, names: DataFrame, history: DataFrame) -> DataFrame:
    """`g_scope`, `g_client` → `gone_us`: the clients that were gone before the recording's end, and since when.

    Whose connections are whose tell `history` and `names`. A connection that a rule cut is no end of its client, nor is
    one after which its host still knocked in vain.
    """
    host = F.regexp_replace("client_addr", r":\d+$", "")
    at = F.col("request_at_us")
    ended = F.col("event") == "disconnect"
    lives = (
        exchanges.withColumn("connection", connection())
        .groupBy("scope", "connection")
        .agg(
            F.max("client_id").alias("wire_id"),
            F.max(host).alias("host"),
            F.max(F.when(ended, at)).alias("closed_us"),
            F.max(at).alias("knocked_us"),
            F.max(F.when(ended, F.size("fault_names") > 0)).alias("cut"),
        )
    )
    in_vain = lives.filter(F.col("wire_id").isNull() & F.col("host").isNotNull())
    knocks = in_vain.groupBy(F.col("scope").alias("k_scope"), F.col("host").alias("k_host")).agg(
        F.max("knocked_us").alias("knocked_us")
    )
    clients = clients_of(history, names)
    known = lives.drop("knocked_us").filter(F.col("wire_id").isNotNull())
    by_name = clients.filter(F.col("wire_id").isNotNull()).select("scope", "wire_id", "client")
    by_connection = clients.filter(F.col("connection").isNotNull()).select("scope", "connection", "client")
    theirs = (
        known.join(broadcast(by_name), ["scope", "wire_id"])
        .select("scope", "client", "connection", "host", "closed_us", "cut")
        .unionByName(
            known.join(broadcast(by_connection), ["scope", "connection"]).select(
                "scope", "client", "connection", "host", "closed_us", "cut"
            )
        )
        .distinct()
    )
    gone = (
        theirs.groupBy(F.col("scope").alias("g_scope"), F.col("client").alias("g_client"))
        .agg(
            F.count_if(F.col("closed_us").isNull()).alias("open"),
            F.max("closed_us").alias("gone_us"),
            F.max_by("cut", "closed_us").alias("cut"),
            F.max("host").alias("host"),
        )
        .filter((F.col("open") == 0) & ~F.coalesce("cut", F.lit(False)))
    )
    same_host = F.col("g_scope").eqNullSafe(F.col("k_scope")) & (F.col("host") == F.col("k_host"))
    return (
        gone.join(broadcast(knocks), same_host, "left")
        .filter(F.col("knocked_us").isNull() | (F.col("knocked_us") <= F.col("gone_us")))
        .select("g_scope", "g_client", "gone_us")
    )
