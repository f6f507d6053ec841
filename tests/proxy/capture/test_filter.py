"""The filter language: what it accepts, and how precisely it says what it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.capture.fields import FIELDS
from notleader.proxy.capture.filter import FilterError, compile_filter, complete
from notleader.proxy.record.rows import COLUMNS

ROW: dict[str, Any] = {
    "event": "exchange",
    "client_id": "billing-1",
    "api_key": 0,
    "api_name": "Produce",
    "api_version": 9,
    "request_at_us": 1_772_366_400_000_000,  # 2026-03-01T12:00:00Z
    "response_at_us": 1_772_366_400_150_000,
    "forwarded_at_us": 1_772_366_400_001_000,
    "broker_responded_at_us": 1_772_366_400_003_500,
    "request_bytes": 3 << 10,
    "response_bytes": 100,
    "outcome": "altered",
    "error_code": 6,
    "fault_names": ["a", "b"],
    "acks": -1,
    "group_id": None,
    "partitions": [
        {"topic": "orders", "partition_index": 0, "error_code": 6, "record_count": 3, "message_ids": ["m1", None]},
        {"topic": "payments", "partition_index": 1, "error_code": 0, "record_count": 1, "message_ids": None},
    ],
}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "api == Produce",
        "api == 0",
        "api_name == produce",
        'api == Produce and topic == "orders" and error != 0 and latency_ms > 100',
        "error == NOT_LEADER_OR_FOLLOWER",
        "error == NOT_LEADER_FOR_PARTITION",
        "topic == payments and error == 0",
        "latency_ms == 150 && broker_ms == 2.5",
        "latency_ms >= 0.15s",
        "request_bytes >= 3KiB",
        "bytes > 3000",
        "topic in {refunds, orders}",
        "topic not in {refunds}",
        "node in (1, 2) or acks = -1",
        'client like "billing-*"',
        "client matches '^bill.*[0-9]$'",
        "client =~ lling",
        "client contains ill",
        "not client contains x",
        "!(client contains x)",
        "client !~ '^x'",
        "fault == b",
        "fault != c",
        "fault",
        "not group_id",
        "group_id == x or outcome == altered",
        "message_id == m1",
        "at >= 2026-03-01T12:00:00 and at < '2026-03-01 12:00:01'",
        "partition == 1 and topic == payments",
        "records ge 3",
    ],
)
def test_it_accepts(text: str) -> None:
    assert compile_filter(text)(ROW)


@pytest.mark.parametrize(
    "text",
    [
        "api == Fetch",
        "topic == payments and error != 0",
        "partition == 1 and topic == orders",
        "group_id != x",
        "group_id == x and (outcome == altered or api == Produce)",
        "fault != a",
        "not fault",
        "throttle_time_ms >= 0",
        "topic == refunds",
        "at < 2026-03-01T12:00:00Z",
    ],
)
def test_it_refuses(text: str) -> None:
    assert not compile_filter(text)(ROW)


def test_and_binds_tighter_than_or() -> None:
    assert compile_filter("api == Produce or api == Fetch and acks == 9")(ROW)
    assert not compile_filter("(api == Produce or api == Fetch) and acks == 9")(ROW)


def test_a_row_without_partitions_is_asked_by_itself() -> None:
    accepts = compile_filter("error == 0 and api == Heartbeat")
    assert accepts({"event": "exchange", "api_key": 12, "error_code": 0, "partitions": None})
    assert not compile_filter("topic == x")({"event": "connect", "partitions": None})
    assert not compile_filter("latency_ms >= 0")({"event": "gap", "request_at_us": 1, "response_at_us": 2})


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("topc == orders", "there is no field 'topc'; did you mean 'topic'?", "topc"),
        ("api == Produze", "Produce", "Produze"),
        ("error == NOT_LEDER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER", "NOT_LEDER_OR_FOLLOWER"),
        ("latency_ms > soon", "latency_ms is a number, not 'soon'", "soon"),
        ("latency_ms > 5 parsec", "'and' or 'or' expected here", "parsec"),
        ("latency_ms > 5parsecs", "latency_ms is a number, not '5parsecs'", "5parsecs"),
        ("topic == ", "text is missing here", " "),
        ("topic ==", "text is missing here", " "),
        ("(api == Fetch", "')' expected", " "),
        ("api == Fetch)", "no '(' before this ')'", ")"),
        ("api Fetch", "'Fetch' is no operator", "Fetch"),
        ("api contain x", "'contain' is no operator; did you mean 'contains'?", "contain"),
        ("client == 'x", "this text has no closing quote", "'x"),
        ("client matches '('", "no regular expression", "'('"),
        ("latency_ms contains 5", "latency_ms is a number: 'contains' is for text", "contains"),
        ("api > 3", "api has no order", ">"),
        ("topic in orders", "'{' expected", "orders"),
        ("topic in {a b}", "',' or '}' expected", "b"),
        ("at > yesterday", "at is a time such as", "yesterday"),
        ("api == Fetch and", "a field is missing here", " "),
        ("== 5", "a field expected", "=="),
        ("api == Fetch ; topic", "';' means nothing here", ";"),
        ("topic 'x'", "an operator is missing", "'x'"),
        (50 * "(" + "api" + 50 * ")", "50 brackets or 'not' within each other are the most", "api"),
        (1000 * "not " + "api", "within each other are the most", "not"),
        (5000 * "(", "within each other are the most", "("),
    ],
)
def test_an_error_names_the_spot(text: str, message: str, marked: str) -> None:
    with pytest.raises(FilterError) as raised:
        compile_filter(text)
    error = raised.value
    assert message in error.message
    assert f"{text} "[error.start : error.end] == marked
    shown = error.lines()
    assert shown[2].index("^") == shown[1].index(text) + error.start


def test_brackets_within_each_other_are_taken_up_to_a_bound() -> None:
    assert compile_filter(49 * "(" + "api == Produce" + 49 * ")")(ROW)


def test_completion_knows_fields_operators_and_values() -> None:
    assert "topic" in complete("to")
    assert complete("api == Prod") == ["api == Produce"]
    assert "error == NOT_LEADER_OR_FOLLOWER" in complete("error == NOT_L")
    assert complete("client cont") == ["client contains"]
    assert "api == Fetch and topic" in complete("api == Fetch and to")
    assert complete("api == Fetch a") == ["api == Fetch and"]


@pytest.mark.parametrize("pattern", ["(a|a|a|a)*!", "(a+)+$!", "(.*a){20}!"])
def test_no_pattern_of_a_stranger_holds_the_proxy(pattern: str) -> None:
    """Python's own regular expressions would take longer for any of these than the universe is old."""
    accepts = compile_filter(f"client matches '{pattern}'")
    assert not accepts({**ROW, "client_id": "a" * 10_000})
    assert accepts({**ROW, "client_id": "a" * 30 + "!"}) == (pattern != "(a+)+$!")


def test_a_name_that_is_not_utf8_can_be_matched() -> None:
    accepts = compile_filter("client matches 'b.ll'")
    assert accepts({**ROW, "client_id": "\udcffbill"})


def test_look_around_is_refused_with_the_reason() -> None:
    with pytest.raises(FilterError, match="no regular expression: invalid perl operator"):
        compile_filter("client matches '(?=x)'")


def test_the_columns_that_are_no_fields_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[3] / "docs/capture.md").read_text()
    (told,) = re.findall(r"Fields: every column of the row but (.*?), every\s", page)
    left_out = {name for name in COLUMNS if name not in FIELDS}
    assert left_out == {"effects", "partitions", "request_frame", "response_frame"}
    assert told == "`effects`, `partitions` and frames"
