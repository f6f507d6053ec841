"""Captures of any size, made by Spark: what a proxy and its clients would have left, with skew and planted faults.

Of all exchanges about a third are Produce with one record, half are Fetch and a tenth Metadata; one partition of 64 has
half of all records, one client of 51 sends two fifths of everything. One send in a hundred met NOT_LEADER_OR_FOLLOWER
first; one in about a hundred thousand was acknowledged and never read, as many lie in the log twice. The same size
gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from spark_analysis.io import as_exchanges
from spark_analysis.schemas import PARTITION

_START_US = 1_750_000_000_000_000
_EVERY_US = 50
LOST_EVERY, DOUBLED_EVERY = 100_003, 100_019
_ROWS_PER_SEGMENT = 500_000


@dataclass(frozen=True, slots=True)
class Planted:
    """What the analysis has to find in a generated capture."""

    exchanges: int
    sends: int
    retried: int
    lost: int
    doubled: int


def generate(
    spark: SparkSession,
    exchanges: int,
    capture: str,
    outcomes: str,
    *,
    lost_every: int = LOST_EVERY,
    doubled_every: int = DOUBLED_EVERY,
) -> Planted:
    """Write about `exchanges` exchanges and the clients' words for them; what is in them."""
    lost = _one_in(lost_every, 4)
    doubled = _one_in(doubled_every, 5) & ~lost
    rows = spark.range(exchanges).select("id", *_facts())
    first = rows.select(*_exchange(_answered(), F.col("at_us")))
    refused = rows.filter(_produce() & _retried()).select(*_exchange(_refused(), F.col("at_us") - 150))
    both = as_exchanges(first.unionByName(refused), "generated")
    segments = max(2, -(-exchanges // _ROWS_PER_SEGMENT))
    (
        both.withColumns({"date": F.lit("2025-06-15"), "run": F.lit("benchmark")})
        .coalesce(segments)
        .write.mode("overwrite")
        .partitionBy("date", "run")
        .parquet(capture)
    )
    sends = rows.filter(_produce())
    said = sends.select(F.to_json(_send()).alias("value"))
    read = sends.filter(~lost).select(F.to_json(_poll(F.col("id"))).alias("value"))
    again = sends.filter(doubled).select(F.to_json(_poll(F.col("id") + exchanges)).alias("value"))
    said.unionByName(read).unionByName(again).coalesce(segments).write.mode("overwrite").text(outcomes)
    counts = sends.agg(F.count("*"), F.count_if(_retried()), F.count_if(lost), F.count_if(doubled)).first()
    return Planted(exchanges + counts[1], *counts)


def _facts() -> list[Column]:
    """Decided by the number alone: kind, partition, client, time."""
    dice = F.pmod(F.xxhash64("id"), F.lit(100))
    partition = F.pmod(F.xxhash64("id", F.lit(1)), F.lit(126))
    client = F.pmod(F.xxhash64("id", F.lit(2)), F.lit(1000))
    return [
        F.when(dice < 33, "Produce").when(dice < 90, "Fetch").otherwise("Metadata").alias("api_name"),
        F.when(partition < 63, 0).otherwise(partition - 62).cast("int").alias("partition"),
        F.when(client < 400, "chatty").otherwise(F.concat(F.lit("client-"), client % 50)).alias("client"),
        (F.lit(_START_US) + F.col("id") * _EVERY_US).alias("at_us"),
    ]


def _produce() -> Column:
    return F.col("api_name") == "Produce"


def _retried() -> Column:
    return _one_in(100, 3)


def _one_in(number: int, seed: int) -> Column:
    return F.pmod(F.xxhash64("id", F.lit(seed)), F.lit(number)) == 0


def _message_id() -> Column:
    return F.concat(F.lit("m"), F.col("id"))


def _answered() -> dict[str, Column]:
    return {"outcome": F.lit("answered"), "error_code": F.lit(0), "offset": F.col("id")}


def _refused() -> dict[str, Column]:
    return {"outcome": F.lit("injected"), "error_code": F.lit(6), "offset": F.lit(-1)}


def _exchange(answer: dict[str, Column], at_us: Column) -> list[Column]:
    hit = answer["outcome"] == "injected"
    batch = {
        "topic": F.lit("orders"),
        "partition_index": F.col("partition"),
        "producer_id": F.lit(-1),
        "producer_epoch": F.lit(-1),
        "base_sequence": F.lit(-1),
        "record_count": F.lit(1),
        "batch_bytes": F.lit(180),
        "base_offset": answer["offset"],
        "error_code": answer["error_code"],
        "message_ids": F.array(_message_id()),
    }
    struct = F.struct(*[batch.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name) for f in PARTITION.fields])
    none = F.array().cast("array<string>")
    given = {
        "run_id": F.lit("benchmark"),
        "proxy_id": F.lit("proxy-1"),
        "connection_id": F.xxhash64("client") % 1000,
        "exchange_seq": F.col("id") * 2 + F.when(hit, 1).otherwise(0),
        "event": F.lit("exchange"),
        "client_addr": F.lit("10.0.0.1:40000"),
        "listener": F.lit("broker-1"),
        "node_id": (F.col("partition") % 3).cast("int"),
        "client_id": F.col("client"),
        "api_key": F.when(_produce(), 0).when(F.col("api_name") == "Fetch", 1).otherwise(3).cast("short"),
        "api_name": F.col("api_name"),
        "api_version": F.lit(11).cast("short"),
        "correlation_id": F.col("id").cast("int"),
        "request_at_us": at_us,
        "forwarded_at_us": at_us,
        "broker_responded_at_us": at_us + 900,
        "response_at_us": F.when(hit, at_us + 40).otherwise(at_us + 1000),
        "request_bytes": F.lit(260).cast("long"),
        "response_bytes": F.lit(90).cast("long"),
        "outcome": answer["outcome"],
        "error_code": answer["error_code"].cast("short"),
        "fault_names": F.when(hit, F.array(F.lit("lost-leader"))).otherwise(none),
        "fault_kinds": F.when(hit, F.array(F.lit("error"))).otherwise(none),
        "fault_phase": F.when(hit, F.lit("before_broker")),
        "acks": F.when(_produce(), F.lit(-1)).cast("short"),
        "partitions": F.when(_produce(), F.array(struct)).otherwise(
            F.array().cast(f"array<{PARTITION.simpleString()}>")
        ),
    }
    return [column.alias(name) for name, column in given.items()]


def _send() -> Column:
    waited = F.when(_retried(), 2000).otherwise(1200)
    return F.struct(
        F.col("client"),
        F.lit("send").alias("operation"),
        _message_id().alias("message_id"),
        F.lit("orders").alias("topic"),
        "partition",
        F.col("id").alias("offset"),
        (F.col("at_us") - 200).alias("called_at_us"),
        (F.col("at_us") - 190).alias("returned_at_us"),
        (F.col("at_us") - 200 + waited).alias("completed_at_us"),
        F.lit("ok").alias("outcome"),
        F.lit("main").alias("thread"),
    )


def _poll(offset: Column) -> Column:
    return F.struct(
        F.lit("reader").alias("client"),
        F.lit("poll").alias("operation"),
        _message_id().alias("message_id"),
        F.lit("orders").alias("topic"),
        "partition",
        offset.alias("offset"),
        (F.col("at_us") + 5000).alias("completed_at_us"),
        F.lit("ok").alias("outcome"),
    )
