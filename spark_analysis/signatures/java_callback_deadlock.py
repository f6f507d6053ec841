"""Does this look like a producer that waits for itself?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, duration
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.signatures.who import may_be
from notleader.spark_analysis.transforms.keys import same


class JavaCallbackDeadlock(Check):
    """After one failed batch every later send fails or pends and nothing of them reaches the wire.

    A Java callback that calls send().get() parks the only network thread; max.block.ms then limits each later call.
    """

    name = "looks_like_java_callback_deadlock"
    title = "Looks like java-callback-deadlock"
    brief = "looks like java-callback-deadlock"
    needs = ("sends", "faults")
    order = 7
    means = Meaning(
        invalid=(
            "after a failure by a rule no later send reached the wire, and calls blocked; not where the client is "
            "known to be another"
        ),
        valid="no such producer",
        unknown="no send was told of, or no fault struck",
        evidence="outcome lines and attempts",
        cause="what ended the last send that reached the wire",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.ok < tables.outcomes.sends

    def suspects(self, tables: Tables, options: Options) -> Column:
        # The sends after the failure block, and none of them reaches the wire.
        blocked = F.col("blocked_us") >= options.blocked_ms * 1000
        return is_send() & (F.col("outcome") != "ok") & (F.col("attempt_count") == 0) & blocked

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        sends = tables.history.filter(is_send() & may_be("java"))
        struck = (
            sends.filter(F.size("ended_by") > 0)
            .groupBy("scope", "client")
            .agg(
                F.max(F.array_max("attempts.request_at_us")).alias("struck_us"),
                F.max_by(F.struct("ended_by", "trouble"), "called_at_us").alias("s"),
            )
            .withColumnsRenamed({"scope": "k_scope", "client": "k_client"})
        )
        after = (
            sends.join(
                broadcast(struck),
                same("k_", "scope", "client") & (F.col("called_at_us") > F.col("struck_us")),
            )
            .groupBy("scope", "client", "struck_us", "s")
            .agg(
                F.count("*").alias("after"),
                F.count_if((F.col("outcome") == "ok") | (F.col("attempt_count") > 0)).alias("alive"),
                F.count_if(F.col("blocked_us") >= options.blocked_ms * 1000).alias("blocked"),
                F.max("blocked_us").alias("blocked_us"),
                F.max_by(F.struct("message_id", "operation_id", "error", "attempts"), "called_at_us").alias("last"),
            )
            .filter((F.col("after") >= 2) & (F.col("alive") == 0) & (F.col("blocked") > 0))
            .select("client", "struck_us", "s.*", "after", "blocked", "blocked_us", "last.*")
        )
        return as_cases(
            after,
            self.name,
            "invalid",
            "ended_by",
            topic=F.lit(None),
            partition=F.lit(None),
            at_us=F.col("struck_us"),
            duration_us=F.col("blocked_us"),
            note=F.format_string("%d sends after it, none on the wire, %d blocked", "after", "blocked"),
        )

    def sentence(self, group: Group) -> str:
        return (
            f"after the failure{by_rule(group)} no send{by_client(group)} reached"
            f" the wire any more, and calls blocked for up to {duration(group.slowest_us)}"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no producer went silent after a failed batch"
