"""A client's clock that is wrong by seconds or an hour changes no verdict, and is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from notleader.spark_analysis.jobs.analyze import Analysis, analyze
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story, incident

pytestmark = pytest.mark.spark

HOUR_US = 3_600_000_000
TIMES = ("called_at_us", "returned_at_us", "completed_at_us")


def judged(spark: SparkSession, folder: Path, story: Story) -> Analysis:
    capture, said = story.write(folder)
    return analyze(spark, [str(capture)], [str(said)], str(folder / "out"), Options())


def told(analysis: Analysis) -> list[tuple[Any, ...]]:
    """What was found, with how long it took to a tenth of a second."""
    return sorted(
        (f.check, f.verdict, f.count, f.group and (f.group.client, f.group.rule, f.group.trouble))
        for f in analysis.findings
    )


def wrong_by(ahead_us: int) -> Story:
    """The run with one of everything, whose clients' clocks are that far ahead."""
    story = incident()
    for fetch in (row for row in story.exchanges if row["api_name"] == "Fetch"):
        fetch["partitions"] = []
    for row in story.outcomes:
        row.update({name: row[name] + ahead_us for name in TIMES if row.get(name) is not None})
    return story


@pytest.fixture(scope="module")
def right(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    return judged(spark, tmp_path_factory.mktemp("right"), wrong_by(0))


@pytest.mark.parametrize("ahead_us", [HOUR_US, -5_000_000])
def test_a_wrong_clock_changes_no_verdict_and_is_told(
    spark: SparkSession, tmp_path: Path, right: Analysis, ahead_us: int
) -> None:
    wrong = judged(spark, tmp_path, wrong_by(ahead_us))
    assert right.clocks == ()
    assert told(wrong) == told(right)
    by_client = {clock.client: clock.ahead_us for clock in wrong.clocks}
    # The messages bound it to the time between a call and its request, and an answer and its completion.
    assert by_client["app"] == pytest.approx(ahead_us, abs=2000)
    # Nothing of the reader's was seen; what is in one file is of one machine.
    assert wrong.drawn.last_us - wrong.drawn.first_us < 60_000_000


def test_a_latency_is_never_a_difference_of_two_clocks(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    story.produce(0, message_ids=["m0"], base_offset=0, took_ms=7)
    # A verifiable client says when it was told, and not when it called.
    story.send(9000, "m0", offset=0, called_at_us=None, returned_at_us=None)
    judged(spark, tmp_path, story)
    (row,) = spark.read.parquet(str(tmp_path / "out" / "history")).collect()
    assert row.latency_us == 7000


def test_a_clock_that_was_set_back_is_told_and_not_corrected_by_half(spark: SparkSession, tmp_path: Path) -> None:
    story = Story()
    for number in range(20):
        story.produce(100 * number + 0.2, message_ids=[f"m{number}"], base_offset=number)
        story.send(100 * number - (30_000 if number >= 10 else 0), f"m{number}", offset=number)
    (clock,) = judged(spark, tmp_path, story).clocks
    assert clock.ahead_us == 0
    assert clock.set_by_us == pytest.approx(30_000_000, abs=5000)


def without_ids(ahead_us: int = 0, batches: int = 20, first: int = 0, at_ms: float = 0, run_id: str = "run-1") -> Story:
    """Batches of three, of which a capture at level `partition` names no message; the clock is that far ahead."""
    story = Story(run_id=run_id)
    for number in range(batches):
        begin_ms, offset = at_ms + 100 * number, first + 3 * number
        story.produce(begin_ms + 1, base_offset=offset, record_count=3, took_ms=2)
        for place in range(3):
            story.send(begin_ms + ahead_us / 1000, None, offset=offset + place)
    return story


def both(one: Story, other: Story) -> Story:
    """The exchanges of the first, and the lines of the other."""
    one.outcomes = other.outcomes
    return one


@pytest.mark.parametrize("ahead_us", [HOUR_US, -5_000_000])
def test_without_ids_a_clock_is_measured_by_the_offsets_of_acknowledged_sends(
    spark: SparkSession, tmp_path: Path, ahead_us: int
) -> None:
    (clock,) = judged(spark, tmp_path, without_ids(ahead_us)).clocks
    assert clock.ahead_us == pytest.approx(ahead_us, abs=2000)
    assert clock.messages == 2 * 20, "the first and the last of each batch"
    rows = spark.read.parquet(str(tmp_path / "out" / "history")).collect()
    assert {row.match_kind for row in rows} == {"offset"}


def two_lives() -> Story:
    """A topic that was made anew: of its second life the lines are there, and its beginning alone was captured."""
    story = without_ids()
    later = without_ids(at_ms=3_600_000)
    story.exchanges += later.exchanges[:1]
    return both(story, later)


def answered_twice() -> Story:
    """The capture has the beginning of neither life, and nobody's lines of the first."""
    story = without_ids(first=100, at_ms=3_600_000)
    story.exchanges = without_ids(first=100).exchanges + story.exchanges
    return story


def set_back() -> Story:
    story = without_ids()
    for row in story.outcomes[30:]:
        row.update({name: row[name] - 30_000_000 for name in TIMES if row[name] is not None})
    return story


UNKNOWN = {
    "right": without_ids(),
    "right, in whole milliseconds": without_ids(-2600),  # those told by it end 0.6 ms before their answers
    "too few": without_ids(HOUR_US, batches=4),
    "another run's lines": both(without_ids(run_id="run-2"), without_ids(HOUR_US)),
    "two lives": two_lives(),
    "two lives, without their beginnings": answered_twice(),
    "set meanwhile": set_back(),
    "told otherwise than the broker did": without_ids(HOUR_US),
}
UNKNOWN["another run's lines"].exchange(0, "Metadata", run_id="run-1")
for _row in UNKNOWN["told otherwise than the broker did"].exchanges:
    _row["outcome"] = "altered"


@pytest.mark.parametrize("case", UNKNOWN)
def test_offsets_that_prove_nothing_correct_no_clock(spark: SparkSession, tmp_path: Path, case: str) -> None:
    assert judged(spark, tmp_path, UNKNOWN[case]).clocks == ()


def test_messages_that_were_sent_twice_prove_no_clock_wrong(spark: SparkSession, tmp_path: Path) -> None:
    """An application that is started again on the same orders: its reader gets each of them, and soon, both times."""
    s = Story()
    place = {"topic": "orders", "partition_index": 0, "error_code": 0}
    for offset, at in enumerate((0, 15_000)):
        s.produce(at + 1, message_ids=["m0"], base_offset=offset)
        s.send(at, "m0", offset=offset, took_ms=4)
        # The first answer to a reader with this message is long before its second poll, and behind the first.
        s.exchange(
            at + 6, "Fetch", client_id="app-reader", partitions=[{**place, "message_ids": ["m0"]}], took_ms=3_000
        )
        s.poll(at + 20, "m0", offset)
    analysis = judged(spark, tmp_path, s)
    assert analysis.clocks == ()
    assert not [f for f in analysis.findings if f.check == "read_again" and f.count]


def test_a_message_that_is_passed_on_to_another_topic_proves_no_clock_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its first producer went past the proxy; who read it sends it on through that, with its headers, much later."""
    story = Story()
    for number in range(20):
        story.send(number, f"m{number}", topic="first", offset=number)
        story.produce(5000 + number, message_ids=[f"m{number}"], topic="second", base_offset=number, client_id="on")
    assert judged(spark, tmp_path, story).clocks == ()
