"""Who is to blame: stories whose guilty rule is known, beside rules that struck then and did nothing to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import MS, START_US, Story

pytestmark = pytest.mark.spark

STORIES: dict[str, Callable[[Story], None]] = {}
Effects = list[tuple[str, str, str, int | None, list[int] | None]]


def story(tell: Callable[[Story], None]) -> Callable[[Story], None]:
    STORIES[tell.__name__] = tell
    return tell


def did(*effects: tuple[Any, ...], since_ms: float | None = None, until_ms: float | None = None) -> dict[str, Any]:
    """What rules did to an exchange: (rule, kind, did[, error code[, places]]) each; when the broker answered it
    (`since_ms`) or when it was passed to the broker (`until_ms`), where it was held from or until then."""
    whole: Effects = [(*effect, None, None)[:5] if len(effect) < 5 else effect for effect in effects]  # type: ignore[misc]
    names = ("rule", "kind", "did", "error_code", "partitions")
    times = {"broker_responded_at_us": since_ms, "forwarded_at_us": until_ms}
    return {
        "effects": [dict(zip(names, effect, strict=True)) for effect in whole],
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


@story
def followed_by_a_sequence_error(s: Story) -> None:
    batch = {"message_ids": ["m0"], "producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    s.produce(0, **batch, outcome="dropped", took_ms=None, **did(("eat", "drop_request", "swallowed_request")))
    s.produce(500, **batch, error_code=45)
    s.send(0, "m0", outcome="fail", took_ms=510, error="OutOfOrderSequence")


@story
def copied(s: Story) -> None:
    trifle = ("trifle", "stall", "held_request")
    s.produce(0, message_ids=["m0"], base_offset=0, outcome="dropped", took_ms=None,
              **did(trifle, ("eat", "drop_response", "swallowed_answer"), until_ms=5))  # fmt: skip
    s.poll(40, "m0", 0)
    ok(s, 0, "m0", 1, sent=500, **did(trifle, until_ms=505))
    s.poll(600, "m0", 1)


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
def cut_off_with_its_connection(s: Story) -> None:
    # The connection was cut under the second request: the first one, which waited for its answer there, went with it.
    s.produce(0, message_ids=["m0"], outcome="no_response", took_ms=None)
    s.produce(5, message_ids=["m1"], outcome="closed", took_ms=None, **did(("break", "reset", "cut")))
    for number in range(2):
        s.produce(100 + 5 * number, message_ids=[f"m{number}"], base_offset=number, connection_id=2)
        s.send(5 * number, f"m{number}", offset=number, took_ms=110)


@story
def fleet_starting_together(s: Story) -> None:
    for number in range(60):
        for event in ("connect", "exchange"):
            row = s.exchange(number, "Metadata", event=event, connection_id=100 + number, client_id="rdkafka")
            row["exchange_seq"] = 1 if event == "exchange" else None


# story → (check, topic partition or None for any) → rules that are to blame, as the finding's `rule` has them.
BLAMED: dict[str, dict[str, set[str | None]]] = {
    "held_itself": {"late": {"long"}},
    "behind_a_held_one": {"late": {"long"}},
    "behind_a_swallowed_one": {"late": {"eat"}, "failed": {"eat"}},
    "one_partition_of_two": {"late": {None}, "failed": {"lose"}},
    "an_error_of_the_broker_s_own": {"failed": {None}},
    "two_rules_and_one_said_it": {"retried": {"lose"}, "wrong_broker": {"lose"}},
    "another_client_s_fault": {"late": {None}},
    "told_of_no_leader": {"late": {"no-leader"}},
    "metadata_held_meanwhile": {"late": {None}},
    "never_answered": {"hang": {"lose"}},
    "followed_by_a_sequence_error": {"failed": {"eat"}},
    "refused_for_what_a_rule_changed": {"failed": {"damage"}},
    "kept_behind_a_swallowed_one": {"retried": {"eat"}, "duplicate": {"eat"}},
    "cut_off_with_its_connection": {"retried": {"break"}},
    "copied": {"duplicate": {"eat"}, "retried": {"eat"}},
    "fleet_starting_together": {"metadata_storm": set(), "reconnect_storm": set()},
}


@pytest.fixture(scope="module")
def findings(analyse: Callable[..., tuple[object, list[Finding]]]) -> list[Finding]:
    together = Story()
    for name, tell in STORIES.items():
        told = Story(run_id=name, client=name)
        tell(told)
        together.add(told)
    return analyse(together, Options(by_run=True, storm_per_s=30))[1]


@pytest.mark.parametrize("name", sorted(STORIES))
def test_the_rule_that_did_it_is_named_and_no_other(findings: list[Finding], name: str) -> None:
    theirs = [
        f for f in findings if f.group and f.group.client in (name, "rdkafka" if name.startswith("fleet") else name)
    ]
    blamed = {check: {f.group.rule for f in theirs if f.check == check and f.group} for check in BLAMED[name]}
    assert blamed == BLAMED[name]


def sentence_of(findings: list[Finding], check: str, client: str) -> str:
    return next(f.sentence for f in findings if f.check == check and f.group and f.group.client == client)


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
        ("late", "metadata_held_meanwhile", "; no fault had a hand in it"),
        ("failed", "an_error_of_the_broker_s_own", "it was answered MESSAGE_TOO_LARGE, and no fault had a hand in it"),
        ("hang", "never_answered", "it was answered NOT_LEADER_OR_FOLLOWER by rule lose (error)"),
        ("failed", "followed_by_a_sequence_error", "(likely)"),
        ("duplicate", "copied", "it had an answer swallowed by rule eat (drop_response)"),
    ],
)
def test_the_sentence_says_what_the_rule_did(findings: list[Finding], check: str, name: str, words: str) -> None:
    assert words in sentence_of(findings, check, name)


def test_those_behind_are_told_apart_from_the_one_that_was_held(findings: list[Finding]) -> None:
    told = [f.sentence for f in findings if f.check == "late" and f.group and f.group.client == "behind_a_held_one"]
    assert any("had an answer held by rule long" in sentence for sentence in told)
    assert any("waited on their connection behind an exchange whose answer was held by rule long" in s for s in told)
    assert not any("trifle" in sentence for sentence in told)
