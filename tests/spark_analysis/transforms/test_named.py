"""Ids for sends of clients that are told where a record lies and not which one it was (before KIP-512)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from notleader.spark_analysis.checks.base import Tables
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story

pytestmark = pytest.mark.spark

LOST_ANSWER = {"rule": "lose", "kind": "drop_response", "did": "swallowed_answer", "error_code": 0}
TOO_LARGE = {"rule": "big", "kind": "error", "did": "answered", "error_code": 10}


def effect(of: dict[str, object]) -> dict[str, object]:
    return {**of, "partitions": [0], "held_us": None, "offsets_before": None}


def story(*extra: float) -> Story:
    """Two records appended, the first of them twice, as its answer was swallowed; two refused, of which one by a rule.

    What no outcome line is of went out at each of `extra`.
    """
    s = Story()
    twice = {"message_ids": ["a"], "base_offset": 0}
    lost = {"effects": [effect(LOST_ANSWER)], "fault": ("lose", "drop_response"), "outcome": "dropped"}
    s.produce(10, took_ms=None, **lost, **twice)
    s.produce(2_000, message_ids=["a", "b"], base_offset=1)
    big = {"error_code": 10, "effects": [effect(TOO_LARGE)], "fault": ("big", "error"), "outcome": "injected"}
    s.produce(3_000, message_ids=["c"], **big)
    s.produce(3_100, message_ids=["d"], error_code=87)
    for at_ms in extra:
        s.produce(at_ms, message_ids=[f"x{at_ms}"], error_code=87)
    told = {"client_id": "app", "called_at_us": None, "returned_at_us": None}
    for at_ms, offset in ((2_000, 1), (2_000, 2)):
        s.send(at_ms, None, offset=offset, **told)
    s.send(3_000, None, outcome="fail", error="RecordTooLargeException", **told)
    s.send(3_100, None, outcome="fail", error="InvalidRecordException", **told)
    s.holds("a", "a", "b")
    return s


def by_check(findings: list[Finding], name: str) -> list[tuple[int, str]]:
    return sorted((f.group.cases, f.group.rule or "") for f in findings if f.check == name and f.group)


def test_a_send_is_found_by_its_place_and_one_that_failed_by_exclusion(
    analyse: Callable[..., tuple[Tables, list[Finding]]],
) -> None:
    _, findings = analyse(story(), Options())
    assert by_check(findings, "duplicate") == [(1, "lose")]
    assert by_check(findings, "retried") == [(1, "lose")]
    assert by_check(findings, "failed") == [(1, ""), (1, "big")]
    assert not any("have no message id" in f.sentence for f in findings)


def test_what_could_be_of_several_is_of_nobody_and_no_rule_is_cleared(
    analyse: Callable[..., tuple[Tables, list[Finding]]],
) -> None:
    tables, findings = analyse(story(3_050), Options())
    assert by_check(findings, "duplicate") == [(1, "lose")]
    failed = [f for f in findings if f.check == "failed"]
    assert [f.group.trouble for f in failed if f.group] == ["unseen"]
    assert tables.outcomes.unnamed_sends == 2


def told_by_place_alone(**log: object) -> Story:
    """At level partition: of two records one is in the log twice, and another lies there where the client was told."""
    s = Story()
    s.produce(10, took_ms=None, outcome="dropped", effects=[effect(LOST_ANSWER)], fault=("lose", "drop_response"))
    s.produce(2_000, base_offset=1)
    told = {"client_id": "app", "called_at_us": None, "returned_at_us": None}
    s.send(2_000, None, offset=1, **told)
    s.holds("a", "a", **log)
    return s


def test_the_log_tells_what_lies_at_a_place(analyse: Callable[..., tuple[Tables, list[Finding]]]) -> None:
    _, findings = analyse(told_by_place_alone(written_ms=(9, 9)), Options())
    assert [f.group.cases for f in findings if f.check == "duplicate" and f.group] == [1]


def test_what_was_appended_at_a_place_later_is_not_what_its_client_was_told_of(
    analyse: Callable[..., tuple[Tables, list[Finding]]],
) -> None:
    tables, findings = analyse(told_by_place_alone(written_ms=(9, 60_000)), Options())
    assert tables.outcomes.unnamed_sends == 1
    assert not [f for f in findings if f.check == "duplicate" and f.group]
