from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from notleader.proxy.lab.explore.judging import (
    Ended,
    Learned,
    before_all_fetched,
    commits_behind,
    gave_up,
    judge,
    said,
)
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
    assert kinds(replace(ended("a", "b", ok="a b"), check="3 orders left"), TELLS) == ["check"]


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


def poll(offset: int, topic: str = "try-7", **more: object) -> str:
    line = {"operation": "poll", "topic": topic, "partition": 0, "offset": offset, "outcome": "ok", **more}
    return json.dumps(line)


def commit(offset: int, outcome: str = "ok", group: str = "g") -> str:
    line = {"operation": "commit", "group_id": group, "topic": "t", "partition": 0, "offset": offset}
    return json.dumps(line | {"outcome": outcome})


def read(*lines: str, code: int | None = 0) -> Ended:
    return replace(ended(code=code), said=said(lines, "try-7"))


READS = Learned.of([read(poll(0), poll(1)), read(poll(0), poll(1))])


def test_a_record_that_is_got_without_faults_and_not_with_them_is_skipped() -> None:
    assert kinds(read(poll(0), poll(1)), READS) == []
    (verdict,) = judge(read(poll(1)), READS)
    assert verdict.kind == "skipped"
    assert "{topic}-0@0" in verdict.sentence
    assert kinds(read(poll(1), code=1), READS) == ["exit"], "who gives up gets no more"


def test_a_record_is_known_by_its_id_where_it_has_one() -> None:
    learned = Learned.of([read(poll(0, message_id="a")), read(poll(5, message_id="a"))])
    assert learned.gets == {"a"}
    assert kinds(read(poll(9, message_id="a")), learned) == []


def test_a_record_that_is_got_again_is_told_unless_it_is_without_faults_too() -> None:
    assert kinds(read(poll(0), poll(1), poll(0)), READS) == ["read-twice"]
    assert kinds(read(poll(0), poll(1), poll(0)), READS, allow={"read-twice"}) == []
    twice = Learned.of([read(poll(0), poll(0)), read(poll(0))])
    assert kinds(read(poll(0), poll(0)), twice) == []


def test_a_commit_behind_an_earlier_one_of_its_group_goes_back() -> None:
    plain = Learned.of([read(commit(3), commit(5))] * 2)
    (verdict,) = judge(read(commit(3), commit(5), commit(4)), plain)
    assert verdict.kind == "backwards"
    assert verdict.sentence == "group g committed 4 of t-0 after 5"
    assert kinds(read(commit(5), commit(4, "fail")), plain) == [], "what failed is nowhere"
    assert kinds(read(commit(5), commit(4, group="h")), plain) == []
    assert kinds(read(commit(5), commit(4)), Learned.of([read(commit(5), commit(4))] * 2)) == []


def exchange(
    api: str, asked: int, answered: int | None, offset: int, *, connection: int = 1, error: int = 0
) -> dict[str, Any]:
    part = {"topic": "t", "partition_index": 0, "base_offset": offset, "error_code": error}
    return {
        "api_name": api,
        "connection_id": connection,
        "exchange_seq": asked,
        "request_at_us": asked,
        "broker_responded_at_us": answered,
        "error_code": 0,
        "group_id": "g" if api == "OffsetCommit" else None,
        "partitions": [part],
    }


def test_a_commit_goes_back_by_what_the_broker_took() -> None:
    behind = commits_behind([exchange("OffsetCommit", 1, 2, 5), exchange("OffsetCommit", 3, 4, 4, connection=2)])
    assert behind == ("group g committed 4 of t-0 after 5",)
    plain = Learned.of([read(commit(3))] * 2)
    assert [each.kind for each in judge(replace(read(commit(3)), went_back=behind), plain)] == ["backwards"]
    assert Learned.of([replace(read(commit(3)), went_back=behind)]).goes_back == behind[0]
    one_behind_the_other = [exchange("OffsetCommit", 1, 9, 5), exchange("OffsetCommit", 2, 9, 4)]
    assert commits_behind(one_behind_the_other), "a connection's requests are carried out in their order"


def test_what_more_messages_do_without_faults_fewer_may_do_as_well() -> None:
    longer = replace(TELLS, unique=False, goes_back="group g committed 4 of t-0 after 5", always=frozenset())
    few = TELLS.within(longer)
    assert (few.unique, few.goes_back, few.always, few.tells_ids) == (False, longer.goes_back, frozenset(), True)
    assert TELLS.within(TELLS) == TELLS


@pytest.mark.parametrize(
    "rows",
    [
        [exchange("OffsetCommit", 1, 2, 5, error=16), exchange("OffsetCommit", 3, 4, 4)],
        [exchange("OffsetCommit", 1, None, 5), exchange("OffsetCommit", 3, 4, 4)],
        [exchange("OffsetCommit", 1, 4, 5), exchange("OffsetCommit", 3, 5, 4, connection=2)],
        [exchange("OffsetCommit", 1, 2, 5), exchange("Fetch", 3, 4, 9, error=1), exchange("OffsetCommit", 5, 6, 0)],
    ],
    ids=["refused", "never answered", "at the same time", "told that it is out of range"],
)
def test_a_commit_that_may_go_back_is_none(rows: list[dict[str, Any]]) -> None:
    assert commits_behind(rows) == ()


def test_verifiable_consumers_lines_are_read() -> None:
    got = '{"name": "record_data", "topic": "t", "partition": 1, "offset": 7}'
    made = '{"name": "offsets_committed", "success": true, "offsets": [{"topic": "t", "partition": 1, "offset": %d}]}'
    reported = said([got, made % 8, made % 3])
    assert reported.got == {"t-1@7": 1}
    assert reported.went_back == ("group ? committed 3 of t-1 after 8",)


def test_lines_that_are_no_outcomes_are_passed_over() -> None:
    odd = [
        '{"operation": "commit", "outcome": "ok", "offset": "x"}',
        '{"name": "offsets_committed", "success": true, "offsets": 3}',
        "{",
    ]
    assert said(odd) == said([])


def send(name: str, at_ms: int, outcome: str) -> str:
    return json.dumps({"operation": "send", "message_id": name, "called_at_us": at_ms * 1000, "outcome": outcome})


def sent(*lines: str, until_ms: int | None = 50, code: int | None = 0) -> Ended:
    reported = said(lines)
    names = reported.acknowledged
    until_us = None if until_ms is None else until_ms * 1000
    return replace(ended(*names, code=code), said=reported, struck_until_us=until_us)


SENDS = Learned.of([sent(send("a", 1, "pending"), send("a", 1, "ok"), until_ms=None)] * 2)


def test_a_send_that_never_came_back_is_unanswered_though_the_command_ended_well() -> None:
    open_ = sent(send("a", 1, "ok"), send("b", 2, "pending"))
    assert kinds(open_, SENDS) == ["unanswered"]
    assert kinds(replace(open_, code=1), SENDS) == ["exit"]
    assert kinds(open_, Learned.of([open_] * 2)) == [], "it is so without faults, too"


def test_who_fails_for_ever_after_the_last_fault_is_stuck() -> None:
    failing = [send(f"m{number}", 100 + 300 * number, "fail") for number in range(6)]
    assert kinds(sent(send("a", 1, "ok"), *failing), SENDS) == ["stuck"]
    assert kinds(sent(send("a", 1, "ok"), *failing, send("z", 2000, "ok")), SENDS) == []
    assert kinds(sent(*failing, until_ms=1000), SENDS) == [], "most of them met the fault"
    assert kinds(sent(*failing[:4]), SENDS) == [], "a few may be within its backoff"
    assert kinds(sent(*failing, until_ms=None), SENDS) == []


def test_what_was_told_committed_and_is_not_there_for_readers_is_missing() -> None:
    def ran(*outcomes: str, log: str = "a b") -> Ended:
        lines = [json.dumps({"operation": "commit_transaction", "outcome": outcome}) for outcome in outcomes]
        reported = said([*lines, send("a", 1, "ok")])
        return replace(ended(*log.split()), said=reported, written=frozenset("ab"))

    learned = Learned.of([ran("ok", "ok"), ran("pending", "ok")])
    assert learned.tells_ids
    assert kinds(ran("pending", "ok", log="a"), learned) == ["missing"]
    assert kinds(ran("pending", "fail", "ok", log="a"), learned) == [], "that one of them failed was told"
    assert kinds(ran("pending", log="a"), learned) == ["unanswered"], "whether it is committed was never told"


def test_who_tells_that_it_gave_up_may_before_it_began_or_when_it_has_tried_for_long() -> None:
    failed = ended("a", code=1)
    assert gave_up(failed, [1], stands=False) == "", "once is no reason"
    assert gave_up(failed, [2], stands=False) == ""
    assert gave_up(failed, [1, 3], stands=False) == "gave up after 3 tries, and said so: code 1"
    assert gave_up(failed, [1], stands=True).startswith("gave up while the fault stood")
    assert gave_up(replace(failed, began=False), [1], stands=False) == "did not start, and said so: code 1"
    assert gave_up(ended("a", code=None), [9], stands=True) == "", "a hang tells nobody"
    assert gave_up(ended("a"), [9], stands=True) == ""


def test_stuck_says_what_callers_are_told_ever_after() -> None:
    lines = [
        json.dumps({**json.loads(send(f"m{n}", 100 + 300 * n, "fail")), "error": f"Fenced: t-{n} of 7"})
        for n in range(6)
    ]
    stuck = sent(send("a", 1, "ok"), *lines)
    (verdict,) = judge(stuck, SENDS)
    assert verdict.told == "Fenced: t-# of #"


def fetched(offset: int, count: int, topic: str | None = "t", partition: int = 0) -> dict[str, Any]:
    part = {"topic": topic, "partition_index": partition, "base_offset": offset, "record_count": count}
    return {"api_name": "Fetch", "partitions": [part]}


def test_what_lies_before_all_that_was_fetched_was_passed_over_at_the_start() -> None:
    log = [{"topic": "t", "partition": at % 2, "offset": at // 2, "message_id": f"m{at}"} for at in range(6)]
    assert before_all_fetched([fetched(1, 2), fetched(0, 0), fetched(0, 3, partition=1)], log) == {"m0"}
    assert before_all_fetched([], log) == {f"m{at}" for at in range(6)}
    assert before_all_fetched([fetched(2, 1, topic=None)], log) == frozenset()


@pytest.mark.parametrize(("not_fetched", "told"), [("ab", True), ("a", False)])
def test_a_reader_that_began_behind_what_it_did_not_get_is_told_so(not_fetched: str, told: bool) -> None:
    plain = Learned.of([read(*(poll(0, message_id=name) for name in "abc"))] * 2)
    (verdict,) = judge(replace(read(poll(2, message_id="c")), not_fetched=frozenset(not_fetched)), plain)
    assert (verdict.kind, bool(verdict.told)) == ("skipped", told)
    assert verdict.sentence.endswith("from behind them on") == told
