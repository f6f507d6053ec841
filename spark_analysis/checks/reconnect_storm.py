"""Did a client connect over and over?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables
from notleader.spark_analysis.checks.phrases import by_rule, count
from notleader.spark_analysis.checks.wire_cases import storm
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.attempts import was_answered
from notleader.spark_analysis.transforms.keys import same

# A connection costs a broker far more than a request.
_CONNECTS_PER_REQUEST = 5


def _fewest(options: Options) -> int:
    return max(options.storm_per_s // _CONNECTS_PER_REQUEST, 2)


_GREETING = ("ApiVersions", "SaslHandshake", "SaslAuthenticate")
_LIVED_US = 1_000_000


class ReconnectStorm(Check):
    """Seconds in which one host opened a fifth of `--storm-per-s` connections in vain, or more.

    In vain: nothing but the greeting was answered without an error, and what is known to have ended did so within a
    second. Many clients that start together are no storm.
    """

    name = "reconnect_storm"
    title = "Reconnect storm"
    brief = "{clients} connected up to {rate} times a second"
    needs = ("capture",)
    of_causes = False
    order = 52
    means = Meaning(
        invalid=(
            "a host opened a fifth of `--storm-per-s` connections within a second, each in vain: nothing but "
            "the greeting was answered, and it ended within a second"
        ),
        valid="fewer",
        unknown="no exchange was captured",
        evidence="captured connection events, by host",
        cause="the rules that refused, cut or silenced a quarter or more of these connections, or exchanges on them",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.connects >= _fewest(options)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        one = ("scope", "proxy_id", "connection_id")
        answered = was_answered(F.col("outcome")) & (F.coalesce("error_code", F.lit(0)) == 0)
        served = answered & ~F.col("api_name").isin(*_GREETING)
        ended = F.when(F.col("event") == "disconnect", F.col("request_at_us"))
        begun = F.when(F.col("event") == "connect", F.col("request_at_us"))
        ends = F.filter("touches", lambda t: t["did"].isin("refused", "cut", "garbled", "silenced"))
        lives = tables.exchanges.groupBy(*one).agg(
            F.count_if(served).alias("served"),
            (F.max(ended) - F.min(begun)).alias("lived_us"),
            F.array_distinct(F.flatten(F.collect_list(ends))).alias("ended_by"),
        )
        vain = lives.filter((F.col("served") == 0) & (F.coalesce("lived_us", F.lit(0)) < _LIVED_US))
        opened = tables.exchanges.filter(F.col("event") == "connect").join(
            vain.withColumnsRenamed({name: f"v_{name}" for name in one}),
            same("v_", *one),
        )
        host = F.regexp_replace("client_addr", r":\d+$", "")
        return storm(opened, host, self.name, _fewest(options), said=F.col("ended_by"))

    def sentence(self, group: Group) -> str:
        seconds = count(group.cases, "second")
        return f"{group.client or 'a host'} connected without a pause in {seconds}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no host connected over and over"
