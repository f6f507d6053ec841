"""Was a client told to slow down?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import by_rule, count, duration
from notleader.spark_analysis.checks.wire_cases import from_exchanges, sample
from notleader.spark_analysis.options import Options


class Throttled(Check):
    """Answers with a throttle time (KIP-219: the client is to keep quiet for that long). No verdict by itself."""

    name = "throttled"
    title = "Throttled"
    brief = "{n} throttled for up to {slowest}"
    counts = ("answer", "answers")
    needs = ("capture",)
    of_causes = False
    order = 75
    means = Meaning(
        invalid="never",
        valid="told: an answer carried a throttle time",
        unknown="no exchange was captured",
        evidence="captured answers",
        cause="the rules on that exchange",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.throttled > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        told = sample(tables.exchanges.filter(F.col("throttle_time_ms") > 0))
        return from_exchanges(
            told,
            self.name,
            "valid",
            client=F.col("client_id"),
            at_us=F.col("request_at_us"),
            duration_us=F.col("throttle_time_ms").cast("long") * 1000,
            rule=joined("fault_names"),
            kind=joined("fault_kinds"),
            note=F.col("api_name"),
            exchanges=F.array("seen"),
        )

    def sentence(self, group: Group) -> str:
        answers = f"{count(group.cases, 'answer')} to {group.client or 'a client'}"
        return f"{answers} throttled it for up to {duration(group.slowest_us)}{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no answer throttled its client"
