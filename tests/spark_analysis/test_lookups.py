"""Java is asked about its own classes once, and handed lists in pieces; what is built is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from notleader.spark_analysis.lookups import let_go_later


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


def test_an_expression_is_as_many_messages_as_it_has_parts(messages: list[str]) -> None:
    F.coalesce("a", "b")
    messages.clear()
    F.coalesce("a", "b")
    # A list, the same as Scala has it, and the function; without `lookups` they are fifteen.
    assert len(messages) == 3


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
        F.upper("let go of")
        waiting = client.finalizer_deque
        assert len(waiting) > 0
        assert waiting is not own
    assert client.finalizer_deque is own
