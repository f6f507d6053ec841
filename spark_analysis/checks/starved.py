"""Did a rule keep records from a consumer?"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases
from notleader.spark_analysis.checks.phrases import because, by_client, by_rule, count, duration, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.starved import OF_A_MEMBER


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
            "told: a group read nothing of a partition for `--slow-ms`, while an acknowledged record lay there for as"
            " long until its consumer was handed it, or in vain until that was gone, and a rule was in its way; not of"
            " records in transactions"
        ),
        unknown="no fault struck, nobody read, or no send was told of",
        evidence="when senders were told their offsets, what consumers got, and when a captured Fetch answer had it",
        cause=(
            "the rules that were in the way of its consumer, or that told other members of the group something else or "
            "took their connections, for a quarter of that time or more; of what was never read (likely) those that "
            "had told the consumer something else, or taken its connection, within 2 s of what it read there last, "
            "where it went on fetching for 5 s"
        ),
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.starved is not None

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        if tables.starved is None:
            return as_cases(tables.history.filter("false"), self.name, "valid")
        more = F.when(F.col("unread") > 1, F.concat(F.lit(" and "), F.col("unread") - 1, F.lit(" more"))).otherwise("")
        never = F.when(F.col("unread").isNotNull(), F.concat(more, F.lit(", never read"))).otherwise("")
        weight = F.array_max(F.transform("slow_by", lambda cause: cause["weight_us"]))
        # Of the members of its group the one that a rule was longest in the way of.
        of_one = Window.partitionBy("scope", "group", "topic", "partition", "again_us").orderBy(
            F.desc("weight_us"), F.col("client") != F.col("reader"), "client"
        )
        rows = tables.starved.filter(F.size("slow_by") > 0).withColumn("weight_us", weight)
        rows = rows.withColumn("place", F.row_number().over(of_one)).filter("place = 1")
        return as_cases(
            rows,
            self.name,
            "valid",
            "slow_by",
            client=F.col("reader"),
            message_id=F.lit(None),
            operation_id=F.lit(None),
            operation=F.col("operation"),
            note=F.concat(
                F.lit("offset "),
                F.col("offset"),
                never,
                F.when(F.col("client") != F.col("reader"), F.concat(F.lit(", by way of "), "client")).otherwise(""),
            ),
        )

    def sentence(self, group: Group) -> str:
        if group.trouble is not None and ":follows:" in group.trouble:
            return (
                f"{by_client(group).removeprefix(' by ')} read nothing of {place(group)} any more, for"
                f" {duration(group.slowest_us)}, and fetched on elsewhere; right before it had been struck"
                f"{by_rule(group)} (likely)"
            )
        reads = f"{count(group.cases, 'read')} of {place(group)}{by_client(group)}"
        whose = "another member of its group" if group.operation == OF_A_MEMBER else "the client"
        return f"{reads} waited up to {duration(group.slowest_us)} for what lay there{because(group, whose=whose)}"

    def all_clear(self, tables: Tables) -> str:
        polled = count(tables.outcomes.polled, "record")
        but = "; since when those in transactions may be read is not known" if tables.capture.transactions else ""
        return f"no rule is known to have kept a record from a consumer for long ({polled}){but}"
