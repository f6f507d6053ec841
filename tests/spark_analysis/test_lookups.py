"""Java is asked about its own classes once, and for each column once; what is built is the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import Column, SparkSession, Window
from pyspark.sql import functions as F

from notleader.spark_analysis import lookups
from notleader.spark_analysis.lookups import let_go_later
from notleader.spark_analysis.plans import threads


@pytest.fixture
def messages(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is sent to Java from now on, without what it is told to forget."""
    sent: list[str] = []
    send: Callable[..., Any] = GatewayClient.send_command

    def noted(client: GatewayClient, command: str, *more: Any, **named: Any) -> Any:
        if not command.startswith("m\n"):
            sent.append(command)
        return send(client, command, *more, **named)

    monkeypatch.setattr(GatewayClient, "send_command", noted)
    return sent


def test_an_expression_is_as_many_messages_as_it_has_new_parts(messages: list[str]) -> None:
    F.coalesce("a", "b")
    F.coalesce("b", "c", "b")
    messages.clear()
    F.coalesce("a", "b")
    assert messages == []
    F.coalesce("c", "b", "a")
    # A list, the same as Scala has it, and the function; without `lookups` they are fifteen.
    assert len(messages) == 3


def test_a_window_and_what_is_asked_of_columns_is_made_once(messages: list[str]) -> None:
    def made() -> Column:
        order = Window.partitionBy("a", "b").orderBy(F.col("c").desc(), "d").rowsBetween(-3, Window.currentRow)
        alike = F.exists("e", lambda e: F.forall(e["f"], lambda f: (f > F.col("a")) & ~e["g"].isin("x", "y")))
        return F.when(alike, F.max("c").over(order)).otherwise(F.col("h").cast("long")).alias("i")

    made()
    messages.clear()
    made()
    assert messages == []


def test_lambdas_within_lambdas_have_variables_of_their_own(spark: SparkSession) -> None:
    both = F.array(F.lit(1), F.lit(2))
    tens = F.array(F.lit(10), F.lit(20))

    def sums(of: Column) -> Column:
        return F.transform(tens, lambda ten: ten + of)

    def failing(_: Column) -> Column:
        raise ValueError("of ours")

    told = {
        "inner": F.transform(both, sums),
        "alone": sums(F.lit(5)),
        # The same lambda as a sibling of itself, and one level deeper than before.
        "deeper": F.transform(both, lambda one: F.concat(sums(one), F.flatten(F.transform(both, sums)))),
        "pairs": F.aggregate(both, F.lit(0), lambda all_, one: all_ + F.aggregate(sums(one), one, lambda a, b: a + b)),
    }
    for _ in range(2):
        row = spark.range(1).select(*[column.alias(name) for name, column in told.items()]).first()
        assert row is not None
        assert row.inner == [[11, 21], [12, 22]]
        assert row.alone == [15, 25]
        assert row.deeper == [[11, 21, 11, 21, 12, 22], [12, 22, 11, 21, 12, 22]]
        assert row.pairs == (1 + 11 + 21) + (2 + 12 + 22)
        with pytest.raises(ValueError, match="of ours"):
            F.transform(both, failing)
        told["inner"] = F.transform(both, sums)


def test_lambdas_of_two_threads_are_two(spark: SparkSession) -> None:
    meet = threading.Barrier(2)

    def rows(number: int) -> Any:
        def one(x: Column) -> Column:
            meet.wait(10)
            return F.transform(F.array(F.lit(number)), lambda y: x * y)

        row = spark.range(1).select(F.transform(F.array(F.lit(7)), one).alias("of")).first()
        assert row is not None
        return row.of

    with threads(spark, 2) as pool:
        assert list(pool.map(rows, (2, 3))) == [[[14]], [[21]]]


def test_what_is_remembered_has_an_end(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "_MOST_MADE", 5)
    for first in range(20):
        row = spark.range(1).select(*[(F.lit(first) + n).alias(f"c{n}") for n in range(9)]).first()
        assert row is not None
        assert list(row) == [first + n for n in range(9)]


def test_constants_that_are_alike_to_python_are_not_to_spark(spark: SparkSession) -> None:
    for _ in range(2):
        alike = [F.lit(value).alias(str(place)) for place, value in enumerate((1, True, 1.0, "1", None, 0, False))]
        row = spark.range(1).select(*alike).first()
        assert row is not None
        assert [(type(value), value) for value in row] == [
            (int, 1), (bool, True), (float, 1.0), (str, "1"), (type(None), None), (int, 0), (bool, False),
        ]  # fmt: skip


@pytest.mark.parametrize("length", [1, 9, 10, 11, 25])
def test_a_list_of_any_length_keeps_its_order(spark: SparkSession, length: int) -> None:
    row = spark.range(1).select(F.array(*[F.lit(n) for n in range(length)]).alias("of")).first()
    assert row is not None
    assert row.of == list(range(length))


def test_what_is_let_go_meanwhile_is_forgotten_behind_it(spark: SparkSession) -> None:
    client = spark._jvm._gateway_client  # type: ignore[attr-defined]
    own = client.finalizer_deque
    with let_go_later(client):
        spark.range(1)
        waiting = client.finalizer_deque
        assert len(waiting) > 0
        assert waiting is not own
    assert client.finalizer_deque is own
