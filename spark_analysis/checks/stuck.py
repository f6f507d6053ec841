"""Did the client work again once the fault was gone?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration
from notleader.spark_analysis.options import Options


class Stuck(Check):
    """Clients whose sends all failed or never ended although they were called after the last fault's last hit."""

    name = "stuck"
    title = "Stuck after the fault was gone"
    needs = ("sends", "faults")
    order = 15

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.ok < tables.outcomes.sends

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        windows = tables.history.sparkSession.createDataFrame(
            [window._asdict() for window in tables.windows],
            "scope string, rule string, kind string, hits long, first_us long, last_us long, next_us long",
        ).withColumnRenamed("scope", "w_scope")
        lifted = F.col("last_us") + options.stuck_ms * 1000
        after = tables.history.filter(is_send()).join(
            F.broadcast(windows),
            F.col("scope").eqNullSafe(F.col("w_scope"))
            & (F.col("called_at_us") > lifted)
            & (F.col("next_us").isNull() | (F.col("called_at_us") < F.col("next_us"))),
        )
        went_wrong = F.col("outcome") != "ok"
        last = F.max_by(
            F.struct("operation_id", "message_id", "error", "attempts", "called_at_us"), F.col("called_at_us")
        )
        by_client_ = after.groupBy("client", "rule", "kind", "last_us").agg(
            F.count_if(went_wrong).alias("wrong"),
            F.count_if(~went_wrong).alias("right"),
            last.alias("last"),
            F.max(F.coalesce("completed_at_us", tables.end_of_run())).alias("until_us"),
        )
        rows = by_client_.filter((F.col("wrong") > 0) & (F.col("right") == 0)).select("*", "last.*")
        return as_cases(
            rows,
            self.name,
            "invalid",
            topic=F.lit(None),
            partition=F.lit(None),
            rule=F.col("rule"),
            kind=F.col("kind"),
            trouble=F.lit(None),
            at_us=F.col("last_us"),
            duration_us=F.col("until_us") - F.col("last_us"),
            note=F.concat(
                F.col("wrong"), F.lit(" sends, none succeeded; last error: "), F.coalesce("error", F.lit("none"))
            ),
        )

    def sentence(self, group: Group) -> str:
        return (
            f"no send{by_client(group)} succeeded any more in the {duration(group.slowest_us)} after the last hit"
            f"{by_rule(group)}: the client did not recover by itself"
        )

    def all_clear(self, tables: Tables) -> str:
        return f"no client stayed stuck after {count(tables.capture.faulted, 'faulted exchange')}"
