from __future__ import annotations

from dataclasses import replace

from notleader.proxy.lab.explore.judging import Learned, judge, said
from tests.proxy.lab.explore.script import ended

TELLS = Learned.of([ended("a", "b", ok="a b"), ended("b", "a", ok="a b")])
SILENT = Learned.of([ended("a", "b"), ended("a", "b")])


def kinds(*arguments: object, **options: object) -> list[str]:
    return [verdict.kind for verdict in judge(*arguments, **options)]  # type: ignore[arg-type]


def test_what_runs_without_faults_agree_in_is_learned() -> None:
    assert TELLS.tells_ids
    assert TELLS.unique
    assert not SILENT.tells_ids
    assert SILENT.always == {("{topic}", "a"), ("{topic}", "b")}
    assert not Learned.of([ended("a"), ended("b")]).always
    assert not Learned.of([ended("a", "a"), ended("a", "a")]).unique


def test_a_run_that_ends_well_has_no_verdict() -> None:
    assert kinds(ended("a", "b", ok="a b"), TELLS) == []


def test_hang_and_exit_code() -> None:
    assert kinds(ended("a", "b", code=None, ok="a b"), TELLS) == ["hang"]
    assert kinds(ended("a", "b", code=3, ok="a b"), TELLS) == ["exit"]
    assert kinds(ended("a", "b", code=3, ok="a b"), TELLS, fatal=True) == []


def test_acknowledged_and_not_in_the_log_is_lost() -> None:
    (verdict,) = judge(ended("a", ok="a b"), TELLS)
    assert verdict.kind == "lost"
    assert "'b'" in verdict.sentence


def test_reported_as_failed_is_not_lost() -> None:
    assert kinds(ended("a", ok="a", failed="b"), TELLS) == []


def test_without_outcome_lines_what_a_good_end_leaves_out_is_missing() -> None:
    assert kinds(ended("a"), SILENT) == ["missing"]
    assert kinds(ended("a", code=1), SILENT) == ["exit"]


def test_twice_in_the_log_is_a_duplicate_where_ids_are_unique() -> None:
    assert kinds(ended("a", "b", "b", ok="a b"), TELLS) == ["duplicate"]
    assert kinds(ended("a", "b", "b", ok="a b"), TELLS, allow={"duplicate"}) == []
    assert kinds(ended("a", "a", "a"), Learned.of([ended("a", "a"), ended("a", "a")])) == []


def test_an_acknowledged_record_of_an_aborted_transaction_is_not_lost() -> None:
    aborted = replace(ended("a", ok="a b"), written=frozenset("ab"))
    assert kinds(aborted, TELLS) == []


def test_the_check_of_the_user_counts() -> None:
    assert kinds(replace(ended("a", "b", ok="a b"), check=(1, "3 orders left")), TELLS) == ["check"]


def test_outcome_lines_of_both_forms_and_nothing_else() -> None:
    found = said(
        [
            "starting",
            '{"name": "producer_send_success", "value": "1", "offset": 4}',
            '{"name": "producer_send_error", "value": "2"}',
            '{"operation": "send", "message_id": "3", "outcome": "pending"}',
            '{"operation": "send", "message_id": "3", "outcome": "ok"}',
            '{"operation": "poll", "message_id": "4", "outcome": "ok"}',
            '{"torn',
        ]
    )
    assert found.acknowledged == {"1", "3"}
    assert found.failed == {"2"}
