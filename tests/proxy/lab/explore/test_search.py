from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Barrier
from typing import Any

import pytest

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore import tries
from notleader.proxy.lab.explore.asked import Asked
from notleader.proxy.lab.explore.candidates import Rule, candidates, strikes
from notleader.proxy.lab.explore.cli import rules_of
from notleader.proxy.lab.explore.findings import Corpus
from notleader.proxy.lab.explore.ordering import Frontier, key
from notleader.proxy.lab.explore.points import Point, points
from notleader.proxy.lab.explore.search import Limits, Search, timeline
from notleader.proxy.lab.explore.shrinking import Recipe
from notleader.proxy.lab.explore.telling import write
from notleader.proxy.lab.explore.tries import Bench, StoppedError, Tried
from tests.proxy.lab.explore.script import ended, row


class InterruptedBench(Bench):
    def run(self, rules: Any, limit_s: float, messages: int | None = None) -> Tried:
        raise KeyboardInterrupt


def test_a_failure_whose_shrinking_is_interrupted_is_struck_again_by_the_next_search(tmp_path: Path) -> None:
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    corpus = Corpus(["shop"])
    bench = InterruptedBench("localhost:9092", ["shop"], tmp_path, "try")
    search = Search(bench, Limits(), corpus, lambda text: None, lambda text: None)
    order = Frontier([first], random=Random(0))
    with pytest.raises(KeyboardInterrupt):
        search._take(first, Tried(ended(code=1), [1], [], tmp_path / "try-1"), order)
    assert key(first) not in corpus.tried
    search._take(first, Tried(ended(), [1], [], tmp_path / "try-2"), order)
    assert corpus.tried == {key(first): ""}


class SurvivingBench(Bench):
    """The command survives whatever it meets; after so many tries with rules somebody interrupts."""

    left = 0

    def run(self, rules: Any, limit_s: float, messages: int | None = None) -> Tried:
        if rules and not self.left:
            raise KeyboardInterrupt
        self.left -= bool(rules)
        return Tried(ended(), [1] * len(rules), [row("Produce", 1.0)], self.folder / "try")


@pytest.mark.parametrize("tries", [0, 1, 2])
def test_what_failed_before_is_forgotten_when_it_was_tried_again_and_no_sooner(tries: int, tmp_path: Path) -> None:
    rule = {"kind": "error", "error_code": "REQUEST_TIMED_OUT", "match": {"api_key": "Produce"}}
    recipes = [Recipe([{**rule, "name": name}]) for name in ("one", "two")]
    corpus = Corpus(["shop"], failing=list(recipes))
    bench = SurvivingBench("localhost:9092", ["shop"], tmp_path, "try")
    bench.left = tries
    search = Search(bench, Limits(lanes=1), corpus, lambda text: None, lambda text: None)
    with pytest.raises(KeyboardInterrupt):
        search.run()
    assert (corpus.failing, search.earlier) == (recipes[tries:], recipes[tries:])


@pytest.mark.parametrize("error", [StoppedError, KeyboardInterrupt, LabError])
def test_however_a_try_ends_its_topics_are_gone(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class EndedBench(Bench):
        def _run(self, rules: Any, limit_s: float, topics: set[str], words: Any, folder: Path) -> Tried:
            topics.add(f"{words['topic']}-retry")
            raise error

    gone: list[set[str]] = []
    monkeypatch.setattr(tries, "create_topic", lambda *_: None)
    monkeypatch.setattr(tries, "delete_topics", lambda kafka, topics: gone.append(topics))
    with pytest.raises(error):
        EndedBench("localhost:9092", ["shop", "{topic}"], tmp_path, "try").run([], 1.0)
    assert gone == [{"try-1", "try-1-retry"}]


def test_a_new_line_in_the_log_and_a_new_end_are_something_new(tmp_path: Path) -> None:
    (first, second, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    search = Search(
        Bench("localhost:9092", ["shop"], tmp_path, "try"), Limits(), Corpus([]), lambda text: None, lambda text: None
    )
    order = Frontier([first, second], random=Random(0))
    for number, candidate in enumerate((first, second)):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        (folder / "stderr.txt").write_text("retry 1\n" if not number else "gave up\n")
        search._take(candidate, Tried(ended(), [1], [], folder), order)
    for seen, fresh in ((["logged retry #", "logged gave up", "ended with 0"], False), (["ended with 1"], True)):
        assert order.told(first, seen, failed=False) is fresh


def test_alike_exchanges_in_a_row_are_one_line_of_the_timeline() -> None:
    struck = {"fault_names": ["gone"], "fault_kinds": ["leader_election"], "error_code": 5}
    rows = [
        row("Metadata", 0),
        row("Produce", 1),
        *(row("Metadata", 10 + at, **struck) for at in range(50)),
        row("Produce", 99),
    ]
    assert timeline(rows) == [
        "0.000 s  Metadata answered",
        "0.001 s  Produce answered",
        "0.010 s  Metadata answered, error 5 [leader_election] (x50)",
        "0.099 s  Produce answered",
    ]


class TogetherBench(Bench):
    """The first three tries with rules end when all of them run."""

    def run(self, rules: Any, limit_s: float, messages: int | None = None) -> Tried:
        with self._lock:
            self._count += bool(rules)
            meets = bool(rules) and self._count <= 3
        if meets:
            MEETING.wait(20)
        return Tried(ended(code=1 if rules else 0), [1], [], self.folder / "try")


MEETING = Barrier(3)


def test_a_failure_is_repeated_on_all_lanes_at_once(tmp_path: Path) -> None:
    bench = TogetherBench("localhost:9092", ["shop"], tmp_path, "try")
    search = Search(bench, Limits(lanes=3, minutes=-9), Corpus(["shop"]), lambda text: None, lambda text: None)
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    search._take(first, Tried(ended(code=1), [1], [], tmp_path / "try"), Frontier([first], random=Random(0)))
    (failure,) = search.explored.failures
    assert (failure.broke, failure.survives_without) == (3, True)


class CountingBench(Bench):
    """The command takes two messages at least, says of each `ok`, and with rules the log lacks the second of three."""

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        count = messages or self.messages or 0
        names = [f"m{number}" for number in range(count)]
        left = [name for name in names if not rules or count < 3 or name != "m1"]
        code = 0 if count > 1 else 1
        self.command = [*self.command, str(count)]
        return Tried(ended(*left, code=code), [1], [row("Produce", 0)], self.folder / "try")


def test_a_failure_is_shrunk_to_the_fewest_messages_each_held_against_runs_with_as_many(tmp_path: Path) -> None:
    bench = CountingBench("localhost:9092", [], tmp_path, "try", messages=20)
    corpus = Corpus(["shop"], 20)
    search = Search(bench, Limits(lanes=1), corpus, lambda text: None, lambda text: None)
    search.learn()
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    search._take(first, bench.run(first.documents, 9), Frontier([first], random=Random(0)))
    (failure,) = search.explored.failures
    assert (failure.kind, failure.messages, failure.broke, failure.survives_without) == ("missing", 3, 3, True)
    assert failure.verdicts[0].sentence == "ended well, and message 'm1' is not in the log"
    assert [recipe.messages for recipe in corpus.failing] == [3]
    # Two runs without faults for each number; what ends badly then is not tried.
    assert [bench.command.count(few) for few in ("1", "2")] == [2, 3]

    # The next search, with another number, begins with it as it was shrunk.
    bench = CountingBench("localhost:9092", [], tmp_path, "try", messages=9)
    search = Search(bench, Limits(lanes=1, tries=1), Corpus(["shop"], 9, {}, corpus.failing), print, print)
    (failure,) = search.run().failures
    assert failure.messages == 3
    assert all("messages: 3" in tried for tried in search.corpus.tried)


class BackwardBench(Bench):
    """Whatever is done to it, a commit goes back where there are three messages."""

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        back = ("group g committed 1 of t-0 after 2",) if (messages or self.messages or 0) > 2 else ()
        return Tried(replace(ended("a"), went_back=back), [1] * len(rules), [row("Produce", 0)], self.folder / "try")


@pytest.mark.parametrize(("allow", "found"), [("", ["backwards"]), ("backwards", [])])
def test_what_needs_no_fault_is_a_failure_without_rules(tmp_path: Path, allow: str, found: list[str]) -> None:
    bench = BackwardBench("localhost:9092", ["shop"], tmp_path, "try", messages=20)
    limits = Limits(lanes=1, tries=3, allow=frozenset((allow,)))
    search = Search(bench, limits, Corpus(["shop"], 20), lambda text: None, lambda text: None)
    explored = search.run()
    assert [failure.kind for failure in explored.failures] == found
    assert search.corpus.failing == []
    for failure in explored.failures:
        assert (failure.rules, failure.messages, failure.broke) == ([], 3, 3)
        write(explored, Asked(["shop"]), limits, tmp_path)
        text = (tmp_path / "report.md").read_text()
        assert "## 1. no fault at all: group g committed 1 of t-0 after 2" in text
        assert "Without any fault it broke 3 of 3 times with {messages} = 3; **no rule is needed.**" in text
        assert rules_of(tmp_path / "failure-1.yaml") == []
        _, verdicts = search.replay([])
        assert [verdict.kind for verdict in verdicts] == ["backwards"]


class LuckyBench(Bench):
    """With rules and five messages it ends badly each time; with four the first time only."""

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        count = messages or self.messages or 0
        bad = bool(rules) and (count >= 5 or (count == 4 and not self._count))
        self._count += bad and count == 4
        return Tried(ended(code=1 if bad else 0), [1], [row("Produce", 0)], self.folder / "try")


def test_what_broke_once_by_luck_is_not_what_is_told(tmp_path: Path) -> None:
    bench = LuckyBench("localhost:9092", ["shop"], tmp_path, "try", messages=20)
    search = Search(bench, Limits(lanes=1), Corpus(["shop"]), lambda text: None, lambda text: None)
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    search._take(first, bench.run(first.documents, 9), Frontier([first], random=Random(0)))
    (failure,) = search.explored.failures
    assert (failure.messages, failure.broke) == (6, 3)


REFUSED = "NOT_ENOUGH_REPLICAS"
CUT_THEN = {f"Produce reset then error {code}" for code in ("OUT_OF_ORDER_SEQUENCE_NUMBER", REFUSED)}


class FatalBench(Bench):
    """No send goes well after OUT_OF_ORDER_SEQUENCE_NUMBER, nor after a cut and then NOT_ENOUGH_REPLICAS."""

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        self._count += bool(rules)
        done = [rule.get("error_code", rule["kind"]) for rule in rules]
        ill = "OUT_OF_ORDER_SEQUENCE_NUMBER" in done or done in (["reset", REFUSED], ["close", REFUSED])
        sends = tuple((at * 1_000_000, not ill, "fatal" if ill else "") for at in range(1, 9))
        well = ended("a", ok="a")
        over = replace(well, said=replace(well.said, sends=sends), struck_until_us=0 if rules else None)
        return Tried(over, [1] * len(rules), [row("Produce", 0)], self.folder / "try")


def test_what_another_failure_alone_does_hides_no_other_that_looks_alike(tmp_path: Path) -> None:
    bench = FatalBench("localhost:9092", ["shop"], tmp_path, "try")
    search = Search(bench, Limits(lanes=1), Corpus(["shop"]), lambda text: None, lambda text: None)
    search.learn()
    (first,) = points([row("Produce", 0, 0, producer_id=1)])
    cut_then = {each.documents[1]["error_code"]: each for each in strikes(first) if each.family[0] in CUT_THEN}
    for code in ("OUT_OF_ORDER_SEQUENCE_NUMBER", REFUSED, "OUT_OF_ORDER_SEQUENCE_NUMBER", REFUSED):
        search._take(cut_then[code], bench.run(cut_then[code].documents, 9), Frontier([], random=Random(0)))
    found = [[rule.get("error_code", rule["kind"]) for rule in each.rules] for each in search.explored.failures]
    assert found == [["OUT_OF_ORDER_SEQUENCE_NUMBER"], ["close", REFUSED]]
    assert [each.seen_again for each in search.explored.failures] == [1, 1]


class ByLuckBench(Bench):
    """It breaks once in four tries."""

    def run(self, rules: Sequence[Rule], limit_s: float, messages: int | None = None) -> Tried:
        self._count += bool(rules)
        bad = bool(rules) and self._count % 4 == 1
        return Tried(ended(code=1 if bad else 0), [1], [row("Produce", 0)], self.folder / "try")


def test_what_never_broke_again_is_repeated_when_it_is_seen_again_and_counted(tmp_path: Path) -> None:
    bench = ByLuckBench("localhost:9092", ["shop"], tmp_path, "try")
    search = Search(bench, Limits(lanes=1), Corpus(["shop"]), lambda text: None, lambda text: None)
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    for _ in range(2):
        search._take(first, bench.run(first.documents, 9), Frontier([first], random=Random(0)))
    assert [failure.times for failure in search.explored.unstable] == ["2 of 8"]
    assert search.explored.failures == []


class LateBench(Bench):
    """With rules it ends after 30 seconds, with the code that its command is."""

    def run(self, rules: Any, limit_s: float, messages: int | None = None) -> Tried:
        in_time = not rules or limit_s > 30
        code = int(self.command[0]) if rules else 0
        seconds = 30.0 if rules else 1.0
        return Tried(ended(code=code if in_time else None, seconds=seconds), [1], [], self.folder / "try")


@pytest.mark.parametrize(("code", "told"), [(1, ["exit"]), (0, [])])
def test_what_ends_when_it_is_waited_for_is_told_by_how_it_ends(tmp_path: Path, code: int, told: list[str]) -> None:
    bench = LateBench("localhost:9092", [str(code)], tmp_path, "try")
    limits = Limits(limit_s=6, minutes=-9)
    search = Search(bench, limits, Corpus(["shop"]), lambda text: None, lambda text: None)
    (first, *_) = candidates([Point("Produce", None, 0, 1, 0.0)])
    late = Tried(ended(code=None, seconds=6.0), [1], [], tmp_path / "try")
    search._take(first, late, Frontier([first], random=Random(0)))
    assert [failure.kind for failure in search.explored.failures] == told
    assert all(failure.broke == 3 for failure in search.explored.failures)
    assert len(search.explored.slow) == 1 - len(told)


@pytest.mark.parametrize(("limit_s", "waited_s", "words"), [(6.5, 6.5, "the 6.5 s of --limit"), (None, 300.0, "300 s")])
def test_runs_without_faults_have_the_limit_that_is_given(
    tmp_path: Path, limit_s: float | None, waited_s: float, words: str
) -> None:
    class WaitingBench(Bench):
        def run(self, rules: Any, limit_s: float, messages: int | None = None) -> Tried:
            waited.append(limit_s)
            return Tried(ended(code=None, seconds=limit_s), [], [], self.folder / "try")

    waited: list[float] = []
    bench = WaitingBench("localhost:9092", ["shop"], tmp_path, "try")
    search = Search(bench, Limits(limit_s=limit_s), Corpus([]), lambda text: None, lambda text: None)
    with pytest.raises(LabError, match=f"the command did not end by itself within {words}, without any fault"):
        search.learn()
    assert waited == [waited_s, waited_s]


def test_a_late_try_is_waited_for_no_less_than_any_other(tmp_path: Path) -> None:
    bench = Bench("localhost:9092", ["shop"], tmp_path, "try")
    patience = [
        Search(bench, limits, Corpus([]), lambda text: None, lambda text: None).patience_s
        for limits in (Limits(limit_s=30, patience_s=5), Limits(limit_s=30, patience_s=50))
    ]
    assert patience == [30, 50]
