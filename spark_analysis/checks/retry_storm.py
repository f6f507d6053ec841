"""Did a client hammer a broker with requests that kept failing?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import by_rule, count
from notleader.spark_analysis.checks.wire_cases import of_api, storm
from notleader.spark_analysis.options import Options


class RetryStorm(Check):
    """Seconds in which `--storm-per-s` Produce or Fetch requests of one connection, or more, got an error."""

    name = "retry_storm"
    title = "Retry storm"
    needs = ("capture",)
    order = 50
    means = Meaning(
        invalid="a connection got `--storm-per-s` errors to Produce and Fetch within a second",
        valid="fewer",
        unknown="no exchange was captured",
        evidence="captured exchanges, by connection; one that two segments hold counts once",
        cause="the rules that answered, swallowed or cut off these exchanges; not those that only held them",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.failed >= options.storm_per_s

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        failed = of_api(tables.exchanges, "Produce", "Fetch").filter(F.col("error_code") != 0)
        return storm(failed, F.col("client_id"), self.name, options.storm_per_s, "invalid", "proxy_id", "connection_id")

    def sentence(self, group: Group) -> str:
        seconds = count(group.cases, "second")
        return f"{group.client or 'a client'} repeated failing requests without a pause in {seconds}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no client retried without a pause"
