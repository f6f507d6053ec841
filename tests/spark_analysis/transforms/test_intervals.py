"""Spans meet as a comparison of all with all would have it, and only what is near each other is compared."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis.plans import table_of
from notleader.spark_analysis.transforms.intervals import (
    NEVER_US,
    covered,
    first_to_hold,
    join_moments,
    join_spans,
    reckoned,
)
from tests.spark_analysis.synthetic import START_US

pytestmark = pytest.mark.spark

_SPANS = "struct<{0}:bigint,{0}_from:bigint,{0}_until:bigint>"


def spans(spark: SparkSession, name: str, of: list[tuple[int, int]]) -> DataFrame:
    rows = [{name: n, f"{name}_from": since, f"{name}_until": until} for n, (since, until) in enumerate(of)]
    return table_of(spark, rows, _SPANS.format(name))


def some(seed: str, many: int, within_us: int, longest_us: int) -> list[tuple[int, int]]:
    """Spans of every length up to the longest, some of none, some that end where others begin."""
    dice = random.Random(seed)
    found = []
    for _ in range(many):
        since = START_US + dice.randrange(within_us) // 1000 * 1000
        found.append((since, since + int(longest_us ** dice.random()) - 1))
    return found


@pytest.mark.parametrize(("within_us", "longest_us"), [(20_000, 30_000), (60_000_000, 90_000_000), (10**12, 10**13)])
def test_spans_that_have_a_moment_in_common_meet_once(spark: SparkSession, within_us: int, longest_us: int) -> None:
    left, right = (some(seed, 120, within_us, longest_us) for seed in ("left", "right"))
    found = join_spans(
        spans(spark, "l", left), spans(spark, "r", right), ("l_from", "l_until"), ("r_from", "r_until"), F.lit(True)
    )
    met = sorted((row.l, row.r) for row in found.collect())
    assert met == [
        (l_, r) for l_, (begun, ended) in enumerate(left) for r, (since, until) in enumerate(right)
        if since <= ended and begun <= until
    ]  # fmt: skip


def test_moments_meet_the_spans_that_hold_them_open_ones_too(spark: SparkSession) -> None:
    held = [*some("held", 80, 60_000_000, 90_000_000), (0, NEVER_US), (START_US + 30_000_000, NEVER_US)]
    at = [since for since, _ in some("at", 100, 60_000_000, 2)]
    moments = table_of(spark, [{"m": n, "at_us": us} for n, us in enumerate(at)], "struct<m:bigint,at_us:bigint>")
    found = join_moments(spans(spark, "s", held), moments, ("s_from", "s_until"), "at_us", F.col("m") % 2 == 0)
    met = sorted((row.s, row.m) for row in found.collect())
    assert met == [
        (s, m) for s, (since, until) in enumerate(held) for m, us in enumerate(at)
        if since <= us <= until and m % 2 == 0
    ]  # fmt: skip


def test_as_many_pairs_are_compared_as_lie_near_each_other(spark: SparkSession) -> None:
    """A call every ms, one in a hundred of a second, and every 10 ms some trouble of 8 ms."""

    def compared(calls: int) -> int:
        told = [
            (START_US + 1000 * n, START_US + 1000 * n + (1_000_000 if n % 100 == 0 else 2000)) for n in range(calls)
        ]
        troubles = [(START_US + 10_000 * n, START_US + 10_000 * n + 8000) for n in range(calls // 10)]
        asks, meets = reckoned(
            spans(spark, "l", told), spans(spark, "r", troubles), ("l_from", "l_until"), ("r_from", "r_until")
        )
        return int(asks.join(meets, F.col("_cell") == F.col("_its_cell")).count())

    few, many = compared(2000), compared(8000)
    assert few < 2000 * 200 / 8
    # All with all would be sixteen times as many.
    assert many < few * 6


def test_a_span_is_held_by_the_one_that_ends_first_of_those_around_it(spark: SparkSession) -> None:
    around = {key: some(f"around-{key}", many, 10_000, 9000) for key, many in ((1, 300), (2, 1), (3, 64))}
    inside = {key: some(f"inside-{key}", 60, 10_000, 500) for key in (1, 2, 3, 4)}
    kind = "struct<key:int,from_us:bigint,until_us:bigint,held:bigint>"

    def table(of: dict[int, list[tuple[int, int]]]) -> DataFrame:
        rows = [{"key": key, "from_us": f, "until_us": u, "held": key * 1000 + n} for key, each in of.items()
                for n, (f, u) in enumerate(each)]  # fmt: skip
        return table_of(spark, rows, kind)

    found = first_to_hold(table(around).drop("held"), table(inside))
    assert {row.held: row.until_us for row in found.collect()} == {
        key * 1000 + n: min(ends)
        for key, each in inside.items()
        for n, (since, until) in enumerate(each)
        if (ends := [end for begun, end in around.get(key, []) if begun <= since and until <= end])
    }


def test_what_spans_cover_counts_once(spark: SparkSession) -> None:
    told = [
        {
            "spans": [
                {"since": 1, "until": 5},
                {"since": 2, "until": 3},
                {"since": 4, "until": 8},
                {"since": 9, "until": 9},
            ]
        }
    ]
    rows = table_of(spark, [*told, {"spans": []}], "struct<spans:array<struct<since:bigint,until:bigint>>>")
    assert [row.us for row in rows.select(covered(F.col("spans")).alias("us")).collect()] == [7, 0]
