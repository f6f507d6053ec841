"""Each check against planted positives and negatives: every story is a run of its own, all judged in one analysis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from notleader.spark_analysis.checks import Check, Group, Tables, all_checks
from notleader.spark_analysis.checks.base import REGISTRY
from notleader.spark_analysis.checks.failed import Failed
from notleader.spark_analysis.findings import Finding, cases, find, look, suspected
from notleader.spark_analysis.options import Options

from .synthetic import PARTITION, START_US, Story

pytestmark = pytest.mark.spark

STORIES: dict[str, Callable[[Story], None]] = {}


def story(tell: Callable[[Story], None]) -> Callable[[Story], None]:
    """Register a story under its function's name, which is also its run and its client."""
    STORIES[tell.__name__] = tell
    return tell


def acked(s: Story, at_ms: float, message: str, offset: int, *, read: bool = True, **given: object) -> None:
    """A send that was acknowledged at `offset` after one clean attempt, and read."""
    s.produce(at_ms + 0.2, message_ids=[message], base_offset=offset)
    s.send(at_ms, message, offset=offset, **given)
    if read:
        s.poll(at_ms + 50, message, offset)


def by_rule(rule: str, kind: str, did: str, phase: str = "before_broker") -> dict[str, Any]:
    """What a rule did to an exchange that has these columns."""
    effect = {"rule": rule, "kind": kind, "did": did, "error_code": None, "partitions": None}
    return {"fault": (rule, kind), "fault_phase": phase, "effects": [effect]}


@story
def clean(s: Story) -> None:
    for number in range(5):
        acked(s, 10 * number, f"m{number}", number)


@story
def hanging(s: Story) -> None:
    s.send(0, "m0", took_ms=None, partition=None)
    s.produce(0.2, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose", "error"))
    acked(s, 9000, "m1", 0)


@story
def called_nobody_knows_when(s: Story) -> None:
    s.send(0, None, took_ms=None, partition=None, called_at_us=None, returned_at_us=None)
    acked(s, 9000, "m1", 0)


@story
def told_twice(s: Story) -> None:
    s.send(0, "m0", took_ms=None)
    acked(s, 0, "m0", 0)


@story
def lost_for_another(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 10, "m1", 1, read=False)
    s.poll(60, "other", 1)
    acked(s, 20, "m2", 2)


@story
def lost_without_trace(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 10, "m1", 1, read=False)
    acked(s, 20, "m2", 2)


@story
def not_read_yet(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 10, "m1", 1, read=False)


@story
def middle_read_by_nobody_told(s: Story) -> None:
    # One consumer read the beginning, another only the end: the middle was not lost, just not watched.
    acked(s, 0, "m0", 0)
    acked(s, 10, "m1", 1, read=False)
    s.poll(900, "m9", 9, client="middle_read_by_nobody_told-late")


@story
def lost_in_transaction(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.produce(10, message_ids=["m1"], base_offset=1, transactional_id="tx")
    s.send(10, "m1", offset=1)
    acked(s, 20, "m2", 3)


@story
def acknowledged_in_the_brokers_place(s: Story) -> None:
    said = {"rule": "lie", "kind": "error", "did": "answered", "error_code": 0, "partitions": None}
    s.produce(0, message_ids=["m0"], outcome="injected", forwarded_at_us=None, fault=("lie", "error"), effects=[said])
    s.send(0, "m0")
    acked(s, 20, "m1", 0)


@story
def acks_0_swallowed(s: Story) -> None:
    s.produce(0, message_ids=["m0"], outcome="dropped", took_ms=None, acks=0, fault=("eat", "drop_request"))
    s.send(0, "m0")
    acked(s, 20, "m1", 0)


@story
def acks_0_cut_on_the_way(s: Story) -> None:
    s.produce(0, message_ids=["m0"], outcome="closed", took_ms=None, acks=0, **by_rule("cut", "close", "cut"))
    s.send(0, "m0")
    acked(s, 20, "m1", 0)


@story
def acks_0_and_nobody_read(s: Story) -> None:
    # One went out as it was, one was only held, one the proxy never saw: nothing says that they came, or did not.
    held = {"rule": "slow", "kind": "delay", "did": "held_request", "error_code": None, "partitions": None}
    without: dict[str, Any] = {"outcome": "no_response", "took_ms": None, "acks": 0}
    s.produce(0.2, message_ids=["m0"], **without)
    s.produce(10.2, message_ids=["m1"], **without, fault=("slow", "delay"), effects=[held])
    for number in range(3):
        s.send(10 * number, f"m{number}")


@story
def swallowed_once_and_nobody_read(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None, fault=("eat", "drop_request"))
    acked(s, 100, "m0", 0, read=False)


@story
def acknowledged_past_the_proxy(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="injected", error_code=10, fault=("too-large", "error"))
    s.send(0, "m0", outcome="fail", error="MessageSizeTooLarge")
    s.send(100, "m1", offset=0)
    s.poll(200, "m1", 0)


@story
def the_second_copy_was_acknowledged(s: Story) -> None:
    s.produce(
        0, message_ids=["m0"], outcome="dropped", took_ms=None, **by_rule("eat", "drop_response", "swallowed_answer")
    )
    s.poll(40, "m0", 0)
    acked(s, 10, "m1", 1)
    s.produce(30, message_ids=["m0"], base_offset=2)
    s.send(0, "m0", offset=2, took_ms=40)
    s.poll(80, "m0", 2)


@story
def aborted_and_passed_over(s: Story) -> None:
    place = {**dict.fromkeys(f.name for f in PARTITION), "topic": "orders", "partition_index": 0, "error_code": 0}
    s.exchange(35, "Fetch", partitions=[{**place, "base_offset": 0, "message_ids": ["m0", "m1", "m2"]}])
    acked(s, 0, "m0", 0)
    s.produce(10, message_ids=["m1"], base_offset=1, transactional_id="tx")
    s.send(10, "m1", offset=1)
    acked(s, 20, "m2", 2)


@story
def doubled(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None, base_offset=0, fault=("eat", "drop_response"))
    s.poll(40, "m0", 0)
    acked(s, 0, "m0", 1, took_ms=100)


@story
def doubled_by_the_broker_s_word(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], base_offset=0)
    s.produce(5, message_ids=["m0"], base_offset=1)
    s.send(0, "m0", offset=1)


@story
def doubled_and_read_in_part(s: Story) -> None:
    """Who read got the first copy, and had not come to the second."""
    s.produce(0.2, message_ids=["m0"], base_offset=0)
    s.produce(5, message_ids=["m0"], base_offset=1)
    s.send(0, "m0", offset=1)
    s.poll(40, "m0", 0)


@story
def doubled_and_read_without_ids(s: Story) -> None:
    """Who read got both copies, and the records have no headers that would name them."""
    s.produce(0.2, message_ids=["m0"], base_offset=0)
    s.produce(5, message_ids=["m0"], base_offset=1)
    s.send(0, "m0", offset=1)
    s.poll(40, None, 0)
    s.poll(41, None, 1)


@story
def appended_twice_and_one_cut_off(s: Story) -> None:
    """A leader without its followers appended it; the next one appended it elsewhere, and cut the first copy off."""
    s.produce(0.2, message_ids=["m0"], base_offset=2)
    s.produce(5, message_ids=["m0"], base_offset=1)
    s.send(0, "m0", offset=1)
    acked(s, 20, "m1", 2, read=False)
    s.poll(40, "m0", 1)
    s.poll(41, "m1", 2)
    # This one read elsewhere.
    s.poll(60, "m9", 9, client="appended_twice_and_one_cut_off-late")


@story
def appended_twice_without_a_name(s: Story) -> None:
    batch = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    s.produce(0.2, base_offset=2, **batch)
    s.produce(5, base_offset=1, **batch)
    s.send(0, None, offset=1, took_ms=10)
    s.poll(40, None, 1)


@story
def sent_again_after_an_abort(s: Story) -> None:
    # A reader of everything got the aborted copy too; without the log nobody says which transaction was aborted.
    for at_ms, offset in ((0, 0), (20, 2)):
        s.produce(at_ms + 0.2, message_ids=["m0"], base_offset=offset, transactional_id="tx")
        s.send(at_ms, "m0", **({"offset": offset} if offset else {"outcome": "info"}))
        s.poll(at_ms + 50, "m0", offset)


@story
def sent_again_in_the_next_transaction(s: Story) -> None:
    for at_ms, offset in ((0, 0), (20, 2)):
        s.produce(at_ms + 0.2, message_ids=["m0"], base_offset=offset, transactional_id="tx")
        s.send(at_ms, "m0", offset=offset)
        s.poll(at_ms + 50, "m0", offset)


@story
def read_twice(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.poll(500, "m0", 0)


@story
def out_of_order(s: Story) -> None:
    acked(s, 0, "m0", 1, took_ms=300)
    acked(s, 10, "m1", 0)


@story
def out_of_order_over_a_new_connection(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="no_response", took_ms=None)
    for number in (1, 0):
        s.produce(50 - 10 * number, message_ids=[f"m{number}"], base_offset=1 - number, connection_id=2)
        s.send(10 * number, f"m{number}", offset=1 - number, took_ms=60)
        s.poll(200 - number, f"m{number}", 1 - number)


@story
def two_processes_with_one_file(s: Story) -> None:
    # Each in its own order: 0, 3 and 1, 2.
    for number, (offset, connection) in enumerate(((1, 1), (0, 2), (2, 2), (3, 1))):
        s.produce(20 - 5 * number if number < 2 else 10 * number, message_ids=[f"m{number}"], base_offset=offset,
                  connection_id=connection)  # fmt: skip
        s.send(10 * number, f"m{number}", offset=offset, took_ms=30)
        s.poll(200 + offset, f"m{number}", offset)


@story
def one_of_two_processes_out_of_order(s: Story) -> None:
    # The other's lies even further behind.
    for number, (offset, connection) in enumerate(((1, 1), (2, 2), (0, 1))):
        s.produce(20 + number, message_ids=[f"m{number}"], base_offset=offset, connection_id=connection)
        s.send(5 * number, f"m{number}", offset=offset, took_ms=30)
        s.poll(200 + offset, f"m{number}", offset)


def with_a_clock_that_was_set_back(s: Story, offsets: tuple[int, ...], on_wire: tuple[int, ...]) -> None:
    """Four sends, a tenth of a second apart; before the last two the client's clock is set back by 250 ms."""
    for number, (offset, at) in enumerate(zip(offsets, on_wire, strict=True)):
        s.produce(100 * at + 0.2, message_ids=[f"m{number}"], base_offset=offset)
        s.send(100 * number - (250 if number > 1 else 0), f"m{number}", offset=offset)
        s.poll(500 + offset, f"m{number}", offset)


@story
def clock_set_back(s: Story) -> None:
    with_a_clock_that_was_set_back(s, (0, 1, 2, 3), (0, 1, 2, 3))


@story
def clock_set_back_and_out_of_order(s: Story) -> None:
    # By any clock the last two were called, and sent, one after the other.
    with_a_clock_that_was_set_back(s, (0, 1, 3, 2), (0, 1, 2, 3))


@story
def same_moment(s: Story) -> None:
    acked(s, 0, "m0", 1)
    acked(s, 0, "m1", 0)


@story
def coroutines_of_one_thread(s: Story) -> None:
    acked(s, 0, "m0", 1, took_ms=300, blocked_ms=20)
    acked(s, 10, "m1", 0, blocked_ms=15)


@story
def two_threads(s: Story) -> None:
    acked(s, 0, "m0", 1, thread="a")
    acked(s, 10, "m1", 0, thread="b")


@story
def ghost(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None)
    s.send(0, "m0", outcome="fail", error="timed out")
    s.poll(900, "m0", 0)


@story
def ghost_by_the_broker_s_word(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None, base_offset=4)
    s.send(0, "m0", outcome="fail", error="timed out")


@story
def doubled_by_two_calls(s: Story) -> None:
    # The application sends m0 again: the clean call carried the copy, the swallowed answer is why there is one.
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None, base_offset=0, fault=("eat", "drop_response"))
    s.send(0, "m0", outcome="fail", took_ms=50, error="timed out")
    s.poll(90, "m0", 0)
    acked(s, 100, "m0", 1)


@story
def sent_by_two_producers(s: Story) -> None:
    # Each numbers its messages from 0, and nobody but their files tells them apart.
    for number, at_ms in enumerate((0, 100)):
        s.send(at_ms, "m0", offset=number, client=f"{s.client}-reader" if number else s.client)
        s.poll(200 + number, "m0", number)


@story
def sent_twice_and_copied(s: Story) -> None:
    for number, at_ms in enumerate((0, 100, 60)):
        s.produce(at_ms + 0.2, message_ids=["m0"], base_offset=number)
        s.poll(200 + number, "m0", number)
        if at_ms != 60:
            s.send(at_ms, "m0", offset=number, took_ms=70)


@story
def sent_to_two_topics(s: Story) -> None:
    for number, topic in enumerate(("orders", "orders", "bills")):
        s.poll(200 + number, "m0", number, topic=topic)
    s.send(0, "m0", offset=0)
    s.send(100, "m0", topic="bills", offset=2)


@story
def read_by_two_groups(s: Story) -> None:
    for number in range(400):
        acked(s, number, f"m{number}", number)
        s.poll(500 + number, f"m{number}", number, client="read_by_two_groups-late", group_id="late")


@story
def two_short_searches(s: Story) -> None:
    for at in (0, 6000):
        s.produce(at, error_code=6, outcome="answered", node_id=3)
        s.produce(at + 100, error_code=0, outcome="answered", node_id=3)


@story
def one_of_two_in_a_fetch_session(s: Story) -> None:
    """The answer says nothing of the second partition: an incremental one leaves out what has nothing new."""
    places = [{"topic": "orders", "partition_index": index, "error_code": code} for index, code in ((0, 6), (1, None))]
    s.exchange(0, "Fetch", error_code=6, partitions=places)


@story
def honest_failure(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="injected", error_code=10, fault=("too-large", "error"))
    s.send(0, "m0", outcome="fail", error="MessageSizeTooLarge")


@story
def perhaps(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], outcome="no_response", took_ms=None)
    s.send(0, "m0", outcome="info")
    s.poll(900, "m0", 0)


@story
def blocking(s: Story) -> None:
    acked(s, 0, "m0", 0, blocked_ms=1700, took_ms=1705)


@story
def blocking_then_failed(s: Story) -> None:
    s.send(0, "m0", blocked_ms=1005, took_ms=1004, outcome="fail", error="no metadata")


@story
def synchronous(s: Story) -> None:
    acked(s, 0, "m0", 0, blocked_ms=1500, took_ms=1499)


@story
def told_of_by_two_looks_at_the_clock(s: Story) -> None:
    # The moment of the return was noted first: a transaction that took its time to begin blocked nobody.
    nowhere: dict[str, Any] = {"topic": None, "partition": None, "operation": "init_tx"}
    s.send(0, None, blocked_ms=1500, took_ms=1500.006, **nowhere)
    acked(s, 2000, "m0", 0, blocked_ms=1500, took_ms=1500.006)


@story
def begun_late_by_a_rule(s: Story) -> None:
    held = by_rule("slow", "delay", "held_answer") | {"broker_responded_at_us": START_US + 1000}
    s.exchange(0.1, "FindCoordinator", took_ms=2999, **held)
    s.send(0, None, blocked_ms=3000, took_ms=3000.006, topic=None, partition=None, operation="init_tx")
    acked(s, 4000, "m0", 0)


@story
def called_in_the_last_moment(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.send(60, "m1", took_ms=None)


@story
def over_budget(s: Story) -> None:
    acked(s, 0, "m0", 0, took_ms=700, budget_ms=500)


@story
def slow(s: Story) -> None:
    acked(s, 0, "m0", 0, took_ms=1500)


@story
def within_budget(s: Story) -> None:
    acked(s, 0, "m0", 0, took_ms=1500, budget_ms=2000)


@story
def retrying(s: Story) -> None:
    for number in range(3):
        s.produce(number * 100, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose-leader", "error"))
    acked(s, 0, "m0", 0, took_ms=2300)


@story
def stuck(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.produce(100, message_ids=["m1"], error_code=6, outcome="injected", fault=("once", "error"))
    s.send(100, "m1", outcome="fail", took_ms=50)
    for number in range(3):
        s.send(3000 + 1000 * number, f"s{number}", outcome="fail", blocked_ms=10, took_ms=900, error="buffer full")


@story
def well_again_until_all_brokers_stopped(s: Story) -> None:
    s.produce(100, message_ids=["m0"], base_offset=0, fault=("tiny", "delay"))
    s.send(100, "m0", offset=0)
    s.poll(150, "m0", 0)
    acked(s, 200, "m1", 1)
    for number in range(3):
        s.send(3000 + 1000 * number, f"s{number}", outcome="fail", took_ms=900, error="timed out")


@story
def recovering(s: Story) -> None:
    s.produce(100, message_ids=["m1"], error_code=6, outcome="injected", took_ms=1, fault=("once", "error"))
    s.send(100, "m1", outcome="fail", took_ms=50)
    s.send(2500, "m2", outcome="fail", took_ms=10)
    acked(s, 3000, "m3", 0)


@story
def quiet_after_a_failure(s: Story) -> None:
    s.produce(1, message_ids=["m0"], error_code=10, outcome="injected", took_ms=1, fault=("refuse", "error"))
    s.send(0, "m0", outcome="info", took_ms=2)
    s.send(500, "m1", outcome="fail", took_ms=500)
    acked(s, 60_000, "m2", 0)


@story
def acknowledged_late_behind_a_refusal(s: Story) -> None:
    # m0 was under way when m1 was refused; only m2 was sent after it.
    s.produce(1, message_ids=["m0"], base_offset=0, took_ms=8)
    s.send(0, "m0", offset=0, took_ms=10)
    s.produce(3, message_ids=["m1"], error_code=10, outcome="injected", took_ms=2, fault=("refuse", "error"))
    s.send(2, "m1", outcome="fail", took_ms=4)
    s.produce(7, message_ids=["m2"], base_offset=1, took_ms=20)
    s.send(6.5, "m2", offset=1, took_ms=38.5)
    s.poll(60, "m0", 0)
    s.poll(60, "m2", 1)


@story
def held_to_the_end(s: Story) -> None:
    s.produce(1, message_ids=["m0"], base_offset=0, took_ms=8, fault=("slow", "delay"))
    s.send(0, "m0", offset=0, took_ms=10)
    s.poll(60, "m0", 0)


@story
def given_up_before_its_late_answer(s: Story) -> None:
    # It closed its connection, and what was held went on to nobody.
    s.produce(1, message_ids=["m0"], error_code=7, took_ms=5000, fault=("slow", "delay"))
    s.produce(1500, message_ids=["m0"], base_offset=0, took_ms=800, connection_id=2)
    s.send(0, "m0", offset=0, took_ms=2305)
    s.poll(5000, "m0", 0)
    acked(s, 5080, "m1", 1)


@story
def other_id_at_its_place(s: Story) -> None:
    s.poll(10, "m0", 0)
    s.poll(10, "m7", 0, client="other_id_at_its_place-late")


@story
def told_another_s_place(s: Story) -> None:
    said = {"rule": "lie", "kind": "error", "did": "answered", "error_code": 0, "partitions": None}
    acked(s, 0, "m0", 0, read=False)
    for number in (1, 2):
        s.produce(number * 10, message_ids=[f"m{number}"], base_offset=0, outcome="injected", forwarded_at_us=None,
                  fault=("lie", "error"), effects=[said])  # fmt: skip
        s.send(number * 10, f"m{number}", offset=0)


@story
def failed_and_said_where(s: Story) -> None:
    # Where a failed send would have been is no promise, and another message may be there.
    s.produce(0.2, message_ids=["m0"], error_code=7)
    s.send(0, "m0", outcome="fail", error="timed out", offset=0)
    s.poll(10, "m7", 0)


@story
def read_in_ranges(s: Story) -> None:
    # Kafka's verifiable consumer tells a line for each poll, and no run: that is of the day when it polled.
    a_day_ms = 86_400_000
    acked(s, a_day_ms, "m0", 0)
    for at_ms, first, last in ((0, 0, 4), (10, 5, 9), (20, 7, 12)):
        got = {"topic": "orders", "partition": 0, "count": last - first + 1, "minOffset": first, "maxOffset": last}
        line = {"name": "records_consumed", "timestamp": START_US // 1000 + a_day_ms + at_ms, "partitions": [got]}
        s.outcomes.append(line | {"client": f"{s.client}-late"})


@story
def went_back(s: Story) -> None:
    for at, offset in ((0, 0), (10, 1), (20, 2), (30, 1)):
        s.poll(at, f"m{offset}", offset)


@story
def behind_its_commit(s: Story) -> None:
    s.poll(0, "m0", 0)
    s.poll(0, "m1", 1)
    s.poll(5, None, 2, operation="commit")
    s.poll(5, None, 9, operation="commit", outcome="fail")
    s.poll(10, "m1", 1)


def went_back_to_one(s: Story, fetched: int | None, **commit: object) -> None:
    reader, group = f"{s.client}-reader", {"group_id": s.client}
    place = {"topic": "orders", "partition_index": 0}
    s.poll(0, "m0", 0, **group)
    s.poll(0, "m1", 1, **group)
    s.poll(5, None, 2, operation="commit", **group)
    asked = {"client_id": reader, "took_ms": 1, **group}
    s.exchange(4, "OffsetCommit", partitions=[{**place, "base_offset": 2}], **asked, **commit)
    if fetched is not None:
        s.exchange(0, "OffsetFetch", partitions=[{**place, "base_offset": -1}], **asked)
        s.exchange(8, "OffsetFetch", partitions=[{**place, "base_offset": fetched}], **asked)
    s.poll(10, "m1", 1, **group)


@story
def sent_back_by_a_faked_commit(s: Story) -> None:
    went_back_to_one(s, 1, outcome="injected", fault=("fake", "offset_commit_lie"))


@story
def behind_a_faked_commit_and_never_seen_to_ask(s: Story) -> None:
    went_back_to_one(s, None, outcome="injected", fault=("fake", "offset_commit_lie"))


@story
def sought_back(s: Story) -> None:
    # It was refused once when it asked where to go on; and it committed where it went before it read on.
    went_back_to_one(s, 2)
    place = {"topic": "orders", "partition_index": 0}
    asked = {"client_id": f"{s.client}-reader", "group_id": s.client}
    s.exchange(7, "OffsetFetch", partitions=[{**place, "base_offset": -1, "error_code": 14}], **asked)
    s.exchange(9, "OffsetCommit", partitions=[{**place, "base_offset": 1}], took_ms=0.5, **asked)


def told_to_go_on_at(s: Story, at_ms: float, offset: int, api_name: str = "OffsetFetch", **given: Any) -> None:
    place = {"topic": "orders", "partition_index": 0, "base_offset": offset}
    asked = {"client_id": f"{s.client}-reader", "group_id": s.client, "took_ms": 0.5, **given}
    s.exchange(at_ms, api_name, partitions=[place], **asked)


def read_three_and_committed(s: Story, *commits: int) -> dict[str, Any]:
    of_group = {"group_id": s.client}
    for offset in range(3):
        s.poll(0, f"m{offset}", offset, **of_group)
    for at_ms, offset in enumerate(commits, 5):
        s.poll(at_ms, None, offset, operation="commit", **of_group)
    return of_group


@story
def read_by_another_member_too(s: Story) -> None:
    of_group = {"group_id": s.client}
    first, second = f"{s.client}-reader", f"{s.client}-late"
    for member in (first, second):
        s.exchange(0, "JoinGroup", client_id=member, took_ms=0.5, **of_group)
    for offset in range(3):
        s.poll(1 + offset, f"m{offset}", offset, client_id=first, **of_group)
    for offset in (1, 2, 3):
        s.poll(10 + offset, f"m{offset}", offset, client=second, client_id=second, **of_group)


@story
def committed_less_and_went_on_there(s: Story) -> None:
    of_group = read_three_and_committed(s, 3, 1)
    told_to_go_on_at(s, 8, 1)
    s.poll(10, "m1", 1, **of_group)
    s.poll(11, "m2", 2, **of_group)


@story
def sent_back_and_reading_on(s: Story) -> None:
    # What it commits on its way is no new place to go on from.
    of_group = read_three_and_committed(s, 0, 3)
    s.exchange(1, "JoinGroup", group_id=s.client)
    told_to_go_on_at(s, 8, 0)
    for offset in range(3):
        s.poll(10 + 2 * offset, f"m{offset}", offset, **of_group)
        s.poll(11 + 2 * offset, None, offset + 1, operation="commit", **of_group)
    # It seeks, and is told nothing.
    s.poll(20, "m0", 0, **of_group)


@story
def sent_back_and_committing_what_it_remembers(s: Story) -> None:
    # Its application's own position, before it has read anything anew.
    of_group = read_three_and_committed(s, 1, 3)
    s.exchange(1, "JoinGroup", group_id=s.client)
    told_to_go_on_at(s, 8, 1)
    s.poll(9, None, 3, operation="commit", **of_group)
    for offset in (1, 2):
        s.poll(10 + offset, f"m{offset}", offset, **of_group)


@story
def set_back_while_nobody_was_a_member(s: Story) -> None:
    # To a place that it had committed once, between a member that has left and the next one.
    of_group = read_three_and_committed(s, 1, 3)
    s.exchange(1, "JoinGroup", group_id=s.client)
    s.exchange(7, "LeaveGroup", group_id=s.client)
    s.exchange(8, "JoinGroup", group_id=s.client, connection_id=2)
    told_to_go_on_at(s, 9, 1)
    for offset in (1, 2):
        s.poll(10 + offset, f"m{offset}", offset, **of_group)


@story
def set_back_past_the_proxy(s: Story) -> None:
    # Nobody here committed what it is told; it did so itself since.
    of_group = read_three_and_committed(s, 3)
    told_to_go_on_at(s, 8, 1)
    s.poll(10, "m1", 1, **of_group)
    s.poll(11, None, 1, operation="commit", **of_group)


@story
def set_on_past_the_proxy(s: Story) -> None:
    of_group = {"group_id": s.client}
    for offset in range(6):
        acked(s, offset, f"m{offset}", offset, read=False)
        s.poll(20 + offset, f"m{offset}", offset, client=f"{s.client}-late", group_id="auditors")
    s.poll(30, "m0", 0, **of_group)
    told_to_go_on_at(s, 40, 4)
    s.poll(50, "m4", 4, **of_group)
    s.poll(51, None, 4, operation="commit", **of_group)


@story
def set_back_by_an_operator(s: Story) -> None:
    of_group = read_three_and_committed(s, 3)
    told_to_go_on_at(s, 6, 1, "OffsetCommit", client_id="operator", connection_id=9)
    told_to_go_on_at(s, 8, 1)
    s.poll(10, "m1", 1, **of_group)


def fetch(s: Story, at_ms: float, offset: int | None, **given: Any) -> dict[str, Any]:
    """The reader asks for records, and is handed one at `offset`."""
    place = {"topic": "orders", "partition_index": 0, "base_offset": offset, "record_count": 1 if offset else 0}
    reader = {"client_id": f"{s.client}-reader", "connection_id": 7}
    return s.exchange(at_ms, "Fetch", partitions=[place], **{**reader, "took_ms": 1, **given})


def read_one_and_two_were_sent(s: Story) -> None:
    acked(s, 0, "m0", 0)
    fetch(s, 49, 0)
    acked(s, 100, "m1", 1, read=False)


@story
def its_fetch_was_held(s: Story) -> None:
    read_one_and_two_were_sent(s)
    fetch(s, 51, 1, took_ms=4000, **by_rule("long", "stall", "held_answer", phase="after_broker"))
    s.poll(4055, "m1", 1)


@story
def its_fetches_were_refused(s: Story) -> None:
    read_one_and_two_were_sent(s)
    for at_ms in range(51, 3000, 500):
        fetch(s, at_ms, None, error_code=6, **by_rule("lose", "error", "answered"))
    fetch(s, 3100, 1)
    s.poll(3105, "m1", 1)


@story
def nobody_was_there_to_read(s: Story) -> None:
    # It was cut off once and left of its own accord; its application began another one seconds later.
    read_one_and_two_were_sent(s)
    of_group = {"group_id": s.client, "took_ms": 0.5}
    for row in s.outcomes:
        if row["operation"] == "poll":
            row["group_id"] = s.client
    s.exchange(60, "Heartbeat", client_id=f"{s.client}-reader", outcome="closed", connection_id=7,
               **{**of_group, "took_ms": None}, **by_rule("shake", "reset", "cut"))  # fmt: skip
    s.exchange(300, "LeaveGroup", client_id=f"{s.client}-reader", **of_group)
    s.exchange(6000, "FindCoordinator", client_id=f"{s.client}-late", **of_group)
    s.exchange(6010, "JoinGroup", client_id=f"{s.client}-late", **of_group)
    s.poll(6055, "m1", 1, client=f"{s.client}-late", client_id=f"{s.client}-late", group_id=s.client)


@story
def its_fetch_was_swallowed_for_good(s: Story) -> None:
    read_one_and_two_were_sent(s)
    fetch(s, 51, None, took_ms=None, outcome="dropped", **by_rule("eat", "drop_request", "swallowed_request"))
    acked(s, 110, "m2", 2, read=False)
    row = s.exchange(6051, "", event="disconnect", took_ms=None, client_id=f"{s.client}-reader", connection_id=7)
    row["api_name"] = row["api_key"] = None


@story
def another_member_was_thrown_out(s: Story) -> None:
    # Whoever is left waits until that one is back, or given up.
    late = {"client_id": f"{s.client}-late", "connection_id": 8}
    s.exchange(90, "Heartbeat", error_code=25, **late, **by_rule("out", "error", "answered"))
    s.exchange(5000, "Heartbeat", **late)
    s.send(0, "n0", partition=1, offset=0)
    s.poll(50, "n0", 0, partition=1, client=f"{s.client}-late", group_id=s.client)
    acked(s, 0, "m0", 0, read=False)
    fetch(s, 49, 0)
    s.poll(50, "m0", 0, group_id=s.client)
    acked(s, 100, "m1", 1, read=False)
    # What it had been handed before it had to join again it is handed anew.
    fetch(s, 110, 1)
    fetch(s, 5010, 1)
    s.poll(5015, "m1", 1, group_id=s.client)


@story
def held_up_by_its_own_commit(s: Story) -> None:
    # What came first it had; what came then it asked for when it had come back.
    acked(s, 0, "m0", 0)
    fetch(s, 49, 0)
    acked(s, 55, "m1", 1, read=False)
    fetch(s, 58, 1)
    for at_ms in range(60, 4000, 500):
        given = by_rule("busy", "error", "answered")
        given["effects"][0]["error_code"] = 15
        s.exchange(at_ms, "OffsetCommit", error_code=15, client_id=f"{s.client}-reader", connection_id=7, **given)
    s.exchange(4060, "OffsetCommit", client_id=f"{s.client}-reader", connection_id=7)
    acked(s, 200, "m2", 2, read=False)
    s.poll(4070, "m1", 1)
    fetch(s, 4071, 2)
    s.poll(4075, "m2", 2)


@story
def its_commits_were_said_to_be_well(s: Story) -> None:
    # It was killed, which is no rule's doing.
    read_one_and_two_were_sent(s)
    for at_ms in range(51, 300, 50):
        given = by_rule("lie", "error", "answered")
        given["effects"][0]["error_code"] = 0
        s.exchange(at_ms, "OffsetCommit", client_id=f"{s.client}-reader", connection_id=7, **given)
    fetch(s, 5000, 1)
    s.poll(5005, "m1", 1)


@story
def took_its_time_and_had_been_handed_it(s: Story) -> None:
    # What a rule held while the application was busy with what it had kept nobody waiting.
    read_one_and_two_were_sent(s)
    fetch(s, 110, 1)
    fetch(s, 112, None, took_ms=4000, **by_rule("long", "stall", "held_answer", phase="after_broker"))
    s.poll(4055, "m1", 1)


@story
def nobody_sent_for_long(s: Story) -> None:
    acked(s, 0, "m0", 0)
    fetch(s, 49, 0)
    fetch(s, 51, 1, took_ms=4000, **by_rule("long", "stall", "held_answer", phase="after_broker"))
    acked(s, 4000, "m1", 1)


@story
def told_to_go_on_behind_it(s: Story) -> None:
    # Its own place was out of range, and the end was where it went on.
    for offset in range(4):
        acked(s, 10 * offset, f"m{offset}", offset, read=offset != 2)
    reader = {"client_id": f"{s.client}-reader", "connection_id": 7}
    place = {"topic": "orders", "partition_index": 0, "error_code": 1}
    s.exchange(61, "Fetch", partitions=[place], took_ms=1, **reader)
    told_to_go_on_at(s, 65, 3, "ListOffsets", connection_id=7)


@story
def lost_beside_a_look_at_the_end(s: Story) -> None:
    # That it asked where the log ends sent it nowhere.
    for offset in range(4):
        acked(s, 10 * offset, f"m{offset}", offset, read=offset != 2)
    told_to_go_on_at(s, 65, 9, "ListOffsets", connection_id=7)


@story
def its_group_was_deleted(s: Story) -> None:
    of_group = read_three_and_committed(s, 3)
    s.exchange(6, "DeleteGroups", client_id="operator", connection_id=9, took_ms=0.5)
    told_to_go_on_at(s, 8, -1)
    s.poll(10, "m0", 0, **of_group)


@story
def its_topic_was_made_anew(s: Story) -> None:
    s.produce(0, message_ids=["m0"], base_offset=0, took_ms=0.1)
    of_group = read_three_and_committed(s, 3)
    s.produce(7, message_ids=["m9"], base_offset=0, took_ms=0.1)
    told_to_go_on_at(s, 8.5, -1)
    s.poll(10, "m9", 0, **of_group)


@story
def on_from_its_commit(s: Story) -> None:
    s.poll(0, "m0", 0)
    s.poll(5, None, 1, operation="commit")
    s.poll(10, "m1", 1)


@story
def passed_over(s: Story) -> None:
    for number in range(3):
        acked(s, 10 * number, f"m{number}", number)
    s.poll(100, "m0", 0, client="passed_over-late", group_id="passed_over-late")
    s.poll(101, "m2", 2, client="passed_over-late", group_id="passed_over-late")


def passed_over_with_keys(s: Story, *keys: int) -> None:
    """Everything is read at once, and then by a group that misses the second of three."""
    for number, key in enumerate(keys):
        s.produce(10 * number, message_ids=[f"m{number}"], base_offset=number)
        s.send(10 * number, f"m{number}", offset=number, key_hash=key)
        s.poll(10 * number + 6, f"m{number}", number)
    s.poll(100, "m0", 0, client=f"{s.client}-late", group_id=f"{s.client}-late")
    s.poll(101, "m2", 2, client=f"{s.client}-late", group_id=f"{s.client}-late")


@story
def passed_over_what_a_compacted_topic_may_have_lost(s: Story) -> None:
    passed_over_with_keys(s, 1, 7, 7)


@story
def passed_over_the_last_of_its_key(s: Story) -> None:
    passed_over_with_keys(s, 7, 7, 1)


@story
def passed_over_what_another_got_afterwards(s: Story) -> None:
    passed_over_with_keys(s, 1, 7, 7)
    s.poll(200, "m1", 1, client=f"{s.client}-last", group_id=f"{s.client}-last")


def went_on_at_two(s: Story, **of_the_commit: Any) -> None:
    """A group is told to go on at an offset that it hasn't come to, which somebody has committed."""
    late = {"client": f"{s.client}-late", "group_id": f"{s.client}-late"}
    asked = {"client_id": late["client"], "group_id": late["group_id"]}
    for number in range(3):
        acked(s, 10 * number, f"m{number}", number, read=False)
        s.poll(50 + number, f"m{number}", number, group_id=f"{s.client}-all")
    s.exchange(99, "JoinGroup", **asked)
    s.poll(100, "m0", 0, **late)
    told_to_go_on_at(s, 102, 2, "OffsetCommit", **asked | of_the_commit)
    told_to_go_on_at(s, 104, 2, **asked)
    s.poll(106, "m2", 2, **late)


@story
def set_forward_by_an_operator(s: Story) -> None:
    went_on_at_two(s, client_id="operator", connection_id=9)


@story
def set_forward_by_an_operator_and_delayed(s: Story) -> None:
    went_on_at_two(s, client_id="operator", connection_id=9, **by_rule("trifle", "delay", "held_request"))


@story
def committed_what_it_had_not_read(s: Story) -> None:
    went_on_at_two(s)


@story
def shared_in_a_group(s: Story) -> None:
    for number, reader in enumerate("aba"):
        acked(s, 10 * number, f"m{number}", number, read=False)
        s.poll(100 + number, f"m{number}", number, client=f"shared_in_a_group-{reader}", group_id="shared_in_a_group")


@story
def hammering(s: Story) -> None:
    for number in range(60):
        s.exchange(3 * number, "Produce", error_code=5)
        s.exchange(3 * number, "Metadata")


@story
def hammering_at_its_group(s: Story) -> None:
    for number in range(60):
        s.exchange(3 * number, "JoinGroup", error_code=23)


@story
def hammering_beside_a_rule(s: Story) -> None:
    # What a rule did to two of sixty is no reason for all of them.
    for number in range(60):
        struck = by_rule("twice", "error", "answered") if number < 2 else {}
        s.exchange(3 * number, "FindCoordinator", **struck)


@story
def copied_segment(s: Story) -> None:
    # Two segments hold the same rows: what would be a storm is half as much.
    for number in range(20):
        for api_name in ("Produce", "Metadata"):
            row = s.exchange(3 * number, api_name, error_code=5)
            s.exchanges.append(row.copy())


@story
def patient(s: Story) -> None:
    for number in range(30):
        s.exchange(100 * number, "Produce", error_code=5)
        s.exchange(100 * number, "Metadata")


@story
def reconnecting(s: Story) -> None:
    for number in range(10):
        row = s.exchange(10 * number, "", event="connect", client_addr=f"reconnecting:{number}")
        row["api_name"] = row["api_key"] = None


@story
def connecting_to_a_mute_host(s: Story) -> None:
    # Each waits for two seconds, and gives up: no storm, however many do so together.
    for number in range(10):
        for event, at in (("connect", 10 * number), ("disconnect", 2000 + 10 * number)):
            row = s.exchange(at, "", event=event, connection_id=number, client_addr=f"{s.client}:{number}")
            row["api_name"] = row["api_key"] = None


@story
def stubborn(s: Story) -> None:
    for number in range(7):
        s.produce(1000 * number, error_code=6, outcome="answered", node_id=3)


@story
def told_all_at_once(s: Story) -> None:
    """The broker stood still with what it was asked over six seconds; who is told so goes to the leader at once."""
    for number in range(7):
        s.produce(1000 * number, error_code=6, outcome="answered", node_id=3, took_ms=6500 - 1000 * number)
    s.produce(6600, node_id=2)


@story
def slowed_down(s: Story) -> None:
    s.exchange(0, "Produce", throttle_time_ms=300)


@story
def out_of_range(s: Story) -> None:
    place = {"topic": "orders", "partition_index": 0}
    s.exchange(0, "Fetch", partitions=[{**place, "error_code": 1}, {**place, "partition_index": 1, "error_code": 0}])


@story
def one_slow_partition(s: Story) -> None:
    for number in range(20):
        s.send(number * 10, f"a{number}", partition=0, took_ms=2, offset=None)
        s.send(number * 10, f"b{number}", partition=1, took_ms=200, offset=None)


def sends_to_each(s: Story, *took_ms: float, **given: object) -> None:
    for partition, took in enumerate(took_ms):
        for number in range(20):
            s.send(number * 10, f"p{partition}-{number}", partition=partition, took_ms=took, **given)


@story
def none_is_fast(s: Story) -> None:
    sends_to_each(s, 60, 300, 700)


@story
def fair_enough(s: Story) -> None:
    # One that is slow for once is nobody's median; what fails, however slowly, has no acknowledgement.
    sends_to_each(s, 2, 30)
    s.send(300, "slow", took_ms=50)
    for number in range(20):
        s.send(number * 10, f"f{number}", partition=2, took_ms=900, outcome="fail")


@story
def half_answered_batch(s: Story) -> None:
    for number in range(4):
        s.produce(number * 3, message_ids=["m0", "m1"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", outcome="fail", took_ms=12)
    s.send(0, "m1", took_ms=None)
    s.exchange(10_000, "Metadata")


@story
def half_answered_with_other_codes(s: Story) -> None:
    for number, code in enumerate((5, 3, 19)):
        s.produce(number * 3, message_ids=["m0", "m1"], error_code=code, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", took_ms=None, client_version="sarama 1.37.2")
    s.send(0, "m1", took_ms=None, client_version="sarama 1.37.2")
    s.exchange(10_000, "Metadata")


@story
def refused_alone(s: Story) -> None:
    # It pends, and nobody was forgotten beside it.
    for number in range(4):
        s.produce(number * 3, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", took_ms=None)
    s.exchange(10_000, "Metadata")


@story
def killed_between_two_retries(s: Story) -> None:
    # One message's error was told at once; what is left of the batch goes out again each second.
    for at, messages in ((0, ["m0", "m1"]), (3, ["m0", "m1"]), (1003, ["m1"]), (2003, ["m1"]), (3003, ["m1"])):
        s.produce(at, message_ids=messages, error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", outcome="fail")
    s.send(0, "m1", took_ms=None)
    s.exchange(5003, "Metadata")


@story
def killed_while_it_retried(s: Story) -> None:
    # librdkafka goes on for as long as it lives: its last attempt was a moment before its end.
    for number in range(8):
        s.produce(number * 200, message_ids=["m0", "m1"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", took_ms=None)
    s.send(0, "m1", took_ms=None)
    s.exchange(1505, "", event="disconnect", took_ms=None, outcome=None)
    s.exchange(10_000, "Metadata", client_id="somebody", connection_id=9)


@story
def another_that_gave_up(s: Story) -> None:
    for number in range(114):
        s.produce(number * 20, message_ids=["m0", "m1"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", took_ms=None, client_version="aiokafka 0.14.0")
    s.send(0, "m1", took_ms=None, client_version="aiokafka 0.14.0")
    s.exchange(20_000, "Metadata")


@story
def one_long_timeout(s: Story) -> None:
    s.produce(1, message_ids=["m0"], outcome="no_response", took_ms=None, fault=("gone", "blackhole"))
    s.send(0, "m0", outcome="info", took_ms=16_000, error="RequestTimedOutError", client_version="aiokafka 0.14.0")


@story
def dialling_in_vain(s: Story) -> None:
    # As its incident's capture has it: the connection was silent, so the send itself was never seen.
    silenced = {"rule": "firewall", "kind": "blackhole", "did": "silenced", "error_code": None, "partitions": None}
    s.exchange(100, "", event="fault", fault=("firewall", "blackhole"), took_ms=None, outcome=None, effects=[silenced])
    s.send(200, "m0", outcome="info", took_ms=6_900, client_version="sarama 1.27.2",
           error="kafka: client has run out of available brokers to talk to (Is your cluster reachable?)")  # fmt: skip


@story
def dialling_in_vain_for_a_moment(s: Story) -> None:
    s.send(0, "m0", outcome="fail", took_ms=3000, error="dial tcp: i/o timeout")


@story
def killed_at_once(s: Story) -> None:
    s.produce(1, message_ids=["m0"], outcome="no_response", took_ms=None)
    s.send(0, "m0", took_ms=None)
    s.exchange(20, "", event="disconnect", took_ms=None, outcome=None)
    s.exchange(60_000, "Metadata", client_id="somebody", connection_id=9)


@story
def backing_off(s: Story) -> None:
    for number in range(40):
        s.exchange(25 * number, "Metadata", took_ms=1)


@story
def many_timeouts(s: Story) -> None:
    s.produce(1, message_ids=["m0"], outcome="no_response", took_ms=None, fault=("gone", "blackhole"))
    s.send(0, "m0", outcome="fail", took_ms=18_860, error="dial tcp: i/o timeout")


@story
def waiting_for_itself(s: Story) -> None:
    s.produce(1, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", outcome="fail", took_ms=5)
    for number in range(1, 4):
        s.send(3000 * number, f"m{number}", outcome="fail", blocked_ms=2000, took_ms=2000, error="buffer is full")


@story
def waiting_for_itself_and_reading_on(s: Story) -> None:
    waiting_for_itself(s)
    s.poll(7000, None, 1, client=s.client, operation="commit")


@story
def failing_on_the_wire(s: Story) -> None:
    # What is refused later got that far: by the broker itself, and after a wait for memory.
    s.produce(1, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", outcome="fail", took_ms=5)
    s.send(1000, "m1", outcome="fail", blocked_ms=2000, took_ms=2000, error="buffer is full")
    s.produce(3600, message_ids=["m2"], error_code=10)
    s.send(1600, "m2", outcome="fail", blocked_ms=2000, took_ms=2003, error="MessageSizeTooLarge")


@story
def blocked_and_well_again(s: Story) -> None:
    s.produce(1, message_ids=["m0"], error_code=6, outcome="injected", fault=("lose", "error"))
    s.send(0, "m0", outcome="fail", took_ms=5)
    s.send(1000, "m1", outcome="fail", blocked_ms=2000, took_ms=2000, error="buffer is full")
    acked(s, 3500, "m2", 0)


@story
def waiting_briefly_for_metadata(s: Story) -> None:
    s.exchange(1, "Metadata", outcome="no_response", took_ms=None, fault=("mute", "drop_request"))
    s.send(0, "m0", outcome="fail", blocked_ms=501, took_ms=501,
           error="Topic orders not present in metadata after 500 ms.")  # fmt: skip


@story
def waiting_for_metadata(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.exchange(101, "Metadata", outcome="no_response", took_ms=None, fault=("mute", "drop_request"))
    for number in (1, 2):
        s.send(3200 * number - 3100, f"m{number}", outcome="fail", blocked_ms=3001, took_ms=3001,
               error="Topic orders not present in metadata after 3000 ms.")  # fmt: skip


def waited(s: Story, number: int, wait: int, took_ms: int = 2, **given: Any) -> None:
    """One after another: a send whose caller waited before it went out."""
    s.produce(2100 * number + wait, message_ids=[f"m{number}"], base_offset=number, took_ms=took_ms)
    took = wait + took_ms + 1
    s.send(2100 * number, f"m{number}", offset=number, blocked_ms=took, took_ms=took, **given)
    s.poll(2100 * number + 2100, f"m{number}", number)


def stalled_twice(s: Story, **given: Any) -> None:
    for number in range(8):
        waited(s, number, 2010 if number in (2, 5) else 1, **given)


@story
def refreshing(s: Story) -> None:
    stalled_twice(s)


@story
def refreshing_at_a_slow_broker(s: Story) -> None:
    for number in range(5):
        waited(s, number, *((2010, 2) if number in (1, 3) else (1, 1500)))


@story
def refreshing_another_client(s: Story) -> None:
    stalled_twice(s, client_version="aiokafka 0.14.0")


@story
def stalled_once(s: Story) -> None:
    # Beside that it waited half a second, and as long as that for what was refused then.
    for number in range(8):
        waited(s, number, {2: 2010, 4: 500}.get(number, 1))
    s.produce(22_010, message_ids=["m9"], error_code=10)
    s.send(20_000, "m9", outcome="fail", blocked_ms=2013, took_ms=2013, error="MessageSizeTooLarge")


@story
def refreshing_though_it_is_new(s: Story) -> None:
    # The old Scala producer knows no ApiVersions: whoever asks for them waits for something else.
    s.exchange(0, "ApiVersions")
    refreshing(s)


@story
def waiting_for_a_leader(s: Story) -> None:
    s.exchange(100, "Metadata", error_code=5, outcome="altered", fault=("no-leader", "leader_election"))
    s.exchange(1900, "Metadata", error_code=5, outcome="altered", fault=("no-leader", "leader_election"))
    s.produce(2000, message_ids=["m0"], base_offset=0)
    s.send(50, "m0", offset=0, took_ms=1960)
    s.poll(2100, "m0", 0)


# check → verdict → the stories that must have a finding with it; every other story must have none.
EXPECTED: dict[str, dict[str, set[str]]] = {
    "looks_like_sarama_hang": {"invalid": {"half_answered_batch", "half_answered_with_other_codes"}},
    "looks_like_sarama_two_minutes": {"invalid": {"many_timeouts", "dialling_in_vain"}},
    "looks_like_java_callback_deadlock": {
        "invalid": {
            "waiting_for_itself_and_reading_on",
            "waiting_for_itself",
        }
    },
    "looks_like_java_send_blocks": {"invalid": {"waiting_for_metadata"}},
    "looks_like_scala_refresh_stall": {"invalid": {"refreshing_at_a_slow_broker", "refreshing"}},
    "hang": {
        "invalid": {
            "refused_alone",
            "killed_between_two_retries",
            "hanging",
            "half_answered_batch",
            "half_answered_with_other_codes",
            "killed_while_it_retried",
            "another_that_gave_up",
        },
        "unknown": {"killed_at_once", "called_nobody_knows_when", "called_in_the_last_moment"},
    },
    "lost": {
        "invalid": {
            "lost_for_another",
            "lost_beside_a_look_at_the_end",
            "lost_without_trace",
            "acknowledged_in_the_brokers_place",
            "acks_0_swallowed",
            "acks_0_cut_on_the_way",
        },
        "unknown": {
            "not_read_yet",
            "its_fetch_was_swallowed_for_good",
            "told_to_go_on_behind_it",
            "middle_read_by_nobody_told",
            "lost_in_transaction",
            "doubled_by_the_broker_s_word",
            "one_slow_partition",
            "none_is_fast",
            "fair_enough",
            "acks_0_and_nobody_read",
            "swallowed_once_and_nobody_read",
            "told_another_s_place",
        },
    },
    "duplicate": {
        "invalid": {
            "doubled",
            "doubled_by_the_broker_s_word",
            "doubled_and_read_in_part",
            "doubled_and_read_without_ids",
            "doubled_by_two_calls",
            "sent_twice_and_copied",
            "sent_to_two_topics",
            "the_second_copy_was_acknowledged",
        },
        "unknown": {"sent_again_after_an_abort"},
    },
    "reordered": {
        "invalid": {
            "out_of_order",
            "out_of_order_over_a_new_connection",
            "one_of_two_processes_out_of_order",
            "clock_set_back_and_out_of_order",
        },
        "unknown": {"clock_set_back", "clock_set_back_and_out_of_order"},
    },
    "phantom": {"invalid": {"ghost", "ghost_by_the_broker_s_word", "doubled_by_two_calls"}},
    "failed": {
        "valid": {
            "acknowledged_late_behind_a_refusal",
            "killed_between_two_retries",
            "dialling_in_vain_for_a_moment",
            "waiting_for_itself_and_reading_on",
            "failing_on_the_wire",
            "blocked_and_well_again",
            "waiting_briefly_for_metadata",
            "stalled_once",
            "ghost",
            "ghost_by_the_broker_s_word",
            "doubled_by_two_calls",
            "honest_failure",
            "failed_and_said_where",
            "perhaps",
            "blocking_then_failed",
            "stuck",
            "well_again_until_all_brokers_stopped",
            "behind_its_commit",
            "half_answered_batch",
            "many_timeouts",
            "one_long_timeout",
            "dialling_in_vain",
            "waiting_for_itself",
            "waiting_for_metadata",
            "recovering",
            "acknowledged_past_the_proxy",
            "fair_enough",
            "quiet_after_a_failure",
            "sent_again_after_an_abort",
        },
    },
    "blocked_call": {
        "invalid": {
            "waiting_for_itself_and_reading_on",
            "failing_on_the_wire",
            "blocked_and_well_again",
            "stalled_once",
            "blocking",
            "blocking_then_failed",
            "waiting_for_itself",
            "waiting_for_metadata",
        },
        "valid": {"begun_late_by_a_rule"},
    },
    "late": {
        "invalid": {"over_budget"},
        "valid": {
            "refreshing_at_a_slow_broker",
            "refreshing_another_client",
            "stalled_once",
            "given_up_before_its_late_answer",
            "slow",
            "blocking",
            "synchronous",
            "told_of_by_two_looks_at_the_clock",
            "retrying",
            "refreshing",
            "refreshing_though_it_is_new",
            "waiting_for_a_leader",
        },
    },
    "retried": {
        "valid": {
            "retrying",
            "doubled",
            "doubled_by_the_broker_s_word",
            "doubled_and_read_in_part",
            "doubled_and_read_without_ids",
            "appended_twice_and_one_cut_off",
            "appended_twice_without_a_name",
            "sent_twice_and_copied",
            "swallowed_once_and_nobody_read",
            "the_second_copy_was_acknowledged",
            "out_of_order_over_a_new_connection",
            "given_up_before_its_late_answer",
        },
    },
    "stuck": {
        "invalid": {
            "waiting_for_itself_and_reading_on",
            "failing_on_the_wire",
            "stuck",
            "waiting_for_itself",
        }
    },
    "inconsistent_offsets": {"invalid": {"other_id_at_its_place", "lost_for_another", "told_another_s_place"}},
    "read_again": {
        "valid": {
            "went_back",
            "behind_its_commit",
            "sent_back_by_a_faked_commit",
            "behind_a_faked_commit_and_never_seen_to_ask",
            "sought_back",
            "committed_less_and_went_on_there",
            "sent_back_and_reading_on",
            "sent_back_and_committing_what_it_remembers",
            "set_back_by_an_operator",
            "set_back_past_the_proxy",
            "set_back_while_nobody_was_a_member",
            "its_group_was_deleted",
            "read_twice",
            "read_in_ranges",
            "out_of_order",
            "coroutines_of_one_thread",
            "two_threads",
        },
    },
    "read_by_another": {"valid": {"read_by_another_member_too"}},
    "commit_lost": {
        "invalid": {
            "sent_back_by_a_faked_commit",
            "sent_back_and_reading_on",
            "sent_back_and_committing_what_it_remembers",
        },
        "unknown": {
            "behind_its_commit",
            "behind_a_faked_commit_and_never_seen_to_ask",
            "set_back_past_the_proxy",
            "set_back_while_nobody_was_a_member",
        },
    },
    "starved": {
        "valid": {
            "its_fetch_was_held",
            "its_fetches_were_refused",
            "its_fetch_was_swallowed_for_good",
            "another_member_was_thrown_out",
            "held_up_by_its_own_commit",
        }
    },
    "skipped": {
        "invalid": {
            "passed_over",
            "passed_over_the_last_of_its_key",
            "passed_over_what_another_got_afterwards",
            "committed_what_it_had_not_read",
        },
        "unknown": {"set_on_past_the_proxy", "passed_over_what_a_compacted_topic_may_have_lost"},
    },
    "retry_storm": {"invalid": {"hammering", "hammering_at_its_group"}, "valid": {"another_that_gave_up"}},
    "metadata_storm": {"invalid": {"hammering", "hammering_beside_a_rule"}, "valid": {"backing_off"}},
    "reconnect_storm": {"invalid": {"reconnecting"}},
    "wrong_broker": {
        "invalid": {"stubborn"},
        "valid": {
            "refused_alone",
            "told_all_at_once",
            "its_fetches_were_refused",
            "killed_between_two_retries",
            "waiting_for_itself_and_reading_on",
            "failing_on_the_wire",
            "blocked_and_well_again",
            "retrying",
            "hanging",
            "stuck",
            "recovering",
            "half_answered_batch",
            "killed_while_it_retried",
            "another_that_gave_up",
            "waiting_for_itself",
            "two_short_searches",
            "one_of_two_in_a_fetch_session",
        },
    },
    "throttled": {"valid": {"slowed_down"}},
    "offset_reset": {"valid": {"out_of_range", "told_to_go_on_behind_it"}},
    "unfair_acks": {"valid": {"one_slow_partition", "none_is_fast"}, "unknown": {"none_is_fast"}},
    "recovery": {
        "valid": {
            "blocked_and_well_again",
            "well_again_until_all_brokers_stopped",
            "recovering",
            "retrying",
            "doubled",
            "doubled_by_two_calls",
            "hanging",
            "acknowledged_in_the_brokers_place",
            "acks_0_swallowed",
            "acks_0_cut_on_the_way",
            "acknowledged_past_the_proxy",
            "quiet_after_a_failure",
            "acknowledged_late_behind_a_refusal",
            "held_to_the_end",
            "given_up_before_its_late_answer",
            "swallowed_once_and_nobody_read",
            "the_second_copy_was_acknowledged",
        },
        "unknown": {
            "acks_0_and_nobody_read",
            "told_another_s_place",
            "refused_alone",
            "killed_between_two_retries",
            "waiting_for_itself_and_reading_on",
            "failing_on_the_wire",
            "stuck",
            "honest_failure",
            "half_answered_batch",
            "half_answered_with_other_codes",
            "killed_while_it_retried",
            "another_that_gave_up",
            "many_timeouts",
            "one_long_timeout",
            "waiting_for_itself",
        },
    },
}


# check → story → how many cases it has of it, and the longest of their times in ms, where they have any.
MEASURED: dict[str, dict[str, tuple[int, float | None]]] = {
    "read_again": {"read_in_ranges": (3, None)},
    "read_by_another": {"read_by_another_member_too": (2, None)},
    "commit_lost": {
        "sent_back_and_reading_on": (3, None),
        "sent_back_and_committing_what_it_remembers": (2, None),
    },
    # Since the record's sender was told its offset.
    "starved": {
        "its_fetch_was_held": (1, 3946),
        "its_fetches_were_refused": (1, 2996),
        "another_member_was_thrown_out": (1, 4906),
        "held_up_by_its_own_commit": (1, 3867),
        "its_fetch_was_swallowed_for_good": (1, 5946),
    },
    # From the failure to the next acknowledgement, without the time in which nobody sent.
    "recovery": {
        "quiet_after_a_failure": (1, 1003),
        "acknowledged_late_behind_a_refusal": (1, 39.5),
        "held_to_the_end": (1, 1),
        "given_up_before_its_late_answer": (1, 2304),
    },
}


OPTIONS = Options(by_run=True, storm_per_s=30)
CAUSED = ("slow_by", "ended_by", "retried_by", "touched_by", "gone_us")


@pytest.fixture(scope="module")
def told(build: Callable[..., Tables]) -> Tables:
    together = Story()
    for name, tell in STORIES.items():
        told = Story(run_id=name, client=name)
        tell(told)
        together.add(told)
    return build(together, OPTIONS)


@pytest.fixture(scope="module")
def findings(told: Tables) -> list[Finding]:
    return find(told, OPTIONS)


def test_what_asks_for_no_causes_is_judged_alike_before_they_are_known(told: Tables, findings: list[Finding]) -> None:
    before = replace(told, history=told.history.drop(*CAUSED), struck=(), starved=None)
    seen = look(before, OPTIONS)
    assert {"recovery", "wrong_broker", "commit_lost", "read_again"} < {row.check for row in seen.rows}
    again = find(told, OPTIONS, seen=seen)
    assert [(f.check, f.verdict, f.sentence) for f in again] == [(f.check, f.verdict, f.sentence) for f in findings]


def measured(check: str, findings: Iterable[Mapping[str, Any]]) -> dict[str, tuple[int, float | None]]:
    """Of the stories of MEASURED what is told of them."""
    told: dict[str, tuple[int, float | None]] = {}
    for finding in findings:
        name = (finding["client"] or "").removesuffix("-late").removesuffix("-reader")
        if name in MEASURED.get(check, {}):
            slowest = finding["slowest_us"]
            told[name] = (told.get(name, (0, None))[0] + finding["count"], slowest and slowest / 1000)
    return told


def by_story(findings: list[Finding], check: str) -> dict[str, set[str]]:
    """verdict → stories with such a finding."""
    found: dict[str, set[str]] = {}
    for finding in findings:
        if finding.check == check and finding.group and finding.group.client:
            name = finding.group.client.removesuffix("-late").removesuffix("-reader")
            found.setdefault(finding.verdict, set()).add(name)
    return found


@pytest.mark.parametrize("check", sorted(EXPECTED))
def test_a_check_finds_what_was_planted_and_nothing_else(findings: list[Finding], check: str) -> None:
    assert by_story(findings, check) == EXPECTED[check]


@pytest.mark.parametrize("check", sorted(MEASURED))
def test_a_check_counts_and_measures(findings: list[Finding], check: str) -> None:
    assert measured(check, [f.as_dict() for f in findings if f.check == check]) == MEASURED[check]


def test_a_storm_is_not_named_after_a_rule_that_struck_twice(findings: list[Finding]) -> None:
    (storm,) = [
        f for f in findings if f.check == "metadata_storm" and f.group and f.group.client == "hammering_beside_a_rule"
    ]
    assert storm.as_dict()["rule"] is None


@pytest.mark.parametrize(
    ("check", "options"), [("late", Options(late_ms=300)), ("blocked_call", Options(blocked_ms=300))]
)
def test_what_passes_a_bound_below_the_usual_has_its_cause(
    analyse: Callable[..., tuple[object, list[Finding]]], check: str, options: Options
) -> None:
    story = Story()
    row = story.produce(0, message_ids=["m0"], base_offset=0, took_ms=700, **by_rule("hold", "delay", "held_answer"))
    row["effects"][0]["held_us"] = 698_000
    story.send(0, "m0", offset=0, took_ms=702, blocked_ms=701)
    (found,) = [f.as_dict() for f in analyse(story, options)[1] if f.check == check and f.verdict == "invalid"]
    assert found["rule"] == "hold"


def test_what_pends_is_measured_to_the_end_of_its_own_run(analyse: Callable[..., tuple[object, list[Finding]]]) -> None:
    together, a_day_ms = Story(), 86_400_000
    for run, start_ms in (("today", 0), ("tomorrow", a_day_ms)):
        one = Story(run_id=run, client=run)
        one.produce(start_ms + 100, message_ids=["m1"], error_code=6, outcome="injected", fault=(run, "error"))
        one.send(start_ms + 100, "m1", outcome="fail", took_ms=50)
        one.exchange(start_ms + 9000, "Metadata", took_ms=102)
        if run == "today":
            # No word of its run: the time of its call tells.
            one.send(3000, "m2", took_ms=None, run_id=None)
        else:
            acked(one, start_ms + 3000, "m3", 0)
        together.add(one)
    findings = analyse(together, Options())[1]
    assert "in the 9.0 s after the last hit" in sentence_of(findings, "stuck", "today")
    assert "had waited 6.1 s" in sentence_of(findings, "hang", "today")


def sentence_of(findings: list[Finding], check: str, client: str) -> str:
    return next(f.sentence for f in findings if f.check == check and f.group and f.group.client == client)


def test_sentences_name_the_rule_what_it_did_and_how_long_it_took(findings: list[Finding]) -> None:
    assert sentence_of(findings, "retried", "retrying") == (
        "1 send to orders-0 by retrying was answered NOT_LEADER_OR_FOLLOWER by rule lose-leader (error)"
        " and was acknowledged on retry; slowest took 2.3 s."
    )
    assert sentence_of(findings, "late", "waiting_for_a_leader").endswith(
        "succeeded; it waited while other requests of the client were answered LEADER_NOT_AVAILABLE"
        " by rule no-leader (leader_election) (likely)."
    )
    assert "rule eat (drop_response)" in sentence_of(findings, "duplicate", "doubled")
    assert "rule eat (drop_response)" in sentence_of(findings, "duplicate", "doubled_by_two_calls")
    assert sentence_of(findings, "reconnect_storm", "reconnecting").startswith("reconnecting ")
    assert "9.0 s" in sentence_of(findings, "hang", "hanging")
    assert "an unknown time after the call" in sentence_of(findings, "hang", "called_nobody_knows_when")
    assert sentence_of(findings, "inconsistent_offsets", "told_another_s_place") == (
        "1 offset of orders-0 holds different messages, by what clients or the log say; it was acknowledged in the "
        "broker's place by rule lie (error)."
    )


def test_an_error_that_leaves_open_what_was_done_is_no_failure(findings: list[Finding]) -> None:
    said = sentence_of(findings, "failed", "one_long_timeout")
    assert said.startswith(
        "1 send to orders-0 by one_long_timeout ended with an error that leaves open whether it was carried out, "
    )
    assert "by failing_on_the_wire failed and said so" in sentence_of(findings, "failed", "failing_on_the_wire")


@pytest.mark.parametrize(
    ("cases", "open_", "said"),
    [
        (3, 0, "failed and said so"),
        (3, 1, "ended with an error, 1 of them with one that leaves open what was done"),
        (3, 3, "ended with an error that leaves open whether they were carried out"),
    ],
)
def test_failed_and_uncertain_are_told_apart(cases: int, open_: int, said: str) -> None:
    group = Group("failed", "valid", *(None,) * 7, cases, cases, 0, 0, 5000, None, open_)
    assert Failed().sentence(group).startswith(f"3 sends to an unknown topic {said}, the slowest after 5 ms")


@pytest.mark.parametrize(
    ("with_keys", "why"),
    [(0, "below level record none names its messages"), (4, "not all messages have the header notleader-id")],
)
def test_what_names_no_message_is_the_level_or_the_client(with_keys: int, why: str) -> None:
    seen = SimpleNamespace(refused_produces=1, names_messages=False, batches_with_ids=0, batches_with_keys=with_keys)
    told = REGISTRY["retried"].unsettled(cast(Tables, SimpleNamespace(capture=seen)))
    assert told == f"1 request went wrong, and {why}"


def test_what_was_called_done_without_acks_is_no_broker_s_acknowledgement(findings: list[Finding]) -> None:
    said = sentence_of(findings, "recovery", "acks_0_and_nobody_read")
    assert said.startswith("No broker acknowledged a send to orders-0 by acks_0_and_nobody_read after the last hit")


def test_evidence_unfolds_to_the_exchanges(findings: list[Finding]) -> None:
    finding = next(f for f in findings if f.check == "retried" and f.group and f.group.client == "retrying")
    exchanges = finding.evidence[0]["exchanges"]
    assert [row["exchange_seq"] for row in exchanges] == [1, 4, 2, 3]
    assert [row["error_code"] for row in exchanges] == [6, 0, 6, 6]
    assert finding.evidence[0]["message_id"] == "m0"


def test_the_evidence_of_a_copy_has_both_appends(findings: list[Finding]) -> None:
    told = (f for f in findings if f.check == "duplicate" and f.group and f.group.client == "doubled_by_two_calls")
    (shown,) = (entry["exchanges"] for finding in told for entry in finding.evidence)
    assert [row["base_offset"] for row in shown] == [0, 1]


def test_the_note_of_a_copy_that_nobody_read_has_the_offsets_of_the_broker_s_answers(findings: list[Finding]) -> None:
    of = ("doubled_and_read_in_part", "doubled_and_read_without_ids")
    told = [f for f in findings if f.check == "duplicate" and f.group and f.group.client in of]
    assert [f.evidence[0]["note"] for f in told] == ["2 copies, offsets 0, 1"] * 2


def test_who_acknowledged_what_never_arrived_is_named(findings: list[Finding]) -> None:
    told = {f.group.client: f.sentence for f in findings if f.check == "lost" and f.group and f.verdict == "invalid"}
    assert "no request with it reached the broker" in told["acknowledged_in_the_brokers_place"]
    assert "acknowledged in the broker's place by rule lie (error)" in told["acknowledged_in_the_brokers_place"]
    assert "had a request swallowed by rule eat (drop_request)" in told["acks_0_swallowed"]


def test_the_note_of_a_starved_read_counts_what_was_never_read(findings: list[Finding]) -> None:
    found = [f for f in findings if f.check == "starved" and f.group]
    notes = {f.group.client.removesuffix("-reader"): f.evidence[0]["note"] for f in found if f.group and f.group.client}
    assert notes["its_fetch_was_swallowed_for_good"] == "offset 1 and 1 more, never read"
    assert notes["its_fetch_was_held"] == "offset 1"


def test_the_note_says_what_lies_at_a_lost_offset(findings: list[Finding]) -> None:
    notes = {f.group.client: f.evidence[0]["note"] for f in findings if f.check == "lost" and f.group and f.evidence}
    assert notes["lost_for_another"] == "offset 1 holds message other"
    assert notes["lost_without_trace"] == "no consumer got offset 1"


def test_what_was_passed_over_is_said_to_have_been_seen_and_not_to_be_there(findings: list[Finding]) -> None:
    said = sentence_of(findings, "skipped", "passed_over-late")
    assert said == (
        "1 record of orders-0 was seen in the log, but passed_over-late read past it;"
        " no fault had a hand in it, and if it sought, no line says so."
    )


def test_who_was_told_no_offset_is_not_said_to_have_been_told_an_old_one(findings: list[Finding]) -> None:
    said = sentence_of(findings, "commit_lost", "sent_back_and_reading_on")
    assert "because it was not told of that commit; no fault had a hand in it" in said


def test_what_a_transaction_may_have_aborted_is_not_called_doubled(findings: list[Finding]) -> None:
    said = sentence_of(findings, "duplicate", "sent_again_after_an_abort")
    assert said.startswith("1 message sent to orders-0 by sent_again_after_an_abort was read, or appended, more than")
    assert "aborted" in said


def test_what_keeps_a_lost_send_from_being_judged_is_said(findings: list[Finding]) -> None:
    told = {f.group.client: f.sentence for f in findings if f.check == "lost" and f.group and f.verdict == "unknown"}
    assert told["lost_in_transaction"].endswith("it was sent in a transaction, which may have been aborted.")
    assert told["not_read_yet"].endswith(
        "cannot be judged: nobody read the log past it, or whoever did was told to go on there."
    )


def test_a_faked_commit_is_named_with_its_rule(findings: list[Finding]) -> None:
    for client in ("sent_back_by_a_faked_commit", "behind_a_faked_commit_and_never_seen_to_ask"):
        assert "by rule fake (offset_commit_lie)" in sentence_of(findings, "commit_lost", client)


def test_what_a_rule_kept_from_the_broker_is_lost_if_nobody_reads(
    analyse: Callable[..., tuple[object, list[Finding]]],
) -> None:
    s = Story()
    acks_0_swallowed(s)
    s.outcomes = [row for row in s.outcomes if row["operation"] != "poll"]
    (lost,) = (f for f in analyse(s, Options())[1] if f.check == "lost")
    assert (lost.verdict, lost.count) == ("invalid", 1)
    assert "no request with it reached the broker; it had a request swallowed by rule eat" in lost.sentence


@pytest.mark.parametrize("read_to", [None, 0, 1])
def test_of_what_nobody_read_no_check_of_the_log_says_that_all_is_well(
    analyse: Callable[..., tuple[object, list[Finding]]], read_to: int | None
) -> None:
    """Another topic was read, or the beginning of this one."""
    s = Story()
    for number in range(2):
        acked(s, 10 * number, f"m{number}", number, read=read_to is not None and number <= read_to)
    s.poll(50, "else", 0, topic="another")
    judged = {f.check: f for f in analyse(s, Options())[1]}
    for check in ("duplicate", "reordered", "inconsistent_offsets"):
        assert judged[check].verdict == ("valid" if read_to == 1 else "unknown")
    if read_to is None:
        assert judged["duplicate"].sentence.startswith("Not judged: of 2 sends no consumer read the partition")


@pytest.mark.parametrize(("did", "ordered"), [("altered_answer", True), ("answered", False)])
def test_what_has_a_first_copy_that_nobody_saw_is_not_out_of_order(
    analyse: Callable[..., tuple[object, list[Finding]]], did: str, ordered: bool
) -> None:
    """Refused in the name of a broker that has it, or of one that it never reached; sent again behind the next one."""
    s = Story()
    refused = by_rule("refuse", "error", did)
    refused["effects"][0]["error_code"] = 19
    outcome = "altered" if did == "altered_answer" else "injected"
    s.produce(0.2, message_ids=["m0"], error_code=19, outcome=outcome, **refused)
    s.produce(1.2, message_ids=["m1"], base_offset=1)
    s.produce(100, message_ids=["m0"], base_offset=2)
    s.send(0, "m0", offset=2, took_ms=105)
    s.send(1, "m1", offset=1)
    found = {f.check: f for f in analyse(s, Options())[1] if f.count}
    assert ("reordered" in found) != ordered
    assert "by rule refuse (error) and was acknowledged on retry" in found["retried"].sentence


def test_a_retry_that_the_broker_asked_for_is_said_to_be_its_doing(
    analyse: Callable[..., tuple[object, list[Finding]]],
) -> None:
    s = Story()
    s.produce(0.2, message_ids=["m0"], error_code=51)
    s.produce(100, message_ids=["m0"], base_offset=0)
    s.send(0, "m0", offset=0, took_ms=105)
    (again,) = (f for f in analyse(s, Options())[1] if f.check == "retried")
    assert "was answered CONCURRENT_TRANSACTIONS by the broker itself and was acknowledged on retry" in again.sentence


def test_a_throttle_time_is_no_word_about_records(analyse: Callable[..., tuple[object, list[Finding]]]) -> None:
    """A broker lost two records and put two in another order; every answer had its throttle time changed, no more."""
    s = Story()
    late = by_rule("hush", "throttle", "altered_answer")
    for number, offset in enumerate((0, 1, 2, 4, 3, 5)):
        s.produce(10 * number, message_ids=[f"m{number}"], base_offset=offset, outcome="altered", **late)
        s.send(10 * number - 0.2, f"m{number}", offset=offset)
    s.holds("m0", "other", "m2", "m4", "m3")
    found = {f.check: f for f in analyse(s, Options())[1] if f.verdict == "invalid"}
    assert {"lost", "inconsistent_offsets", "reordered"} <= found.keys()
    assert [f.sentence for f in found.values() if "hush" in f.sentence] == []


def test_what_kept_a_request_from_the_broker_made_no_copy(
    analyse: Callable[..., tuple[object, list[Finding]]],
) -> None:
    """Cut before the broker had it, then cut with its answer, then acknowledged: the second cut made the copy."""
    s = Story()
    early, later = by_rule("early", "close", "cut"), by_rule("later", "close", "cut", "after_broker")
    s.produce(0, message_ids=["m0"], took_ms=None, outcome="closed", forwarded_at_us=None, **early)
    s.produce(50, message_ids=["m0"], took_ms=None, outcome="closed", **later)
    s.produce(100, message_ids=["m0"], base_offset=1)
    s.send(-0.2, "m0", offset=1, took_ms=105)
    s.holds("m0", "m0")
    (copied,) = (f for f in analyse(s, Options())[1] if f.check == "duplicate" and f.verdict == "invalid")
    assert "by rule later" in copied.sentence
    assert "early" not in copied.sentence


@pytest.mark.parametrize("api_name", ["ShareFetch", "Fetch"])
def test_what_a_share_group_is_given_is_in_no_order(
    analyse: Callable[..., tuple[object, list[Finding]]], api_name: str
) -> None:
    """Its second record is held for a member that was told an error, and comes when the others have been had."""
    s = Story()
    for offset in range(4):
        s.produce(offset, message_ids=[f"m{offset}"], base_offset=offset)
        s.send(offset, f"m{offset}", offset=offset)
    shared = {"client": "sharing", "client_id": "sharing", "group_id": "g"}
    s.exchange(15, "Fetch", client_id="in-order", partitions=[])
    s.exchange(15, api_name, client_id="sharing", group_id="g")
    for at, offset in ((20, 0), (21, 2), (22, 3), (30_022, 1)):
        s.poll(at, f"m{offset}", offset, **shared)
    for offset in range(4):
        s.poll(40 + offset, f"m{offset}", offset, client="in-order", client_id="in-order")
    found = {(f.check, f.verdict, f.count) for f in analyse(s, Options())[1] if f.check in ("read_again", "skipped")}
    if api_name == "Fetch":
        assert found == {("read_again", "valid", 1), ("skipped", "valid", 0)}
    else:
        assert found == {("read_again", "unknown", 0), ("skipped", "unknown", 0)}


def test_a_signature_gives_its_evidence(findings: list[Finding]) -> None:
    said = sentence_of(findings, "looks_like_sarama_hang", "half_answered_with_other_codes")
    assert "refused 3 times, the last time NOT_ENOUGH_REPLICAS by rule lose (error), and then no request" in said
    assert "no request for 10.0 s" in said
    said = sentence_of(findings, "looks_like_sarama_two_minutes", "dialling_in_vain")
    assert "failed only after 6.9 s without an answer by rule firewall (blackhole)" in said


def test_what_an_answer_does_not_speak_of_was_not_refused(findings: list[Finding]) -> None:
    told = [f.group for f in findings if f.check == "wrong_broker" and f.group]
    assert {group.partition for group in told if group.client == "one_of_two_in_a_fetch_session"} == {0}


def test_a_hang_ends_with_its_client(findings: list[Finding]) -> None:
    said = sentence_of(findings, "hang", "killed_while_it_retried")
    assert "had waited 1.5 s when" in said


def test_a_check_without_a_question_is_refused() -> None:
    with pytest.raises(TypeError, match="no docstring"):
        type("Silent", (Check,), {"name": "silent"})
    with pytest.raises(TypeError, match="what its answers mean"):
        type("Vague", (Check,), {"name": "vague", "__doc__": "Is it?"})
    with pytest.raises(TypeError, match="two checks"):
        type("Again", (Check,), {"name": "hang", "__doc__": "Again?", "means": all_checks()[0].means})


def test_the_scala_signature_is_recognised_in_a_client_without_headers(
    analyse: Callable[..., tuple[object, list[Finding]]],
) -> None:
    s = Story()
    for number in range(8):
        wait = 2010 if number in (2, 5) else 1
        s.produce(2100 * number + wait, message_ids=[None], key_hashes=[number], base_offset=number)
        s.send(2100 * number, f"m{number}", key_hash=number, blocked_ms=wait + 3, took_ms=wait + 3)
    found = analyse(s, Options())[1]
    assert [f.verdict for f in found if f.check == "looks_like_scala_refresh_stall"] == ["invalid"]


@pytest.mark.parametrize("check", ["duplicate", "phantom"])
def test_what_only_a_reader_can_rule_out_is_unknown_when_nobody_read(
    analyse: Callable[..., tuple[object, list[Finding]]], check: str
) -> None:
    s = Story()
    acked(s, 0, "m0", 0, read=False)
    s.send(10, "m1", outcome="fail")
    found = [f for f in analyse(s, Options())[1] if f.check == check]
    assert [f.verdict for f in found] == ["unknown"]
    assert "no consumer said what it read" in found[0].sentence.lower()


def test_every_check_has_a_planted_story() -> None:
    assert {check.name for check in all_checks()} == set(EXPECTED)


def test_what_has_cases_has_suspects(told: Tables) -> None:
    """The pass that finds the checks worth asking leaves out none that would find something."""
    able = [check for check in all_checks() if check.possible(told, OPTIONS)]
    found = {row.check for row in cases(told, OPTIONS, able).select("check").distinct().collect()}
    asked = {check.name for check in suspected(told, OPTIONS, able)}
    assert found <= asked


def test_a_check_without_suspects_is_not_asked(build: Callable[..., Tables]) -> None:
    quiet = Story()
    clean(quiet)
    tables = build(quiet, Options())
    asked = {check.name for check in suspected(tables, Options(), all_checks())}
    assert not asked & {"lost", "duplicate", "recovery", "stuck", "unfair_acks"}
    assert not asked & {"skipped", "read_again", "inconsistent_offsets", "reordered"}  # which no single row tells
    assert "phantom" in asked  # which nothing tells for less than itself


def judged_alone(analyse: Callable[..., tuple[object, list[Finding]]], s: Story, check: str) -> Finding:
    (found,) = (finding for finding in analyse(s, Options())[1] if finding.check == check)
    return found


def test_at_level_header_nobody_knows_who_was_in_a_group(analyse: Callable[..., tuple[object, list[Finding]]]) -> None:
    s = Story()
    for offset in range(2):
        s.exchange(10 * offset, "Produce", acks=-1, partitions=[])
        s.send(10 * offset, f"m{offset}", offset=offset)
    for reader in ("a", "b"):
        s.poll(100, "m0", 0, client=reader, group_id="g")
    found = judged_alone(analyse, s, "read_by_another")
    assert found.verdict == "unknown"
    assert "level partition" in found.sentence


@pytest.mark.parametrize("ruled", [True, False])
def test_who_waits_for_records_may_wait_for_what_a_rule_kept_from_being_written(
    analyse: Callable[..., tuple[object, list[Finding]]], *, ruled: bool
) -> None:
    s = Story()
    effect = {"effects": [{"rule": "end", "kind": "error", "did": "answered", "error_code": -1}]}
    fault = {"fault_names": ["end"], "fault_kinds": ["error"], "outcome": "injected", "error_code": -1, **effect}
    s.exchange(0, "EndTxn" if ruled else "Metadata", client_id="pipe", **fault)
    s.exchange(15_000, "Fetch", client_id="app-reader", partitions=[])
    s.poll(10, None, None, outcome="pending", returned_at_us=None, completed_at_us=None)
    found = judged_alone(analyse, s, "hang")
    assert found.verdict == "invalid"
    assert ("whether a fault had a hand in it is not known" in found.sentence) is ruled
