"""Both outcome formats, and what is neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.outcomes import bad_lines, read_outcomes, told_once

from .conftest import rows

pytestmark = pytest.mark.spark

PRODUCER = """\
{"timestamp":1700000000000,"name":"startup_complete"}
{"timestamp":1700000000100,"name":"producer_send_success","key":null,"value":"41","topic":"t","partition":2,"offset":7}
{"timestamp":1700000000200,"name":"producer_send_error","key":null,"value":"42","topic":"t","exception":"class org.apache.kafka.common.errors.TimeoutException","message":"expired"}
{"timestamp":1700000000300,"name":"shutdown_complete"}
{"timestamp":1700000000300,"name":"tool_data","sent":2,"acked":1,"target_throughput":-1,"avg_throughput":1.5}
"""  # noqa: E501
CONSUMER = """\
{"timestamp":1700000000000,"name":"partitions_assigned","partitions":[{"topic":"t","partition":2}]}
{"timestamp":1700000000150,"name":"records_consumed","count":3,"partitions":[{"topic":"t","partition":2,"count":3,"minOffset":5,"maxOffset":7}]}
{"timestamp":1700000000160,"name":"record_data","key":null,"value":"41","topic":"t","partition":2,"offset":7}
{"timestamp":1700000000170,"name":"offsets_committed","success":true,"offsets":[{"topic":"t","partition":2,"offset":8}]}
"""
OURS = [
    {"client": "c", "operation": "send", "message_id": "a", "topic": "t", "called_at_us": 1, "outcome": "pending"},
    {"client": "c", "operation": "send", "message_id": "a", "topic": "t", "called_at_us": 1, "completed_at_us": 9,
     "partition": 0, "offset": 3, "outcome": "ok"},
    {"client": "c", "operation": "Receive", "message_id": "a", "topic": "t", "partition": 0, "offset": 3,
     "completed_at_us": 20, "outcome": "OK", "thread": 12, "extra": {"ignored": True}},
]  # fmt: skip
BAD = ["not json", '{"operation": "send"}', '{"hello": 1}', '{"operation": "send", "outcome": "maybe"}',
       '{"operation": "send", "outcome": "ok", "offset": "seven"}', '{"name": "novel", "timestamp": 1}']  # fmt: skip


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("said")
    (folder / "producer.log").write_text(PRODUCER)
    (folder / "consumer.log").write_text(CONSUMER)
    (folder / "ours.jsonl").write_text("\n".join([*map(json.dumps, OURS), "", *BAD]))
    return rows(read_outcomes(spark, [str(folder)]))


def one(told: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    found = [row for row in told if all(row[name] == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def test_a_line_is_parsed_once(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "ours.jsonl").write_text("\n".join(map(json.dumps, OURS)))
    shown = "spark.sql.debug.maxToStringFields"
    before = spark.conf.get(shown)
    spark.conf.set(shown, "1000")
    try:
        plan = read_outcomes(spark, [str(tmp_path)])._jdf.queryExecution().optimizedPlan().toString()  # type: ignore[operator]
    finally:
        spark.conf.set(shown, before)
    assert plan.count("from_json(") == 1, plan


def test_verifiable_producer_lines(told: list[dict[str, Any]]) -> None:
    success = one(told, operation="send", message_id="41")
    assert (success["outcome"], success["partition"], success["offset"]) == ("ok", 2, 7)
    assert success["completed_at_us"] == 1700000000100000
    assert success["client"] == "producer"
    failure = one(told, operation="send", message_id="42")
    # It may have happened all the same.
    assert failure["outcome"] == "info"
    assert failure["error"] == "org.apache.kafka.common.errors.TimeoutException: expired"


def test_verifiable_consumer_lines(told: list[dict[str, Any]]) -> None:
    polled = one(told, operation="poll", client="consumer", message_id=None)
    assert (polled["offset"], polled["last_offset"], polled["record_count"]) == (5, 7, 3)
    assert one(told, operation="poll", client="consumer", message_id="41")["offset"] == 7
    assert one(told, operation="commit")["offset"] == 8


def test_what_a_verbose_consumer_tells_twice_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    """Kafka's prints each record, and then the poll as ranges; one that is not verbose prints the ranges alone."""
    for name in ("verbose", "terse"):
        lines = CONSUMER.splitlines()
        (tmp_path / f"{name}.log").write_text("\n".join(lines if name == "verbose" else [lines[0], lines[1], lines[3]]))
    (tmp_path / "ours.jsonl").write_text(json.dumps(OURS[2] | {"message_id": None, "called_at_us": 5}))
    polled = rows(told_once(read_outcomes(spark, [str(tmp_path)])).filter("operation = 'poll'"))
    assert {(row["client"], row["message_id"], row["record_count"]) for row in polled} == {
        ("verbose", "41", 1),
        ("terse", None, 3),
        ("c", None, 1),
    }


def test_our_lines_and_the_last_word_of_an_operation(told: list[dict[str, Any]]) -> None:
    sent = one(told, client="c", operation="send")
    assert (sent["outcome"], sent["offset"], sent["completed_at_us"]) == ("ok", 3, 9)
    read = one(told, client="c", operation="poll")
    assert (read["outcome"], read["thread"], read["record_count"]) == ("ok", "12", 1)


def test_bad_lines_are_kept_apart_and_lines_that_are_no_operation_are_not_bad(told: list[dict[str, Any]]) -> None:
    bad = [row for row in told if row["bad_reason"]]
    assert len(bad) == len(BAD)
    assert {row["source"] for row in bad} == {"ours.jsonl"}
    assert len(told) == 2 + 3 + 2 + len(BAD)


def test_lines_of_other_runs_are_left_out_where_runs_are_asked_for(spark: SparkSession, tmp_path: Path) -> None:
    lines = [OURS[1] | {"run_id": run, "message_id": str(run)} for run in ("A", "B", None)]
    (tmp_path / "a.jsonl").write_text("\n".join([*map(json.dumps, lines), BAD[0]]))
    found = rows(read_outcomes(spark, [str(tmp_path)], runs=["A"]))
    assert {row["message_id"] for row in found if not row["bad_reason"]} == {"A", "None"}
    assert len(found) == 3, "a bad line is told whatever it was to be"


def test_bad_lines_have_their_numbers_also_in_a_file_read_in_pieces(spark: SparkSession, tmp_path: Path) -> None:
    lines = [json.dumps(OURS[1])] * 4000
    lines[1] = BAD[0]
    lines[2777] = BAD[3]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text("\n".join(["", BAD[1]]))
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    try:
        found = bad_lines(spark, [str(tmp_path)])
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    assert [(Path(bad.file).name, bad.line) for bad in found] == [("a.jsonl", 2), ("a.jsonl", 2778), ("b.jsonl", 2)]
    assert found[0].text == "not json"
    assert found[1].reason == "unknown outcome maybe"


LONG_LINE = json.dumps({"operation": "send", "outcome": "ok", "error": "x" * 70_000, "offset": "7"})
UNREAD = {
    "not json": "not JSON",
    "[1]": "the line is an array, and should be an object",
    '{"operation": "send", "partition": "3", "offset": "7"}': "`partition` is a string, and should be an integer",
    '{"hello": {"offset": "7"}, "offset": 7.0}': "`offset` is a decimal number, and should be an integer",
    '{"called_at_us": true}': "`called_at_us` is a boolean, and should be an integer",
    '{"partition": 2147483648}': "`partition` is an integer of more than 32 bits",
    '{"offset": -9223372036854775809}': "`offset` is an integer of more than 64 bits",
    '{"name": "offsets_committed", "success": 1}': "`success` is an integer, and should be a boolean",
    '{"name": "records_consumed", "partitions": {}}': "`partitions` is an object, and should be an array",
    '{"name": "records_consumed", "partitions": [{"count": 1}, {"minOffset": "0"}]}': (
        "`partitions[1].minOffset` is a string, and should be an integer"
    ),
    '{"name": "offsets_committed", "offsets": [null, 5]}': "`offsets[1]` is an integer, and should be an object",
    LONG_LINE: "not a JSON object with fields of the right types",
}


def test_what_keeps_a_line_from_being_read_is_told_with_the_name_of_the_field(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = {**OURS[1], "client": 5, "error": {"code": 1}, "key_hash": None, "offset": 2**63 - 1, "partition": -(2**31)}
    (tmp_path / "ours.jsonl").write_text("\n".join([*UNREAD, json.dumps(good)]))
    found = bad_lines(spark, [str(tmp_path)])
    assert [bad.reason for bad in found] == list(UNREAD.values())
    assert [bad.text for bad in found] == [text[:200] for text in UNREAD]
    assert [bad.line for bad in found] == list(range(1, len(UNREAD) + 1))


def line(outcome: str, **told: Any) -> dict[str, Any]:
    """One line of a call that began at 5 µs."""
    return {"client": "c", "operation": "send", "topic": "t", "called_at_us": 5, "outcome": outcome, **told}


CALLS: dict[str, tuple[list[dict[str, Any]], list[tuple[str, str | None, int | None]]]] = {
    "without a message id": (
        [line("pending", partition=0), line("ok", partition=0, offset=7)],
        [("ok", "t", 0)],
    ),
    "a commit whose place is told at its end": (
        [line("pending", operation="commit"), line("ok", operation="commit", partition=0, offset=7)],
        [("ok", "t", 0)],
    ),
    "a transaction's begin": (
        [line("pending", operation="begin", topic=None), line("ok", operation="begin", topic=None)],
        [("ok", None, None)],
    ),
    "the id is told at the end": (
        [line("pending"), line("fail", message_id="a")],
        [("fail", "t", None)],
    ),
    "one of three in the same microsecond has no end": (
        [*[line("pending", partition=p) for p in range(3)], *[line("ok", partition=p, offset=7) for p in (0, 2)]],
        [("ok", "t", 0), ("ok", "t", 2), ("pending", "t", 1)],
    ),
    "one of three that nothing tells apart has no end": (
        [*[line("pending")] * 3, *[line("ok", partition=0, offset=o) for o in (7, 8)]],
        [("ok", "t", 0), ("ok", "t", 0), ("pending", "t", None)],
    ),
    "another topic": (
        [line("pending", topic="u"), line("ok", partition=0, offset=7)],
        [("ok", "t", 0), ("pending", "u", None)],
    ),
    "another message": (
        [line("pending", message_id="a"), line("ok", message_id="b", partition=0, offset=7)],
        [("ok", "t", 0), ("pending", "t", None)],
    ),
    "another message, beside the one that ended": (
        [line("pending", message_id="a"), line("pending", message_id="b"), line("ok", message_id="b", partition=0)],
        [("ok", "t", 0), ("pending", "t", None)],
    ),
    "another thread": (
        [line("pending", thread="main"), line("ok", partition=0, offset=7)],
        [("ok", "t", 0), ("pending", "t", None)],
    ),
    "nobody said when it was called, but which message": (
        [line(o, called_at_us=None, message_id="a", **at) for o, at in (("pending", {}), ("ok", {"partition": 0}))],
        [("ok", "t", 0)],
    ),
    "nobody said when it was called, nor which message": (
        [line("pending", called_at_us=None), line("ok", called_at_us=None, partition=0, offset=7)],
        [("ok", "t", 0), ("pending", "t", None)],
    ),
}


@pytest.mark.parametrize("called", CALLS)
def test_a_pending_line_counts_as_a_later_one_of_its_call(spark: SparkSession, tmp_path: Path, called: str) -> None:
    lines, expected = CALLS[called]
    for order in (lines, lines[::-1]):
        (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, order)))
        found = rows(read_outcomes(spark, [str(tmp_path)]))
        told = sorted(((row["outcome"], row["topic"], row["partition"]) for row in found), key=repr)
        assert told == sorted(expected, key=repr)
