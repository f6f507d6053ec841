"""Did a client keep asking a broker that is not the leader?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from notleader.spark_analysis.checks.base import Check, Group, Tables, joined
from notleader.spark_analysis.checks.phrases import by_client, by_rule, count, duration, place
from notleader.spark_analysis.checks.wire_cases import first_seen, from_exchanges, of_api, sample
from notleader.spark_analysis.options import Options

_NOT_LEADER = 6
_PATIENCE_US = 5_000_000


class WrongBroker(Check):
    """Produce and Fetch answered NOT_LEADER_OR_FOLLOWER, by client, partition and broker; negative beyond 5 s."""

    name = "wrong_broker"
    title = "Wrong-broker traffic"
    needs = ("capture",)
    order = 53

    def possible(self, tables: Tables, options: Options) -> bool:
        return tables.capture.not_leader > 0

    def cases(self, tables: Tables, options: Options) -> DataFrame:
        answers = of_api(tables.exchanges, "Produce", "Fetch")
        refused = (
            sample(answers)
            .withColumn("p", F.explode("partitions"))
            .filter(F.coalesce("p.error_code", "error_code") == _NOT_LEADER)
        )
        rows = refused.groupBy(
            F.col("client_id").alias("client"),
            F.col("p.topic").alias("topic"),
            F.col("p.partition_index").alias("partition"),
            "node_id",
        ).agg(
            F.count("*").alias("times"),
            F.min("request_at_us").alias("at_us"),
            (F.max("request_at_us") - F.min("request_at_us")).alias("duration_us"),
            first_seen().alias("exchanges"),
            F.array_distinct(F.flatten(F.collect_set("fault_names"))).alias("fault_names"),
            F.array_distinct(F.flatten(F.collect_set("fault_kinds"))).alias("fault_kinds"),
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
        over = f", over {duration(group.slowest_us)}" if group.slowest_us else ", once"
        return (
            f"requests for {place(group)}{by_client(group)} were answered NOT_LEADER_OR_FOLLOWER at {brokers}"
            f"{by_rule(group)}{over}"
        )

    def all_clear(self, tables: Tables) -> str:
        return "no request went to a broker that was not the leader"
