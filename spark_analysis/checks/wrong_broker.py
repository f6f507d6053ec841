"""Did a client keep asking a broker that is not the leader?"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, joined
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges, of_api, sample
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.schemas import EFFECT
from notleader.spark_analysis.transforms.attempts import error_of, tells_of_time_alone, touches_at

_NOT_LEADER = 6
_PATIENCE_US = 5_000_000
_MISLED = "misled"


class WrongBroker(Check):
    """Produce and Fetch answered NOT_LEADER_OR_FOLLOWER, by client, partition and broker; negative beyond 5 s.

    What is measured runs from when the client was told to the last request that was refused before it was answered
    something else for that partition by that API: two refusals, each followed by the leader, are two short searches,
    not a long one; and what was sent before the client was told is no stubbornness.
    """

    name = "wrong_broker"
    title = "Wrong-broker traffic"
    brief = "{clients} refused as at the wrong broker for up to {slowest}"
    needs = ("capture",)
    of_causes = False
    order = 53
    means = Meaning(
        invalid=(
            "one search of more than 5 s: NOT_LEADER_OR_FOLLOWER with no other answer in between, by client, "
            "partition and API, from the first answer to the last request"
        ),
        valid="no search; shorter ones are told",
        unknown="no exchange was captured; or at level `header`, and an answer said NOT_LEADER_OR_FOLLOWER",
        evidence="captured Produce and Fetch answers",
        cause=(
            "the rules that said NOT_LEADER_OR_FOLLOWER for that very partition; of the broker's own refusal, and of a "
            "further one of a search, the rule (likely) that had made up or changed the last Metadata answer that the "
            "client got before; a rule that delayed the refusal has no part in it"
        ),
    )

    def unsettled(self, tables: Tables) -> str | None:
        if tables.capture.not_leader:
            answers = count(tables.capture.not_leader, "answer")
            return f"{answers} said NOT_LEADER_OR_FOLLOWER, and at level header no partition is recorded"
        return None

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.not_leader > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        answers = of_api(tables.exchanges, "Produce", "Fetch")
        asked = sample(answers).select("*", F.posexplode("partitions").alias("place", "p"))
        # The refusal is a rule's where the rule said it; a rule that only delayed the broker's own has no part in it.
        said = F.filter(
            touches_at(F.col("place")), lambda t: t["error_code"].eqNullSafe(F.lit(_NOT_LEADER).cast("short"))
        )
        asked = asked.select(
            "scope",
            F.col("client_id").alias("client"),
            F.col("p.topic").alias("topic"),
            F.col("p.partition_index").alias("partition"),
            "api_name",
            "node_id",
            "request_at_us",
            F.transform(said, lambda t: t["rule"]).alias("fault_names"),
            F.transform(said, lambda t: t["kind"]).alias("fault_kinds"),
            F.lit(None).cast("string").alias("trouble"),
            "seen",
            F.coalesce(error_of("p"), F.lit(0)).alias("code"),
        )
        wrong = F.col("code") == _NOT_LEADER
        place_ = ("scope", "client", "topic", "partition")
        asked = asked.withColumn("_place", F.xxhash64(*place_))
        suspects = asked.filter(wrong).select("_place").distinct()
        before = Window.partitionBy(*place_, "api_name").orderBy("request_at_us", F.col("seen.exchange_seq"))
        refused = (
            asked.join(broadcast(suspects), "_place", "left_semi")
            # The number of answers that were something else tells one search from the next.
            .withColumn("search", F.count_if(~wrong & F.col("seen.response_at_us").isNotNull()).over(before))
            .filter(wrong)
        )
        if tables.capture.faulted:
            refused = _misled(refused, tables.exchanges)
        searches = refused.groupBy(*place_, "api_name", "node_id", "search").agg(
            F.count("*").alias("times"),
            F.min("request_at_us").alias("at_us"),
            # Where nobody was told there is no time, which `greatest` passes over.
            F.greatest(F.max("request_at_us") - F.min("seen.response_at_us"), F.lit(0)).alias("duration_us"),
            F.min_by("seen", "request_at_us", 10).alias("seen"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("fault_names")))).alias("fault_names"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("fault_kinds")))).alias("fault_kinds"),
            F.min("trouble").alias("trouble"),
        )
        # What a rule said, and what the broker said at another time, are two things.
        rows = searches.groupBy(*place_, "node_id", "fault_names", "fault_kinds", "trouble").agg(
            F.sum("times").alias("times"),
            F.min("at_us").alias("at_us"),
            F.max("duration_us").alias("duration_us"),
            F.array_sort(F.max_by("seen", "duration_us")).alias("exchanges"),
        )
        return from_exchanges(
            rows,
            self.name,
            F.when(F.col("duration_us") > _PATIENCE_US, "invalid").otherwise("valid"),
            rule=joined("fault_names"),
            kind=joined("fault_kinds"),
            note=F.concat(F.col("times"), F.lit(" times at broker "), F.coalesce("node_id", F.lit(-1))),
        )

    def sentence(self, group: Group) -> str:
        brokers = count(group.cases, "broker")
        likely = " (likely)" if group.trouble == _MISLED else ""
        over = (
            f", for up to {duration(group.slowest_us)} without a break"
            if group.slowest_us
            else ", and not again once the client had been told"
        )
        return (
            f"requests for {place(group)}{by_client(group)} were answered NOT_LEADER_OR_FOLLOWER at {brokers}"
            f"{by_rule(group)}{likely}{over}"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no request went to a broker that was not the leader"


def _misled(refused: DataFrame, exchanges: DataFrame) -> DataFrame:
    """`refused`, those of the broker's own with the rules of the Metadata answer that had sent the client there.

    So are those that a rule said, where another had sent the client there again after the first refusal of its search.
    Of both `trouble` is _MISLED: that it was because of the answer is likely.
    """
    told = of_api(exchanges, "Metadata").filter(F.col("response_at_us").isNotNull())
    lies = F.filter("effects", lambda e: e["did"].isin("altered_answer", "answered") & ~tells_of_time_alone(e))
    places = F.transform(
        F.coalesce(lies, F.array().cast("array<" + EFFECT.simpleString() + ">")),
        lambda e: F.struct(
            e["rule"].alias("rule"),
            e["kind"].alias("kind"),
            F.transform(
                e["partitions"],
                lambda place: F.struct(
                    F.get("partitions", place)["topic"].alias("topic"),
                    F.get("partitions", place)["partition_index"].alias("partition"),
                ),
            ).alias("of"),
        ),
    )
    metadata = told.select(
        "scope",
        F.col("client_id").alias("client"),
        F.col("response_at_us").alias("request_at_us"),
        places.alias("lies"),
    )
    before = Window.partitionBy("scope", "client").orderBy("request_at_us")
    both = refused.unionByName(metadata, allowMissingColumns=True).withColumn(
        "told", F.last(F.when(F.col("lies").isNotNull(), F.struct("lies", "request_at_us")), True).over(before)
    )
    here = F.struct("topic", "partition")
    # Captures of before named no partitions for a topic that nobody had asked for yet.
    mine = F.filter(
        "told.lies", lambda lie: lie["of"].isNull() | (F.size(lie["of"]) == 0) | F.array_contains(lie["of"], here)
    )
    of_search = Window.partitionBy("scope", "client", "topic", "partition", "api_name", "search")
    own = F.size("fault_names") == 0
    again = F.col("told.request_at_us") > F.min("request_at_us").over(of_search)
    others = F.filter(mine, lambda lie: own | (again & ~F.array_contains("fault_names", lie["rule"])))

    nobody = F.array().cast("array<string>")

    def and_theirs(names: str, theirs: Callable[[Column], Column]) -> Column:
        return F.concat(F.coalesce(names, nobody), F.coalesce(F.transform("others", theirs), nobody))

    return (
        both.filter(F.col("lies").isNull())
        .withColumn("others", others)
        .withColumns(
            {
                "fault_names": and_theirs("fault_names", lambda lie: lie["rule"]),
                "fault_kinds": and_theirs("fault_kinds", lambda lie: lie["kind"]),
                "trouble": F.when(F.size("others") > 0, F.lit(_MISLED)),
            }
        )
        .drop("lies", "told", "others")
    )
