"""The core checks against a small plain-Python oracle, on random histories; many histories share one Spark run."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from spark_analysis.checks import Tables
from spark_analysis.checks.base import REGISTRY
from spark_analysis.findings import cases
from spark_analysis.options import Options

from .synthetic import Story

pytestmark = pytest.mark.spark

CHECKS = ("lost", "duplicate", "reordered", "hang", "phantom")


class Send(NamedTuple):
    called: int
    thread: str
    outcome: str
    offset: int | None


class Read(NamedTuple):
    reader: str
    message: int
    offset: int


class History(NamedTuple):
    sends: list[Send]
    reads: list[Read]


OUTCOME = st.sampled_from(["ok", "ok", "ok", "fail", "info", "pending"])
SEND = st.builds(Send, st.integers(0, 4), st.sampled_from("ab"), OUTCOME, st.none() | st.integers(0, 6))
# Messages beyond the sends are somebody else's.
READ = st.builds(Read, st.sampled_from("rs"), st.integers(0, 8), st.integers(0, 7))
HISTORY = st.builds(History, st.lists(SEND, max_size=7), st.lists(READ, max_size=9))


def oracle(history: History) -> set[tuple[str, str]]:
    """(check, message) for every negative verdict that this history deserves."""
    places: dict[int, set[int]] = {}
    spans: dict[str, list[int]] = {}
    for read in history.reads:
        places.setdefault(read.message, set()).add(read.offset)
        spans.setdefault(read.reader, []).append(read.offset)
    wrong = set()
    for number, send in enumerate(history.sends):
        message, seen = f"m{number}", places.get(number, set())
        if send.outcome == "pending":
            wrong.add(("hang", message))
        if send.outcome == "fail" and seen:
            wrong.add(("phantom", message))
        if len(seen) > 1:
            wrong.add(("duplicate", message))
        if send.outcome != "ok" or send.offset is None:
            continue
        if not seen and any(min(offsets) <= send.offset < max(offsets) for offsets in spans.values()):
            wrong.add(("lost", message))
        if any(
            other.outcome == "ok"
            and other.thread == send.thread
            and other.offset is not None
            and other.called < send.called
            and other.offset > send.offset
            for other in history.sends
        ):
            wrong.add(("reordered", message))
    return wrong


def told(number: int, history: History) -> Story:
    story = Story(run_id=f"h{number}", client=f"h{number}")
    for index, send in enumerate(history.sends):
        took = None if send.outcome == "pending" else 3.0
        story.send(
            send.called, f"m{index}", thread=send.thread, outcome=send.outcome, offset=send.offset, took_ms=took
        )  # fmt: skip
    for read in history.reads:
        story.poll(50, f"m{read.message}", read.offset, client=f"{story.client}-{read.reader}")
    return story


@settings(
    max_examples=2,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(st.lists(HISTORY, min_size=60, max_size=60))
def test_negative_verdicts_are_those_of_the_oracle(
    build: Callable[[Story, Options], Tables], histories: list[History]
) -> None:
    together = Story()
    together.exchange(0, "Metadata")
    for number, history in enumerate(histories):
        together.add(told(number, history))
    options = Options(by_run=True)
    tables = build(together, options)
    found: dict[str, set[tuple[str, str]]] = {}
    asked = [REGISTRY[name] for name in CHECKS]
    for row in cases(tables, options, asked).filter("verdict = 'invalid'").collect():
        found.setdefault(row.client, set()).add((row.check, row.message_id))
    expected = {f"h{number}": oracle(history) for number, history in enumerate(histories)}
    assert found == {name: wrong for name, wrong in expected.items() if wrong}
