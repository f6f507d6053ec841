"""What the brokers' log settles, and a bound of the command's: every story is a run of its own with its log, all judged
in one analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.checks import Tables
from notleader.spark_analysis.checks.base import REGISTRY
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.io import read_logs
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.paths import InputError
from notleader.spark_analysis.transforms.log import as_log
from tests.spark_analysis.conftest import rows
from tests.spark_analysis.synthetic import START_US, Story
from tests.spark_analysis.transforms.test_causes import did

pytestmark = pytest.mark.spark

Built = tuple[Tables, list[Finding]]
STORIES: dict[str, Callable[[Story], None]] = {}
OPTIONS = Options(by_run=True, late_ms=2000)


def story(tell: Callable[[Story], None]) -> Callable[[Story], None]:
    """Register a story under its function's name, which is also its run and its client."""
    STORIES[tell.__name__] = tell
    return tell


def acked(s: Story, at_ms: float, message: str | None, offset: int | None, **given: Any) -> None:
    """An acknowledged send; nobody reads in these stories unless they say so."""
    s.produce(at_ms + 0.2, message_ids=[message], base_offset=-1 if offset is None else offset)
    s.send(at_ms, message, offset=offset, **given)


def failed(s: Story, at_ms: float, message: str | None, outcome: str = "fail", **given: Any) -> None:
    s.produce(at_ms + 0.2, message_ids=[message], outcome="dropped", took_ms=None, fault=("eat", "drop_response"))
    s.send(at_ms, message, outcome=outcome, error="timed out", **given)


@story
def all_there(s: Story) -> None:
    for number in range(4):
        acked(s, number, f"m{number}", number)
    s.holds("m0", "m1", "m2", "m3")


@story
def lost_at_the_end(s: Story) -> None:
    # No reader would ever go past the last offset.
    acked(s, 0, "m0", 0)
    acked(s, 1, "m1", 1)
    s.holds("m0")


@story
def lost_for_another(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.holds("m9")


@story
def lost_without_an_offset(s: Story) -> None:
    acked(s, 0, "m0", None)
    acked(s, 1, "m1", 0)
    s.holds("m1")


@story
def lost_in_a_compacted_topic(s: Story) -> None:
    acked(s, 0, "m0", 0, key_hash=1)
    acked(s, 1, "m1", 1, key_hash=2)
    s.holds(None, "m1@2", cleanup_policy="compact,delete")


@story
def superseded(s: Story) -> None:
    for number in range(3):
        acked(s, number, f"m{number}", number, key_hash=7)
    s.holds(None, None, "m2@7", cleanup_policy="compact")


@story
def superseded_by_a_tombstone_that_is_gone(s: Story) -> None:
    acked(s, 0, "m0", 0, key_hash=7)
    acked(s, 1, "tombstone", 1, key_hash=7)
    acked(s, 2, "m2", 2, key_hash=8)
    s.holds(None, None, "m2@8", cleanup_policy="compact", delete_retention_ms=100)


@story
def compacted_and_no_key_known(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 1, "m1", 1)
    s.holds(None, "m1@2", cleanup_policy="compact")


@story
def lost_in_a_compacted_topic_before_it_got_there(s: Story) -> None:
    # Nobody has deleted what no request took there.
    cut: dict[str, Any] = {"effects": [{"rule": "cut", "kind": "reset", "did": "cut"}], "fault": ("cut", "reset")}
    s.produce(0.2, message_ids=["m0"], acks=0, outcome="closed", took_ms=None, **cut)
    s.send(0, "m0")
    acked(s, 1, "m1", 1)
    s.holds(None, "m1@2", cleanup_policy="compact")


@story
def doubled_and_compacted_since(s: Story) -> None:
    s.produce(0.2, message_ids=["m0"], base_offset=0)
    s.produce(3, message_ids=["m0"], base_offset=1)
    s.send(0, "m0", offset=1, key_hash=7)
    acked(s, 9, "m2", 2, key_hash=7)
    s.holds(None, None, "m2@7", cleanup_policy="compact")


@story
def deleted_by_retention(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 1, "m1", 1)
    s.holds("m1", start=1)


@story
def deleted_and_passed_over(s: Story) -> None:
    # A reader was there, and got what lies before it and behind it; nobody knows any more whether it was there.
    for number in range(3):
        acked(s, 10 * number, f"m{number}", number)
    s.poll(100, "m0", 0)
    s.poll(101, "m2", 2)
    s.holds("m2", start=2)


@story
def doubled(s: Story) -> None:
    failed(s, 0, "m0", outcome="ok", offset=1)
    s.holds("m0", "m0")


@story
def doubled_behind_a_swallowed_answer(s: Story) -> None:
    # m0's answer was swallowed: m1, on the same connection, got none either. Both went out again on a new one.
    swallowed: dict[str, Any] = {"outcome": "dropped", "took_ms": None, "fault": ("eat", "drop_response")}
    effects = [
        {"rule": "eat", "kind": "drop_response", "did": "swallowed_answer", "error_code": None, "partitions": [0]}
    ]
    s.produce(1, message_ids=["m0"], base_offset=0, effects=effects, **swallowed)
    s.produce(11, message_ids=["m1"], outcome="no_response", took_ms=None)
    s.exchange(1000, "", event="disconnect", took_ms=0).update(api_name=None, api_key=None)
    s.produce(1010, message_ids=["m0"], base_offset=2, connection_id=2)
    s.produce(1011, message_ids=["m1"], base_offset=3, connection_id=2)
    s.send(0, "m0", offset=2, took_ms=1020)
    s.send(10, "m1", offset=3, took_ms=1020)
    s.holds("m0", "m1", "m0", "m1")


@story
def doubled_in_a_log_without_ids(s: Story) -> None:
    # Its values are its ids, as the lines have them; the log read no values.
    for offset in (0, 1):
        s.produce(offset, message_ids=[None], base_offset=offset)
    s.send(0, "m0", offset=1)
    s.holds("", "")
    for offset in (0, 1):
        s.poll(50 + offset, "m0", offset)


@story
def once_in_a_log_without_ids(s: Story) -> None:
    s.produce(0, message_ids=[None], base_offset=0)
    s.send(0, "m0", offset=0)
    s.holds("")
    s.poll(50, "m0", 0)


@story
def doubled_though_aborted_once(s: Story) -> None:
    acked(s, 0, "m0", 1)
    s.holds("m0:aborted", "m0:committed")


@story
def aborted_and_sent_again(s: Story) -> None:
    """Exactly once: what a transaction held that was aborted goes out again in the next one."""
    for at_ms, offset in ((0, 0), (20, 2)):
        acked(s, at_ms, "m0", offset)
    for row in s.exchanges:
        row["transactional_id"] = "tx"
    s.poll(100, "m0", 0, client=f"{s.client}-reader")
    s.poll(101, "m0", 2, client=f"{s.client}-reader")
    s.holds("m0:aborted", "marker", "m0:committed", "marker")


@story
def aborted_though_acknowledged(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.holds("m0:aborted", "marker")


@story
def in_an_open_transaction(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.holds("m0:open")


@story
def there_though_failed(s: Story) -> None:
    failed(s, 0, "m0")
    s.holds("m0")


@story
def aborted_and_failed(s: Story) -> None:
    failed(s, 0, "m0")
    s.holds("m0:aborted")


@story
def failed_and_absent(s: Story) -> None:
    # The broker said that it appended, and lost it after that: the log is the last word.
    s.produce(0.2, message_ids=["m0"], outcome="dropped", took_ms=None, base_offset=4, fault=("eat", "drop_response"))
    s.send(0, "m0", outcome="fail", error="timed out")
    s.holds()


@story
def lost_after_it_was_read(s: Story) -> None:
    # As when a replica is elected that never had it.
    for number in range(2):
        acked(s, 10 * number, f"m{number}", number)
        s.poll(50 + number, f"m{number}", number)
    s.holds("m0")


@story
def failed_for_a_partition_that_is_not_there(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.send(10, "m1", outcome="fail", error="unknown partition", partition=7)
    s.holds("m0")


@story
def out_of_order(s: Story) -> None:
    # Neither was told its offset.
    acked(s, 0, "m0", None)
    acked(s, 10, "m1", None)
    s.holds("m1", "m0")


@story
def lost_and_told_a_later_place(s: Story) -> None:
    # What is not there lies nowhere, whatever offset it was told: m1 overtook nothing.
    acked(s, 0, "m0", 1)
    acked(s, 10, "m1", 0)
    s.holds("m1", "m2")


LONG_BEFORE_MS = -3_600_000


@story
def ids_used_before(s: Story) -> None:
    # An earlier run sent the same ids, and a reader gets its records, too. Of this one m1 failed, and m3 is lost.
    acked(s, 0, "m0", 4)
    failed(s, 10, "m1")
    acked(s, 20, "m2", 5)
    acked(s, 30, "m3", 6)
    for offset, message in enumerate(ids := ("m0", "m1", "m2", "m3", "m0", "m2")):
        s.poll(100 + offset, message, offset)
    s.holds(*ids, written_ms=[LONG_BEFORE_MS] * 4 + [0, 20])


@story
def doubled_before_all_that_was_told(s: Story) -> None:
    # The very first append had no answer: by its offset alone it might be older than the run.
    failed(s, 0, "m0", outcome="ok", offset=1)
    s.produce(100, message_ids=["m0"], base_offset=1)
    s.holds("m0", "m0", written_ms=[0, 0])


@story
def doubled_with_timestamps_of_its_own(s: Story) -> None:
    # The application stamps its records with the time of what they tell.
    acked(s, 0, "m0", 0)
    s.holds("m0", "m0", written_ms=[LONG_BEFORE_MS] * 2)


@story
def failed_and_behind_a_later_one(s: Story) -> None:
    # Nobody promised anything of it.
    failed(s, 0, "m0")
    acked(s, 10, "m1", 0)
    s.holds("m1", "m0")


@story
def later_than_any_may_be(s: Story) -> None:
    # Its own budget allows for more.
    acked(s, 0, "m0", 0, took_ms=2500, budget_ms=3000)
    s.holds("m0")


@story
def sent_again_by_the_application(s: Story) -> None:
    # The second call's copy is the second one, and lies behind m1 as it was called behind it.
    failed(s, 0, "m0", outcome="info")
    acked(s, 10, "m1", 1)
    acked(s, 20, "m0", 2)
    s.holds("m0", "m1", "m0")


@story
def resent_behind_a_later_one(s: Story) -> None:
    failed(s, 0, "m0", outcome="ok", offset=2)
    acked(s, 10, "m1", 1)
    s.holds("m0", "m1", "m0")


def read_by_two(s: Story, *second: int) -> None:
    """One reads all three before the log loses some of them, the other what is left of them."""
    for number in range(3):
        acked(s, 10 * number, f"m{number}", number, key_hash=7)
        s.poll(100 + number, f"m{number}", number, client=f"{s.client}-first")
    for number in second:
        s.poll(200 + number, f"m{number}", number, client=f"{s.client}-second")


@story
def compacted_between_two_readers(s: Story) -> None:
    read_by_two(s, 0, 2)
    s.holds(None, None, "m2@7", cleanup_policy="compact")


@story
def deleted_between_two_readers(s: Story) -> None:
    read_by_two(s, 0, 2)
    s.holds("m2", start=2)


@story
def passed_over_between_two_readers(s: Story) -> None:
    read_by_two(s, 0, 2)
    s.holds("m0", "m1", "m2")


@story
def passed_over_in_transactions(s: Story) -> None:
    for number in range(3):
        acked(s, 10 * number, f"m{number}", number)
    for row in s.exchanges:
        row["transactional_id"] = "tx"
    s.poll(100, "m0", 0)
    s.poll(101, "m2", 2)
    s.holds(*(f"m{number}:committed" for number in range(3)))


@story
def told_a_wrong_offset(s: Story) -> None:
    acked(s, 0, "m0", 5)
    s.holds("m0")


@story
def told_a_wrong_offset_by_one_of_two(s: Story) -> None:
    by = did(("trifle", "delay", "held_answer"), ("lie", "offset_lie", "altered_answer"), since_ms=1)
    s.produce(0.2, message_ids=["m0"], base_offset=5, **by)
    s.send(0, "m0", offset=5)
    s.holds("m0")


@story
def a_reader_was_given_another(s: Story) -> None:
    acked(s, 0, "m0", 0)
    s.poll(50, "m7", 0)
    s.holds("m0")


@story
def made_anew(s: Story) -> None:
    """What was read before the topic was deleted is gone since, and another producer's records are at its offsets."""
    for offset in range(3):
        acked(s, 10 * offset, f"early-{offset}", offset)
        s.poll(500 + offset, f"early-{offset}", offset, client=f"{s.client}-reader")
    for offset in range(3):
        acked(s, 1000 + 10 * offset, f"late-{offset}", offset, client=f"{s.client}-second")
    s.holds(*(f"late-{offset}" for offset in range(3)))


@story
def made_anew_unread(s: Story) -> None:
    """Nobody read what was there before the topic was deleted; its producer goes on, and one of its copies is lost."""
    for offset in range(3):
        acked(s, 10 * offset, f"early-{offset}", offset)
    for offset in range(2):
        acked(s, 1000 + 10 * offset, f"late-{offset}", offset)
    acked(s, 1030, "late-2", 2, client=f"{s.client}-second")
    s.holds("late-0", "late-1")


def of_topic_id(s: Story, at: float, message: str, offset: int, topic_id: str) -> None:
    s.produce(at + 0.2, message_ids=[message], base_offset=offset, topic_id=topic_id)
    s.send(at, message, offset=offset)


@story
def made_anew_and_left_empty(s: Story) -> None:
    """What was there went with the topic, and nobody wrote to that partition of the new one."""
    for offset in range(3):
        of_topic_id(s, 10 * offset, f"m{offset}", offset, "the-old")
    s.holds(topic_id="the-new")


@story
def made_anew_and_lost_since(s: Story) -> None:
    """Of the old one nothing is known; of the new one, which somebody asked about first, a record is lost."""
    for offset in range(3):
        of_topic_id(s, 10 * offset, f"m{offset}", offset, "the-old")
    s.exchange(100, "Metadata", partitions=[{**s.exchanges[0]["partitions"][0], "topic_id": "the-new"}])
    of_topic_id(s, 200, "m7", 7, "the-new")
    s.holds(topic_id="the-new")


@story
def the_first_batch_sent_again(s: Story) -> None:
    """The broker knows it and names the offset that it has: nothing is made anew, and what is lost is lost."""
    batch: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "message_ids": ["m0"]}
    s.produce(0, **batch, base_offset=0, outcome="dropped", took_ms=None, fault=("eat", "drop_response"))
    acked(s, 20, "m1", 1)
    s.produce(50, **batch, base_offset=0)
    s.send(0, "m0", offset=0, took_ms=60)
    s.holds("m0")


@story
def written_after_the_reading(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 5000, "m1", 1)
    failed(s, 6000, "m2")
    s.holds("m0", read_at_us=START_US + 1_000_000)


@story
def not_read(s: Story) -> None:
    acked(s, 0, "m0", 0)
    failed(s, 10, "m1")
    s.holds(log_start_offset=None, log_end_offset=None, problem="the broker answers NOT_LEADER_OR_FOLLOWER")


@story
def without_ids(s: Story) -> None:
    acked(s, 0, None, 0)
    acked(s, 1, None, 1)
    failed(s, 2, "m2", partition=None)
    s.holds("")


@story
def one_id_in_two_topics(s: Story) -> None:
    acked(s, 0, "m0", 0)
    acked(s, 5, "m0", 0, topic="copies")
    s.holds("m0")
    s.log.append({**s.log[-1], "topic": "copies"})


EXPECTED: dict[str, dict[str, set[str]]] = {
    "lost": {
        "invalid": {
            "lost_after_it_was_read",
            "lost_at_the_end",
            "lost_for_another",
            "lost_without_an_offset",
            "lost_in_a_compacted_topic",
            "lost_in_a_compacted_topic_before_it_got_there",
            "without_ids",
            "one_id_in_two_topics",
            "lost_and_told_a_later_place",
            "ids_used_before",
            "made_anew_unread",
            "made_anew_and_lost_since",
            "the_first_batch_sent_again",
        },
        "unknown": {
            "made_anew_unread",
            "made_anew_and_left_empty",
            "made_anew_and_lost_since",
            "in_an_open_transaction",
            "deleted_by_retention",
            "deleted_and_passed_over",
            "superseded_by_a_tombstone_that_is_gone",
            "compacted_and_no_key_known",
            "written_after_the_reading",
            "not_read",
        },
    },
    "duplicate": {
        "invalid": {
            "doubled",
            "doubled_and_compacted_since",
            "doubled_behind_a_swallowed_answer",
            "doubled_in_a_log_without_ids",
            "doubled_before_all_that_was_told",
            "doubled_with_timestamps_of_its_own",
            "resent_behind_a_later_one",
            "sent_again_by_the_application",
        }
    },
    "phantom": {"invalid": {"there_though_failed", "failed_and_behind_a_later_one"}},
    "late": {"invalid": {"later_than_any_may_be"}},
    "reordered": {"invalid": {"out_of_order"}},
    "skipped": {"invalid": {"passed_over_in_transactions", "passed_over_between_two_readers"}},
    "inconsistent_offsets": {
        "invalid": {
            "told_a_wrong_offset",
            "told_a_wrong_offset_by_one_of_two",
            "a_reader_was_given_another",
            "lost_for_another",
            "lost_and_told_a_later_place",
        }
    },
}
# By check and story the rules that are named.
MEASURED = {"inconsistent_offsets": {"told_a_wrong_offset_by_one_of_two": {"lie"}}}


def measured(check: str, findings: Iterable[Mapping[str, Any]]) -> dict[str, set[str | None]]:
    """Of the stories of MEASURED which rules are named."""
    told: dict[str, set[str | None]] = {}
    for finding in findings:
        if finding["client"] in MEASURED.get(check, {}):
            told.setdefault(finding["client"], set()).add(finding["rule"])
    return told


@pytest.fixture(scope="module")
def judged(analyse: Callable[..., Built]) -> Built:
    together = Story()
    for name, tell in STORIES.items():
        told = Story(run_id=name, client=name)
        tell(told)
        together.add(told)
    return analyse(together, OPTIONS)


@pytest.mark.parametrize("check", sorted(EXPECTED))
def test_the_log_settles_it(judged: Built, check: str) -> None:
    found: dict[str, set[str]] = {}
    for finding in judged[1]:
        if finding.check == check and finding.group and finding.group.client:
            name = finding.group.client.removesuffix("-reader").removesuffix("-second")
            found.setdefault(finding.verdict, set()).add(name)
    assert found == EXPECTED[check]


@pytest.mark.parametrize("check", sorted(MEASURED))
def test_the_rule_that_did_it_is_named_and_no_other(judged: Built, check: str) -> None:
    assert measured(check, [f.as_dict() for f in judged[1] if f.check == check]) == MEASURED[check]


def test_each_send_is_told_where_it_is(judged: Built) -> None:
    said: dict[str, list[str | None]] = {}
    for row in sorted(rows(judged[0].history), key=lambda row: row["called_at_us"]):
        said.setdefault(row["scope"], []).append(row["in_log"])
    assert said["superseded"] == ["superseded", "superseded", "there"]
    assert said["superseded_by_a_tombstone_that_is_gone"] == ["superseded", "deleted", "there"]
    assert said["doubled_though_aborted_once"] == ["there"]
    assert said["aborted_though_acknowledged"] == ["aborted"]
    assert said["written_after_the_reading"] == ["there", "unread", "unread"]
    assert said["failed_for_a_partition_that_is_not_there"] == ["there", "absent"]
    assert said["without_ids"] == ["there", "absent", "unread"]
    assert said["not_read"] == ["unread", "unread"]


def test_what_the_log_has_at_the_place_is_said(judged: Built) -> None:
    notes = {f.group.client: f.evidence[0]["note"] for f in judged[1] if f.check == "lost" and f.group}
    assert notes["lost_for_another"] == "offset 0 holds message m9"
    assert notes["lost_at_the_end"] == "the log does not have it"
    assert notes["lost_after_it_was_read"] == "a consumer got it, and the log has it no more"


def test_what_got_no_answer_behind_a_swallowed_one_is_doubled_by_that_rule(judged: Built) -> None:
    doubled = [f.group for f in judged[1] if f.check == "duplicate" and f.group]
    blamed = [(g.rule, g.cases) for g in doubled if g.client == "doubled_behind_a_swallowed_answer"]
    assert sum(cases for rule, cases in blamed if rule == "eat") == 2, doubled


def test_what_an_open_transaction_holds_is_said_to_be_there(judged: Built) -> None:
    told = {f.group.client: f.sentence for f in judged[1] if f.check == "lost" and f.group}
    why = "cannot be judged: it was in a transaction that had not ended when the log was read."
    assert told["in_an_open_transaction"].endswith(why)
    assert told["deleted_by_retention"].endswith("may have been deleted by retention or compaction.")


def verdicts(findings: list[Finding]) -> dict[str, str]:
    """Of the checks that the log settles, with or without a reader."""
    return {f.check: f.verdict for f in findings if REGISTRY[f.check].reading}


def test_without_a_reader_and_a_log_nothing_is_valid_and_with_the_log_all_is(analyse: Callable[..., Built]) -> None:
    s = Story()
    all_there(s)
    assert set(verdicts(analyse(s, Options())[1]).values()) == {"valid"}
    s.log.clear()
    found = analyse(s, Options())[1]
    assert set(verdicts(found).values()) == {"unknown"}
    assert not [f.sentence for f in found if "read by a consumer" in f.sentence], "nobody read"


def test_a_log_that_was_not_read_whole_makes_nothing_valid(analyse: Callable[..., Built]) -> None:
    s = Story()
    not_read(s)
    assert set(verdicts(analyse(s, Options())[1]).values()) == {"unknown"}


def test_a_log_without_ids_says_that_a_message_is_there_and_not_that_it_is_nowhere_else(
    analyse: Callable[..., Built],
) -> None:
    s = Story()
    for offset in (0, 1):
        s.produce(offset, message_ids=[None], base_offset=offset)
    s.send(0, "m0", offset=1)
    s.holds("", "")
    said = verdicts(analyse(s, Options())[1])
    assert (said["lost"], said["duplicate"]) == ("valid", "unknown")


def test_a_log_that_nobody_can_place_is_refused(spark: SparkSession, tmp_path: Any) -> None:
    s = Story(run_id="one")
    all_there(s)
    s.write(tmp_path)
    log = read_logs(spark, [str(tmp_path / "log")])
    assert as_log(log, ("one", "two"), by_run=True).profile.records == 4
    with pytest.raises(InputError, match="orders-0 is given 2 times"):
        as_log(log.unionByName(log), ("one",), by_run=False)
    nameless = read_logs(spark, [str(tmp_path / "log")]).drop("run_id").selectExpr("cast(null as string) run_id", "*")
    assert as_log(nameless, ("one",), by_run=True).rows.first().scope == "one"
    with pytest.raises(InputError, match="--run"):
        as_log(nameless, ("one", "two"), by_run=True)
