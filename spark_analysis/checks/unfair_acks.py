"""Do all partitions of a client get their acknowledgements equally fast?"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Meaning, Tables, is_send, joined
from notleader.spark_analysis.checks.phrases import because, by_client, by_rule, duration, place
from notleader.spark_analysis.checks.wire_cases import from_exchanges
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import broadcast
from notleader.spark_analysis.transforms.keys import same
from notleader.spark_analysis.transforms.unseen import PERHAPS, UNSEEN

_FEWEST_SENDS = 20
_TIMES_SLOWER = 10
_SLOWER_BY_US = 100_000
# What a busy machine may do to a client that is treated fairly: between the two nobody can tell.
_TIMES_FAIR = 4
_FAIR_BY_US = 40_000
# A rule is blamed when it was in the way of this part of the slow sends, and of the fastest partition's far less.
_OF_THE_SLOW = 0.5


class UnfairAcks(Check):
    """Partitions whose median acknowledgement takes ten times that of the client's fastest one; no verdict.

    Between four and ten times the answer is unknown: a median moves that far on a busy machine.
    """

    name = "unfair_acks"
    title = "Unfair acknowledgements"
    brief = "{n} acknowledged much more slowly"
    brief_unknown = "{n} acknowledged more slowly, perhaps by chance"
    counts = ("partition", "partitions")
    needs = ("sends",)
    order = 76
    means = Meaning(
        invalid="never",
        valid=(
            "told: a partition's median is ten times that of the client's fastest partition or more, and by 100 ms or "
            "more; or none is four times as slow and slower by 40 ms"
        ),
        unknown="no send was told of; or a partition lies between the two",
        evidence="outcome lines of 20 sends or more to a partition",
        cause=(
            "the rules that were in the way of half of the partition's sends or more, and of less than half as many of "
            "the fastest partition's"
        ),
    )

    def suspects(self, tables: Tables, options: Options) -> Column:
        return is_send() & (F.col("outcome") == "ok") & (F.col("latency_us") >= _FAIR_BY_US)

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        place_ = ("scope", "client", "topic", "partition")
        sends = tables.history.filter(is_send() & (F.col("outcome") == "ok") & F.col("partition").isNotNull())
        untouched = F.size(_in_the_way()) == 0 if tables.capture.faulted else F.lit(True)
        by_partition = (
            sends.groupBy(*place_)
            .agg(
                F.count("*").alias("sends"),
                F.percentile_approx("latency_us", 0.5, 1000).alias("median"),
                F.min("called_at_us").alias("at_us"),
                F.max(F.when(F.col("trouble") == UNSEEN, F.lit(UNSEEN))).alias("trouble"),
                # Of the sends that no rule was in the way of, where these are half of them or more.
                F.when(
                    F.count_if(untouched) * 2 >= F.count("*"),
                    F.percentile_approx(F.when(untouched, F.col("latency_us")), 0.5, 1000),
                ).alias("clean_median"),
            )
            .filter(F.col("sends") >= _FEWEST_SENDS)
        )
        best = by_partition.groupBy(F.col("scope").alias("b_scope"), F.col("client").alias("b_client")).agg(
            F.min(F.struct("median", "topic", "partition")).alias("best")
        )
        unfair = _is_slower("median", _TIMES_SLOWER, _SLOWER_BY_US)
        rows = by_partition.join(
            broadcast(best),
            same("b_", "scope", "client"),
        ).filter(_is_slower("median", _TIMES_FAIR, _FAIR_BY_US))
        rows = rows.withColumn("verdict", F.when(unfair, "valid").otherwise("unknown"))
        return from_exchanges(
            _with_rules(rows, sends) if tables.capture.faulted else rows,
            self.name,
            F.col("verdict"),
            trouble=F.col("trouble"),
            duration_us=F.col("median"),
            note=F.format_string("median of %d sends; %d µs on the fastest partition", "sends", "best.median"),
        )

    def sentence(self, group: Group) -> str:
        what = f"sends to {place(group)}{by_client(group)} take {duration(group.slowest_us)} at the median"
        if group.verdict == "unknown":
            return f"{what}, some times the fastest partition: a busy machine's doing, or not"
        blamed = f"; most of them were slowed down{by_rule(group)}" if group.rule else because(group)
        if group.trouble == PERHAPS:
            blamed = "; whether a fault had a hand in it is not known: rules were in the way of some of them"
        return f"{what}, ten times the fastest partition or more{blamed}"

    def all_clear(self, tables: Tables) -> str:
        return "no partition is acknowledged much more slowly than the others of its client"


def _is_slower(median: str, times: int, by_us: int) -> Column:
    best = F.col("best.median")
    return (F.col(median) >= best * times) & (F.col(median) - best >= by_us)


def _in_the_way() -> Column:
    """The causes of a send that count: what held it for a trifle of its time is not why it was slow."""
    return F.filter(
        F.concat("touched_by", "slow_by", "retried_by"),
        lambda c: ~c["did"].isin("held_request", "held_answer") | (c["weight_us"] * 4 >= F.col("latency_us")),
    )


def _with_rules(rows: DataFrame, sends: DataFrame) -> DataFrame:
    """`rows` with `rule` and `kind`: what was in the way of the slow partition's sends and not of the fastest one's."""
    place_ = [F.col(name) for name in ("scope", "client", "topic", "partition")]
    met = F.array_distinct(
        F.transform(_in_the_way(), lambda c: F.struct(c["rule"].alias("rule"), c["kind"].alias("kind")))
    )
    shares = (
        sends.select(F.xxhash64(*place_).alias("_place"), F.explode(met).alias("r"))
        .groupBy("_place", "r")
        .agg(F.count("*").alias("times"))
        .groupBy("_place")
        .agg(F.map_from_entries(F.collect_list(F.struct("r", "times"))).alias("by"))
    )
    counted = sends.groupBy(F.xxhash64(*place_).alias("_n_place")).agg(F.count("*").alias("n"))
    fast = F.xxhash64("scope", "client", "best.topic", "best.partition")
    rows = rows.withColumns({"_slow": F.xxhash64(*place_), "_fast": fast})
    for of in ("slow", "fast"):
        here = shares.select(F.col("_place").alias(f"_{of}"), F.col("by").alias(f"{of}_by"))
        total = counted.select(F.col("_n_place").alias(f"_{of}"), F.col("n").alias(f"{of}_n"))
        rows = rows.join(here, f"_{of}", "left").join(total, f"_{of}", "left")

    def guilty(entry: Column) -> Column:
        share = entry["value"] / F.col("slow_n")
        elsewhere = F.coalesce(F.element_at("fast_by", entry["key"]), F.lit(0)) / F.col("fast_n")
        return (share >= _OF_THE_SLOW) & (elsewhere < share / 2)

    to_blame = F.array_sort(F.transform(F.filter(F.map_entries("slow_by"), guilty), lambda entry: entry["key"]))
    rows = rows.withColumn("blamed", F.coalesce(to_blame, F.array().cast("array<struct<rule:string,kind:string>>")))
    # None is cleared but where those that met no rule were as slow.
    cleared = F.when(F.col("verdict") == "valid", _is_slower("clean_median", _TIMES_SLOWER, _SLOWER_BY_US)).otherwise(
        _is_slower("clean_median", _TIMES_FAIR, _FAIR_BY_US)
    )
    perhaps = (F.size("blamed") == 0) & ~F.coalesce(cleared, F.lit(False))
    return rows.withColumns(
        {
            "rule": joined(F.col("blamed.rule")),
            "kind": joined(F.array_distinct("blamed.kind")),
            "trouble": F.coalesce("trouble", F.when(perhaps, F.lit(PERHAPS))),
        }
    )
