"""Which group a client's lines are of, by what the capture has of it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.transforms.groups import with_groups

pytestmark = pytest.mark.spark

OPERATIONS = """
    operation_id string, scope string, client string, client_id string, client_version string, thread string,
    operation string, group_id string, topic string, partition int, offset long, called_at_us long, completed_at_us long
"""
EXCHANGES = """
    scope string, event string, client_id string, api_name string, group_id string, request_at_us long,
    response_at_us long, partitions array<struct<topic: string, partition_index: int, base_offset: long>>
"""


def test_a_group_that_a_client_only_asks_about_is_not_its_own(spark: SparkSession) -> None:
    poll = ("1", None, "app", None, "3", "main", "poll", None, "orders", 0, 1, 1, 2)
    asked = [
        ("JoinGroup", "mine"),
        ("DescribeGroups", "other"),
        ("ConsumerGroupDescribe", "more"),
        ("DeleteGroups", "old"),
    ]
    exchanges = [(None, "exchange", "app", api, group, 1, 2, []) for api, group in asked]
    told = with_groups(spark.createDataFrame([poll], OPERATIONS), spark.createDataFrame(exchanges, EXCHANGES))
    assert [row["group_id"] for row in told.collect()] == ["mine"]
