"""Do all partitions of a client get their acknowledgements equally fast?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, is_send
from notleader.spark_analysis.checks.phrases import by_client, duration, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options

_FEWEST_SENDS = 20
_TIMES_SLOWER = 10
_SLOWER_BY_US = 50_000


class UnfairAcks(Check):
    """Partitions whose median acknowledgement takes ten times that of the client's fastest one; no verdict."""

    name = "unfair_acks"
    title = "Unfair acknowledgements"
    brief = "{n} acknowledged much more slowly"
    counts = ("partition", "partitions")
    needs = ("sends",)
    order = 76
    means = Meaning(
        invalid="never",
        valid="told: a partition's median is ten times that of the client's fastest partition, and 50 ms more",
        unknown="no send was told of",
        evidence="outcome lines of 20 sends or more to a partition",
        cause="none is named",
    )

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        by_partition = (
            tables.history.filter(is_send() & (F.col("outcome") == "ok") & F.col("partition").isNotNull())
            .groupBy("scope", "client", "topic", "partition")
            .agg(
                F.count("*").alias("sends"),
                F.percentile_approx("latency_us", 0.5, 1000).alias("median"),
                F.min("called_at_us").alias("at_us"),
            )
            .filter(F.col("sends") >= _FEWEST_SENDS)
        )
        best = by_partition.groupBy(F.col("scope").alias("b_scope"), F.col("client").alias("b_client")).agg(
            F.min("median").alias("best")
        )
        rows = by_partition.join(
            F.broadcast(best),
            F.col("scope").eqNullSafe(F.col("b_scope")) & F.col("client").eqNullSafe(F.col("b_client")),
        ).filter(
            (F.col("median") >= F.col("best") * _TIMES_SLOWER) & (F.col("median") - F.col("best") >= _SLOWER_BY_US)
        )
        return from_exchanges(
            rows,
            self.name,
            "valid",
            duration_us=F.col("median"),
            note=F.format_string("median of %d sends; %d µs on the fastest partition", "sends", "best"),
        )

    def sentence(self, group: Group) -> str:
        what = f"sends to {place(group)}{by_client(group)} take {duration(group.slowest_us)} at the median"
        return f"{what}, ten times the fastest partition or more"

    def all_clear(self, tables: Tables) -> str:
        return "no partition is acknowledged much more slowly than the others of its client"
