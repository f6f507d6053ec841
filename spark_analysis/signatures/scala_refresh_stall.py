"""Does this look like a metadata refresh that stalls a send now and then?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, count, duration
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.signatures.who import may_be
from notleader.spark_analysis.transforms.obstacles import connection

_TIMES_LONGER = 10


class ScalaRefreshStall(Check):
    """Twice or more a send waited a second or longer before it went on the wire, once, and was answered quickly there.

    The old Scala producer refreshes metadata in the sending thread: a dead bootstrap broker costs its whole timeout.
    """

    name = "looks_like_scala_refresh_stall"
    title = "Looks like scala-refresh-stall"
    brief = "looks like scala-refresh-stall"
    needs = ("sends", "capture")
    order = 9
    means = Meaning(
        invalid=(
            "twice or more the caller waited `--slow-ms` before its send went out, and its only attempt was "
            "acknowledged at once; not of a client that asked for ApiVersions or sends in transactions, which the old "
            "producer doesn't know, nor where the client is known to be another"
        ),
        valid="no such producer",
        unknown="no send was told of, or no exchange captured",
        evidence="outcome lines and attempts",
        cause="the rules that were in the way of the slowest of them",
    )

    def suspects(self, tables: Tables, options: Options) -> Column:
        return is_send() & (F.col("outcome") == "ok") & (F.col("blocked_us") >= options.slow_ms * 1000)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        first = F.get("attempts", F.lit(0))
        answered = tables.history.filter(
            is_send() & (F.col("outcome") == "ok") & (F.col("attempt_count") == 1)
        ).withColumns(
            {
                "waited": first["request_at_us"] - F.col("called_at_us"),
                "answered": first["response_at_us"] - first["request_at_us"],
            }
        )
        stalled = (
            (F.col("waited") >= options.slow_ms * 1000)
            & (F.col("waited") > F.col("answered") * _TIMES_LONGER)
            # It is the caller who waits: a record that waits in a buffer is another story.
            & (F.col("blocked_us") >= F.col("waited"))
        )
        answered = answered.filter(may_be("scala") & ~F.col("transactional"))
        shown = F.struct("message_id", "operation_id", "slow_by", "attempts", "called_at_us")
        rows = (
            answered.groupBy("scope", "client", "topic")
            .agg(
                F.count("*").alias("sends"),
                F.count_if(stalled).alias("stalled"),
                F.max_by(shown, F.when(stalled, F.col("waited"))).alias("s"),
                F.max(F.when(stalled, F.col("waited"))).alias("slowest"),
            )
            # Many slow ones are a queue, not a refresh.
            .filter((F.col("stalled") >= 2) & (F.col("stalled") * 2 < F.col("sends")))
            .select("*", "s.*")
        )
        rows = rows.join(broadcast(_modern(rows, tables)), ["scope", "client"], "left_anti")
        return as_cases(
            rows,
            self.name,
            "invalid",
            "slow_by",
            partition=F.lit(None),
            trouble=F.lit(None),
            at_us=F.col("called_at_us"),
            duration_us=F.col("slowest"),
            note=F.format_string("%d of %d sends waited before they went out", "stalled", "sends"),
        )

    def sentence(self, group: Group) -> str:
        return (
            f"now and then a send to {count(group.cases, 'topic')}{by_client(group)}"
            f" waited up to {duration(group.slowest_us)} before it went out, and was answered at once"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no send waited long before it went on the wire"


def _modern(rows: DataFrame, tables: Tables) -> DataFrame:
    """scope, client of those of `rows` who asked for ApiVersions where their sends went: clients since Kafka 0.10."""
    sent = rows.select("scope", "client", F.explode("attempts").alias("a"))
    theirs = sent.select("scope", "client", connection("a.").alias("_theirs")).distinct()
    asked = tables.exchanges.filter(F.col("api_name") == "ApiVersions").select(connection().alias("_asked")).distinct()
    return asked.join(broadcast(theirs), F.col("_asked") == F.col("_theirs")).select("scope", "client").distinct()
