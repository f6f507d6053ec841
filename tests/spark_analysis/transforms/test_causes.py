"""Who is to blame: stories whose guilty rule is known, beside rules that struck then and did nothing to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import MS, START_US, Story

pytestmark = pytest.mark.spark

STORIES: dict[str, Callable[[Story], None]] = {}
OPTIONS = Options(by_run=True, storm_per_s=30, groups_per_check=80)
Effects = list[tuple[str, str, str, int | None, list[int] | None]]


def story(tell: Callable[[Story], None]) -> Callable[[Story], None]:
    STORIES[tell.__name__] = tell
    return tell


def did(*effects: tuple[Any, ...], since_ms: float | None = None, until_ms: float | None = None) -> dict[str, Any]:
    """What rules did to an exchange: (rule, kind, did[, error code[, places]]) each; when the broker answered it
    (`since_ms`) or when it was passed to the broker (`until_ms`), where it was held from or until then."""
    whole: Effects = [(*effect, None, None, None)[:5] if len(effect) < 5 else effect for effect in effects]
    names = ("rule", "kind", "did", "error_code", "partitions", "held_us")
    times = {"broker_responded_at_us": since_ms, "forwarded_at_us": until_ms}
    return {
        "effects": [dict(zip(names, (*effect, None), strict=True)) for effect in whole],
        "fault_names": list(dict.fromkeys(effect[0] for effect in whole)),
        "fault_kinds": list(dict.fromkeys(effect[1] for effect in whole)),
        **{name: START_US + int(at * MS) for name, at in times.items() if at is not None},
    }


def ok(s: Story, at: float, message: str, offset: int, *, sent: float | None = None, **given: Any) -> None:
    """A send of `at` that went out at `sent` and was acknowledged by that exchange."""
    partition, took = given.pop("partition", 0), given.get("took_ms", 2.0)
    left = at + 0.5 if sent is None else sent
    s.produce(left, partition, message_ids=[message], base_offset=offset, **given)
    s.send(at, message, partition=partition, offset=offset, took_ms=left + took + 0.5 - at)


@story
def held_itself(s: Story) -> None:
    ok(s, 0, "m0", 0, took_ms=3000, **did(("long", "stall", "held_answer"), since_ms=2))


@story
def behind_an_answer_that_muted(s: Story) -> None:
    # The answer came at once; what was sent behind it went on when its time was over, and was answered at once.
    both = did(("hush", "throttle", "altered_answer"), ("hush", "throttle", "muted"))
    ok(s, 0, "m0", 0, throttle_time_ms=1500, **both)
    ok(s, 10, "m1", 1, sent=1503)


@story
def did_as_it_was_told_and_waited(s: Story) -> None:
    ok(s, 0, "m0", 0, throttle_time_ms=1500, **did(("hush", "throttle", "altered_answer")))
    ok(s, 10, "m1", 1, sent=1503)


@story
def told_to_wait_and_did_not(s: Story) -> None:
    # As clients do that don't know; then the broker took its time.
    ok(s, 0, "m0", 0, throttle_time_ms=1500, **did(("hush", "throttle", "altered_answer")))
    ok(s, 10, "m1", 1)
    ok(s, 20, "m2", 2, took_ms=1400)


def over_and_never_told(s: Story, **of_the_wire: Any) -> None:
    """Each batch is held for a moment, and over; its client never says so. Most of the time one is held."""
    for number in range(60):
        at = number * 60
        held = did(("idle", "delay", "held_request"), until_ms=at + 50)
        held["effects"][0]["held_us"] = 50_000
        s.produce(at, message_ids=[f"m{number}"], **held, **of_the_wire)
        s.send(at - 1, f"m{number}", took_ms=None)
    s.exchange(10_000, "ApiVersions", connection_id=3)


@story
def answered_and_never_told(s: Story) -> None:
    over_and_never_told(s, took_ms=52)


@story
def passed_on_without_acks_and_never_told(s: Story) -> None:
    over_and_never_told(s, took_ms=None, outcome="no_response", acks=0)


@story
def an_answer_that_never_came(s: Story) -> None:
    # A rule was to delay the answer, and the broker died: the rule did nothing.
    s.produce(
        0, message_ids=["m0"], took_ms=None, outcome="no_response", fault=("idle", "delay"), fault_phase="after_broker"
    )
    s.send(0, "m0", outcome="info", error="timed out", took_ms=4000)


@story
def behind_a_held_one(s: Story) -> None:
    # Kafka answers a connection in order: all behind the head of the queue wait for it, each touched by a trifle.
    ok(s, 0, "m0", 0, took_ms=3000, **did(("long", "stall", "held_answer"), since_ms=2))
    for number in range(1, 5):
        took = 3000 - 10 * number + number * 0.1
        trifle = did(("trifle", "stall", "held_answer"), since_ms=10 * number + 2)
        ok(s, 10 * number, f"m{number}", number, partition=number % 2, took_ms=took, **trifle)


@story
def behind_a_swallowed_one(s: Story) -> None:
    s.produce(
        0, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_response", "swallowed_answer"))
    )
    s.send(0, "m0", outcome="fail", took_ms=4000, error="timed out")
    row = s.exchange(4000, "", event="disconnect", took_ms=None)
    row["api_name"] = row["api_key"] = None
    # Another partition of the same broker, sent when the connection had been given up.
    ok(s, 100, "m1", 0, partition=1, sent=4100, connection_id=2)


@story
def one_partition_of_two(s: Story) -> None:
    # One request, two partitions; the rule answered for one of them, the other was only slow.
    batches = [
        {
            "topic": "orders",
            "partition_index": place,
            "message_ids": [f"m{place}"],
            "base_offset": 0,
            "error_code": code,
        }
        for place, code in ((0, 6), (1, 0))
    ]
    s.exchange(
        0, "Produce", partitions=batches, error_code=6, took_ms=1500, **did(("lose", "error", "answered", 6, [0]))
    )
    s.send(0, "m0", partition=0, outcome="fail", took_ms=1501, error="NotLeader")
    s.send(0, "m1", partition=1, offset=0, took_ms=1502)


@story
def an_error_of_the_broker_s_own(s: Story) -> None:
    s.produce(0, message_ids=["m0"], error_code=10, took_ms=30, **did(("trifle", "stall", "held_answer"), since_ms=2))
    s.send(0, "m0", outcome="fail", took_ms=31, error="MessageSizeTooLarge")


@story
def two_rules_and_one_said_it(s: Story) -> None:
    # Nor is the answer that sent it there to blame.
    s.exchange(-5, "Metadata", outcome="altered", partitions=one_of("orders", 0),
               **did(("wrong", "wrong_leader", "altered_answer")))  # fmt: skip
    both = did(("trifle", "stall", "held_answer"), ("lose", "error", "answered", 6))
    s.produce(0, message_ids=["m0"], error_code=6, outcome="injected", took_ms=5, **both)
    ok(s, 0, "m0", 0, sent=100)


@story
def another_client_s_fault(s: Story) -> None:
    s.exchange(
        0, "Produce", client_id="stranger", connection_id=9, took_ms=5000, **did(("theirs", "stall", "held_answer"))
    )
    ok(s, 0, "m0", 0, took_ms=2500)


@story
def told_of_no_leader(s: Story) -> None:
    for number in range(20):
        s.exchange(100 * number, "Metadata", error_code=5, **did(("no-leader", "leader_election", "altered_answer", 5)))
    s.exchange(2000, "Metadata")
    ok(s, 50, "m0", 0, sent=2010)


@story
def metadata_held_meanwhile(s: Story) -> None:
    # The batch was at the broker all the time: what held a Metadata answer on another connection has no part in it.
    s.exchange(0, "Metadata", connection_id=2, took_ms=2500, **did(("aside", "stall", "held_answer"), since_ms=2))
    ok(s, 0, "m0", 0, took_ms=2500)


@story
def never_answered(s: Story) -> None:
    for number in range(3):
        s.produce(
            100 * number, message_ids=["m0"], error_code=6, outcome="injected", **did(("lose", "error", "answered", 6))
        )
    s.send(0, "m0", took_ms=None)
    s.exchange(30_000, "Metadata")


def damaged(s: Story, *later: str) -> None:
    """A batch that a rule changed, and that its broker refused; then one that went well, and failures off the wire."""
    s.produce(0, message_ids=["m0"], error_code=2, **did(("damage", "corrupt", "altered_request")))
    s.send(0, "m0", outcome="fail", error="CorruptRecordError", took_ms=5)
    ok(s, 100, "m1", 0)
    for number, error in enumerate(later):
        s.send(200 + 100 * number, f"n{number}", outcome="fail", error=error, took_ms=1)


@story
def followed_by_the_error_of_a_changed_batch(s: Story) -> None:
    damaged(s, "CorruptRecordError", "CorruptRecordError")


@story
def followed_by_another_error_than_a_changed_batch_s(s: Story) -> None:
    damaged(s, "BufferError")


@story
def followed_by_a_sequence_error(s: Story) -> None:
    batch: dict[str, Any] = {"message_ids": ["m0"], "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    s.produce(0, **batch, outcome="dropped", took_ms=None, **did(("eat", "drop_request", "swallowed_request")))
    s.produce(500, **batch, error_code=45)
    s.send(0, "m0", outcome="fail", took_ms=510, error="OutOfOrderSequence")


@story
def failing_after_throttled_ones(s: Story) -> None:
    # Both were answered well, late, the second after a refusal of the broker's own; then the client was closed.
    both = did(("hush", "throttle", "altered_answer"), ("hush", "throttle", "muted"))
    s.produce(0, message_ids=["m0"], error_code=6)
    s.produce(50, message_ids=["m0"], base_offset=0, throttle_time_ms=1, **both)
    s.send(-0.5, "m0", outcome="fail", took_ms=60, error="RequestTimedOutLocally")
    for number in (1, 2):
        s.send(100 * number, f"m{number}", outcome="fail", took_ms=1, error="Closed")


@story
def copied(s: Story) -> None:
    trifle = ("trifle", "stall", "held_request")
    s.produce(0, message_ids=["m0"], base_offset=0, outcome="dropped", took_ms=None,
              **did(trifle, ("eat", "drop_response", "swallowed_answer"), until_ms=5))  # fmt: skip
    s.poll(40, "m0", 0)
    ok(s, 0, "m0", 1, sent=500, **did(trifle, until_ms=505))
    s.poll(600, "m0", 1)


@story
def sent_once_and_copied(s: Story) -> None:
    # Its answer was swallowed as well, and nobody sent it again.
    s.produce(0, message_ids=["m0"], base_offset=0, outcome="dropped", took_ms=None,
              **did(("twice", "duplicate", "repeated"), ("eat", "drop_response", "swallowed_answer")))  # fmt: skip
    s.send(0, "m0", outcome="info", error="timed out", took_ms=4000)
    s.poll(40, "m0", 0)
    s.poll(50, "m0", 1)


@story
def refused_once_and_then_the_broker_was_slow(s: Story) -> None:
    s.produce(0.5, message_ids=["m0"], error_code=6, outcome="injected", **did(("lose", "error", "answered", 6)))
    ok(s, 0, "m0", 0, sent=100, took_ms=2900)


@story
def delayed_a_trifle_until_its_broker_was_gone(s: Story) -> None:
    # A rule holds everything for a moment; the last of it was in the broker's hands when that ended.
    def trifle(at: float) -> dict[str, Any]:
        held = did(("trifle", "delay", "held_request"), until_ms=at + 5)
        held["effects"][0]["held_us"] = 5 * MS
        return held

    for number in range(40):
        ok(s, 10 * number, f"m{number}", number, sent=10 * number, took_ms=6, **trifle(10 * number))
    s.produce(400, message_ids=["m40"], outcome="no_response", took_ms=None, **trifle(400))
    s.exchange(445, "", event="disconnect", took_ms=None, client_id=None)
    s.produce(1500, message_ids=["m40"], base_offset=40, connection_id=2)
    s.send(399, "m40", offset=40, took_ms=1105)


@story
def overtaken_by_the_next_one(s: Story) -> None:
    s.produce(
        0.5, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_request", "swallowed_request"))
    )
    ok(s, 1, "m1", 0, **did(("trifle", "delay", "held_answer"), since_ms=2))
    ok(s, 0, "m0", 1, sent=20)


@story
def told_an_offset_that_is_too_large(s: Story) -> None:
    ok(s, 0, "m0", 5, **did(("trifle", "delay", "held_answer"), ("lie", "offset_lie", "altered_answer"), since_ms=1))
    ok(s, 10, "m1", 1)


@story
def refused_for_what_a_rule_changed(s: Story) -> None:
    s.produce(0, message_ids=["m0"], error_code=2, **did(("damage", "corrupt", "altered_request")))
    s.send(0, "m0", outcome="fail", error="CorruptRecordError")


@story
def kept_behind_a_swallowed_one(s: Story) -> None:
    s.produce(
        0, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_response", "swallowed_answer"))
    )
    s.produce(5, message_ids=["m1"], outcome="no_response", took_ms=None)
    for number in range(2):
        s.produce(100 + 5 * number, message_ids=[f"m{number}"], base_offset=2 + number, connection_id=2)
        s.send(5 * number, f"m{number}", offset=2 + number, took_ms=110)
        s.poll(200 + number, f"m{number}", number)
        s.poll(210 + number, f"m{number}", 2 + number)


@story
def kept_behind_one_that_a_trifle_held(s: Story) -> None:
    # What is behind a swallowed answer waits for that one, however short the hold was that it met itself.
    s.produce(
        0, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_response", "swallowed_answer"))
    )
    for number in (1, 2):
        trifle = did(("trifle", "delay", "held_answer"), since_ms=5 * number + 2)
        trifle["effects"][0]["held_us"] = 15 * MS
        s.produce(5 * number, message_ids=[f"m{number}"], outcome="no_response", took_ms=None, **trifle)
    for number in range(3):
        s.produce(2000 + 5 * number, message_ids=[f"m{number}"], base_offset=3 + number, connection_id=2)
        s.send(5 * number, f"m{number}", offset=3 + number, took_ms=2010)
        s.poll(2200 + number, f"m{number}", number)
        s.poll(2210 + number, f"m{number}", 3 + number)


@story
def cut_off_with_its_connection(s: Story) -> None:
    # The connection was cut under the second request: the first one, which waited for its answer there, went with it.
    s.produce(0, message_ids=["m0"], outcome="no_response", took_ms=None)
    s.produce(5, message_ids=["m1"], outcome="closed", took_ms=None, **did(("break", "reset", "cut")))
    for number in range(2):
        s.produce(100 + 5 * number, message_ids=[f"m{number}"], base_offset=number, connection_id=2)
        s.send(5 * number, f"m{number}", offset=number, took_ms=110)


@story
def lost_after_it_was_sent_again(s: Story) -> None:
    # The broker acknowledged it in the end: neither what cut it off before nor what held it lost it.
    s.produce(1, message_ids=["m1"], outcome="closed", took_ms=None, **did(("break", "reset", "cut")))
    held = did(("trifle", "delay", "held_request"), until_ms=101)
    for number, given in enumerate(({}, {"sent": 100, "connection_id": 2, **held}, {})):
        ok(s, number * 0.1, f"m{number}", number, **given)
    for number in (0, 2):
        s.poll(200 + number, f"m{number}", number)


@story
def acknowledged_by_what_came_behind(s: Story) -> None:
    # All that carried it was refused, and its client took the next batch's success for its own.
    refused: dict[str, Any] = {"error_code": 6, "outcome": "injected", "fault_phase": "before_broker"}
    s.produce(1, message_ids=["m0"], took_ms=40, **refused, **did(("refuse", "error", "answered", 6)))
    s.send(0, "m0", took_ms=50)
    for number in (1, 2):
        ok(s, 20 * number, f"m{number}", number - 1)
        s.poll(200 + number, f"m{number}", number - 1)


@story
def lost_after_it_was_refused_and_sent_again(s: Story) -> None:
    # The broker acknowledged it in the end: who refused it before lost nothing.
    refused: dict[str, Any] = {"error_code": 6, "outcome": "injected", "fault_phase": "before_broker"}
    s.produce(1, message_ids=["m1"], took_ms=1, **refused, **did(("refuse", "error", "answered", 6)))
    for number in range(3):
        ok(s, 10 + number, f"m{number}", number)
    for number in (0, 2):
        s.poll(200 + number, f"m{number}", number)


@story
def fleet_starting_together(s: Story) -> None:
    for number in range(60):
        for event in ("connect", "exchange"):
            row = s.exchange(number, "Metadata", event=event, connection_id=100 + number, client_id="rdkafka")
            row["exchange_seq"] = 1 if event == "exchange" else None


def one_of(topic: str, partition: int, **given: Any) -> list[dict[str, Any]]:
    """One partition of a request."""
    nothing = dict.fromkeys(("topic_id", "producer_id", "producer_epoch", "base_sequence", "record_count"))
    return [{**nothing, "topic": topic, "partition_index": partition, "error_code": 0, **given}]


@story
def held_by_two_for_long_and_for_a_trifle(s: Story) -> None:
    # As a proxy records it that says for how long each held it.
    held = did(("trifle", "delay", "held_answer"), ("long", "delay", "held_answer"), since_ms=2)
    for effect, held_ms in zip(held["effects"], (15, 2900), strict=True):
        effect["held_us"] = held_ms * MS
    ok(s, 0, "m0", 0, took_ms=2917, **held)
    ok(s, 10, "m1", 1, took_ms=2917)


@story
def held_by_a_thin_line(s: Story) -> None:
    thin = did(("thin", "bandwidth", "held_request"), until_ms=2500)
    thin["effects"][0]["held_us"] = 2500 * MS
    ok(s, 0, "m0", 0, took_ms=2600, **thin)


@story
def refused_and_then_not_even_sent(s: Story) -> None:
    error = 'KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="%s"}'
    code: dict[str, Any] = {"error_code": 29, "outcome": "injected", "took_ms": 1}
    s.produce(1, message_ids=["m0"], **code, **did(("refuse", "error", "answered", 29)))
    s.send(0, "m0", outcome="fail", took_ms=3, error=error % "Broker: Topic authorization failed")
    for number in (1, 2):
        s.exchange(20 * number, "Fetch", took_ms=60, connection_id=2, **did(("trifle", "delay", "held_request")))
        s.send(20 * number, f"m{number}", outcome="fail", took_ms=0.1, error=error % "Unable to produce message")
    # The same again much later, when nothing of ours refuses any more; and another topic's.
    s.send(60_000, "m3", outcome="fail", took_ms=0.1, error=error % "Unable to produce message")
    s.send(25, "m4", outcome="fail", took_ms=0.1, topic="invoices", error=error % "Unable to produce message")
    ok(s, 61_000, "m5", 0)


@story
def a_sequence_stays_broken(s: Story) -> None:
    batch: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
    s.produce(1, message_ids=["m0"], base_sequence=0, error_code=47, outcome="injected", took_ms=1, **batch,
              **did(("fence", "error", "answered", 47)))  # fmt: skip
    s.send(0, "m0", outcome="info", took_ms=3, error="ProducerFenced")
    for number in range(1, 4):
        s.produce(100 * number, message_ids=[f"m{number}"], base_sequence=number, error_code=45, took_ms=1, **batch)
        s.send(100 * number - 1, f"m{number}", outcome="info", took_ms=4, error="OutOfOrderSequenceNumber: [Error 45]")


@story
def a_hole_in_the_sequence(s: Story) -> None:
    # What was under way behind the refused batch comes out of sequence until that is sent again.
    batch: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "took_ms": 2.0}
    s.produce(1, message_ids=["m0"], base_sequence=0, error_code=6, outcome="injected", **batch,
              **did(("refuse", "error", "answered", 6)))  # fmt: skip
    s.produce(5, message_ids=["m1"], base_sequence=1, error_code=45, **batch)
    s.produce(6, message_ids=["m2"], base_sequence=2, error_code=45, **batch)
    for number in range(3):
        s.produce(100 + 5 * number, message_ids=[f"m{number}"], base_sequence=number, base_offset=number, **batch)
        s.send(number, f"m{number}", offset=number, took_ms=104 + 4 * number)


@story
def out_of_sequence_once_the_hole_was_filled(s: Story) -> None:
    batch: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "took_ms": 2.0}
    s.produce(1, message_ids=["m0"], base_sequence=0, error_code=6, outcome="injected", **batch,
              **did(("refuse", "error", "answered", 6)))  # fmt: skip
    s.produce(10, message_ids=["m0"], base_sequence=0, base_offset=0, **batch)
    s.send(0, "m0", offset=0, took_ms=14)
    # Another partition has sequences of its own.
    s.produce(2, 1, message_ids=["m1"], base_sequence=0, error_code=45, **batch)
    s.produce(12, 1, message_ids=["m1"], base_sequence=0, base_offset=0, **batch)
    s.send(0, "m1", partition=1, offset=0, took_ms=15)
    s.produce(20, message_ids=["m2"], base_sequence=1, error_code=45, **batch)
    s.produce(30, message_ids=["m2"], base_sequence=1, base_offset=1, **batch)
    s.send(19, "m2", offset=1, took_ms=14)


@story
def a_commit_refused(s: Story) -> None:
    place = one_of("orders", 0, base_offset=30, error_code=30)
    s.exchange(1, "OffsetCommit", group_id="g", outcome="injected", error_code=30, partitions=place,
               **did(("refuse", "error", "answered", 30)))  # fmt: skip
    s.send(0, None, operation="commit", group_id="g", offset=30, outcome="fail", error="[Error 30]", took_ms=4)
    s.exchange(
        101, "OffsetCommit", group_id="g", error_code=27, partitions=one_of("orders", 0, base_offset=40, error_code=27)
    )
    s.send(100, None, operation="commit", group_id="g", offset=40, outcome="fail", error="[Error 27]", took_ms=4)


def failed_read(s: Story, called: float, at: float, error: str) -> None:
    begun = START_US + int(called * MS)
    s.poll(at, None, None, client=s.client, called_at_us=begun, outcome="info", error=error)


def told_a_lie(s: Story, at: float, topic: str = "orders") -> None:
    """A Fetch that a rule answered: out of range."""
    told = did(("lie", "error", "answered", 1))
    s.exchange(at, "Fetch", outcome="injected", partitions=one_of(topic, 0, error_code=1), **told)


@story
def a_read_refused(s: Story) -> None:
    told_a_lie(s, 4000)
    s.exchange(4010, "Fetch", partitions=one_of("orders", 0, error_code=0))
    failed_read(s, 0, 4050, "OffsetOutOfRangeException: position 9 is out of range")


@story
def a_read_refused_in_other_words(s: Story) -> None:
    told_a_lie(s, 4000)
    failed_read(s, 0, 4050, "records may have been lost")


@story
def a_read_called_after_a_refusal(s: Story) -> None:
    told_a_lie(s, 4000)
    failed_read(s, 4060, 8000, "no records in 4 s")


@story
def a_read_refused_by_the_broker_in_the_end(s: Story) -> None:
    told_a_lie(s, 0)
    s.exchange(4000, "Fetch", partitions=one_of("orders", 0, error_code=1))
    failed_read(s, 0, 4050, "OffsetOutOfRangeException")


@story
def another_topic_s_read_refused(s: Story) -> None:
    told_a_lie(s, 4000, "invoices")
    failed_read(s, 0, 4050, "OffsetOutOfRangeException")


@story
def sent_back_by_a_lie(s: Story) -> None:
    reads = {"client": s.client, "group_id": "g"}
    for offset in range(6):
        s.poll(offset, f"m{offset}", offset, **reads)
    told_a_lie(s, 10)
    s.exchange(11, "Heartbeat", group_id="g", error_code=27, outcome="injected",
               **did(("shake", "error", "answered", 27)))  # fmt: skip
    for offset in range(6):
        s.poll(20 + offset, f"m{offset}", offset, **reads)


@story
def sent_back_out_of_its_group(s: Story) -> None:
    reads = {"client": s.client, "group_id": "g"}
    s.exchange(0, "Heartbeat", group_id="g", error_code=27, outcome="injected",
               **did(("early", "error", "answered", 27)))  # fmt: skip
    for offset in range(6):
        s.poll(5 + offset, f"m{offset}", offset, **reads)
    s.exchange(20, "Heartbeat", group_id="g", error_code=27, outcome="injected",
               **did(("shake", "error", "answered", 27)))  # fmt: skip
    for offset in range(6):
        s.poll(30 + offset, f"m{offset}", offset, **reads)


@story
def thrown_out_and_reading_on_for_a_moment(s: Story) -> None:
    reads = {"client": s.client, "group_id": "g"}
    s.poll(0, "m0", 0, **reads)
    s.exchange(100, "Heartbeat", group_id="g", error_code=27, outcome="injected",
               **did(("shake", "error", "answered", 27)))  # fmt: skip
    s.poll(104, "m1", 1, **reads)
    s.poll(1300, "m1", 1, **reads)


def thrown_out_beside_a_held_fetch(s: Story, *, connection: int) -> None:
    """What its group refuses throws it out; a Fetch is held meanwhile, on that connection of the client."""
    reads = {"client": s.client, "group_id": "g"}
    s.poll(0, "m0", 0, **reads)
    s.exchange(50, "Heartbeat", group_id="g", connection_id=7)
    s.exchange(90, "Fetch", connection_id=connection, took_ms=1150, partitions=one_of("orders", 0),
               **did(("slow", "delay", "held_answer"), since_ms=91))  # fmt: skip
    s.exchange(100, "OffsetCommit", group_id="g", connection_id=7, error_code=22, outcome="altered",
               partitions=one_of("orders", 0, base_offset=1, error_code=22),
               **did(("shake", "error", "altered_answer", 22)))  # fmt: skip
    s.poll(104, "m1", 1, **reads)
    s.poll(1300, "m1", 1, **reads)


def hands_out_what_it_has(s: Story, *, back_at: float, given_up_at: float | None = None) -> None:
    """Who is out of its group, refused or without a word for long, reads on until it is a member, and then again."""
    member: dict[str, Any] = {"group_id": "g", "connection_id": 7}
    reads = {"client": s.client, "group_id": "g"}
    if given_up_at is None:
        s.exchange(100, "Heartbeat", error_code=25, outcome="injected", took_ms=1, **member,
                   **did(("gone", "error", "answered", 25)))  # fmt: skip
    else:
        # Let go long after its client had left.
        s.exchange(100, "Heartbeat", took_ms=12_000, group_id="g", connection_id=6,
                   **did(("gone", "stall", "held_request"), until_ms=12_050))  # fmt: skip
        link_event(s, given_up_at, "disconnect", 6)
    s.exchange((given_up_at or 100) + 2, "JoinGroup", took_ms=20, **member)
    s.exchange(back_at - 5, "SyncGroup", took_ms=5, **member)
    for number in range(5):
        s.poll(number * 2000, f"m{number}", number, **reads)
    s.exchange(8010, "OffsetCommit", partitions=one_of("orders", 0, base_offset=5), took_ms=2, **member)
    s.poll(8500, "m1", 1, **reads)


@story
def hands_out_what_it_has_until_it_is_a_member_again(s: Story) -> None:
    hands_out_what_it_has(s, back_at=7500)


@story
def hands_out_what_it_has_until_it_gives_up_and_joins_anew(s: Story) -> None:
    hands_out_what_it_has(s, back_at=7500, given_up_at=7400)


@story
def hands_out_what_it_has_and_joins_anew_for_another_reason(s: Story) -> None:
    hands_out_what_it_has(s, back_at=7500, given_up_at=2000)
    s.exchanges[-3]["request_at_us"] += 5_000_000


@story
def reads_on_long_after_it_is_a_member_again(s: Story) -> None:
    hands_out_what_it_has(s, back_at=4000)


def back_in_its_group(s: Story, *, fetched_at: float, read_at: float, goes_on_at: int) -> None:
    """Thrown out, and a member again whom its group tells where to go on; then it reads its second record again."""
    own: dict[str, Any] = {"client_id": s.client}
    member: dict[str, Any] = {"group_id": "g", "connection_id": 7, **own}
    s.exchange(fetched_at, "Fetch", took_ms=1, connection_id=8, partitions=one_of("orders", 0, base_offset=0,
               record_count=5), **own)  # fmt: skip
    s.exchange(80, "OffsetCommit", took_ms=1, partitions=one_of("orders", 0, base_offset=goes_on_at), **member)
    s.exchange(100, "Heartbeat", error_code=25, outcome="injected", took_ms=1, **member,
               **did(("gone", "error", "answered", 25)))  # fmt: skip
    s.exchange(102, "JoinGroup", took_ms=20, **member)
    s.exchange(495, "SyncGroup", took_ms=5, **member)
    s.exchange(505, "OffsetFetch", took_ms=1, partitions=one_of("orders", 0, base_offset=goes_on_at), **member)
    for number in range(5):
        s.poll(read_at + number, f"m{number}", number, client=s.client, group_id="g")
    s.poll(1000, "m1", 1, client=s.client, group_id="g")


@story
def back_in_its_group_it_goes_on_where_it_had_committed(s: Story) -> None:
    back_in_its_group(s, fetched_at=50, read_at=60, goes_on_at=1)


@story
def back_in_its_group_it_hands_out_what_it_had(s: Story) -> None:
    back_in_its_group(s, fetched_at=50, read_at=620, goes_on_at=0)


@story
def back_in_its_group_it_goes_back_in_what_it_got_since(s: Story) -> None:
    back_in_its_group(s, fetched_at=600, read_at=620, goes_on_at=0)


@story
def back_in_its_group_it_goes_back_behind_what_it_was_told(s: Story) -> None:
    back_in_its_group(s, fetched_at=50, read_at=60, goes_on_at=5)


@story
def thrown_out_while_a_fetch_is_held_elsewhere(s: Story) -> None:
    thrown_out_beside_a_held_fetch(s, connection=8)


@story
def thrown_out_behind_a_held_fetch(s: Story) -> None:
    # Some clients send all that a broker is asked over one connection: behind a Fetch that is held nothing is heard.
    thrown_out_beside_a_held_fetch(s, connection=7)


def waits_to_read(s: Story, asked_at: float, **of_the_fetch: Any) -> None:
    """A member whose heartbeats are refused for long gets its next record with the Fetch of `asked_at`."""
    member: dict[str, Any] = {"client_id": s.client, "group_id": s.client}
    reads = {**member, "client": s.client}
    fetch = {"client_id": s.client, "connection_id": 8}
    ok(s, 0, "m0", 0)
    s.exchange(4, "Fetch", partitions=one_of("orders", 0, base_offset=0, record_count=1), **fetch)
    s.poll(30, "m0", 0, **reads)
    ok(s, 40, "m1", 1)
    for at in range(60, 2500, 300):
        s.exchange(at, "Heartbeat", connection_id=7, error_code=16, outcome="injected", took_ms=1, **member,
                   **did(("elsewhere", "error", "answered", 16)))  # fmt: skip
    s.exchange(2520, "Heartbeat", connection_id=7, **member)
    s.exchange(asked_at, "Fetch", partitions=one_of("orders", 0, base_offset=1, record_count=1), **fetch,
               **of_the_fetch)  # fmt: skip
    s.poll(2560, "m1", 1, **reads)


@story
def handed_out_late_while_its_group_was_refused(s: Story) -> None:
    waits_to_read(s, 50, took_ms=2500, **did(("slow", "delay", "held_answer"), since_ms=52))


@story
def asked_for_late_as_its_group_was_refused(s: Story) -> None:
    waits_to_read(s, 2530, took_ms=15, **did(("slow", "delay", "held_answer"), since_ms=2532))


def never_reads_again(s: Story, *, fetches_until: float) -> None:
    """Its connection was cut when it had read there last; it fetches on from another broker."""
    reads = {"client": s.client, "client_id": s.client, "group_id": s.client}
    ok(s, 0, "m0", 0)
    s.poll(30, "m0", 0, **reads)
    s.exchange(40, "Fetch", connection_id=7, outcome="closed", took_ms=None, partitions=one_of("orders", 0),
               **did(("break", "reset", "cut")))  # fmt: skip
    link_event(s, 41, "disconnect", 7, **did(("break", "reset", "cut")))
    ok(s, 50, "m1", 1)
    for at in range(60, int(fetches_until), 500):
        s.exchange(at, "Fetch", connection_id=8, node_id=2, partitions=one_of("invoices", 0))
    s.exchange(9000, "Heartbeat", connection_id=9, node_id=2, group_id=s.client)


@story
def never_reads_again_after_a_cut(s: Story) -> None:
    never_reads_again(s, fetches_until=9000)


def reads_on_late(s: Story, group_id: str | None, **done: Any) -> None:
    """A group reads for a producer that commits its places (KIP-98); after one of these commits it pauses for long."""
    reads = {"client": s.client, "client_id": s.client, "group_id": s.client}
    out = f"{s.client}-out"
    s.send(1, None, client=out, client_id=out, topic="invoices")
    ok(s, 0, "m0", 0)
    s.poll(30, "m0", 0, **reads)
    s.exchange(40, "TxnOffsetCommit", client_id=out, connection_id=5, group_id=group_id or s.client,
               partitions=one_of("orders", 0, base_offset=1), **done)  # fmt: skip
    ok(s, 50, "m1", 1)
    s.exchange(30_000, "InitProducerId", client_id=out, connection_id=5)
    s.exchange(30_010, "Fetch", connection_id=8, partitions=one_of("orders", 0, base_offset=1, record_count=1))
    s.poll(30_030, "m1", 1, **reads)


@story
def waits_for_its_producer_that_was_fenced(s: Story) -> None:
    reads_on_late(s, None, outcome="injected", error_code=47, **did(("fence", "error", "answered", 47)))


@story
def waits_for_its_producer_that_was_refused_once(s: Story) -> None:
    reads_on_late(s, None, outcome="injected", error_code=14, **did(("fence", "error", "answered", 14)))
    s.exchange(60, "TxnOffsetCommit", client_id=f"{s.client}-out", connection_id=5, group_id=s.client,
               partitions=one_of("orders", 0, base_offset=1))  # fmt: skip


@story
def waits_beside_another_group_s_fenced_producer(s: Story) -> None:
    reads_on_late(s, f"{s.client}-others", outcome="injected", error_code=47, **did(("fence", "error", "answered", 47)))


@story
def reads_nothing_at_all_after_a_cut(s: Story) -> None:
    # Its application may have no more wish to.
    never_reads_again(s, fetches_until=3000)


def read_what_was_changed(s: Story, at: float) -> None:
    """Records that a rule changed; its client trips over them and asks for what is nowhere."""
    s.exchange(at, "Fetch", outcome="altered", partitions=one_of("orders", 0, base_offset=9, record_count=3),
               **did(("damage", "corrupt", "altered_answer", None, [0])))  # fmt: skip


@story
def a_read_of_changed_records(s: Story) -> None:
    read_what_was_changed(s, 4000)
    failed_read(s, 0, 4050, "_BAD_MSG: MessageSet at offset 9 failed CRC32C check")


@story
def a_read_of_changed_records_in_other_words(s: Story) -> None:
    read_what_was_changed(s, 4000)
    failed_read(s, 0, 4050, "records may have been lost")


@story
def a_read_of_records_that_were_as_they_are(s: Story) -> None:
    # Only when the client may ask again was changed.
    s.exchange(4000, "Fetch", outcome="altered", partitions=one_of("orders", 0, base_offset=9, record_count=3),
               **did(("hush", "throttle", "altered_answer")))  # fmt: skip
    failed_read(s, 0, 4050, "_BAD_MSG: MessageSet at offset 9 failed CRC32C check")


@story
def sent_back_by_changed_records(s: Story) -> None:
    reads = {"client": s.client, "group_id": "g"}
    for offset in range(6):
        s.poll(5 + offset, f"m{offset}", offset, **reads)
    read_what_was_changed(s, 20)
    s.exchange(24, "Fetch", error_code=1, partitions=one_of("orders", 0, error_code=1))
    for offset in range(6):
        s.poll(30 + offset, f"m{offset}", offset, **reads)


@story
def thrown_out_behind_a_swallowed_answer(s: Story) -> None:
    # It goes on reading while nothing keeps it in its group, and reads that again when it is back.
    reads = {"client": s.client, "group_id": "g"}
    s.poll(0, "m0", 0, **reads)
    s.exchange(1, "Heartbeat", group_id="g", outcome="dropped", took_ms=None, connection_id=5,
               **did(("eat", "drop_response", "swallowed_answer")))  # fmt: skip
    for offset in range(1, 4):
        s.poll(1000 * offset, f"m{offset}", offset, **reads)
    row = s.exchange(7000, "", event="disconnect", took_ms=None, connection_id=5)
    row["api_name"] = row["api_key"] = None
    for offset in range(1, 4):
        s.poll(13_000 + offset, f"m{offset}", offset, **reads)


def handed_over(s: Story, join: str | None, *, refused: bool) -> None:
    """A member of a group reads and commits, and when it is gone another one reads on at 40 s; `s.client` is the group.

    The last commit that was taken is of offset 2, and where one was `refused` that would have been of offset 5.
    """
    whose = {"group_id": s.client}
    first, second = f"{s.client}-first", f"{s.client}-second"
    for at, client in ((0, first), (30_000, second)):
        if join is not None:
            s.exchange(at, join, client_id=client, **whose)
    for offset in range(8):
        s.poll(10 + 1000 * offset, f"m{offset}", offset, client=first, client_id=first, **whose)
    commit = {"client_id": first, **whose}
    s.exchange(1500, "OffsetCommit", partitions=one_of("orders", 0, base_offset=2), **commit)
    if refused:
        code = {"outcome": "injected", "error_code": 28}
        place = one_of("orders", 0, base_offset=5, error_code=28)
        s.exchange(5000, "OffsetCommit", partitions=place, **code, **commit,
                   **did(("refuse", "error", "answered", 28)))  # fmt: skip
    begins = 2 if refused else 5
    for offset in range(begins, 8):
        s.poll(40_000 + offset, f"m{offset}", offset, client=second, client_id=second, **whose)


@story
def read_by_another_behind_a_refused_commit(s: Story) -> None:
    handed_over(s, "JoinGroup", refused=True)


@story
def read_by_another_that_nobody_sent_back(s: Story) -> None:
    # A rule refused a commit of what the other one does not read again.
    handed_over(s, "ConsumerGroupHeartbeat", refused=False)
    place = one_of("orders", 0, base_offset=1, error_code=28)
    s.exchange(1000, "OffsetCommit", client_id=f"{s.client}-first", group_id=s.client, outcome="injected",
               error_code=28, partitions=place, **did(("refuse", "error", "answered", 28)))  # fmt: skip


@story
def read_by_two_that_share_but_a_name(s: Story) -> None:
    # Neither asked to join: each reads what it was assigned by its own application.
    handed_over(s, None, refused=True)


def shaken_beside(s: Story, **shaken: Any) -> None:
    """One member of the group `s.client` reads what it had read, after another one met something in the middle."""
    other = {"client_id": f"{s.client}-other", "group_id": s.client}
    s.exchange(0, "JoinGroup", group_id=s.client)
    s.exchange(0, "JoinGroup", **other)
    s.poll(0, "m7", 7, partition=1, client=other["client_id"], **other)
    for offset in range(6):
        s.poll(5 + offset, f"m{offset}", offset, client=s.client, group_id=s.client)
    s.exchange(20, shaken.pop("api", "Heartbeat"), **other, **shaken)
    for offset in range(6):
        s.poll(2030 + offset, f"m{offset}", offset, client=s.client, group_id=s.client)


@story
def sent_back_with_another_of_its_group(s: Story) -> None:
    shaken_beside(s, error_code=25, outcome="injected", **did(("shake", "error", "answered", 25)))


@story
def sent_back_by_another_one_s_commit(s: Story) -> None:
    place = one_of("orders", 1, base_offset=8, error_code=22)
    shaken_beside(s, api="OffsetCommit", error_code=22, outcome="injected", partitions=place,
                  **did(("shake", "error", "answered", 22)))  # fmt: skip


def transforming(s: Story, group_id: str | None = None, **done: Any) -> None:
    """A group reads for a producer that commits its places (KIP-98), and begins anew where it had been before."""
    reader = {"client": s.client, "group_id": s.client}
    s.exchange(0, "JoinGroup", group_id=s.client)
    s.poll(5, "m0", 0, **reader)
    s.exchange(7, "TxnOffsetCommit", client_id=f"{s.client}-out", group_id=s.client,
               partitions=one_of("orders", 0, base_offset=1))  # fmt: skip
    for offset in range(1, 7):
        s.poll(9 + offset, f"m{offset}", offset, **reader)
    s.exchange(20, "TxnOffsetCommit", client_id=f"{s.client}-out", group_id=group_id or s.client,
               partitions=one_of("orders", 0, base_offset=7), **done)  # fmt: skip
    for offset in range(1, 7):
        s.poll(40 + offset, f"m{offset}", offset, **reader)


def sent_back_as_a_transaction_was_ended(s: Story, of: str) -> None:
    """A group reads for a producer that commits its places; a transaction is ended, and it begins anew."""
    reader = {"client": s.client, "group_id": s.client}
    out = {"client_id": f"{s.client}-out"}
    s.exchange(0, "JoinGroup", group_id=s.client)
    s.exchange(7, "TxnOffsetCommit", group_id=s.client, transactional_id=s.client,
               partitions=one_of("orders", 0, base_offset=1), **out)  # fmt: skip
    for offset in range(4):
        s.poll(9 + offset, f"m{offset}", offset, **reader)
    s.exchange(14, "Produce", outcome="injected", error_code=47, partitions=one_of("copies", 0, error_code=47),
               transactional_id=of, **out, **did(("fence", "error", "answered", 47, [0])))  # fmt: skip
    s.poll(15, "m4", 4, **reader)
    for offset in range(1, 5):
        s.poll(40 + offset, f"m{offset}", offset, **reader)


@story
def sent_back_as_its_producer_s_transaction_was_ended(s: Story) -> None:
    sent_back_as_a_transaction_was_ended(s, s.client)


@story
def sent_back_beside_another_producer_s_transaction(s: Story) -> None:
    sent_back_as_a_transaction_was_ended(s, "another")


@story
def sent_back_as_its_producer_s_commit_was_refused(s: Story) -> None:
    transforming(s, outcome="injected", error_code=14, **did(("shake", "error", "answered", 14)))


@story
def sent_back_beside_another_group_s_refused_commit(s: Story) -> None:
    told = did(("shake", "error", "answered", 14))
    transforming(s, group_id=f"{s.client}-others", outcome="injected", error_code=14, **told)


@story
def sent_back_beside_one_that_was_late(s: Story) -> None:
    shaken_beside(s, took_ms=1500, **did(("slow", "delay", "held_request"), until_ms=1519))


@story
def one_partition_held(s: Story) -> None:
    everywhere = ("hush", "throttle", "altered_answer")
    for number in range(20):
        ok(s, 400 * number, f"a{number}", number, partition=0, **did(everywhere))
        slow, trifle = (("slow", "delay", "held_request"), ("trifle", "delay", "held_request"))
        held = did(slow, trifle, everywhere, until_ms=400 * number + 303)
        for effect, held_ms in zip(held["effects"], (300, 2), strict=False):
            effect["held_us"] = held_ms * MS
        ok(s, 400 * number + 1, f"b{number}", number, partition=1, took_ms=304, **held)


@story
def one_partition_slow_by_itself(s: Story) -> None:
    # One of them the broker refused once.
    s.produce(1, 1, message_ids=["b0"], error_code=6, took_ms=1)
    for number in range(20):
        ok(s, 400 * number, f"a{number}", number, partition=0)
        ok(s, 400 * number, f"b{number}", number, partition=1, took_ms=304, sent=400 * number + 3)


@story
def one_partition_slow_and_in_part_by_a_rule(s: Story) -> None:
    # Too few of its sends were held for the rule to be named, and too many for the rest to clear it.
    for number in range(20):
        ok(s, 400 * number, f"a{number}", number, partition=0)
        held = did(("slow", "delay", "held_request"), until_ms=400 * number + 303) if number < 9 else {}
        if held:
            held["effects"][0]["held_us"] = 300 * MS
        took_ms = 304 if number < 11 else 2
        ok(s, 400 * number + 1, f"b{number}", number, partition=1, took_ms=took_ms, **held)


@story
def one_partition_slow_and_once_held(s: Story) -> None:
    for number in range(20):
        ok(s, 400 * number, f"a{number}", number, partition=0)
        held = did(("slow", "delay", "held_request"), until_ms=400 * number + 303) if number < 2 else {}
        if held:
            held["effects"][0]["held_us"] = 300 * MS
        ok(s, 400 * number + 1, f"b{number}", number, partition=1, took_ms=304, **held)


@story
def still_swallowed(s: Story) -> None:
    s.send(0, "m0", took_ms=None)
    s.produce(
        1, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_request", "swallowed_request"))
    )
    for number in range(1, 4):
        s.send(4000 + number, f"m{number}", took_ms=None)
    s.exchange(9000, "Metadata", connection_id=2)


@story
def stuck_when_it_was_over(s: Story) -> None:
    s.send(0, "m0", took_ms=None)
    s.produce(
        1, message_ids=["m0"], outcome="dropped", took_ms=None, **did(("eat", "drop_request", "swallowed_request"))
    )
    s.exchange(2000, "Metadata")  # answered on the same connection
    for number in range(1, 4):
        s.send(4000 + number, f"m{number}", took_ms=None)
    s.exchange(9000, "Metadata", connection_id=2)


def fetched_past_a_gap(s: Story) -> None:
    for number in range(6):
        ok(s, number, f"m{number}", number)
        s.poll(10 + number, f"m{number}", number, client=f"{s.client}-auditor")
    for offset in (0, 1, 5):
        s.poll(20 + 10 * offset, f"m{offset}", offset, client=s.client, group_id=s.client)


@story
def sought_to_the_end(s: Story) -> None:
    fetched_past_a_gap(s)
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=5))


@story
def sent_to_the_end(s: Story) -> None:
    fetched_past_a_gap(s)
    s.exchange(34, "Fetch", partitions=one_of("orders", 0, error_code=1))
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=5))


@story
def asked_for_the_end_and_jumped(s: Story) -> None:
    # As whoever measures its lag does; it went on elsewhere.
    fetched_past_a_gap(s)
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=6))


@story
def jumped(s: Story) -> None:
    fetched_past_a_gap(s)


def says_it_sought(s: Story, at: float, offset: int | None, client: str) -> None:
    s.poll(at, None, offset, client=client, operation="seek")


@story
def sought_over_what_was_fetched(s: Story) -> None:
    # No request says so: the records that it passed over were there already.
    fetched_past_a_gap(s)
    says_it_sought(s, 35, 5, s.client)


@story
def sought_back_while_shaken(s: Story) -> None:
    sent_back_out_of_its_group(s)
    says_it_sought(s, 1, 0, s.client)
    says_it_sought(s, 25, None, s.client)


@story
def sought_elsewhere_and_shaken(s: Story) -> None:
    sent_back_out_of_its_group(s)
    says_it_sought(s, 1, 0, s.client)
    says_it_sought(s, 25, 6, s.client)


@story
def sent_back_by_the_broker_s_own_answer(s: Story) -> None:
    # Rules had a hand in what it was told, and none in the place: one answer told the right one, one was only held.
    group = {"client": s.client, "group_id": s.client}
    for offset in (0, 1):
        s.poll(offset, f"m{offset}", offset, **group)
    s.poll(5, None, 2, operation="commit", **group)
    s.exchange(1, "JoinGroup", group_id=s.client)
    right, older = ("hush", "throttle", "altered_answer"), ("trifle", "delay", "held_answer")
    for at, offset, what in ((6, 2, right), (8, 1, older)):
        place = one_of("orders", 0, base_offset=offset)
        s.exchange(at, "OffsetFetch", group_id=s.client, partitions=place, **did(what, since_ms=at + 1))
    s.poll(12, "m1", 1, **group)


@story
def one_group_by_its_commits(s: Story) -> None:
    # Kafka's verifiable consumer says no group; a member of another group committed other offsets.
    for offset in range(6):
        s.produce(offset, message_ids=[f"m{offset}"], base_offset=offset)
        s.send(offset, f"m{offset}", offset=offset)
        s.poll(100 + offset, f"m{offset}", offset)
    places = ((20, s.client, (0, 1)), (30, "second", (2, 3)), (40, s.client, (4, 5)))
    for at, member, offsets in places:
        for offset in offsets:
            s.poll(at, f"m{offset}", offset, client=member, called_at_us=None)
        committed = one_of("orders", 0, base_offset=offsets[-1] + 1)
        s.exchange(at + 1, "OffsetCommit", client_id=f"consumer-{member}", group_id="g", partitions=committed)
        s.poll(at + 4, None, offsets[-1] + 1, client=member, operation="commit", called_at_us=None)
    s.exchange(60, "OffsetCommit", client_id="h-1", group_id="h", partitions=one_of("orders", 0, base_offset=3))


@story
def made_anew(s: Story) -> None:
    for life, start in enumerate((0, 1000)):
        for number in range(3):
            ok(s, start + number * 10, f"life{life}-{number}", number)
            s.poll(start + 100 + number, f"life{life}-{number}", number, client=s.client)


@story
def made_anew_and_read_since(s: Story) -> None:
    # Nobody read the first life; the second one's reader went past its offsets.
    for life, start in enumerate((0, 1000)):
        for number in range(4):
            ok(s, start + number * 10, f"life{life}-{number}", number)
            if life:
                s.poll(start + 100 + number, f"life{life}-{number}", number, client=s.client)


@story
def differently_read(s: Story) -> None:
    for number in range(3):
        ok(s, number * 10, f"m{number}", number)
        s.poll(1000 + number, f"other{number}", number, client=s.client)


@story
def sent_past_records_by_a_lie(s: Story) -> None:
    fetched_past_a_gap(s)
    told_a_lie(s, 34)
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=5))


def told_with_records_at_hand(s: Story, by_rule: bool, asks_at: float, first_ms: float = 5) -> None:
    """It has been handed what it reads at 20 and 30 when it is told that its offset is out of range."""
    fetched_past_a_gap(s)
    s.exchange(first_ms, "Fetch", partitions=one_of("orders", 0, base_offset=0, record_count=2))
    if by_rule:
        told_a_lie(s, 27)
    else:
        s.exchange(27, "Fetch", partitions=one_of("orders", 0, error_code=1))
    s.exchange(asks_at, "ListOffsets", partitions=one_of("orders", 0, base_offset=5), took_ms=0.5)
    s.exchange(asks_at + 1, "Fetch", partitions=one_of("orders", 0, base_offset=5, record_count=1), took_ms=0.5)


@story
def sent_past_records_with_some_at_hand(s: Story) -> None:
    told_with_records_at_hand(s, by_rule=True, asks_at=35)


@story
def sent_past_records_before_it_had_read_what_was_at_hand(s: Story) -> None:
    told_with_records_at_hand(s, by_rule=True, asks_at=28)


@story
def sent_by_the_broker_with_records_at_hand(s: Story) -> None:
    told_with_records_at_hand(s, by_rule=False, asks_at=35)


@story
def handed_records_after_a_lie_and_sought(s: Story) -> None:
    # What it was told was over when it was handed what it has read.
    told_with_records_at_hand(s, by_rule=True, asks_at=35, first_ms=28)


@story
def sent_past_records_and_no_fetch_tells_when(s: Story) -> None:
    fetched_past_a_gap(s)
    told_a_lie(s, 27)
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=5))


@story
def told_another_end(s: Story) -> None:
    fetched_past_a_gap(s)
    s.exchange(35, "ListOffsets", partitions=one_of("orders", 0, base_offset=5), outcome="altered",
               **did(("beyond", "offset_lie", "altered_answer")))  # fmt: skip


def second_life_at_the_end(s: Story, *, committed: bool = False, by_rule: bool = False, **of_the_commit: Any) -> None:
    """A group's next reader is told of no committed offset, and begins at the end, as its application has it."""
    for number in range(6):
        ok(s, number, f"m{number}", number)
        s.poll(10 + number, f"m{number}", number, client=f"{s.client}-auditor", group_id="auditors")
    for at, offset, reader in ((20, 0, "first"), (30, 1, "first"), (70, 5, "second")):
        s.poll(at, f"m{offset}", offset, client=f"{s.client}-{reader}", group_id=s.client)
    asked = {"client_id": f"{s.client}-second", "group_id": s.client}
    if committed:
        place = one_of("orders", 0, base_offset=2)
        s.exchange(35, "OffsetCommit", client_id=f"{s.client}-first", group_id=s.client, partitions=place,
                   **of_the_commit)  # fmt: skip
    blind: dict[str, Any] = did(("blind", "error", "answered")) if by_rule else {}
    s.exchange(50, "OffsetFetch", partitions=one_of("orders", 0, base_offset=-1), **asked, **blind)
    s.exchange(60, "ListOffsets", client_id=asked["client_id"], partitions=one_of("orders", 0, base_offset=5))


@story
def began_at_the_end_without_a_place(s: Story) -> None:
    second_life_at_the_end(s)


@story
def began_at_the_end_though_it_had_committed(s: Story) -> None:
    second_life_at_the_end(s, committed=True)


@story
def began_at_the_end_after_a_commit_that_never_was(s: Story) -> None:
    second_life_at_the_end(s, committed=True, outcome="injected", **did(("fake", "offset_commit_lie", "answered")))


def begins(s: Story, at_offset: int, *, told: int, of_broker: int, seen: bool = True) -> None:
    """A group begins in a log that another one has read, where a rule named `told` in place of `of_broker`."""
    for number in range(6):
        ok(s, number, f"m{number}", number)
        if seen:
            s.poll(10 + number, f"m{number}", number, client=f"{s.client}-auditor", group_id="auditors")
    for number in range(at_offset, 6):
        s.poll(60 + number, f"m{number}", number, client=s.client, group_id=s.client)
    lie = did(("lie", "offset_lie", "altered_answer", None, [1]))
    lie["effects"][0]["offsets_before"] = [of_broker]
    other, own = (one_of("orders", index, base_offset=offset)[0] for index, offset in ((1, 0), (0, told)))
    s.exchange(50, "ListOffsets", partitions=[other, own], outcome="altered", **lie)


@story
def begun_behind_what_the_broker_had(s: Story) -> None:
    begins(s, 3, told=3, of_broker=0)


@story
def begun_behind_what_nobody_else_had_read(s: Story) -> None:
    begins(s, 3, told=3, of_broker=1, seen=False)


@story
def begun_later_than_what_nobody_else_had_read(s: Story) -> None:
    begins(s, 3, told=3, of_broker=3, seen=False)


@story
def begun_at_a_log_s_end_that_a_rule_made_later(s: Story) -> None:
    begins(s, 5, told=5, of_broker=4)


@story
def begun_where_a_rule_had_it_begin_earlier(s: Story) -> None:
    begins(s, 2, told=2, of_broker=4)


@story
def lied_to_and_then_told_the_truth(s: Story) -> None:
    begins(s, 4, told=3, of_broker=0)
    s.exchange(55, "ListOffsets", partitions=one_of("orders", 0, base_offset=4))


@story
def begun_where_it_was_told_by_two_rules(s: Story) -> None:
    begins(s, 3, told=3, of_broker=2)
    told = s.exchange(52, "ListOffsets", partitions=one_of("orders", 0, base_offset=3), outcome="altered",
                      **did(("near", "offset_lie", "altered_answer", None, [0]),
                            ("far", "offset_lie", "altered_answer", None, [0])))  # fmt: skip
    told["effects"][0]["offsets_before"], told["effects"][1]["offsets_before"] = [1], [2]


@story
def jumped_while_shaken(s: Story) -> None:
    fetched_past_a_gap(s)
    s.exchange(35, "Heartbeat", error_code=25, outcome="injected", **did(("shake", "error", "answered", 25)))


@story
def told_by_a_rule_that_it_has_no_place(s: Story) -> None:
    second_life_at_the_end(s, by_rule=True)


@story
def told_an_end_that_is_not_there(s: Story) -> None:
    s.poll(0, "m0", 0, client=s.client)
    s.exchange(10, "ListOffsets", partitions=one_of("orders", 0, base_offset=1005), outcome="altered",
               **did(("beyond", "offset_lie", "altered_answer")))  # fmt: skip
    s.exchange(15, "Fetch", partitions=one_of("orders", 0, error_code=1),
               **did(("trifle", "delay", "held_request")))  # fmt: skip


@story
def told_an_end_and_refused_by_another(s: Story) -> None:
    told_an_end_that_is_not_there(s)
    told_a_lie(s, 16)


@story
def sent_to_the_wrong_broker(s: Story) -> None:
    s.exchange(0, "Metadata", outcome="altered", partitions=one_of("orders", 0),
               **did(("wrong", "wrong_leader", "altered_answer", None, [0])))  # fmt: skip
    s.produce(11, message_ids=["m0"], error_code=6, took_ms=1)
    s.exchange(15, "Metadata", partitions=one_of("orders", 0))
    s.produce(20, message_ids=["m0"], base_offset=0, took_ms=1)
    s.send(10, "m0", offset=0, took_ms=15)
    # Nobody lied of this one, but of its neighbour: an election of the brokers' own.
    s.exchange(105, "Metadata", outcome="altered", partitions=one_of("orders", 0) + one_of("orders", 1),
               **did(("other", "wrong_leader", "altered_answer", None, [1])))  # fmt: skip
    s.produce(111, message_ids=["m1"], error_code=6, took_ms=1)
    s.produce(120, message_ids=["m1"], base_offset=1, took_ms=1)
    s.send(110, "m1", offset=1, took_ms=15)


@story
def sent_to_the_wrong_broker_of_a_topic_nobody_knew(s: Story) -> None:
    # As captures of before tell it: the request named the topic alone, and so the rule meant none of its partitions.
    s.exchange(0, "Metadata", outcome="altered", partitions=one_of("orders", 0),
               **did(("wrong", "wrong_leader", "altered_answer", None, [])))  # fmt: skip
    s.produce(11, message_ids=["m0"], error_code=6, took_ms=1)
    s.exchange(15, "Metadata", partitions=one_of("orders", 0))
    s.produce(20, message_ids=["m0"], base_offset=0, took_ms=1)
    s.send(10, "m0", offset=0, took_ms=15)


@story
def sent_to_the_old_leader_again_and_again(s: Story) -> None:
    # One rule moved the leader, another goes on to name the old one.
    for number in range(4):
        at = 100 * number
        move = did(("move", "leader_move", "answered", 6))
        s.produce(at, message_ids=["m0"], error_code=6, outcome="injected", took_ms=1, **move)
        s.exchange(at + 3, "Metadata", outcome="altered", partitions=one_of("orders", 0),
                   **did(("old", "stale_metadata", "altered_answer", None, [0])))  # fmt: skip
    s.send(0, "m0", outcome="fail", error="NotLeaderForPartition", took_ms=310)


@story
def sent_to_the_old_leader_before_it_asked(s: Story) -> None:
    # What it was told before the first refusal sent it nowhere again.
    s.exchange(0, "Metadata", outcome="altered", partitions=one_of("orders", 0),
               **did(("old", "stale_metadata", "altered_answer", None, [0])))  # fmt: skip
    for at in (10, 110):
        move = did(("move", "leader_move", "answered", 6))
        s.produce(at, message_ids=["m0"], error_code=6, outcome="injected", took_ms=1, **move)
    s.send(9, "m0", outcome="fail", error="NotLeaderForPartition", took_ms=105)


@story
def told_the_old_leader_when_it_had_been_refused(s: Story) -> None:
    # Its leader moved by itself; what it was told afterwards kept it from there, and sent the other to the wrong one.
    s.produce(5, message_ids=["m0"], error_code=6, took_ms=5)
    s.exchange(12, "Metadata", outcome="altered", partitions=one_of("orders", 0),
               **did(("old", "stale_metadata", "altered_answer", None, [0])))  # fmt: skip
    s.produce(20, message_ids=["m1"], error_code=6, took_ms=2)
    s.exchange(30, "Metadata", partitions=one_of("orders", 0))
    for number in range(2):
        s.produce(40 + number, message_ids=[f"m{number}"], base_offset=number, took_ms=1, node_id=2, connection_id=2)
        s.send((4, 19)[number], f"m{number}", offset=number, took_ms=40)


@story
def offered_fewer_versions_and_going_on(s: Story) -> None:
    fewer = did(("older", "cap_versions", "altered_answer"))
    for number in range(2):
        at, one = -1200 + 1200 * number, {"took_ms": 1, "connection_id": 1 + number}
        s.exchange(at - 5, "ApiVersions", error_code=35, **one)
        s.exchange(at, "ApiVersions", outcome="altered", **one, **fewer)
    # It took a while until it sent what was called long before.
    ok(s, -1100, "m2", 2, sent=9)
    # The broker took its time; a delay on such an answer counts as ever.
    ok(s, 10, "m0", 0, took_ms=1500)
    both = did(("older", "cap_versions", "altered_answer"), ("long", "delay", "held_answer"), since_ms=3001)
    s.exchange(3000, "ApiVersions", outcome="altered", took_ms=1400, connection_id=2, **both)
    ok(s, 3001, "m1", 1, sent=4405, connection_id=2)


@story
def offered_too_few_versions(s: Story) -> None:
    fewer = did(("older", "cap_versions", "altered_answer"))
    s.exchange(0, "ApiVersions", outcome="altered", took_ms=1, **fewer)
    s.send(10, "m0", outcome="fail", error="no usable version", took_ms=1500)
    # The rule is gone.
    s.exchange(2000, "ApiVersions", took_ms=1, connection_id=2)
    ok(s, 2010, "m1", 0, connection_id=2)


@story
def connecting_in_vain(s: Story) -> None:
    for number in range(12):
        at, one = 20 * number, {"connection_id": 100 + number, "client_addr": "10.9.8.7:4000"}
        for event in ("connect", "disconnect"):
            row = s.exchange(at + (9 if event == "disconnect" else 0), "", event=event, took_ms=None, **one)
            row["api_name"] = row["api_key"] = row["outcome"] = None
        s.exchange(at + 2, "Metadata", outcome="closed", took_ms=None, **one, **did(("slam", "close", "cut")))


@story
def dead_after_its_last_refusal(s: Story) -> None:
    ok(s, 0, "m0", 0)
    s.produce(11, message_ids=["m1"], error_code=6, outcome="injected", **did(("no-leader", "error", "answered", 6)))
    s.send(10, "m1", outcome="fail", took_ms=5, error="NotLeader")
    for number in range(2, 5):
        s.send(15_000 * number, f"m{number}", outcome="fail", blocked_ms=2000, took_ms=2000, error="buffer is full")


@story
def a_host_silent_for_whoever_comes(s: Story) -> None:
    for event, at in (("connect", 1), ("fault", 1.1), ("disconnect", 2001)):
        gone = did(("off", "blackhole", "silenced")) if event == "fault" else {}
        row = s.exchange(at, "", event=event, took_ms=None, connection_id=7, client_id=None, **gone)
        row["api_name"] = row["api_key"] = row["outcome"] = None
    # This one has its own reason, at the same time.
    there = {"connection_id": 9, "node_id": 2}
    ok(s, 3, "m1", 1, partition=1, took_ms=1900, **there, **did(("long", "stall", "held_answer"), since_ms=5))
    ok(s, 0, "m0", 0, sent=2002)


def listener(s: Story, at: float, became: str, *rules: tuple[str, str, str], name: str = "bootstrap") -> None:
    """What the proxy says of a listener that a standing rule takes, and when that is over."""
    of_nobody = dict.fromkeys(("connection_id", "exchange_seq", "listener", "node_id", "client_id", "client_addr"))
    row = s.exchange(at, "", event="fault", took_ms=None, **of_nobody, **did(*rules))
    row["api_name"] = row["api_key"] = row["outcome"] = None
    row["detail"] = f"listener {name} is {became}"


def link_event(s: Story, at: float, event: str, connection_id: int, **given: Any) -> None:
    row = s.exchange(at, "", event=event, took_ms=None, connection_id=connection_id, exchange_seq=None, **given)
    row["api_name"] = row["api_key"] = row["outcome"] = row["forwarded_at_us"] = None


OFF = ("off", "blackhole", "silenced")


@story
def a_host_silent_to_the_end(s: Story) -> None:
    listener(s, 1, "silent: off", OFF)
    ok(s, 25_000, "m0", 0, sent=27_000)
    ok(s, 28_000, "m1", 1)


@story
def a_host_that_came_back_long_before(s: Story) -> None:
    listener(s, 1, "silent: off", OFF)
    listener(s, 2000, "open")
    ok(s, 20_000, "m0", 0, sent=22_000)


@story
def a_host_that_took_somebody_since(s: Story) -> None:
    # As captures of before tell it, which didn't say when a listener was open again.
    listener(s, 1, "silent: off", OFF)
    link_event(s, 3000, "connect", 7, listener="bootstrap", client_id=None)
    ok(s, 20_000, "m0", 0, sent=22_000)


@story
def silenced_with_a_batch_on_it(s: Story) -> None:
    ok(s, 0, "m0", 0, took_ms=2500)
    link_event(s, 1, "fault", 1, **did(OFF))


def silent_with_a_request_in_its_socket(s: Story, took_ms: float = 2, until: float = 3000) -> None:
    """A connection that is silent for some seconds, and what had arrived before, which goes on at their end."""
    link_event(s, 1, "fault", 1, **did(OFF))
    link_event(s, until, "fault", 1, detail="goes on")
    ok(s, 0, "m0", 0, sent=until + 0.2, took_ms=took_ms)


@story
def lost_behind_what_lay_in_the_socket(s: Story) -> None:
    # The client's TCP sends them again when as much time has passed anew; one was called when nothing was silent.
    silent_with_a_request_in_its_socket(s)
    ok(s, 2900, "m1", 1, sent=5700)
    ok(s, 3100, "m2", 2, sent=5700.2)


@story
def lost_behind_what_lay_in_a_socket_that_was_silent_for_long(s: Story) -> None:
    # The longer it was silent, the longer the client's TCP pauses: until eight seconds after its end.
    silent_with_a_request_in_its_socket(s, until=12_000)
    ok(s, 12_400, "m1", 1, sent=20_000)


@story
def late_behind_what_lay_in_the_socket(s: Story) -> None:
    # The broker took its time for what had lain there, and what came behind it waited for that.
    silent_with_a_request_in_its_socket(s, took_ms=2700)
    ok(s, 3100, "m1", 1, sent=5700.2)


@story
def late_long_after_what_lay_in_the_socket(s: Story) -> None:
    # So late no TCP sends again.
    silent_with_a_request_in_its_socket(s)
    ok(s, 5000, "m1", 1, sent=7500)


@story
def silenced_while_another_is_silent(s: Story) -> None:
    # Two connections of one client, each silenced by a rule of its own; the batch was on the first, all the time.
    ok(s, 0, "m0", 0, took_ms=2500)
    link_event(s, 1, "fault", 1, **did(OFF))
    s.exchange(0, "Metadata", connection_id=2, node_id=2)
    link_event(s, 10, "fault", 2, **did(("elsewhere", "blackhole", "silenced")))
    link_event(s, 2600, "disconnect", 2)


@story
def cut_and_told_late(s: Story) -> None:
    # Two that were told late: by much of the wait, and by a trifle of it.
    for number, (rule, late_ms) in enumerate((("later", 2400), ("soon", 20))):
        at, connection_id = 10_000 * number, 7 + number
        cut: dict[str, Any] = {"outcome": "closed", "took_ms": None, **did(("break", "close", "cut"))}
        s.produce(at + 1, message_ids=[f"m{number}"], connection_id=connection_id, **cut)
        link_event(s, at + 2, "disconnect", connection_id)
        kept = did((rule, "slow_close", "silenced"))
        kept["effects"][0]["held_us"] = late_ms * MS
        link_event(s, at + 2, "fault", connection_id, **kept)
        ok(s, at, f"m{number}", number, sent=at + 2500)


def silent_for(s: Story, since: float, until: float, connection_id: int, *, ends: bool = False, **where: Any) -> None:
    link_event(s, since, "fault", connection_id, **did(OFF), **where)
    link_event(s, until, "fault", connection_id, detail="goes on", **where)
    if ends:
        link_event(s, until, "disconnect", connection_id, **where)


@story
def silent_long_before_it_was_cut(s: Story) -> None:
    # The connection went on; the batch came there later, and was cut again and again.
    ok(s, 0, "m0", 0)
    silent_for(s, 10, 300, 1)
    for number in range(12):
        cut = did(("break", "reset", "cut"))
        s.produce(
            1000 + 100 * number, message_ids=["m1"], connection_id=1 + number, outcome="closed", took_ms=None, **cut
        )
        link_event(s, 1000 + 100 * number, "disconnect", 1 + number)
    ok(s, 1000, "m1", 1, sent=2200, connection_id=20)
    ok(s, 1100, "m2", 2, sent=2203, connection_id=20)


@story
def behind_a_swallowed_one_whose_connection_fell_silent(s: Story) -> None:
    # Nobody knows when its client gave that up: no end of a connection is heard while it is silent.
    eaten = did(("eat", "drop_response", "swallowed_answer"))
    s.produce(0, message_ids=["m0"], outcome="dropped", took_ms=None, **eaten)
    silent_for(s, 2000, 6000, 1, ends=True)
    ok(s, 4000, "m1", 1, sent=6100, connection_id=2)
    s.produce(6050, message_ids=["m0"], base_offset=0, connection_id=2)
    s.send(0, "m0", offset=0, took_ms=6053)


@story
def a_silence_elsewhere_that_was_over(s: Story) -> None:
    # Its own broker took its time; that the client never came back to the other place says nothing.
    nowhere = {"node_id": None, "listener": "bootstrap"}
    s.exchange(0, "Metadata", connection_id=2, **nowhere)
    silent_for(s, 10, 500, 2, ends=True, **nowhere)
    s.produce(600, message_ids=["m0"], outcome="no_response", took_ms=None)
    link_event(s, 2100, "disconnect", 1)
    ok(s, 600, "m0", 0, sent=2200, connection_id=3)


@story
def taken_by_another_rule_since(s: Story) -> None:
    # Open again before the batch was there; then it was the silence that nobody got past.
    listener(s, 10, "refusing: shut", ("shut", "refuse", "refused"))
    listener(s, 40, "open")
    listener(s, 1000, "silent: off", OFF)
    listener(s, 5000, "open")
    link_event(s, 5000, "connect", 1, listener="bootstrap", client_id=None)
    ok(s, 2000, "m0", 0, sent=5000)


@story
def refused_by_what_was_silent_as_well(s: Story) -> None:
    # A silence wins: the refusal, which began in it, is none before it is over.
    listener(s, 10, "silent: off", OFF)
    listener(s, 20, "silent: shut", ("shut", "refuse", "refused"))
    listener(s, 4000, "refusing")
    listener(s, 4300, "open")
    link_event(s, 4310, "connect", 1, listener="bootstrap", client_id=None)
    ok(s, 50, "m0", 0, sent=4311)


@story
def another_broker_that_nobody_got_to(s: Story) -> None:
    # It went to one broker, which was slow; the other one took nobody meanwhile.
    listener(s, 10, "silent: off", OFF, name="broker-2")
    ok(s, 50, "m0", 0, took_ms=2500)
    ok(s, 60, "m1", 1, sent=2553)


@story
def a_silence_that_kept_nothing(s: Story) -> None:
    # It went on, and nobody had asked for anything there; the batch's own broker refused whoever came.
    nowhere: dict[str, Any] = {"node_id": None, "listener": "bootstrap"}
    s.exchange(0, "Metadata", connection_id=2, **nowhere)
    ok(s, 5, "m0", 0)
    link_event(s, 8, "disconnect", 1)
    silent_for(s, 10, 1500, 2, **nowhere)
    listener(s, 20, "refusing: shut", ("shut", "refuse", "refused"), name="broker-1")
    s.send(30, "m1", outcome="info", error="timed out", took_ms=2000)
    listener(s, 5000, "open", name="broker-1")
    s.exchange(20_000, "Metadata", client_id="somebody", connection_id=9, node_id=2)


@story
def behind_at_its_own_broker_and_cut_off_elsewhere(s: Story) -> None:
    # Never sent: its broker had its fill for all the time. What befell the client at another one did nothing to it.
    held = did(("long", "stall", "held_answer"), since_ms=2)
    s.produce(0, message_ids=["m0"], took_ms=3000, **held)
    s.send(0, "m0", offset=0, took_ms=3001)
    s.exchange(1, "Metadata", connection_id=2, node_id=2)
    link_event(s, 100, "fault", 2, node_id=2, **did(OFF))
    link_event(s, 4000, "disconnect", 2, node_id=2)
    s.send(200, "m1", outcome="info", error="timed out", took_ms=2000)


@story
def cut_off_from_another_broker_before(s: Story) -> None:
    # The batch went to the one that was silent for whoever came; the other one got batches of its own only.
    there = {"connection_id": 2, "node_id": 2}
    cut = did(("break", "reset", "cut"))
    s.produce(0, 1, message_ids=["m0"], outcome="closed", took_ms=None, **there, **cut)
    s.send(0, "m0", partition=1, outcome="fail", error="reset", took_ms=1)
    listener(s, 500, "silent: off", OFF, name="broker-1")
    ok(s, 2000, "m2", 1, partition=1, connection_id=3, node_id=2)
    link_event(s, 3000, "connect", 1, listener="broker-1", client_id=None)
    ok(s, 1000, "m1", 0, sent=3000)


@story
def connecting_again_in_vain(s: Story) -> None:
    # It was on the wire, and then it was not: its connection had ended.
    s.produce(0, message_ids=["m0"], outcome="no_response", took_ms=None)
    listener(s, 100, "refusing: shut", ("shut", "refuse", "refused"))
    link_event(s, 200, "disconnect", 1)
    listener(s, 3000, "open")
    link_event(s, 3050, "connect", 2, listener="bootstrap", client_id=None)
    ok(s, 0, "m0", 0, sent=3051, connection_id=2)


def held_for_a_trifle(s: Story, at: float, until: float | None, phase: str, **given: Any) -> None:
    """Metadata of which a rule held the request, or the answer, for 30 ms; the broker took the rest of the time."""
    times: dict[str, float] = {"until_ms": at + 30}
    if phase == "held_answer" and until is not None:
        times = {"since_ms": until - 30}
    held = did(("trifle", "delay", phase), **times)
    held["effects"][0]["held_us"] = 30 * MS
    s.exchange(at, "Metadata", took_ms=None if until is None else until - at, connection_id=2, **held, **given)


@story
def held_for_a_trifle_before_the_broker_stopped(s: Story) -> None:
    held_for_a_trifle(s, 40, 4000, "held_request")
    ok(s, 50, "m0", 0, sent=4001)


@story
def held_for_a_trifle_when_the_broker_went_on(s: Story) -> None:
    held_for_a_trifle(s, 40, 4000, "held_answer")
    ok(s, 50, "m0", 0, sent=4001)


@story
def never_answered_after_a_trifle(s: Story) -> None:
    held_for_a_trifle(s, 40, None, "held_request", outcome="no_response")
    s.send(50, "m0", took_ms=None)
    s.exchange(30_000, "ApiVersions", connection_id=3)


@story
def held_until_somebody_let_go(s: Story) -> None:
    wait = did(("wait", "stall", "held_request"), until_ms=3000)
    s.exchange(40, "Metadata", took_ms=4000, connection_id=2, **wait)
    ok(s, 50, "m0", 0, sent=4041)


@story
def held_until_somebody_let_go_and_the_broker_stopped(s: Story) -> None:
    wait = did(("wait", "stall", "held_request"), until_ms=300)
    s.exchange(40, "Metadata", took_ms=4000, connection_id=2, **wait)
    ok(s, 50, "m0", 0, sent=4041)


@story
def told_late_by_two_for_long_and_for_a_trifle(s: Story) -> None:
    both = did(("long", "stall", "held_request"), ("trifle", "delay", "held_request"), until_ms=4000)
    both["effects"][1]["held_us"] = 30 * MS
    s.exchange(40, "Metadata", took_ms=3961, connection_id=2, **both)
    ok(s, 50, "m0", 0, sent=4002)


def cut_while_asking(s: Story, learned_at: float) -> None:
    """Its question was cut off at one broker, and answered by another then; the batches are at a third."""
    s.exchange(0, "Metadata", outcome="closed", took_ms=None, connection_id=2, node_id=2,
               **did(("break", "close", "cut")))  # fmt: skip
    link_event(s, 0, "disconnect", 2, node_id=2)
    s.exchange(5, "Metadata", connection_id=3, node_id=3, took_ms=learned_at - 5)


@story
def told_elsewhere_what_was_cut_off(s: Story) -> None:
    # Then the broker of its batches stopped.
    ok(s, -10, "m0", 0)
    cut_while_asking(s, 100)
    ok(s, 60, "m1", 1, sent=5000)
    s.send(200, "m2", outcome="info", error="timed out", took_ms=3000)


@story
def told_elsewhere_late_what_was_cut_off(s: Story) -> None:
    cut_while_asking(s, 2500)
    ok(s, 10, "m1", 1, sent=2501)


@story
def cut_off_at_its_own_broker_and_told_elsewhere(s: Story) -> None:
    # It has to go to that one.
    cut_while_asking(s, 100)
    ok(s, 60, "m1", 1, sent=2500, connection_id=4, node_id=2)


def leader_cut_off(s: Story, *, led_by: int = 2) -> None:
    """The connection to a broker that its partition had been at is cut; who leads it the client asks late."""
    cut = did(("down", "broker_down", "cut"))
    # Both brokers got batches alone: elsewhere it was asked who leads.
    ok(s, 0, "m0", 0, connection_id=2, node_id=2)
    ok(s, 30, "m1", 1, connection_id=led_by, node_id=led_by)
    s.produce(31, 1, message_ids=["n0"], connection_id=3, node_id=3, base_offset=0)
    link_event(s, 50, "disconnect", 2, node_id=2, **cut)
    s.exchange(2400, "Metadata")
    ok(s, 60, "m2", 2, sent=2410, connection_id=3, node_id=3)


@story
def cut_off_from_its_leader_and_led_elsewhere(s: Story) -> None:
    leader_cut_off(s)


@story
def cut_off_from_its_leader_of_before(s: Story) -> None:
    leader_cut_off(s, led_by=3)


@story
def told_of_no_leader_when_the_broker_went_on(s: Story) -> None:
    lost = did(("no-leader", "leader_election", "altered_answer", 5), since_ms=4000)
    s.exchange(40, "Metadata", error_code=5, took_ms=3961, connection_id=2, **lost)
    s.exchange(4100, "Metadata", connection_id=2)
    ok(s, 50, "m0", 0, sent=4103)


def told_in_another_order(s: Story, *times: float) -> None:
    for at in times:
        s.exchange(at, "Metadata", outcome="altered", connection_id=2, **did(("turn", "reorder", "altered_answer")))


@story
def told_in_another_order_and_did_well_with_it(s: Story) -> None:
    # The third answer came when the broker went on.
    told_in_another_order(s, 0, 1000)
    ok(s, 1100, "m0", 0)
    s.exchange(2000, "Metadata", outcome="altered", connection_id=2, took_ms=3000,
               **did(("turn", "reorder", "altered_answer")))  # fmt: skip
    ok(s, 1500, "m1", 1, sent=5000)


@story
def told_in_another_order_and_did_well_elsewhere(s: Story) -> None:
    told_in_another_order(s, 0, 1000)
    ok(s, 1100, "m0", 0, partition=1)
    ok(s, 1500, "m1", 1, sent=5000)
    s.exchange(5100, "Metadata", connection_id=2)


@story
def told_of_another_leader_that_it_had_not_gone_to_yet(s: Story) -> None:
    wrong = did(("wrong", "wrong_leader", "altered_answer", None, [0]))
    s.exchange(0, "Metadata", outcome="altered", connection_id=2, partitions=one_of("orders", 0), **wrong)
    ok(s, 5, "m0", 0)
    ok(s, 20, "m1", 1, sent=2500)
    s.exchange(2600, "Metadata", connection_id=2)


def failing_after_a_silence(s: Story) -> None:
    ok(s, 0, "m0", 0)
    listener(s, 10, "silent: off", OFF)
    link_event(s, 11, "fault", 1, **did(OFF))
    for number in range(1, 5):
        s.send(3000 * number, f"m{number}", outcome="info", took_ms=1000, error="timed out")
    s.exchange(15_000, "Metadata", client_id="somebody", connection_id=9, node_id=2)


@story
def failing_while_it_is_silent(s: Story) -> None:
    failing_after_a_silence(s)


@story
def failing_after_it_was_silent(s: Story) -> None:
    failing_after_a_silence(s)
    link_event(s, 5000, "fault", 1, detail="goes on")
    link_event(s, 5000, "disconnect", 1)
    listener(s, 5000, "open")


@story
def failing_while_whoever_comes_meets_silence(s: Story) -> None:
    # Its own connection goes on, and is closed; the host stays silent.
    failing_after_a_silence(s)
    link_event(s, 5000, "fault", 1, detail="goes on")
    link_event(s, 5000, "disconnect", 1)


@story
def cut_off_while_nobody_may_come(s: Story) -> None:
    # Without the refusal it were back at once; without the cut it had never left.
    s.produce(0.5, message_ids=["m0"], took_ms=None, outcome="closed", **did(("break", "reset", "cut")))
    link_event(s, 1, "disconnect", 1)
    listener(s, 0, "refusing: shut", ("shut", "refuse", "refused"), name="broker-1")
    listener(s, 3000, "open", name="broker-1")
    link_event(s, 3100, "connect", 2, listener="broker-1", client_id=None)
    s.produce(3101, message_ids=["m0"], base_offset=0, connection_id=2)
    s.send(0, "m0", offset=0, took_ms=3104)
    ok(s, 100, "m1", 1, sent=3105, connection_id=2)


@story
def trifles_while_nobody_may_come(s: Story) -> None:
    # What it asks for it is told, and yet it gets nowhere.
    listener(s, 0, "refusing: shut", ("shut", "refuse", "refused"), name="broker-1")
    nowhere: dict[str, Any] = {"node_id": None, "listener": "bootstrap", "connection_id": 9}
    for number in range(30):
        at = 100 * number
        s.exchange(at, "Metadata", took_ms=70, **nowhere, **did(("trifle", "delay", "held_answer"), since_ms=at + 5))
    s.send(0, "m0", outcome="fail", error="closed", took_ms=4500)
    listener(s, 5000, "open", name="broker-1")


@story
def dead_of_garbage(s: Story) -> None:
    # The thread that reads is gone: what comes later never goes out, and what else was answered nobody reads.
    ok(s, 0, "m0", 0)
    s.produce(10, message_ids=["m1"], outcome="altered", **did(("bad", "oversized_frame", "garbled")))
    s.send(10, "m1", took_ms=None)
    s.produce(10, 1, message_ids=["m2"], base_offset=0, connection_id=3, node_id=3, took_ms=9)
    s.send(9, "m2", partition=1, took_ms=None)
    for number in range(3, 9):
        s.send(10_000 * number, f"m{number}", partition=number % 3, took_ms=None)
    link_event(s, 90_000, "disconnect", 1)


@story
def failing_before_its_refusal_is_told(s: Story) -> None:
    # The client knows of it since the answer came; of what was refused it tells later.
    s.produce(1, message_ids=["m0"], error_code=45, outcome="injected", **did(("fence", "error", "answered", 45)))
    s.send(5, "m1", outcome="fail", error="Local: Fatal error", took_ms=0.1)
    s.send(0, "m0", outcome="fail", error="Broker: out of order sequence number", took_ms=50)


@story
def begun_anew_after_it_was_fenced(s: Story) -> None:
    s.exchange(0, "EndTxn", error_code=90, outcome="injected", **did(("fence", "error", "answered", 90)))
    s.exchange(100, "InitProducerId")
    s.send(200, "m0", outcome="fail", error="batch of a transaction that was aborted", took_ms=150)


@story
def fenced_behind_a_delay(s: Story) -> None:
    # Other transactions ended well with the same delay.
    held = ("slow", "delay", "held_request")
    for at in (0, 1000):
        s.exchange(at + 1, "EndTxn", transactional_id="t", connection_id=2, took_ms=202, **did(held, until_ms=at + 201))
        s.send(at, None, operation="commit_tx", topic=None, partition=None, offset=None, took_ms=205)
    both = did(held, ("fence", "error", "altered_answer", 47), until_ms=2201)
    s.exchange(2001, "EndTxn", transactional_id="t", connection_id=2, took_ms=202, error_code=47, **both)
    s.send(2000, None, operation="commit_tx", topic=None, partition=None, offset=None, outcome="fail",
           error="_FENCED", took_ms=204)  # fmt: skip


@story
def acknowledged_for_another(s: Story) -> None:
    # Its client lost an answer and counted anew: the broker took the second batch for a copy of the first.
    numbered = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    cut = did(("break", "reset", "cut"), since_ms=1)
    s.produce(0, message_ids=["m0"], outcome="closed", took_ms=None, fault_phase="after_broker", **numbered, **cut)
    s.produce(5, message_ids=["m1"], base_offset=0, connection_id=2, **numbered)
    s.send(4, "m1", offset=0, took_ms=4)
    s.produce(20, message_ids=["m0"], base_offset=1, connection_id=2, **(numbered | {"base_sequence": 1}))
    s.send(0, "m0", offset=1, took_ms=23)
    for offset in range(2):
        s.poll(100 + offset, "m0", offset, client=s.client)


@story
def told_when_its_transaction_ends(s: Story) -> None:
    # Its batch was acknowledged; its application reports it when it knows how the transaction ended.
    s.produce(
        0, message_ids=["m0"], base_offset=0, transactional_id="t", producer_id=7, producer_epoch=0, base_sequence=0
    )
    s.exchange(10, "EndTxn", transactional_id="t", connection_id=2, outcome="dropped", took_ms=None,
               **did(("eat", "drop_response", "swallowed_answer")))  # fmt: skip
    link_event(s, 2005, "disconnect", 2)
    s.send(0, "m0", offset=0, outcome="info", error="Request EndTxn timed out", took_ms=2010)


@story
def told_with_the_others_of_its_call(s: Story) -> None:
    # Three in one call, which returns when all are done; what was called a little later ended by itself.
    for partition in range(3):
        held = did(("long", "stall", "held_answer"), since_ms=2) if partition == 1 else {}
        took = 3000 if partition == 1 else 2
        s.produce(
            1,
            partition,
            message_ids=[f"m{partition}"],
            base_offset=0,
            took_ms=took,
            connection_id=1 + partition,
            **held,
        )
        s.send(0.01 * partition, f"m{partition}", partition=partition, offset=0, took_ms=3002 - 0.01 * partition)


@story
def told_late_and_alone(s: Story) -> None:
    # It was called at another time than the one that was held, and ended with it.
    s.produce(
        1, 1, message_ids=["m1"], base_offset=0, took_ms=3000, **did(("long", "stall", "held_answer"), since_ms=2)
    )
    s.send(0, "m1", partition=1, offset=0, took_ms=3002)
    s.produce(1001, 2, message_ids=["m2"], base_offset=0, connection_id=3)
    s.send(1000, "m2", partition=2, offset=0, took_ms=2002)


@story
def committed_behind_a_swallowed_heartbeat(s: Story) -> None:
    # It waited until its connection ended; by then its group had gone on without it.
    of_group = {"group_id": "g", "connection_id": 5}
    s.exchange(0, "Heartbeat", outcome="dropped", took_ms=None, **of_group,
               **did(("eat", "drop_request", "swallowed_request")))  # fmt: skip
    s.exchange(800, "OffsetCommit", outcome="no_response", took_ms=None, partitions=one_of("orders", 0, base_offset=6),
               **of_group)  # fmt: skip
    link_event(s, 12_000, "disconnect", 5)
    s.exchange(12_050, "OffsetCommit", group_id="g", connection_id=6, error_code=25,
               partitions=one_of("orders", 0, base_offset=6, error_code=25))  # fmt: skip
    s.send(
        800, None, operation="commit", group_id="g", offset=6, outcome="info", error="CommitFailedError", took_ms=11_260
    )


def of_a_made_up_coordinator(s: Story) -> dict[str, Any]:
    s.exchange(0, "FindCoordinator", group_id="g", **did(("move", "coordinator_move", "altered_answer")))
    return {"group_id": "g", "error_code": 16, "connection_id": 3}


@story
def committed_to_a_made_up_coordinator(s: Story) -> None:
    place = one_of("orders", 0, base_offset=6, error_code=16)
    s.exchange(5000, "OffsetCommit", partitions=place, **of_a_made_up_coordinator(s))
    s.send(4999, None, operation="commit", group_id="g", offset=6, outcome="fail", error="[Error 16]", took_ms=4)


@story
def sent_back_by_a_made_up_coordinator(s: Story) -> None:
    reads = {"client": s.client, "group_id": "g"}
    asked = of_a_made_up_coordinator(s)
    for offset in range(3):
        s.poll(1000 * (1 + offset), f"m{offset}", offset, **reads)
    s.exchange(5000, "Heartbeat", **asked)
    s.exchange(5010, "FindCoordinator", group_id="g")
    for offset in range(3):
        s.poll(6000 + offset, f"m{offset}", offset, **reads)


@story
def refused_once_and_well_again(s: Story) -> None:
    # A commit was taken behind the refusal: what it read since, and nobody committed, is read again for other reasons.
    reads = {"client": s.client, "group_id": "g"}
    s.poll(0, "m0", 0, **reads)
    s.exchange(100, "Heartbeat", group_id="g", error_code=16, outcome="injected",
               **did(("shake", "error", "answered", 16)))  # fmt: skip
    s.exchange(150, "OffsetCommit", group_id="g", partitions=one_of("orders", 0, base_offset=1))
    s.poll(200, "m1", 1, **reads)
    s.poll(6000, "m1", 1, **reads)


@story
def set_back_beside_throttled_answers(s: Story) -> None:
    # Somebody set its group back past the proxy; a rule told it to wait a little, with every answer.
    group = {"client": s.client, "group_id": s.client}
    hushed = did(("hush", "throttle", "altered_answer"))
    for offset in range(3):
        s.poll(offset, f"m{offset}", offset, **group)
    s.exchange(4, "OffsetCommit", group_id=s.client, partitions=one_of("orders", 0, base_offset=3), **hushed)
    s.exchange(6, "OffsetFetch", group_id=s.client, partitions=one_of("orders", 0, base_offset=1), **hushed)
    for offset in range(1, 3):
        s.poll(10 + offset, f"m{offset}", offset, **group)


def sent_back_after_a_refused_commit(s: Story, refused: int, taken: tuple[int, ...], back: int) -> None:
    """A group reads six records, its commit of `refused` is refused, those `taken` are; it is told to go `back`."""
    group = {"client": s.client, "group_id": s.client}
    for offset in range(6):
        s.poll(offset, f"m{offset}", offset, **group)
    place = one_of("orders", 0, base_offset=refused, error_code=16)
    s.exchange(7, "OffsetCommit", group_id=s.client, outcome="injected", error_code=16, partitions=place,
               **did(("refuse", "error", "answered", 16)))  # fmt: skip
    for at, offset in enumerate(taken, 9):
        s.exchange(at, "OffsetCommit", group_id=s.client, partitions=one_of("orders", 0, base_offset=offset))
    s.exchange(9000, "OffsetFetch", group_id=s.client, partitions=one_of("orders", 0, base_offset=back))
    for offset in range(back, 6):
        s.poll(9010 + offset, f"m{offset}", offset, **group)


@story
def refused_once_and_committed_further(s: Story) -> None:
    # It committed as far again, and further, before somebody set it back past the proxy.
    sent_back_after_a_refused_commit(s, 3, (3, 6), 1)


@story
def refused_once_and_committed_less_far(s: Story) -> None:
    # What was taken afterwards lies before that.
    sent_back_after_a_refused_commit(s, 6, (2,), 2)


@story
def committed_too_late_behind_trifles(s: Story) -> None:
    # It had been away for longer than its group waits; a rule held its heartbeat for a moment.
    of_group = {"group_id": "g", "connection_id": 5}
    s.exchange(0, "Heartbeat", took_ms=62, **of_group, **did(("trifle", "delay", "held_request"), until_ms=60))
    place = one_of("orders", 0, base_offset=6, error_code=25)
    s.exchange(30, "OffsetCommit", error_code=25, took_ms=64, partitions=place, **of_group,
               **did(("trifle", "delay", "held_request"), until_ms=90))  # fmt: skip
    s.send(29, None, operation="commit", group_id="g", offset=6, outcome="info", error="CommitFailedError", took_ms=70)


@story
def committed_as_far_by_another_member(s: Story) -> None:
    # It was stopped when its own commit had its answer; meanwhile another one committed the same, and a rule held that.
    group, other = {"client": s.client, "group_id": s.client}, f"{s.client}-other"
    s.poll(0, "m0", 0, **group)
    s.poll(8000, "m0", 0, client=other, client_id=other, group_id=s.client)
    place = one_of("orders", 0, base_offset=1)
    s.exchange(101, "OffsetCommit", group_id=s.client, partitions=place)
    others = {"client_id": other, "connection_id": 4, "group_id": s.client}
    s.exchange(7000, "OffsetCommit", took_ms=2900, partitions=place, **others,
               **did(("slow", "delay", "held_request"), until_ms=9898))  # fmt: skip
    s.send(100, None, operation="commit", group_id=s.client, offset=1, took_ms=10_000, blocked_ms=10_000)


@story
def a_transaction_that_could_not_be_ended(s: Story) -> None:
    of_it: dict[str, Any] = {"transactional_id": "t", "producer_id": 7, "producer_epoch": 0, "connection_id": 2}
    s.produce(0, message_ids=["m0"], base_sequence=0, error_code=47, outcome="injected", **of_it,
              **did(("fence", "error", "answered", 47)))  # fmt: skip
    s.send(0, "m0", outcome="info", error="INVALID_PRODUCER_EPOCH", took_ms=5)
    ended = {"operation": "commit_tx", "topic": None, "partition": None}
    s.send(10, "tx0", outcome="info", error="OPERATION_NOT_ATTEMPTED", took_ms=0.1, **ended)
    s.send(20, "tx1", took_ms=5, **ended)
    # Nothing of that one is known.
    s.send(30, "tx2", outcome="fail", error="closed", took_ms=0.1, **ended)


@story
def a_transaction_whose_end_nobody_heard_of(s: Story) -> None:
    # Its line has no `returned_at_us`: it took as long as it took.
    of_it = {"transactional_id": "t", "connection_id": 2}
    s.exchange(1, "EndTxn", outcome="dropped", took_ms=None, **of_it,
               **did(("noend", "drop_response", "swallowed_answer")))  # fmt: skip
    link_event(s, 10_000, "disconnect", 2)
    s.exchange(10_010, "EndTxn", transactional_id="t", connection_id=3)
    s.send(0, "tx0", operation="commit_tx", topic=None, partition=None, took_ms=10_020, blocked_ms=None)


def taken_over(s: Story) -> dict[str, Any]:
    """A partition that `s.client` reads at last, 7 s after another of its group; what its own requests have."""
    first = f"{s.client}-first"
    for offset in range(2):
        ok(s, 100 * offset, f"m{offset}", offset)
    s.poll(50, "m0", 0, client=first, client_id=first, group_id=s.client)
    s.poll(7000, "m1", 1, client=s.client, client_id=f"{s.client}-reads", group_id=s.client)
    return {"client_id": f"{s.client}-reads", "connection_id": 4, "group_id": s.client}


@story
def read_late_by_whoever_took_it_over(s: Story) -> None:
    # The member before it was stopped, and its group waited for that one; a rule held each of its commits for a moment.
    own = taken_over(s)
    for at in range(200, 6800, 100):
        s.exchange(at, "OffsetCommit", took_ms=98, partitions=one_of("orders", 1, base_offset=1), **own,
                   **did(("slow", "delay", "held_request"), until_ms=at + 97))  # fmt: skip


@story
def read_late_by_whoever_was_let_in_late(s: Story) -> None:
    # As before, and a rule held for long what it asked its group.
    s.exchange(200, "JoinGroup", took_ms=6700, **taken_over(s),
               **did(("slow", "delay", "held_request"), until_ms=6800))  # fmt: skip


@story
def sent_elsewhere_by_a_rule_and_later_by_the_broker(s: Story) -> None:
    s.produce(0, message_ids=["m0"], error_code=6, outcome="injected", **did(("lose", "error", "answered", 6)))
    ok(s, 0, "m0", 0, sent=50)
    for at in (9000, 9100, 9200):
        s.produce(at, message_ids=["m1"], error_code=6)
    ok(s, 8999, "m1", 1, sent=9300)


@story
def let_in_for_another_time(s: Story) -> None:
    s.exchange(0, "SaslAuthenticate", **did(("short", "session_expiry", "altered_answer")))
    ok(s, 10, "m0", 0, sent=2000)


# story → check → who is to blame, as `blame` has it.
BLAMED: dict[str, dict[str, set[str | None]]] = {
    "held_itself": {"late": {"long"}},
    "behind_a_held_one": {"late": {"long"}},
    "behind_a_swallowed_one": {"late": {"eat (likely)"}, "failed": {"eat"}},
    "one_partition_of_two": {"late": {None}, "failed": {"lose"}},
    "an_error_of_the_broker_s_own": {"failed": {None}},
    "two_rules_and_one_said_it": {"retried": {"lose"}, "wrong_broker": {"lose"}},
    "another_client_s_fault": {"late": {None}},
    "told_of_no_leader": {"late": {"no-leader (likely)"}},
    "metadata_held_meanwhile": {"late": {None}},
    "never_answered": {"hang": {"lose"}},
    "followed_by_a_sequence_error": {"failed": {"eat (likely)"}},
    "followed_by_the_error_of_a_changed_batch": {"failed": {"damage", "damage (likely)"}},
    "followed_by_another_error_than_a_changed_batch_s": {"failed": {"damage", None}},
    "failing_after_throttled_ones": {"failed": {None}},
    "refused_for_what_a_rule_changed": {"failed": {"damage"}},
    "kept_behind_a_swallowed_one": {"retried": {"eat"}, "duplicate": {"eat"}},
    "kept_behind_one_that_a_trifle_held": {"late": {"eat"}, "retried": {"eat"}, "duplicate": {"eat"}},
    "cut_off_with_its_connection": {"retried": {"break"}},
    "overtaken_by_the_next_one": {"reordered": {"eat"}, "retried": {"eat"}},
    "told_an_offset_that_is_too_large": {"reordered": {"lie"}},
    "copied": {"duplicate": {"eat"}, "retried": {"eat"}},
    "sent_once_and_copied": {"duplicate": {"twice"}},
    "refused_once_and_then_the_broker_was_slow": {"late": {None}, "retried": {"lose"}},
    "delayed_a_trifle_until_its_broker_was_gone": {"retried": {None}},
    "thrown_out_while_a_fetch_is_held_elsewhere": {"read_again": {"shake (likely)"}},
    "hands_out_what_it_has_until_it_is_a_member_again": {"read_again": {"gone (likely)"}},
    "hands_out_what_it_has_until_it_gives_up_and_joins_anew": {"read_again": {"gone (likely)"}},
    "hands_out_what_it_has_and_joins_anew_for_another_reason": {"read_again": {None}},
    "reads_on_long_after_it_is_a_member_again": {"read_again": {None}},
    "back_in_its_group_it_goes_on_where_it_had_committed": {"read_again": {"gone (likely)"}},
    "back_in_its_group_it_hands_out_what_it_had": {"read_again": {"gone (likely)"}},
    "back_in_its_group_it_goes_back_in_what_it_got_since": {"read_again": {None}},
    "back_in_its_group_it_goes_back_behind_what_it_was_told": {"read_again": {None}},
    "thrown_out_behind_a_held_fetch": {"read_again": {"slow (likely)"}},
    "never_reads_again_after_a_cut": {"starved": {"break (likely)"}},
    "waits_for_its_producer_that_was_fenced": {"starved": {"fence (likely)"}},
    "waits_for_its_producer_that_was_refused_once": {"starved": set()},
    "waits_beside_another_group_s_fenced_producer": {"starved": set()},
    "reads_nothing_at_all_after_a_cut": {"starved": set()},
    "handed_out_late_while_its_group_was_refused": {"starved": {"slow"}},
    "asked_for_late_as_its_group_was_refused": {"starved": {"elsewhere (likely)"}},
    "a_read_of_changed_records": {"failed": {"damage"}},
    "a_read_of_changed_records_in_other_words": {"failed": {"damage (likely)"}},
    "a_read_of_records_that_were_as_they_are": {"failed": {None}},
    "sent_back_by_changed_records": {"read_again": {"damage"}, "offset_reset": {"damage (likely)"}},
    "held_by_two_for_long_and_for_a_trifle": {"late": {"long"}},
    "held_by_a_thin_line": {"late": {"thin"}},
    "refused_and_then_not_even_sent": {"failed": {"refuse", "refuse (likely)", None}},
    "a_sequence_stays_broken": {"failed": {"fence", "fence (likely)"}},
    "behind_an_answer_that_muted": {"late": {"hush"}},
    "did_as_it_was_told_and_waited": {"late": {"hush (likely)"}},
    "told_to_wait_and_did_not": {"late": {None}},
    "an_answer_that_never_came": {"failed": {None}},
    "a_hole_in_the_sequence": {"retried": {"refuse", "refuse (likely)"}, "wrong_broker": {"refuse"}},
    "out_of_sequence_once_the_hole_was_filled": {"retried": {"refuse", None}, "wrong_broker": {"refuse"}},
    "told_the_old_leader_when_it_had_been_refused": {"retried": {"old (likely)", None}},
    "offered_fewer_versions_and_going_on": {"late": {None, "long"}},
    "offered_too_few_versions": {"failed": {"older (likely)"}},
    "a_commit_refused": {"failed": {"refuse", None}},
    "a_read_refused": {"failed": {"lie"}},
    "a_read_refused_in_other_words": {"failed": {"lie (likely)"}},
    "a_read_called_after_a_refusal": {"failed": {None}},
    "a_read_refused_by_the_broker_in_the_end": {"failed": {None}},
    "another_topic_s_read_refused": {"failed": {None}},
    "sent_back_by_a_lie": {"read_again": {"lie"}},
    "sent_back_out_of_its_group": {"read_again": {"shake (likely)"}},
    "sent_back_with_another_of_its_group": {"read_again": {"shake (likely)"}},
    "sent_back_by_another_one_s_commit": {"read_again": {"shake (likely)"}},
    "sent_back_as_its_producer_s_commit_was_refused": {"read_again": {"shake (likely)"}},
    "sent_back_as_its_producer_s_transaction_was_ended": {"read_again": {"fence (likely)"}},
    "sent_back_beside_another_producer_s_transaction": {"read_again": {None}},
    "sent_back_beside_another_group_s_refused_commit": {"read_again": {None}},
    "sent_back_beside_one_that_was_late": {"read_again": {None}},
    "fenced_behind_a_delay": {"failed": {"fence (likely)"}},
    "thrown_out_and_reading_on_for_a_moment": {"read_again": {"shake (likely)"}},
    "thrown_out_behind_a_swallowed_answer": {"read_again": {"eat (likely)"}},
    "read_by_another_behind_a_refused_commit": {"read_by_another": {"refuse (likely)", None}},
    "acknowledged_for_another": {"lost": {"break (likely)"}},
    "told_when_its_transaction_ends": {"failed": {"eat (likely)"}},
    "told_with_the_others_of_its_call": {"late": {"long", "long (likely)"}},
    "told_late_and_alone": {"late": {"long", None}},
    "committed_behind_a_swallowed_heartbeat": {"failed": {"eat (likely)"}},
    "committed_to_a_made_up_coordinator": {"failed": {"move (likely)"}},
    "sent_back_by_a_made_up_coordinator": {"read_again": {"move (likely)"}},
    "refused_once_and_well_again": {"read_again": {None}},
    "read_by_another_that_nobody_sent_back": {"read_by_another": {None}},
    "read_by_two_that_share_but_a_name": {"read_by_another": set()},
    "lost_after_it_was_sent_again": {"lost": {None}},
    "acknowledged_by_what_came_behind": {"lost": {"refuse"}},
    "lost_after_it_was_refused_and_sent_again": {"lost": {None}},
    "one_partition_held": {"unfair_acks": {"slow"}},
    "one_partition_slow_by_itself": {"unfair_acks": {None}},
    "one_partition_slow_and_in_part_by_a_rule": {"unfair_acks": {"?"}},
    "one_partition_slow_and_once_held": {"unfair_acks": {None}},
    "still_swallowed": {"stuck": set()},
    "sought_to_the_end": {"skipped": set()},
    "sent_to_the_end": {"skipped": {None}},
    "asked_for_the_end_and_jumped": {"skipped": {None}},
    "jumped": {"skipped": {None}},
    "sought_over_what_was_fetched": {"skipped": set()},
    "sought_back_while_shaken": {"read_again": {None}},
    "sought_elsewhere_and_shaken": {"read_again": {"shake (likely)"}},
    "sent_back_by_the_broker_s_own_answer": {"commit_lost": {None}},
    "set_back_beside_throttled_answers": {"read_again": {None}},
    "refused_once_and_committed_further": {"read_again": {None}},
    "refused_once_and_committed_less_far": {"read_again": {"refuse (likely)"}},
    "committed_too_late_behind_trifles": {"failed": {None}},
    "committed_as_far_by_another_member": {"blocked_call": set()},
    "a_transaction_that_could_not_be_ended": {"failed": {"fence", "fence (likely)", None}},
    "read_late_by_whoever_took_it_over": {"starved": set()},
    "read_late_by_whoever_was_let_in_late": {"starved": {"slow (likely)"}},
    "a_transaction_whose_end_nobody_heard_of": {"blocked_call": {"noend (likely)"}},
    "sent_elsewhere_by_a_rule_and_later_by_the_broker": {"wrong_broker": {"lose", None}},
    "one_group_by_its_commits": {"skipped": set()},
    "made_anew": {"inconsistent_offsets": set()},
    "made_anew_and_read_since": {"lost": {None}, "reordered": set(), "inconsistent_offsets": set()},
    "differently_read": {"inconsistent_offsets": {None}},
    "sent_past_records_by_a_lie": {"skipped": {"lie"}},
    "sent_past_records_with_some_at_hand": {"skipped": {"lie"}},
    "sent_past_records_before_it_had_read_what_was_at_hand": {"skipped": {"lie"}},
    "sent_by_the_broker_with_records_at_hand": {"skipped": {None}},
    "handed_records_after_a_lie_and_sought": {"skipped": set()},
    "sent_past_records_and_no_fetch_tells_when": {"skipped": {"lie"}},
    "told_another_end": {"skipped": {"beyond"}},
    "begun_behind_what_the_broker_had": {"skipped": {"lie"}},
    "begun_behind_what_nobody_else_had_read": {"skipped": {"lie"}},
    "begun_later_than_what_nobody_else_had_read": {"skipped": set()},
    "begun_at_a_log_s_end_that_a_rule_made_later": {"skipped": {"lie"}},
    "begun_where_a_rule_had_it_begin_earlier": {"skipped": set()},
    "lied_to_and_then_told_the_truth": {"skipped": set()},
    "begun_where_it_was_told_by_two_rules": {"skipped": {"far, lie, near"}},
    "began_at_the_end_without_a_place": {"skipped": set()},
    "began_at_the_end_though_it_had_committed": {"skipped": {None}},
    "began_at_the_end_after_a_commit_that_never_was": {"skipped": {"?"}},
    "jumped_while_shaken": {"skipped": {"?"}},
    "told_by_a_rule_that_it_has_no_place": {"skipped": {"blind"}},
    "told_an_end_that_is_not_there": {"offset_reset": {"beyond (likely)"}},
    "told_an_end_and_refused_by_another": {"offset_reset": {"beyond (likely)", "lie"}},
    "sent_to_the_wrong_broker": {"retried": {"wrong (likely)", None}, "wrong_broker": {"wrong (likely)", None}},
    "sent_to_the_wrong_broker_of_a_topic_nobody_knew": {
        "retried": {"wrong (likely)"},
        "wrong_broker": {"wrong (likely)"},
    },
    "a_host_silent_for_whoever_comes": {"late": {"off (likely)", "long"}},
    "a_host_silent_to_the_end": {"late": {"off (likely)"}},
    "a_host_that_came_back_long_before": {"late": {None}},
    "a_host_that_took_somebody_since": {"late": {None}},
    "silenced_with_a_batch_on_it": {"late": {"off"}},
    "lost_behind_what_lay_in_the_socket": {"late": {"off"}},
    "lost_behind_what_lay_in_a_socket_that_was_silent_for_long": {"late": {"off"}},
    "late_behind_what_lay_in_the_socket": {"late": {"off", None}},
    "late_long_after_what_lay_in_the_socket": {"late": {"off", None}},
    "silenced_while_another_is_silent": {"late": {"off"}},
    "cut_and_told_late": {"late": {"break, later", "break"}, "retried": {"break"}},
    "silent_long_before_it_was_cut": {"late": {"break", "break (likely)"}, "retried": {"break"}},
    "behind_a_swallowed_one_whose_connection_fell_silent": {
        "late": {"eat, off", "eat, off (likely)"},
        "retried": {"eat"},
    },
    "a_silence_elsewhere_that_was_over": {"late": {None}, "retried": {None}},
    "taken_by_another_rule_since": {"late": {"off (likely)"}},
    "refused_by_what_was_silent_as_well": {"late": {"off (likely)"}},
    "another_broker_that_nobody_got_to": {"late": {None}},
    "a_silence_that_kept_nothing": {"failed": {"shut (likely)"}},
    "behind_at_its_own_broker_and_cut_off_elsewhere": {"late": {"long"}, "failed": {"long (likely)"}},
    "cut_off_from_another_broker_before": {"late": {"off (likely)"}, "failed": {"break"}},
    "connecting_again_in_vain": {"late": {"shut (likely)"}, "retried": {None}},
    "held_for_a_trifle_before_the_broker_stopped": {"late": {None}},
    "held_for_a_trifle_when_the_broker_went_on": {"late": {None}},
    "never_answered_after_a_trifle": {"hang": {None}},
    "answered_and_never_told": {"hang": {None}},
    "passed_on_without_acks_and_never_told": {"hang": {None}},
    "held_until_somebody_let_go": {"late": {"wait (likely)"}},
    "held_until_somebody_let_go_and_the_broker_stopped": {"late": {None}},
    "told_late_by_two_for_long_and_for_a_trifle": {"late": {"long (likely)"}},
    "told_of_no_leader_when_the_broker_went_on": {"late": {None}},
    "told_elsewhere_what_was_cut_off": {"late": {None}, "failed": {None}},
    "told_elsewhere_late_what_was_cut_off": {"late": {"break (likely)"}},
    "cut_off_from_its_leader_and_led_elsewhere": {"late": {"down (likely)"}},
    "cut_off_from_its_leader_of_before": {"late": {None}},
    "cut_off_at_its_own_broker_and_told_elsewhere": {"late": {"break (likely)"}},
    "told_in_another_order_and_did_well_with_it": {"late": {None}},
    "told_in_another_order_and_did_well_elsewhere": {"late": {"turn (likely)"}},
    "told_of_another_leader_that_it_had_not_gone_to_yet": {"late": {"wrong (likely)"}},
    "failing_while_it_is_silent": {"stuck": set()},
    "failing_after_it_was_silent": {"stuck": {"off"}},
    "failing_while_whoever_comes_meets_silence": {"stuck": set()},
    "connecting_in_vain": {"reconnect_storm": {"slam"}},
    "dead_after_its_last_refusal": {
        "blocked_call": {"no-leader (likely)"},
        "failed": {"no-leader", "no-leader (likely)"},
    },
    "stuck_when_it_was_over": {"stuck": {"eat"}},
    "cut_off_while_nobody_may_come": {"late": {"break, shut", "break, shut (likely)"}, "retried": {"break"}},
    "trifles_while_nobody_may_come": {"failed": {"shut, trifle (likely)"}},
    "dead_of_garbage": {"hang": {"bad", "bad (likely)"}},
    "failing_before_its_refusal_is_told": {"failed": {"fence", "fence (likely)"}},
    "begun_anew_after_it_was_fenced": {"failed": {None}},
    "sent_to_the_old_leader_again_and_again": {"wrong_broker": {"move, old (likely)"}},
    "sent_to_the_old_leader_before_it_asked": {"wrong_broker": {"move"}},
    "let_in_for_another_time": {"late": {None}},
    "fleet_starting_together": {"metadata_storm": set(), "reconnect_storm": set()},
}


def blame(finding: Mapping[str, Any]) -> str | None:
    """The rules that a finding names, with `(likely)` where it says so; `?` where it says that nobody knows."""
    if "whether a fault had a hand in it is not known" in finding["sentence"]:
        return "?"
    rule: str | None = finding["rule"]
    return f"{rule} (likely)" if rule and "(likely)" in finding["sentence"] else rule


# Whom a finding is about where it is not the client of that name.
ELSEWHERE = {
    "fleet_starting_together": "rdkafka",
    "connecting_in_vain": "10.9.8.7",
    "read_by_another_behind_a_refused_commit": "read_by_another_behind_a_refused_commit-second",
    "read_by_another_that_nobody_sent_back": "read_by_another_that_nobody_sent_back-second",
    "read_by_two_that_share_but_a_name": "read_by_two_that_share_but_a_name-second",
}


@pytest.fixture(scope="module")
def findings(analyse: Callable[..., tuple[object, list[Finding]]]) -> list[Finding]:
    together = Story()
    for name, tell in STORIES.items():
        told = Story(run_id=name, client=name)
        tell(told)
        together.add(told)
    return analyse(together, OPTIONS)[1]


def of_story(findings: list[Finding], name: str) -> list[Finding]:
    return [f for f in findings if f.group and f.group.client in (name, ELSEWHERE.get(name, name))]


@pytest.mark.parametrize("name", sorted(STORIES))
def test_the_rule_that_did_it_is_named_and_no_other(findings: list[Finding], name: str) -> None:
    theirs = of_story(findings, name)
    blamed = {check: {blame(f.as_dict()) for f in theirs if f.check == check} for check in BLAMED[name]}
    assert blamed == BLAMED[name]


def sentence_of(findings: list[Finding], check: str, name: str) -> str:
    theirs = [f for f in of_story(findings, name) if f.check == check]
    return min(theirs, key=lambda f: f.group is None or f.group.rule is None).sentence


@pytest.mark.parametrize(
    ("check", "name", "words"),
    [
        ("late", "held_itself", "it had an answer held by rule long (stall)"),
        (
            "late",
            "behind_a_swallowed_one",
            "behind a request to the same broker, whose answer was swallowed by rule eat",
        ),
        (
            "late",
            "told_of_no_leader",
            "were answered LEADER_NOT_AVAILABLE by rule no-leader (leader_election) (likely)",
        ),
        (
            "late",
            "did_as_it_was_told_and_waited",
            "behind an exchange whose answer told the client to wait by rule hush (throttle) (likely)",
        ),
        ("late", "metadata_held_meanwhile", "; no fault had a hand in it"),
        ("failed", "an_error_of_the_broker_s_own", "it was answered MESSAGE_TOO_LARGE, and no fault had a hand in it"),
        ("hang", "never_answered", "it was answered NOT_LEADER_OR_FOLLOWER by rule lose (error)"),
        ("failed", "followed_by_a_sequence_error", "(likely)"),
        ("late", "held_by_a_thin_line", "it was held by rule thin (bandwidth)"),
        ("failed", "a_sequence_stays_broken", "answered INVALID_PRODUCER_EPOCH by rule fence (error)"),
        ("late", "silenced_with_a_batch_on_it", "it was on a connection that was silenced by rule off (blackhole)."),
        (
            "failed",
            "a_read_refused",
            "; it had a request for records or offsets answered OFFSET_OUT_OF_RANGE by rule lie (error).",
        ),
        ("failed", "a_read_refused_in_other_words", "by rule lie (error) (likely)"),
        (
            "failed",
            "a_read_of_changed_records",
            "; it was handed records or offsets that had been changed by rule damage (corrupt).",
        ),
        (
            "late",
            "refused_once_and_then_the_broker_was_slow",
            "; errors that rules told it were the lesser part of that.",
        ),
        ("read_again", "sent_back_by_a_lie", "; it was told OFFSET_OUT_OF_RANGE by rule lie (error)"),
        ("read_again", "sent_back_out_of_its_group", "by rule shake (error) (likely)"),
        (
            "read_by_another",
            "read_by_another_behind_a_refused_commit",
            "its group had read them; a commit of its place was refused by rule refuse (error) (likely)",
        ),
        ("duplicate", "copied", "it had an answer swallowed by rule eat (drop_response)"),
        # What one of two did isn't said of both.
        ("late", "cut_off_while_nobody_may_come", ", or otherwise hit, by rules break, shut (reset, refuse)"),
        (
            "reordered",
            "overtaken_by_the_next_one",
            "an earlier call's record; one of the two had a request swallowed by rule eat (drop_request).",
        ),
    ],
)
def test_the_sentence_says_what_the_rule_did(findings: list[Finding], check: str, name: str, words: str) -> None:
    assert words in sentence_of(findings, check, name)


def test_of_a_life_that_nobody_read_nothing_is_known(findings: list[Finding]) -> None:
    (lost,) = (f for f in findings if f.check == "lost" and f.group and f.group.client == "made_anew_and_read_since")
    assert (lost.verdict, lost.count) == ("unknown", 4)


def test_a_failure_follows_from_a_refusal_of_its_topic_for_some_seconds(findings: list[Finding]) -> None:
    told = {
        (f.group.topic, f.group.rule): f.group.cases
        for f in findings
        if f.check == "failed"
        and f.group
        and f.group.client == "refused_and_then_not_even_sent"
        and "100" in f.sentence
    }
    assert told == {("orders", "refuse"): 2, ("orders", None): 1, ("invoices", None): 1}


def test_those_behind_are_told_apart_from_the_one_that_was_held(findings: list[Finding]) -> None:
    told = [f.sentence for f in findings if f.check == "late" and f.group and f.group.client == "behind_a_held_one"]
    assert any("had an answer held by rule long" in sentence for sentence in told)
    assert any("waited on their connection behind an exchange whose answer was held by rule long" in s for s in told)
    assert not any("trifle" in sentence for sentence in told)
