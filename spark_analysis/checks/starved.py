"""Did a rule keep records from a consumer?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases
from notleader.spark_analysis.checks.phrases import because, by_client, count, duration, place
from notleader.spark_analysis.options import Options


class Starved(Check):
    """Records that lay there for a consumer for long, while a rule was in its way.

    Nobody promised when a record is read, so it is told without a verdict; what no rule did is not told at all.
    """

    name = "starved"
    title = "Starved consumers"
    brief = "{n} waited up to {slowest}"
    counts = ("read", "reads")
    needs = ("sends", "consumer", "faults")
    order = 62
    means = Meaning(
        invalid="never",
        valid=(
            "told: an acknowledged record behind all that a group had read waited `--slow-ms` or more until its"
            " consumer was handed it, or in vain until that was gone, and a rule was in its way; not of records in"
            " transactions"
        ),
        unknown="no fault struck, nobody read, or no send was told of",
        evidence="when senders were told their offsets, what consumers got, and when a captured Fetch answer had it",
        cause=(
            "the rules that were in the way of the consumer, or of the member of its group that read there before, for "
            "a quarter of that time or more"
        ),
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.starved is not None

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        waits = tables.starved if tables.starved is not None else tables.history.filter("false")
        weight = F.array_max(F.transform("slow_by", lambda cause: cause["weight_us"]))
        # A read that two members waited for, one after the other, is one.
        of_one = Window.partitionBy("scope", "topic", "partition", "offset", "completed_at_us").orderBy(
            F.desc("weight_us"), "client"
        )
        rows = waits.filter(F.size("slow_by") > 0).withColumn("weight_us", weight)
        rows = rows.withColumn("place", F.row_number().over(of_one)).filter("place = 1")
        return as_cases(
            rows,
            self.name,
            "valid",
            "slow_by",
            message_id=F.lit(None),
            operation_id=F.lit(None),
            note=F.concat(F.lit("offset "), F.col("offset")),
        )

    def sentence(self, group: Group) -> str:
        reads = f"{count(group.cases, 'read')} of {place(group)}{by_client(group)}"
        return f"{reads} waited up to {duration(group.slowest_us)} for what lay there{because(group)}"

    def all_clear(self, tables: Tables) -> str:
        return f"no rule kept a record from a consumer for long ({count(tables.outcomes.polled, 'record')})"
