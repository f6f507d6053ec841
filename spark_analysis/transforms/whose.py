"""Whose connections those are whose client id no client of the outcome lines has for itself, by what went over them."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.profile import CaptureProfile, OutcomeProfile
from notleader.spark_analysis.transforms.attempts import was_answered
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import connection
from notleader.spark_analysis.transforms.sent_back import OF_MEMBERS

_CARRIED_BY = {"send": "Produce", "poll": "Fetch"}
_PLACE = ("scope", "api", "topic", "partition", "offset")
_OF_CONNECTION = ("scope", "wire_id", "connection")
# A client's clock may be so much behind the proxy's.
_SOON_US = 100_000
# So much of what went over a connection has to be one client's, and of all that is anybody's.
_MOST_OF_IT = 0.5
_FEW_OTHERS = 0.2


class Unknown(NamedTuple):
    """Clients that have no client id on the wire to themselves, and the client ids there that are no client's alone."""

    clients: frozenset[str]
    client_ids: frozenset[str]


def unknown_on_the_wire(said: OutcomeProfile, capture: CaptureProfile) -> Unknown | None:
    """Who is not known by a client id; None where either all clients or all client ids are known."""
    owners: dict[str, set[str]] = {}
    for client, client_id in said.names:
        for name in (client, client_id):
            if name is not None:
                owners.setdefault(name, set()).add(client)
    alone = {name: next(iter(clients)) for name, clients in owners.items() if len(clients) == 1}
    clients = {client for client, _ in said.names} - {alone[name] for name in capture.client_ids if name in alone}
    client_ids = capture.client_ids - alone.keys()
    return Unknown(frozenset(clients), client_ids) if clients and client_ids else None


def with_owners(exchanges: DataFrame, operations: DataFrame, unknown: Unknown) -> DataFrame:
    """`exchanges` with the names of clients in the place of unknown client ids, where what they said tells whose it is.

    Both have a `scope`. A connection is whose it is that was told, or said, the offsets at which its batches begin; all
    connections of a client id are, where nobody else's are among those; and, of a group of one client, those over which
    members ask. Of a capture without partitions nothing is known.
    """
    of_unknown = F.col("client_id").isin(*unknown.client_ids)
    carried = _carried(exchanges.filter(of_unknown))
    said = operations.filter(F.col("operation").isin(*_CARRIED_BY) & F.col("offset").isNotNull()).select(
        "scope",
        F.when(F.col("operation") == "send", "Produce").otherwise("Fetch").alias("api"),
        "topic",
        "partition",
        "offset",
        "client",
        "completed_at_us",
    )
    # Others read it sooner, over a connection of their own, or later, once more.
    then = F.when(F.col("completed_at_us") >= F.col("told_us") - _SOON_US, F.col("completed_at_us"))
    batch = (*_PLACE, "wire_id", "connection")
    heard = said.join(broadcast(carried), list(_PLACE)).groupBy(*batch).agg(F.min_by("client", then).alias("client"))
    votes = carried.select(*batch).distinct().join(broadcast(heard), list(batch), "left")
    counted = votes.groupBy(*_OF_CONNECTION, "client").agg(F.count("*").alias("votes"))
    best = counted.groupBy(*_OF_CONNECTION).agg(
        F.max_by("client", F.when(F.col("client").isNotNull(), F.col("votes"))).alias("owner"),
        F.array_sort(F.collect_list(F.when(F.col("client").isNotNull(), F.col("votes")))).alias("votes"),
        F.sum(F.when(F.col("client").isNull(), F.col("votes")).otherwise(0)).alias("nobody"),
    )
    first, second = F.get("votes", F.size("votes") - 1), F.coalesce(F.get("votes", F.size("votes") - 2), F.lit(0))
    sure = (first >= (first + F.col("nobody")) * _MOST_OF_IT) & (second <= first * _FEW_OTHERS)
    owned = best.select(*_OF_CONNECTION, F.when(sure, F.col("owner")).alias("owner"))
    by_connection = owned.filter(F.col("owner").isNotNull()).select(
        F.col("connection").alias("c_connection"), F.col("owner").alias("c_owner")
    )
    by_id = (
        owned.groupBy(F.col("scope").alias("i_scope"), F.col("wire_id").alias("i_client_id"))
        .agg(
            F.max("owner").alias("i_owner"),
            F.count_distinct("owner").alias("owners"),
            F.count_if(F.col("owner").isNull()).alias("unknown"),
            F.count("*").alias("all"),
        )
        .filter((F.col("owners") == 1) & (F.col("unknown") <= F.col("all") * _FEW_OTHERS))
        .select("i_scope", "i_client_id", "i_owner")
    )
    rows = exchanges.withColumn("_connection", connection())
    rows = rows.join(broadcast(by_connection), F.col("_connection") == F.col("c_connection"), "left")
    rows = rows.join(broadcast(by_id), same("i_", "scope", "client_id"), "left")
    by_group = _by_group(exchanges, operations)
    rows = rows.join(broadcast(by_group), F.col("_connection") == F.col("g_connection"), "left")
    owner = F.coalesce("c_owner", "i_owner", "g_owner")
    named = F.when(of_unknown & owner.isin(*unknown.clients), owner).otherwise(F.col("client_id"))
    return rows.withColumn("client_id", named).select(*exchanges.columns)


def _carried(exchanges: DataFrame) -> DataFrame:
    """scope, api, topic, partition, offset, told_us, wire_id, `connection`: where a few batches of each begin."""
    batch, base = F.col("p"), F.col("p.base_offset")
    whole = (base >= 0) & (F.coalesce(batch["error_code"], F.lit(0)) == 0) & (F.col("p.record_count") > 0)
    rows = exchanges.filter(
        (F.col("event") == "exchange") & F.col("api_name").isin(*_CARRIED_BY.values()) & was_answered(F.col("outcome"))
    ).select(
        "scope",
        F.col("api_name").alias("api"),
        F.col("client_id").alias("wire_id"),
        connection().alias("connection"),
        F.col("response_at_us").alias("told_us"),
        F.explode("partitions").alias("p"),
    )
    first = F.struct(base.alias("offset"), "told_us")
    some = (F.min(first), F.max(first), F.min_by(first, F.hash(base)), F.max_by(first, F.hash(base)))
    return (
        rows.filter(whole)
        .groupBy(
            "scope", "api", "wire_id", "connection",
            F.col("p.topic").alias("topic"), F.col("p.partition_index").alias("partition"),
        )
        .agg(F.array_distinct(F.array(*some)).alias("some"))
        .select("*", F.inline("some"))
        .drop("some")
    )  # fmt: skip


def _by_group(exchanges: DataFrame, operations: DataFrame) -> DataFrame:
    """g_connection → `g_owner`: over which the members of a group ask that is one client's alone."""
    alone = (
        operations.filter(F.col("group_id").isNotNull())
        .groupBy(F.col("scope").alias("k_scope"), F.col("group_id").alias("k_group_id"))
        .agg(F.max("client").alias("g_owner"), F.count_distinct("client").alias("owners"))
        .filter("owners = 1")
    )
    asked = exchanges.filter(F.col("api_name").isin(*OF_MEMBERS, "OffsetCommit"))
    asked = asked.select("scope", "group_id", connection().alias("g_connection")).distinct()
    owned = asked.join(broadcast(alone), same("k_", "scope", "group_id"))
    return owned.groupBy("g_connection").agg(F.max("g_owner").alias("g_owner"))
