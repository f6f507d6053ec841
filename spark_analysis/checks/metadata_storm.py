"""Did a client ask for metadata over and over?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import by_rule, count, duration
from notleader.spark_analysis.checks.wire_cases import ASKS, of_api, storm
from notleader.spark_analysis.options import Options


class MetadataStorm(Check):
    """Seconds in which one connection sent `--storm-per-s` Metadata or FindCoordinator requests, or more."""

    name = "metadata_storm"
    title = "Metadata storm"
    brief = "{clients} asked for metadata up to {rate} times a second"
    needs = ("capture",)
    of_causes = False
    order = 51
    means = Meaning(
        invalid="a connection asked `--storm-per-s` times within a second for Metadata or a coordinator",
        valid=(
            "fewer, or each only after a pause of the client's own, of half the time that the bound leaves for "
            "each (5 ms at 100 a second; then it is told)"
        ),
        unknown="no exchange was captured",
        evidence="captured exchanges, by connection; one that two segments hold counts once",
        cause="the rules that answered, swallowed or cut off a quarter or more of these exchanges; no mere holding",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.metadata >= options.storm_per_s

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        asked = of_api(tables.exchanges, *ASKS)
        return storm(asked, F.col("client_id"), self.name, options.storm_per_s, "proxy_id", "connection_id")

    def sentence(self, group: Group) -> str:
        seconds = count(group.cases, "second")
        pause = f"after pauses of {duration(group.slowest_us)}" if group.verdict == "valid" else "without a pause"
        return f"{group.client or 'a client'} asked for metadata {pause} in {seconds}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no client asked for metadata without a pause"
