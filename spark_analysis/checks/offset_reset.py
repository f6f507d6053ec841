"""Was a consumer told that its offset is out of range?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges, of_api, sample
from notleader.spark_analysis.options import Options

_OUT_OF_RANGE = 1


class OffsetReset(Check):
    """Fetch answers OFFSET_OUT_OF_RANGE, after which `auto.offset.reset` decides where a consumer goes on."""

    name = "offset_reset"
    title = "Offset reset"
    brief = "{n} out of range"
    counts = ("Fetch", "Fetches")
    needs = ("capture",)
    order = 66
    means = Meaning(
        invalid="never",
        valid="told: a Fetch was answered OFFSET_OUT_OF_RANGE",
        unknown="no exchange was captured",
        evidence="captured Fetch answers",
        cause="the rules on that exchange",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.out_of_range > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        told = (
            sample(of_api(tables.exchanges, "Fetch"))
            .withColumn("p", F.explode("partitions"))
            .filter(F.col("p.error_code") == _OUT_OF_RANGE)
        )
        return from_exchanges(
            told,
            self.name,
            "valid",
            client=F.col("client_id"),
            topic=F.col("p.topic"),
            partition=F.col("p.partition_index"),
            at_us=F.col("request_at_us"),
            rule=joined("fault_names"),
            kind=joined("fault_kinds"),
            exchanges=F.array("seen"),
        )

    def sentence(self, group: Group) -> str:
        fetches = count(group.cases, "Fetch", "Fetches")
        what = f"{fetches} of {place(group)}{by_client(group)} met OFFSET_OUT_OF_RANGE{by_rule(group)}"
        return f"{what}: look where it went on"

    def all_clear(self, tables: Tables) -> str:
        return "no consumer was told that its offset is out of range"
