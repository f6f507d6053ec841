"""How operations find their attempts on the wire, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from notleader.spark_analysis.checks import Tables
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import table_of
from notleader.spark_analysis.transforms.history import _SEND, _links, run_of
from notleader.spark_analysis.transforms.landed import places
from tests.spark_analysis.conftest import rows
from tests.spark_analysis.synthetic import START_US, Story

pytestmark = pytest.mark.spark


def told(story: Story, build: Callable[[Story, Options], Tables]) -> dict[str, dict[str, Any]]:
    return {row["message_id"]: row for row in rows(build(story, Options()).history)}


def test_a_produce_that_asks_for_no_answer_is_in_no_trouble_without(
    analyse: Callable[[Story, Options], tuple[Tables, list[Finding]]],
) -> None:
    s = Story()
    for acks in (0, 1):
        s.produce(1, message_ids=[f"acks={acks}"], acks=acks, outcome="no_response", took_ms=None)
        s.send(0, f"acks={acks}", took_ms=1500, client=f"acks={acks}")
    s.produce(2, message_ids=["refused"], acks=0, outcome="closed", took_ms=None)
    s.send(0, "refused")
    tables, findings = analyse(s, Options())
    troubles = {row["message_id"]: row["trouble"] for row in rows(tables.history)}
    assert troubles == {"acks=0": None, "acks=1": "outcome:no_response", "refused": "outcome:closed"}
    late = {f.group.client: f.sentence for f in findings if f.check == "late" and f.group}
    assert "got no answer" in late["acks=1"]
    assert "got no answer" not in late["acks=0"]


def seqs(row: dict[str, Any]) -> list[int]:
    return [attempt["exchange_seq"] for attempt in row["attempts"]]


@pytest.fixture(scope="module")
def without_ids(build: Callable[[Story, Options], Tables]) -> dict[str, dict[str, Any]]:
    """A capture at level `partition`: no message ids on the wire."""
    s = Story()
    idempotent = {"producer_id": 5, "producer_epoch": 0, "record_count": 3}
    s.produce(1, **idempotent, base_sequence=0, error_code=6, outcome="injected", fault=("lose", "error"))
    s.produce(101, **idempotent, base_sequence=0, base_offset=100)
    s.produce(110, **idempotent, base_sequence=3, base_offset=103)
    s.produce(1, partition=1, base_offset=100)
    s.send(0, "first", offset=102, took_ms=105)
    s.send(100, "second", offset=103, took_ms=20)
    s.send(0, "elsewhere", offset=101, partition=1, took_ms=105)
    s.produce(500, outcome="dropped", took_ms=None, fault=("eat", "drop_request"))
    s.send(500, "guess", outcome="fail", took_ms=900)
    s.send(5000, "too-late", outcome="fail", took_ms=900)
    s.produce(7000, key_hashes=[99], base_offset=-1, outcome="dropped", took_ms=None)
    s.send(7000, "keyed", outcome="fail", took_ms=100, key_hash=99)
    return told(s, build)


def test_an_offset_finds_its_answer_and_the_sequence_its_earlier_attempts(
    without_ids: dict[str, dict[str, Any]],
) -> None:
    first = without_ids["first"]
    assert seqs(first) == [1, 2]
    assert first["attempts"][0]["match_kind"] == "sequence"
    assert first["match_kind"] in ("sequence", "offset")
    assert first["fault_names"] == ["lose"]
    assert first["trouble"] == "error:6"
    assert seqs(without_ids["second"]) == [3]
    assert without_ids["elsewhere"]["match_kind"] == "none"


def test_a_failed_send_without_an_id_is_matched_by_time_and_says_so(without_ids: dict[str, dict[str, Any]]) -> None:
    assert seqs(without_ids["guess"]) == [5]
    assert without_ids["guess"]["match_kind"] == "time"
    assert without_ids["too-late"]["match_kind"] == "none"
    assert without_ids["keyed"]["match_kind"] == "key_hash"


def test_a_client_without_headers_is_matched_by_its_keys(build: Callable[[Story, Options], Tables]) -> None:
    """Kafka 0.8 knew none: the capture shows a null for each record, which is no id."""
    s = Story()
    for number in range(3):
        s.produce(1000 * number + 1, message_ids=[None], key_hashes=[number], base_offset=number)
        s.send(1000 * number, f"m{number}", key_hash=number)
    history = told(s, build)
    assert {row["match_kind"] for row in history.values()} == {"key_hash"}
    assert [seqs(history[f"m{number}"]) for number in range(3)] == [[1], [2], [3]]


def test_beside_an_offset_nothing_is_guessed(build: Callable[[Story, Options], Tables]) -> None:
    """All sends wait in a queue while some are refused, so that each was under way at each refusal."""
    s = Story()
    for n in range(120):
        batch = {"batch_bytes": 180, "partition": n % 4}
        if n % 12 == 0:
            s.produce(200 + n, **batch, error_code=6, outcome="injected", fault=("refuse", "error"), took_ms=0.3)
        s.produce(200.4 + n, **batch, base_offset=n // 4)
        s.send(0.01 * n, f"m{n}", partition=n % 4, offset=n // 4, took_ms=2000 + 0.99 * n)
    tables = build(s, Options())
    sends = tables.operations.filter("operation = 'send'").select(*_SEND)
    found = _links(sends, places(tables.delivered, None), tables.attempts, tables.capture, tables.outcomes, Options())
    assert found is not None
    assert sum(len(row["others"]) for row in rows(found)) <= 120 + 10


def test_with_ids_nothing_is_guessed_and_a_repeated_id_goes_with_its_call(
    build: Callable[[Story, Options], Tables],
) -> None:
    s = Story()
    s.produce(1, message_ids=["a", "b"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.produce(100, message_ids=["a", "b"], base_offset=10)
    s.send(0, "a", outcome="fail", took_ms=50)
    s.send(99, "a", offset=10, took_ms=50)
    s.send(0, "b", offset=11, took_ms=150, partition=None)
    s.send(0, "never", outcome="fail", took_ms=150)
    s.poll(200, "b", 11)
    # Whoever reads it passes it on with its headers.
    s.produce(300, message_ids=["b"], topic="copies", base_offset=0)
    history = rows(build(s, Options()).history)
    first, again = sorted((row for row in history if row["message_id"] == "a"), key=lambda row: row["called_at_us"])
    assert (seqs(first), seqs(again)) == ([1], [2])
    b = next(row for row in history if row["message_id"] == "b")
    assert (seqs(b), b["match_kind"], b["partition"]) == ([1, 2], "message_id", 0)
    assert b["landed"] == [{"topic": "orders", "partition": 0, "offset": 11, "seen_by": "consumer"}]
    assert (b["latency_us"], b["called_at_us"]) == (150_000, START_US)
    never = next(row for row in history if row["message_id"] == "never")
    assert (never["match_kind"], never["trouble"]) == ("none", "unsent")


def test_calls_of_one_id_that_were_open_at_once_have_what_belongs_to_each(
    build: Callable[[Story, Options], Tables],
) -> None:
    """Several records are made of one, with its headers: they go out together, to its topic and to another."""
    s = Story()
    s.produce(10, message_ids=["a"], topic="copies", base_offset=3)
    s.produce(20, message_ids=["a", "a"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.produce(40, message_ids=["a", "a"], base_offset=7)
    s.produce(45, message_ids=["a"], partition=1, base_offset=0)
    s.send(0, "a", offset=7, took_ms=60)
    s.send(1, "a", topic="copies", offset=3, took_ms=60)
    s.send(2, "a", offset=8, took_ms=60)
    s.send(3, "a", partition=1, offset=0, took_ms=60)
    s.poll(100, "a", 3, topic="copies")
    found = {(row["topic"], row["partition"], row["offset"]): row for row in rows(build(s, Options()).history)}
    told = {place: (seqs(row), [there["topic"] for there in row["landed"]]) for place, row in found.items()}
    assert told == {
        ("orders", 0, 7): ([2, 3], []),
        ("copies", 0, 3): ([1], ["copies"]),
        ("orders", 0, 8): ([2, 3], []),
        ("orders", 1, 0): ([2, 4], []),
    }


@pytest.mark.parametrize("by", ["reader", "log"])
def test_a_send_that_was_told_no_offset_is_found_where_its_record_is(
    build: Callable[[Story, Options], Tables], by: str
) -> None:
    """Kafka's verifiable producer tells neither a call's time nor the place of what it wasn't acknowledged."""
    s = Story()
    s.produce(1, record_count=2, base_offset=0)
    s.produce(5, record_count=2, base_offset=2, outcome="dropped", took_ms=None, fault=("eat", "drop_response"))
    s.produce(9, record_count=2, base_offset=4)
    for number in range(6):
        ends = {"outcome": "info", "took_ms": 900} if number in (2, 3) else {"offset": number, "took_ms": 8}
        s.send(0, f"m{number}", **ends)["called_at_us"] = None
        if by == "reader":
            s.poll(2000, f"m{number}", number)
    if by == "log":
        s.holds(*(f"m{number}" for number in range(6)))
    history = {row["message_id"]: row for row in rows(build(s, Options()).history) if row["operation"] == "send"}
    assert [seqs(history[f"m{number}"]) for number in range(6)] == [[1], [1], [2], [2], [3], [3]]
    assert {history[name]["match_kind"] for name in ("m2", "m3")} == {"offset"}
    assert history["m2"]["fault_names"] == ["eat"]


def test_the_nearest_run_is_looked_up_in_one_constant_however_many_there_are(spark: SparkSession) -> None:
    """A plan repeats the expression often: one of a hundred structures fills the memory."""
    times = [{"called_at_us": at, "run_id": None} for at in (0, 1600, 1800, 2999, 90_000)]
    told = table_of(
        spark,
        [*times, {"completed_at_us": 1, "run_id": "own"}],
        "struct<run_id:string,called_at_us:bigint,completed_at_us:bigint,returned_at_us:bigint>",
    )

    def found(runs: int) -> DataFrame:
        return told.select(run_of(tuple((f"r{n}", 1000 * n, 1000 * n + 500) for n in range(runs))).alias("run"))

    assert [row.run for row in found(5).collect()] == ["r0", "r1", "r2", "r3", "r4", "own"]
    nodes = [
        str(found(runs)._jdf.queryExecution().analyzed().expressions().head().numberedTreeString()).count("\n")
        for runs in (5, 500)
    ]
    assert nodes[0] == nodes[1]
