"""What plans share: what comes after a row is looked for in one walk."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import notleader.spark_analysis
from notleader.spark_analysis.plans import in_key_order, settled, table_of, those_after
from notleader.spark_analysis.session import suit

_ROWS = [("a", 3, 1), ("a", None, 9), ("a", 1, 5), ("a", 2, None), ("b", 1, 7), ("b", 2, 4)]


def test_those_after_are_what_follows_in_the_order_given(spark: SparkSession) -> None:
    rows = spark.createDataFrame(_ROWS, "line string, place int, value int")
    least = rows.withColumn("least", F.min("value").over(those_after(["line"], ["place"]))).collect()
    # No place stands first, as everywhere in Spark.
    assert {(row.line, row.place): row.least for row in least} == {
        ("a", None): 1,
        ("a", 1): 1,
        ("a", 2): 1,
        ("a", 3): None,
        ("b", 1): 4,
        ("b", 2): None,
    }


def test_what_lies_in_one_partition_is_joined_there_however_often(spark: SparkSession) -> None:
    rows = settled(spark.createDataFrame(_ROWS, "line string, place int, value int"))
    most = settled(rows.groupBy("line").agg(F.max("value").alias("most")))
    for _ in range(6):
        rows = rows.join(most, "line", "left").withColumn("list", F.array("value", "most")).drop("most")
    assert "Exchange" not in rows._jdf.queryExecution().executedPlan().toString()


def test_what_lies_in_its_keys_order_is_grouped_with_one_sort(spark: SparkSession) -> None:
    suit(spark, 1 << 30)
    try:
        rows = spark.createDataFrame(_ROWS, "line string, place int, value int").repartition(3)
        groups = in_key_order(rows, "place").groupBy("place").agg(F.collect_list("value").alias("values"))
        plan = groups._jdf.queryExecution().executedPlan().toString()
        told = {row.place: sorted(row["values"]) for row in groups.collect()}
    finally:
        suit(spark, 0)
    # A table of groups would be given up, and what it held sorted, before the last step and in it.
    assert (plan.count(" Sort ["), "HashAggregate" in plan) == (1, False)
    assert told == {None: [9], 1: [5, 7], 2: [4], 3: [1]}
    alone = in_key_order(rows.coalesce(1), "place").groupBy("place").count()
    assert " Sort [" not in alone._jdf.queryExecution().executedPlan().toString()


def test_no_frame_is_worked_out_anew_for_each_row() -> None:
    sources = Path(notleader.spark_analysis.__file__).parent.rglob("*.py")
    assert [source.name for source in sources if "unboundedFollowing" in source.read_text()] == []


def test_a_table_of_what_python_has_needs_no_python_worker(spark: SparkSession) -> None:
    told = [{"name": "a", "at_us": 1 << 60, "lists": [{"n": 1}, {"n": None}]}, {"name": None, "at_us": None}, {}]
    struct = "struct<name:string,at_us:bigint,lists:array<struct<n:int>>>"
    rows = table_of(spark, told, struct)
    assert [row.asDict(recursive=True) for row in rows.collect()] == [
        {"name": "a", "at_us": 1 << 60, "lists": [{"n": 1}, {"n": None}]},
        {"name": None, "at_us": None, "lists": None},
        {"name": None, "at_us": None, "lists": None},
    ]
    assert rows._jdf.rdd().getNumPartitions() == 1
    assert table_of(spark, [], struct).collect() == []
    sources = Path(notleader.spark_analysis.__file__).parent.rglob("*.py")
    assert [source.name for source in sources if ".createDataFrame(" in source.read_text()] == []
