"""Did the client work again once the fault was gone?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast, table_of
from notleader.spark_analysis.transforms.causes import Struck
from notleader.spark_analysis.transforms.keys import same


class Stuck(Check):
    """Clients whose sends all failed or never ended although no rule got in their way any more.

    Measured from when the last thing is over that any rule did to the client itself: a request that was swallowed is
    in its way until its connection ends or answers a later one. A rule that refuses or silences whoever comes counts
    for every client as long as it stands.
    """

    name = "stuck"
    title = "Stuck after the fault was gone"
    brief = "{clients} stuck afterwards"
    needs = ("sends", "faults")
    order = 15
    means = Meaning(
        invalid=(
            "after all was over that rules did to this client, and `--stuck-ms` more, it sent, and since the last hit "
            "nothing succeeded; a swallowed request is over when its connection ends or a later answer comes, a "
            "listener or a connection that is refused or silenced when that is lifted"
        ),
        valid="something called after the last hit succeeded, or it sent nothing, or what a rule did was not over",
        unknown="no fault struck",
        evidence="outcome lines, and the hits on the client's own exchanges",
        cause="the rule whose hit on this client was the last",
    )

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.outcomes.ok < tables.outcomes.sends

    def suspects(self, tables: Tables, options: Options) -> Column:
        first = min((hit.last_us for hit in tables.struck if hit.last_us is not None), default=0)
        return is_send() & (F.col("outcome") != "ok") & (F.col("called_at_us") > first + options.stuck_ms * 1000)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        spark = tables.history.sparkSession
        last_hits: dict[tuple[str, str], Struck] = {}
        over: dict[tuple[str, str], int] = {}
        for hit in tables.struck:
            client = hit.scope, hit.client
            if hit.last_us is not None and hit.last_us >= (last_hits.get(client, hit).last_us or 0):
                last_hits[client] = hit
            over[client] = max(hit.until_us, over.get(client, 0))
        struck = table_of(
            spark,
            [
                {
                    "w_scope": scope,
                    "w_client": client,
                    "rule": hit.rule,
                    "kind": hit.kind,
                    "last_us": hit.last_us,
                    "over_us": over[scope, client],
                }
                for (scope, client), hit in last_hits.items()
            ],
            "struct<w_scope:string,w_client:string,rule:string,kind:string,last_us:bigint,over_us:bigint>",
        )
        sends = tables.history.filter(is_send()).join(broadcast(struck), same("w_", "scope", "client"))
        lifted = F.col("over_us") + options.stuck_ms * 1000
        # Who got through after the last hit was well again, whatever happened to it then.
        after = sends.filter(F.col("called_at_us") > F.col("last_us"))
        last = F.max_by(
            F.struct("operation_id", "message_id", "error", "attempts", "called_at_us"), F.col("called_at_us")
        )
        by_client_ = after.groupBy("client", "rule", "kind", "last_us").agg(
            F.count_if(F.col("called_at_us") > lifted).alias("wrong"),
            F.count_if(F.col("outcome") == "ok").alias("right"),
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
