"""At lower levels of recording a rule that had a hand in it is told, or that it isn't known; never that none had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.options import Options
from tests.spark_analysis.synthetic import Story
from tests.spark_analysis.transforms.test_causes import BLAMED, ELSEWHERE, STORIES, did, link_event

pytestmark = pytest.mark.spark

LEVELS = ("partition", "header")
# At level header so few as show that it says what it can't tell: a run of each story costs its time.
_AT_HEADER = ("refused_and_doubled", "held_itself", "behind_a_swallowed_one", "never_answered")
NONE = ("no fault had a hand in it", "went out more than once without an error")


def refused_and_doubled(s: Story) -> None:
    """The broker had it when the rule said that it isn't the leader; then it came again. All batches look alike."""
    s.produce(0, message_ids=["m0"], base_offset=0)
    s.send(0, "m0", offset=0)
    refused = did(("refusal", "error", "altered_answer", 6, [0]), since_ms=101)
    s.produce(100, message_ids=["m1"], error_code=6, outcome="altered", **refused)
    s.produce(200, message_ids=["m1"], base_offset=2)
    s.send(99, "m1", offset=2, took_ms=104)
    s.produce(300, message_ids=["m2"], base_offset=3)
    s.send(299, "m2", offset=3)
    for offset, message in enumerate(("m0", "m1", "m1", "m2")):
        s.poll(1000, message, offset)


def doubled_among_others(s: Story) -> None:
    """The same, of a client that makes other batches when it sends again."""
    refused = did(("refusal", "error", "altered_answer", 6, [0]), since_ms=101)
    s.produce(100, message_ids=["m1"], error_code=6, outcome="altered", **refused)
    s.produce(200, message_ids=["m1", "m2"], base_offset=1)
    s.send(99, "m1", offset=1, took_ms=104)
    s.send(150, "m2", offset=2, took_ms=54)
    for offset, message in enumerate(("m1", "m1", "m2")):
        s.poll(1000, message, offset)


def lost_where_nothing_is_acknowledged(s: Story) -> None:
    """Done when it is written, and read here later: the request was cut off, and the log doesn't have it."""
    for number in range(3):
        cut = (
            {"outcome": "closed", "took_ms": None, **did(("break", "close", "cut"))}
            if number == 1
            else {"took_ms": None}
        )
        s.produce(100 * number + 2, message_ids=[f"m{number}"], acks=0, connection_id=1 + number // 2, **cut)
        s.send(100 * number, f"m{number}", took_ms=0.3)
    s.holds("m0", "m2")


def written_into_a_silence_where_nothing_is_acknowledged(s: Story) -> None:
    s.produce(2, message_ids=["m0"], acks=0, took_ms=None)
    link_event(s, 50, "fault", 1, **did(("off", "blackhole", "silenced")))
    link_event(s, 2000, "disconnect", 1)
    for number in range(2):
        s.send(100 * number, f"m{number}", took_ms=0.3)
    s.holds("m0")


def written_into_a_silence_that_outlasts_the_capture(s: Story) -> None:
    s.produce(2, message_ids=["m0"], acks=0, took_ms=None)
    link_event(s, 50, "fault", 1, **did(("off", "blackhole", "silenced")))
    for number in range(2):
        s.send(9000 * number, f"m{number}", took_ms=0.3)
    s.holds("m0")


def _by_whom(told: set[str | None]) -> set[str | None]:
    return {by and by.removesuffix(" (likely)") for by in told}


# Where a rule had a hand in something; how sure that is, is another question at these levels.
_GUILTY = [name for name, told in BLAMED.items() if name not in ELSEWHERE and any(by - {None} for by in told.values())]
STORIES_HERE = {
    **{name: STORIES[name] for name in _GUILTY},
    "refused_and_doubled": refused_and_doubled,
    "doubled_among_others": doubled_among_others,
    "lost_where_nothing_is_acknowledged": lost_where_nothing_is_acknowledged,
    "written_into_a_silence_where_nothing_is_acknowledged": written_into_a_silence_where_nothing_is_acknowledged,
    "written_into_a_silence_that_outlasts_the_capture": written_into_a_silence_that_outlasts_the_capture,
}
TRUE = {
    **{name: {check: _by_whom(by) for check, by in BLAMED[name].items()} for name in _GUILTY},
    "refused_and_doubled": {"duplicate": {"refusal"}, "retried": {"refusal"}},
    "doubled_among_others": {"duplicate": {"refusal"}},
    "lost_where_nothing_is_acknowledged": {"lost": {"?"}},
    "written_into_a_silence_where_nothing_is_acknowledged": {"lost": {"?"}},
    "written_into_a_silence_that_outlasts_the_capture": {"lost": {"?"}},
}


def _at(level: str, row: dict[str, Any]) -> dict[str, Any]:
    if row["api_name"] not in ("Produce", "Fetch"):
        return row if level == "partition" else row | {"partitions": []}
    batches = [
        p | {"message_ids": None, "key_hashes": None, "batch_bytes": 70 * len(p.get("message_ids") or [0])}
        for p in row["partitions"]
    ]
    return row | {"partitions": batches if level == "partition" else []}


@pytest.fixture(scope="module")
def findings(analyse: Callable[..., tuple[object, list[Finding]]]) -> list[Finding]:
    together = Story()
    for level in LEVELS:
        for name, tell in STORIES_HERE.items():
            if level == "header" and name not in _AT_HEADER:
                continue
            told = Story(run_id=f"{name}-{level}", client=f"{name}-{level}")
            tell(told)
            told.exchanges = [_at(level, row) for row in told.exchanges]
            together.add(told)
    return analyse(together, Options(by_run=True, storm_per_s=30, groups_per_check=1000))[1]


@pytest.mark.parametrize(
    ("name", "level"), [*((name, "partition") for name in sorted(TRUE)), *((name, "header") for name in _AT_HEADER)]
)
def test_no_rule_is_acquitted_for_want_of_seeing_and_no_other_named(
    findings: list[Finding], name: str, level: str
) -> None:
    for check, by in TRUE[name].items():
        theirs = [f for f in findings if f.check == check and f.group and f.group.client == f"{name}-{level}"]
        named = {rule for f in theirs if f.group and f.group.rule for rule in f.group.rule.split(", ")}
        assert named <= {rule for told in by if told for rule in told.split(", ")}
        if by and None not in by:
            assert not [f.sentence for f in theirs if any(words in f.sentence for words in NONE)]


def test_a_batch_that_went_out_again_is_known_by_its_shape(findings: list[Finding]) -> None:
    told = {f.check: f for f in findings if f.group and f.group.client == "refused_and_doubled-partition"}
    assert {check: told[check].group.rule for check in ("duplicate", "retried")} == {  # type: ignore[union-attr]
        "duplicate": "refusal",
        "retried": "refusal",
    }
    assert "(likely)" in told["duplicate"].sentence


@pytest.mark.parametrize("client", ["doubled_among_others-partition", "refused_and_doubled-header"])
def test_what_the_level_cannot_tell_is_said_to_be_unknown(findings: list[Finding], client: str) -> None:
    (told,) = (f for f in findings if f.check == "duplicate" and f.group and f.group.client == client)
    assert "whether a fault had a hand in it is not known" in told.sentence
