"""Did a client connect over and over?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Tables
from notleader.spark_analysis.checks.phrases import by_rule, count
from notleader.spark_analysis.checks.wire_cases import storm
from notleader.spark_analysis.options import Options

# A connection costs a broker far more than a request.
_CONNECTS_PER_REQUEST = 5


def _fewest(options: Options) -> int:
    return max(options.storm_per_s // _CONNECTS_PER_REQUEST, 2)


class ReconnectStorm(Check):
    """Seconds in which one host opened a fifth of `--storm-per-s` connections, or more."""

    name = "reconnect_storm"
    title = "Reconnect storm"
    needs = ("capture",)
    order = 52

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.connects >= _fewest(options)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        opened = tables.exchanges.filter(F.col("event") == "connect")
        host = F.regexp_replace("client_addr", r":\d+$", "")
        return storm(opened, host, self.name, _fewest(options))

    def sentence(self, group: Group) -> str:
        seconds = count(group.cases, "second")
        return f"{group.client or 'a host'} connected without a pause in {seconds}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no host connected over and over"
