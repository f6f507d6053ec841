"""When each rule struck: its first and last hit, and the next rule's first. Rules are few: these are plain values."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


class FaultWindow(NamedTuple):
    """The time of one rule in one scope; µs, UTC. `next_us`: the first later hit of any other rule, if there is one."""

    scope: str
    rule: str
    kind: str
    hits: int
    first_us: int
    last_us: int
    next_us: int | None


MOST_RULES = 2000


def fault_windows(exchanges: DataFrame) -> list[FaultWindow]:
    """The windows of all rules that struck, earliest first; `exchanges` has `scope`."""
    hit = exchanges.filter(F.size("fault_names") > 0).select(
        "scope",
        F.explode(F.arrays_zip("fault_names", "fault_kinds")).alias("f"),
        "request_at_us",
        F.coalesce("response_at_us", "request_at_us").alias("ended_us"),
    )
    rows = (
        hit.groupBy("scope", F.col("f.fault_names").alias("rule"), F.col("f.fault_kinds").alias("kind"))
        .agg(
            F.count("*").alias("hits"),
            F.min("request_at_us").alias("first_us"),
            F.max("ended_us").alias("last_us"),
        )
        .orderBy("first_us")
        .limit(MOST_RULES)
        .collect()
    )
    found = []
    for row in rows:
        later = [other.first_us for other in rows if other.scope == row.scope and other.first_us > row.last_us]
        found.append(
            FaultWindow(row.scope, row.rule, row.kind, row.hits, row.first_us, row.last_us, min(later, default=None))
        )
    return found
