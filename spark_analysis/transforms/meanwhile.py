"""Which rules were striking while an operation went wrong that none of them touched."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.transforms.fault_windows import FaultWindow

# More rules at once than this explain nothing.
_MOST = 30


def with_meanwhile(history: DataFrame, windows: Sequence[FaultWindow], end_us: int, slow_us: int) -> DataFrame:
    """`history` whose `trouble`, where there is none, names the rules of that time for what failed or was slow.

    `while:<rules>`: a client that waits for a leader sends nothing a fault could touch, but waits because of it.
    """
    few = sorted(windows, key=lambda window: -window.hits)[:_MOST]
    if not few:
        return history
    told = F.array(
        *[
            F.struct(
                F.lit(w.scope).alias("scope"),
                F.lit(f"{w.rule} ({w.kind})").alias("rule"),
                F.lit(w.first_us).alias("first_us"),
                F.lit(w.last_us).alias("last_us"),
            )
            for w in few
        ]
    )
    until = F.coalesce("completed_at_us", F.lit(end_us))
    then = F.filter(
        told,
        lambda w: (
            w["scope"].eqNullSafe(F.col("scope")) & (w["first_us"] <= until) & (w["last_us"] >= F.col("called_at_us"))
        ),
    )
    rules = F.array_join(F.array_sort(F.transform(then, lambda w: w["rule"])), ", ")
    wrong = (F.col("outcome") != "ok") | (F.coalesce("latency_us", F.lit(0)) >= slow_us)
    blind = F.col("trouble").isNull() & (F.size("fault_names") == 0) & wrong & (rules != "")
    meanwhile = F.when(blind, F.concat(F.lit("while:"), rules)).otherwise(F.col("trouble"))
    return history.withColumn("trouble", meanwhile)
