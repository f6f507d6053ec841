"""Whose connections are whose, where client ids don't say it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis.io import read_captures
from notleader.spark_analysis.outcomes import read_outcomes
from notleader.spark_analysis.transforms.whose import Unknown, unknown_on_the_wire, with_owners
from tests.spark_analysis.made_up import made_up
from tests.spark_analysis.synthetic import Story

pytestmark = pytest.mark.spark


def told_apart(spark: SparkSession, story: Story, folder: Path) -> dict[int, str]:
    """Of each connection the client id that it has now."""
    capture, said = story.write(folder)
    exchanges = read_captures(spark, [str(capture)]).withColumn("scope", F.lit(""))
    operations = read_outcomes(spark, [str(said)]).withColumn("scope", F.lit(""))
    unknown = Unknown(frozenset(row["client"] for row in story.outcomes), frozenset({"lib", "other"}))
    rows = with_owners(exchanges, operations, unknown).select("connection_id", "client_id").distinct().collect()
    assert len(rows) == len({row["connection_id"] for row in rows}), "a connection is one client's"
    return {row["connection_id"]: row["client_id"] for row in rows}


def fetch(story: Story, at_ms: float, offset: int, connection: int, partition: int = 0, client_id: str = "lib") -> None:
    batch = story.produce(at_ms, partition, base_offset=offset, client_id=client_id, connection_id=connection)
    batch["api_name"], batch["api_key"] = "Fetch", 1


def test_a_client_id_of_several_is_told_apart_by_what_went_over_each_connection(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story()
    for number in range(6):
        at = 100.0 * number
        story.produce(at, base_offset=number, client_id="lib", connection_id=1)
        story.send(at, f"m{number}", offset=number)
        fetch(story, at + 10, number, 2)
        story.poll(at + 20, f"m{number}", number, client="reader", group_id="billing")
    story.exchange(5, "JoinGroup", client_id="lib", connection_id=3, group_id="billing")
    story.exchange(5, "JoinGroup", client_id="lib", connection_id=4, group_id="another")
    story.exchange(5, "Metadata", client_id="lib", connection_id=5)
    assert told_apart(spark, story, tmp_path) == {1: "app", 2: "reader", 3: "reader", 4: "lib", 5: "lib"}


def test_all_connections_of_a_client_id_are_whose_batches_went_over_some(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    for number in range(4):
        fetch(story, 100.0 * number, number, 7, client_id="other")
        story.poll(100.0 * number + 5, f"m{number}", number, client="reader")
    story.exchange(1, "Metadata", client_id="other", connection_id=8)
    assert told_apart(spark, story, tmp_path) == {7: "reader", 8: "reader"}


def test_what_one_read_before_or_after_another_fetched_it_is_no_sign(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    for number in range(4):
        for reader, connection, at in (("first", 1, 100.0 * number), ("second", 2, 5000 + 100.0 * number)):
            fetch(story, at, number, connection)
            story.poll(at + 5, f"m{number}", number, client=reader, group_id="billing")
    assert told_apart(spark, story, tmp_path) == {1: "first", 2: "second"}


def test_of_two_who_read_the_same_together_nobody_is_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    for number in range(6):
        at = 100.0 * number
        fetch(story, at, number, 1)
        fetch(story, at, number, 2)
        story.poll(at + (5 if number % 2 else 6), f"m{number}", number, client="one")
        story.poll(at + (6 if number % 2 else 5), f"m{number}", number, client="other")
    assert told_apart(spark, story, tmp_path) == {1: "lib", 2: "lib"}


def test_a_connection_of_a_known_client_stays_whose_it_is(spark: SparkSession, tmp_path: Path) -> None:
    """Somebody whom the proxy doesn't see reads the same, and sooner."""
    story = Story()
    for number in range(4):
        fetch(story, 100.0 * number, number, 1, client_id="known")
        story.poll(100.0 * number + 5, f"m{number}", number, client="unseen")
        story.poll(100.0 * number + 9, f"m{number}", number, client="known")
    assert told_apart(spark, story, tmp_path) == {1: "known"}


def test_a_client_is_unknown_where_no_client_id_is_its_own() -> None:
    analysis = made_up()
    capture = replace(analysis.capture, client_ids=frozenset({"rdkafka", "app"}))
    said = replace(analysis.outcomes, names=(("app", None), ("a", "rdkafka"), ("b", "rdkafka")))
    assert unknown_on_the_wire(said, capture) == (frozenset({"a", "b"}), frozenset({"rdkafka"}))
    assert unknown_on_the_wire(said, replace(capture, client_ids=frozenset({"app"}))) is None
    said = replace(said, names=(("app", None), ("a", "rdkafka")))
    assert unknown_on_the_wire(said, capture) is None
