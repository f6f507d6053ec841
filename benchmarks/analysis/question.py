"""One question to both engines: per client how many sends, retried, how slow; how many lost, how many twice.

It is a part of what the analysis does (the exact join by message id, the anti join, the grouping), in SQL that both
understand; the analysis itself asks some thirty questions and keeps the joined history.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from notleader.spark_analysis.schemas import OUTCOME

_ATTEMPTED = """
select s.client, count(*) as sends, sum(a.attempts) as attempts, count(case when a.attempts > 1 then 1 end) as retried,
       max(s.completed_at_us - s.called_at_us) as slowest_us
from sends s left join (select message_id, count(*) as attempts from attempts group by message_id) a
  on s.message_id = a.message_id
group by s.client
"""
_LOST = "select count(*) from sends s left anti join polls p on s.message_id = p.message_id"
_TWICE = "select count(*) from (select message_id from polls group by message_id having count(distinct offset) > 1)"


def ask_spark(spark: SparkSession, capture: str, outcomes: str) -> dict[str, Any]:
    """The answer by Spark SQL."""
    said = spark.read.schema(OUTCOME).json(outcomes)
    said.filter("operation = 'send'").createOrReplaceTempView("sends")
    said.filter("operation = 'poll'").createOrReplaceTempView("polls")
    exchanges = spark.read.parquet(capture).filter("api_name = 'Produce'")
    exchanges.selectExpr("explode(flatten(partitions.message_ids)) as message_id").createOrReplaceTempView("attempts")
    return _told(
        [tuple(row) for row in spark.sql(_ATTEMPTED).collect()],
        spark.sql(_LOST).first()[0],
        spark.sql(_TWICE).first()[0],
    )


def ask_duckdb(capture: str, outcomes: str, *, threads: int, memory: str) -> dict[str, Any]:
    """The answer by DuckDB with that many threads and that much memory; it may spill, as Spark may."""
    import duckdb

    database = duckdb.connect(config={"threads": threads, "memory_limit": f"{memory.removesuffix('g')}GB"})
    database.execute("set enable_progress_bar = false")
    columns = {field.name: {"string": "VARCHAR", "bigint": "BIGINT", "int": "INTEGER"}[field.dataType.simpleString()]
               for field in OUTCOME.fields}  # fmt: skip
    told = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
    files = f"read_json('{outcomes}/*.jsonl', format = 'newline_delimited', columns = {{{told}}})"
    database.execute(f"create view sends as select * from {files} where operation = 'send'")
    database.execute(f"create view polls as select * from {files} where operation = 'poll'")
    database.execute(
        "create view attempts as"
        " select unnest(flatten(list_transform(partitions, lambda p: p.message_ids))) as message_id"
        f" from read_parquet('{capture}/**/*.parquet') where api_name = 'Produce'"
    )
    return _told(
        database.sql(_ATTEMPTED).fetchall(),
        database.sql(_LOST.replace("left anti join", "anti join")).fetchall()[0][0],
        database.sql(_TWICE.replace("distinct offset", 'distinct "offset"')).fetchall()[0][0],
    )


def _told(clients: list[tuple[Any, ...]], lost: int, twice: int) -> dict[str, Any]:
    """Sums that must agree, whichever engine was asked."""
    return {
        "clients": len(clients),
        "sends": sum(row[1] for row in clients),
        "attempts": int(sum(row[2] for row in clients)),
        "retried": sum(row[3] for row in clients),
        "slowest_us": max(row[4] for row in clients),
        "lost": lost,
        "twice": twice,
    }
