"""Was a consumer told that its offset is out of range?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges, of_api, sample
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.transforms.attempts import touches_at
from notleader.spark_analysis.transforms.sent_back import told_places, with_senders_back

_OUT_OF_RANGE = 1
_SOON_US = 10_000_000


class OffsetReset(Check):
    """Fetch answers OFFSET_OUT_OF_RANGE, after which `auto.offset.reset` decides where a consumer goes on."""

    name = "offset_reset"
    title = "Offset reset"
    brief = "{n} out of range"
    counts = ("Fetch", "Fetches")
    needs = ("capture",)
    of_causes = False
    order = 66
    means = Meaning(
        invalid="never",
        valid="told: a Fetch was answered OFFSET_OUT_OF_RANGE",
        unknown="no exchange was captured; or at level `header`, and an answer said OFFSET_OUT_OF_RANGE",
        evidence="captured Fetch answers",
        cause=(
            "the rule that said it; of the broker's own the rule (likely) that told the client a place within 10 s "
            "before (an answer to ListOffsets or OffsetFetch that was changed or made up), or changed its records"
        ),
    )

    def unsettled(self, tables: Tables) -> str | None:
        if tables.capture.out_of_range:
            answers = count(tables.capture.out_of_range, "answer")
            return f"{answers} said OFFSET_OUT_OF_RANGE, and at level header no partition is recorded"
        return None

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.out_of_range > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        told = (
            sample(of_api(tables.exchanges, "Fetch"))
            .select("*", F.posexplode("partitions").alias("place", "p"))
            .withColumn("said", F.filter(touches_at(F.col("place")), lambda t: t["error_code"] == _OUT_OF_RANGE))
            .filter(F.col("p.error_code") == _OUT_OF_RANGE)
        )
        told = told.select(
            "scope",
            "seen",
            "said",
            F.col("client_id").alias("client"),
            F.col("p.topic").alias("topic"),
            F.col("p.partition_index").alias("partition"),
            F.col("request_at_us").alias("at_us"),
        )
        return from_exchanges(
            _blamed(told, tables) if tables.capture.faulted else told,
            self.name,
            "valid",
            exchanges=F.array("seen"),
        )

    def sentence(self, group: Group) -> str:
        fetches = count(group.cases, "Fetch", "Fetches")
        what = f"{fetches} of {place(group)}{by_client(group)} met OFFSET_OUT_OF_RANGE"
        if group.rule:
            sent = {
                "place": f" at a place that was told{by_rule(group)} (likely)",
                "records": f" after records of it were changed{by_rule(group)} (likely)",
            }
            what += sent.get(group.trouble or "", by_rule(group))
        return f"{what}: look where it went on"

    def all_clear(self, tables: Tables) -> str:
        return "no consumer was told that its offset is out of range"


def _blamed(told: DataFrame, tables: Tables) -> DataFrame:
    """`told` with the rule that said it, else the one that sent the client to that offset."""
    rows = told.withColumns({"since_us": F.col("at_us") - _SOON_US, "first_offset": F.lit(None).cast("long")})
    found = with_senders_back(rows, told_places(tables.exchanges, None))
    places = F.filter("sent_by", lambda t: t["what"].isin("place", "records"))

    def of(field: str) -> Column:
        said = F.transform("said", lambda t: t[field])
        return joined(
            F.array_sort(
                F.array_distinct(F.when(F.size("said") > 0, said).otherwise(F.transform(places, lambda t: t[field])))
            )
        )

    likely = (F.size("said") == 0) & (F.size(places) > 0)
    return found.withColumns({"rule": of("rule"), "kind": of("kind"), "trouble": F.when(likely, places[0]["what"])})
