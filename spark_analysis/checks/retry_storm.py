"""Did a client hammer a broker with requests that kept failing?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import by_rule, count, duration
from notleader.spark_analysis.checks.wire_cases import ASKS, storm
from notleader.spark_analysis.options import Options


class RetryStorm(Check):
    """Seconds in which `--storm-per-s` requests of a connection, or more, got an error; metadata storms are others."""

    name = "retry_storm"
    title = "Retry storm"
    brief = "{clients} repeated failing requests up to {rate} times a second"
    needs = ("capture",)
    of_causes = False
    order = 50
    means = Meaning(
        invalid=(
            "a connection got `--storm-per-s` errors within a second, other than to Metadata and FindCoordinator, "
            "without a pause from an answer to the next request"
        ),
        valid=(
            "fewer, or each only after a pause of the client's own, of half the time that the bound leaves for "
            "each (5 ms at 100 a second; then it is told)"
        ),
        unknown="no exchange was captured",
        evidence="captured exchanges, by connection; one that two segments hold counts once",
        cause="the rules that answered, swallowed or cut off a quarter or more of these exchanges; no mere holding",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.failed >= options.storm_per_s

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        failed = tables.exchanges.filter((F.col("error_code") != 0) & ~F.col("api_name").isin(*ASKS))
        return storm(failed, F.col("client_id"), self.name, options.storm_per_s, "proxy_id", "connection_id")

    def sentence(self, group: Group) -> str:
        seconds = count(group.cases, "second")
        pause = f"after pauses of {duration(group.slowest_us)}" if group.verdict == "valid" else "without a pause"
        return f"{group.client or 'a client'} repeated failing requests {pause} in {seconds}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no client retried without a pause"
