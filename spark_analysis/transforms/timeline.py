"""What the report draws, summed up to a bounded number of points whatever the number of exchanges."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import broadcast, those_after
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.obstacles import STANDS, is_lifted, listener_named

MOST_BINS = 240
MOST_SERIES = 8
OTHERS = "all others"
_NICE_US = [
    1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    300_000_000, 600_000_000, 1_800_000_000, 3_600_000_000, 21_600_000_000, 86_400_000_000,
]  # fmt: skip


def bin_width_us(first_us: int, last_us: int, most: int = MOST_BINS) -> int:
    """The smallest round width that cuts the time into at most `most` bins."""
    span = max(last_us - first_us, 1)
    return next((width for width in _NICE_US if span / width <= most), span // most + 1)


def _bin(at: Column, first_us: int, width_us: int) -> Column:
    return (F.lit(first_us) + F.floor((at - first_us) / width_us) * width_us).cast("long")


def traffic(exchanges: DataFrame, first_us: int, width_us: int, clients: Sequence[str] = ()) -> DataFrame:
    """bin_us with api_name and node_id, or with client → count, errors, faulted, p50_us, p99_us, max_us.

    Both sorts of rows lie in one table; clients other than `clients` are `all others`. Latency is from request to
    response.
    """
    latency = F.col("response_at_us") - F.col("request_at_us")
    code = F.coalesce("error_code", F.lit(0))
    known = F.col("client_id").isin(*clients) if clients else F.lit(False)
    rows = exchanges.filter(F.col("event") == "exchange").withColumns(
        {
            "bin_us": _bin(F.col("request_at_us"), first_us, width_us),
            "client": F.when(known, F.col("client_id")).otherwise(OTHERS),
        }
    )
    sets = [[F.col(name) for name in names] for names in (("bin_us", "api_name", "node_id"), ("bin_us", "client"))]
    return rows.groupingSets(sets, "bin_us", "api_name", "node_id", "client").agg(
        F.count("*").alias("count"),
        F.count_if(code != 0).alias("errors"),
        F.count_if(F.size("fault_names") > 0).alias("faulted"),
        F.percentile_approx(latency, 0.5, 200).alias("p50_us"),
        F.percentile_approx(latency, 0.99, 200).alias("p99_us"),
        F.max(latency).alias("max_us"),
    )


def fault_hits(exchanges: DataFrame, first_us: int, last_us: int, width_us: int) -> DataFrame:
    """rule, kind, api_name, bin_us → hits, first_us and until_us (the end of the last of them).

    What was never answered lasts until a later answer on its connection, or the connection's end. What refuses or
    silences a listener or a connection lasts until that is lifted, or to the end (`last_us`).
    """
    place = F.coalesce(F.col("connection_id").cast("string"), listener_named())
    later = those_after(("run_id", "proxy_id", "place"), ("request_at_us", "exchange_seq"))
    over = (F.col("event") == "disconnect") | is_lifted()
    ended = F.coalesce("response_at_us", F.when(over, F.col("request_at_us")))
    struck = exchanges.filter(F.size("fault_names") > 0).select("run_id", "proxy_id", "connection_id").distinct()
    names = {name: f"s_{name}" for name in struck.columns}
    lines = exchanges.join(broadcast(struck.withColumnsRenamed(names)), same("s_", *names), "left_semi")
    stands = F.exists("effects", lambda e: e["did"].isin(*STANDS)) & (F.col("event") == "fault")
    known = F.col("request_at_us") + F.array_max(F.transform("effects", lambda e: e["held_us"]))
    never = F.when(F.col("event") == "exchange", F.min(ended).over(later)).when(
        stands, F.coalesce(known, F.min(ended).over(later), F.lit(last_us))
    )
    hit = (
        lines.withColumn("place", place)
        .withColumn("never_us", never)
        .filter(F.size("fault_names") > 0)
        .select(
            F.explode(F.arrays_zip("fault_names", "fault_kinds")).alias("f"),
            F.coalesce("api_name", "event").alias("api_name"),
            "request_at_us",
            F.coalesce("response_at_us", "never_us", "request_at_us").alias("until_us"),
        )
    )
    return hit.groupBy(
        F.col("f.fault_names").alias("rule"),
        F.col("f.fault_kinds").alias("kind"),
        "api_name",
        _bin(F.col("request_at_us"), first_us, width_us).alias("bin_us"),
    ).agg(F.count("*").alias("hits"), F.min("request_at_us").alias("first_us"), F.max("until_us").alias("until_us"))


def outcomes_over_time(history: DataFrame, first_us: int, width_us: int) -> DataFrame:
    """bin_us (of the call), outcome → count and the slowest."""
    at = F.coalesce("called_at_us", "completed_at_us")
    return (
        history.filter(at.isNotNull())
        .groupBy(_bin(at, first_us, width_us).alias("bin_us"), "outcome")
        .agg(F.count("*").alias("count"), F.max("latency_us").alias("max_us"))
    )


def clients(history: DataFrame, delivered: DataFrame) -> DataFrame:
    """client, client_version, operation → counts by outcome, retried, faulted, unmatched, latency quantiles.

    What a consumer was handed is an operation `poll` here, one for each record.
    """
    return _callers(history).unionByName(_readers(delivered))


def _readers(delivered: DataFrame) -> DataFrame:
    nothing = ("fail", "info", "pending", "retried", "faulted", "unmatched")
    none = {name: F.lit(None).cast("long") for name in ("max_us", "max_blocked_us")}
    return (
        delivered.groupBy("client")
        .agg(F.sum("record_count").alias("count"))
        .withColumns({"client_version": F.lit(None).cast("string"), "operation": F.lit("poll"), "ok": F.col("count")})
        .withColumns({**{name: F.lit(0).cast("long") for name in nothing}, **none})
        .withColumn("quantiles", F.lit(None).cast("array<bigint>"))
    )


def _callers(history: DataFrame) -> DataFrame:
    said = [F.count_if(F.col("outcome") == word).alias(word) for word in ("ok", "fail", "info", "pending")]
    return history.groupBy("client", "client_version", "operation").agg(
        F.count("*").alias("count"),
        *said,
        F.count_if((F.col("outcome") == "ok") & (F.col("attempt_count") > 1)).alias("retried"),
        F.count_if(F.size("fault_names") > 0).alias("faulted"),
        F.count_if(F.col("match_kind") == "none").alias("unmatched"),
        F.percentile_approx("latency_us", F.array(F.lit(0.5), F.lit(0.99)), 1000).alias("quantiles"),
        F.max("latency_us").alias("max_us"),
        F.max("blocked_us").alias("max_blocked_us"),
    )


def latency_spread(history: DataFrame) -> DataFrame:
    """client, faulted, step → count of operations by latency, in steps of a tenth of a decade of µs."""
    step = F.floor(F.log10(F.greatest(F.col("latency_us"), F.lit(1))) * 10).cast("int")
    return (
        history.filter(F.col("latency_us").isNotNull())
        .groupBy("client", (F.size("fault_names") > 0).alias("faulted"), step.alias("step"))
        .agg(F.count("*").alias("count"))
    )


def matched(history: DataFrame) -> DataFrame:
    """History rows by match kind, and as `attempts` the distinct Produce attempts that some send was matched with."""
    kinds = history.groupBy("match_kind").agg(F.count("*").alias("rows"))
    sends = history.filter(F.col("operation") == "send")
    linked = sends.select(F.explode("attempts.attempt_id").alias("id")).distinct().agg(F.count("*").alias("rows"))
    return kinds.unionByName(linked.select(F.lit("attempts").alias("match_kind"), "rows"))
