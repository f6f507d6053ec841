"""How long after the last hit of a fault did sends to the same place succeed again?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, as_cases, is_send
from notleader.spark_analysis.checks.phrases import by_client, by_rule, duration, place
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.attempts import was_answered, went_unheard
from notleader.spark_analysis.transforms.keys import same


class Recovery(Check):
    """Time from a rule's last hit on a client's sends to a partition until the next acknowledged send there.

    Without the time in which nobody sent: between the last send that went wrong and the call of the one that went well.
    """

    name = "recovery"
    title = "Recovery"
    brief = "acknowledged again after {slowest}"
    brief_unknown = "recovery at {n} not known"
    counts = ("place", "places")
    needs = ("sends", "faults")
    of_causes = False
    order = 70
    means = Meaning(
        invalid="never",
        valid=(
            "told: the time from a rule's last hit on a client's sends to a partition (what cuts a connection hits "
            "what waits there) until the next acknowledgement there of what was sent since, or of what it hit "
            "last, without the time in which nothing was sent; what was answered when its client had given it up was "
            "hit when it was sent"
        ),
        unknown="no broker acknowledged anything that was sent after the last hit, as ever with acks=0",
        evidence="the hits on attempts, and outcome lines",
        cause="the rule itself",
    )

    def suspects(self, tables: Tables, options: Options) -> Column:
        return is_send() & (F.size("fault_names") > 0)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        # Whose client had given it up when its answer came was over for that when it was sent, as without an answer.
        sends = tables.history.filter(is_send()).withColumn("attempts", F.transform("attempts", _as_heard))
        touched = sends.select(
            "scope",
            "client",
            "topic",
            "partition",
            F.explode(F.filter("attempts", lambda a: F.size(a["fault_names"]) > 0)).alias("a"),
        )
        struck = touched.select(
            "scope",
            "client",
            "topic",
            "partition",
            "a",
            F.explode(F.arrays_zip("a.fault_names", "a.fault_kinds")).alias("f"),
        )
        hit_end = F.coalesce("a.response_at_us", "a.request_at_us")
        place_ = ("scope", "client", "topic", "partition")
        struck = struck.groupBy(
            *place_, F.col("f.fault_names").alias("rule"), F.col("f.fault_kinds").alias("kind")
        ).agg(
            F.min("a.request_at_us").alias("first_us"),
            F.max(hit_end).alias("last_us"),
            F.array_sort(F.min_by("a", "a.request_at_us", 10)).alias("attempts"),
        )
        # With acks=0 nothing is ever acknowledged, whatever the client calls it; nor is what never got as far as here.
        # Who was told an offset was answered, whether or not that was recorded.
        answered = F.exists("attempts", lambda a: was_answered(a["outcome"]))
        unseen = (F.size("attempts") == 0) & ~F.col("trouble").eqNullSafe(F.lit("unsent"))
        acknowledged = F.col("offset").isNotNull() | answered | unseen
        # What was under way while the rule struck another tells nothing of the time after it.
        last_sent = F.array_max(F.transform("attempts", lambda a: a["request_at_us"]))
        met = F.filter(
            "attempts",
            lambda a: (a["outcome"] != "injected") | (F.coalesce(a["error_code"], F.lit(0)) != 0),
        )
        later = sends.select(
            *[F.col(name).alias(f"g_{name}") for name in place_],
            F.coalesce("called_at_us", "completed_at_us").alias("from_us"),
            F.col("completed_at_us").alias("done_us"),
            F.coalesce(last_sent, "called_at_us", "completed_at_us").alias("sent_us"),
            F.transform(
                met,
                lambda a: F.struct(a["fault_names"], F.coalesce(a["response_at_us"], a["request_at_us"]).alias("end")),
            ).alias("met"),
            ((F.col("outcome") == "ok") & acknowledged).alias("good"),
        )
        here = same("g_", *place_)
        since = F.col("done_us") >= F.col("last_us")
        itself = F.exists(
            "met", lambda m: (m["end"] >= F.col("last_us")) & F.array_contains(m["fault_names"], F.col("rule"))
        )
        anew = (F.col("sent_us") >= F.col("last_us")) | F.coalesce(itself, F.lit(False))
        hits = (*place_, "rule", "kind", "first_us", "last_us", "attempts")
        first = (
            later.filter("good")
            .join(broadcast(struck), [here, since, anew], "right")
            .groupBy(*hits)
            .agg(F.min("done_us").alias("again_us"), F.min_by("from_us", "done_us").alias("called_us"))
        )
        # Between the last that went wrong and the call of the one that went well nothing was ill: nobody sent.
        rows = (
            later.filter(~F.col("good"))
            .join(broadcast(first), [here, since, F.col("done_us") <= F.col("again_us")], "right")
            .groupBy(*hits, "again_us", "called_us")
            .agg(F.max("done_us").alias("wrong_us"))
            .withColumn("idle_us", F.greatest(F.col("called_us") - F.greatest("last_us", "wrong_us"), F.lit(0)))
        )
        again = F.col("again_us").isNotNull()
        return as_cases(
            rows,
            self.name,
            F.when(again, "valid").otherwise("unknown"),
            rule=F.col("rule"),
            kind=F.col("kind"),
            trouble=F.lit(None),
            at_us=F.col("last_us"),
            duration_us=F.col("again_us") - F.col("last_us") - F.col("idle_us"),
            message_id=F.lit(None),
            operation_id=F.lit(None),
            note=F.when(
                again,
                F.concat(
                    F.lit("outage of "),
                    F.round((F.col("again_us") - F.col("first_us") - F.col("idle_us")) / 1000).cast("long"),
                    F.lit(" ms from the first hit, without the time in which nothing was sent"),
                ),
            ),
        )

    def sentence(self, group: Group) -> str:
        where = f"{place(group)}{by_client(group)}"
        if group.verdict == "unknown":
            since = f"after the last hit{by_rule(group)}"
            return f"no broker acknowledged a send to {where} {since}, so recovery is not known"
        soon = f"{duration(group.slowest_us)} after" if group.slowest_us else "at once after"
        return f"sends to {where} were acknowledged again {soon} the last hit{by_rule(group)}"

    def all_clear(self, tables: Tables) -> str:
        return "no send was touched by a fault, so there was nothing to recover from"


def _as_heard(attempt: Column, place: Column) -> Column:
    """An attempt without the time of its answer where its client can't have heard that any more."""
    again_us = F.get("attempts", place + 1)["request_at_us"]
    gave_up = (F.col("outcome") != "ok") & (attempt["response_at_us"] > F.col("completed_at_us"))
    unheard = went_unheard(attempt, again_us) | F.coalesce(gave_up, F.lit(False))
    return attempt.withField("response_at_us", F.when(~unheard, attempt["response_at_us"]))
