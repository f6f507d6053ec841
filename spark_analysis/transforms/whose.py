"""Whose connections those are whose client id no client of the outcome lines has for itself, by what went over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast, table_of
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
_MOST = 100_000


class Unknown(NamedTuple):
    """Clients that have no client id on the wire to themselves, and the client ids there that are no client's alone."""

    clients: frozenset[str]
    client_ids: frozenset[str]


def unknown_on_the_wire(said: OutcomeProfile, capture: CaptureProfile) -> Unknown | None:
    """Who is not known by a client id; None where either all clients or all client ids are known."""
    whose: dict[str, set[str]] = {}
    for client, client_id in said.names:
        for name in (client, client_id):
            if name is not None:
                whose.setdefault(name, set()).add(client)
    alone = {name: next(iter(clients)) for name, clients in whose.items() if len(clients) == 1}
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
    of_connections, of_ids = owners([row.asDict() for row in counted.limit(_MOST).collect()])
    asked = {row["connection"]: row["owner"] for row in _by_group(exchanges, operations).limit(_MOST).collect()}
    ours = [
        {"o_connection": number, "o_owner": owner}
        for number, owner in (asked | of_connections).items()
        if owner in unknown.clients
    ]
    named = [
        {"i_scope": scope, "i_client_id": wire_id, "i_owner": owner}
        for (scope, wire_id), owner in of_ids.items()
        if owner in unknown.clients
    ]
    spark = exchanges.sparkSession
    rows = exchanges.withColumn("_connection", connection()).join(
        broadcast(table_of(spark, ours, "struct<o_connection:bigint,o_owner:string>")),
        of_unknown & (F.col("_connection") == F.col("o_connection")),
        "left",
    )
    by_id = table_of(spark, named, "struct<i_scope:string,i_client_id:string,i_owner:string>")
    rows = rows.join(broadcast(by_id), same("i_", "scope", "client_id"), "left")
    return rows.withColumn("client_id", F.coalesce("o_owner", "i_owner", "client_id")).select(*exchanges.columns)


def owners(votes: Iterable[Mapping[str, Any]]) -> tuple[dict[int, str], dict[tuple[str, str], str]]:
    """Whose each connection is, and each client id (with its scope) that is one client's, as far as that is sure.

    A vote has scope, wire_id, connection, client (None: of batches that nobody spoke of) and their number as `votes`.
    """
    of_connection: dict[tuple[str, str, int], Counter[str | None]] = {}
    for vote in votes:
        place = vote["scope"], vote["wire_id"], vote["connection"]
        of_connection.setdefault(place, Counter())[vote["client"]] += vote["votes"]
    owner = {place: _most(told) for place, told in of_connection.items()}
    of_id: dict[tuple[str, str], list[str | None]] = {}
    for (scope, wire_id, _), client in owner.items():
        of_id.setdefault((scope, wire_id), []).append(client)
    alone = {
        place: found.pop()
        for place, clients in of_id.items()
        if len(found := {*clients} - {None}) == 1 and clients.count(None) <= len(clients) * _FEW_OTHERS
    }
    connections = {number: client for (_, _, number), client in owner.items() if client is not None}
    return connections, {place: client for place, client in alone.items() if client is not None}


def _most(told: Counter[str | None]) -> str | None:
    """Of whom by far the most is; None where that is nobody."""
    known = Counter({client: votes for client, votes in told.items() if client is not None})
    if not known:
        return None
    (first, most), *others = known.most_common(2)
    second = others[0][1] if others else 0
    return first if most >= (most + told[None]) * _MOST_OF_IT and second <= most * _FEW_OTHERS else None


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
    """`connection` → `owner`: over which the members of a group ask that is one client's alone."""
    alone = (
        operations.filter(F.col("group_id").isNotNull())
        .groupBy(F.col("scope").alias("k_scope"), F.col("group_id").alias("k_group_id"))
        .agg(F.max("client").alias("owner"), F.count_distinct("client").alias("owners"))
        .filter("owners = 1")
    )
    asked = exchanges.filter(F.col("api_name").isin(*OF_MEMBERS, "OffsetCommit"))
    asked = asked.select("scope", "group_id", connection().alias("connection")).distinct()
    owned = asked.join(broadcast(alone), same("k_", "scope", "group_id"))
    return owned.groupBy("connection").agg(F.max("owner").alias("owner"))
