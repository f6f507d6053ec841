"""Learn, strike, judge, repeat, shrink: the search as a whole, by tries that a bench makes."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import groupby
from random import Random
from typing import TypeVar

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.candidates import Candidate, Rule, candidates, frozen, of_rules
from notleader.proxy.lab.explore.findings import Corpus, Failure, described, exactly, group
from notleader.proxy.lab.explore.judging import Ended, Learned, Verdict, gave_up, judge
from notleader.proxy.lab.explore.map import Came, Map
from notleader.proxy.lab.explore.noticed import log_lines, outcome
from notleader.proxy.lab.explore.ordering import ByChance, Frontier, key
from notleader.proxy.lab.explore.points import Point, Row, points, signature
from notleader.proxy.lab.explore.shrinking import Recipe, shrink, text, without_one
from notleader.proxy.lab.explore.tries import Bench, Tried

T = TypeVar("T")
R = TypeVar("R")
_GIVES_UP = frozenset(("exit",))
_NOTHING = of_rules([], "without any fault")
_LEARNING_RUNS = 2
_REPEATS = 3
_LEARNING_LIMIT_S = 300.0
# A client that waits for its own timeouts is slow, and not hanging: the usual ones end within these.
_PATIENCE_S = 150.0
_MOST_TOLD_ROWS = 40
_SHRINK_ON_S = 120.0  # what was found at the very end is shrunk all the same, for so long


@dataclass(frozen=True, slots=True)
class Limits:
    """When the search ends, and what counts as a failure."""

    minutes: float = 10.0
    tries: int | None = None
    lanes: int = 2
    seed: int = 0
    allow: frozenset[str] = frozenset()
    limit_s: float | None = None
    """How long a run may take, with faults and without; None: as those without show."""
    patience_s: float = _PATIENCE_S
    by_chance: bool = False
    failures: int | None = None
    strict: bool = False
    """Whether it counts as a failure, too, that a command gives up as it may."""

    def limit_of(self, learned: Learned) -> float:
        """How long a try may take, in seconds."""
        return self.limit_s or 10 + 5 * learned.seconds


class UnwellError(LabError):
    """The command does not end well without any fault."""


class NothingStruckError(LabError):
    """No rule was hit: what was to be tried was not."""


@dataclass(slots=True)
class Explored:
    """What the search did and found."""

    learned: Learned
    messages: int | None = None
    """How many the command is told to send; None where it is not told."""
    points: list[Point] = field(default_factory=list)
    map: Map = field(default_factory=Map)
    struck: set[str] = field(default_factory=set)
    families: int = 0
    families_struck: set[str] = field(default_factory=set)
    tries: int = 0
    missed: int = 0
    slow: list[str] = field(default_factory=list)
    gave_up: dict[str, list[str]] = field(default_factory=dict)
    """What was done, by how the command gave up as it may and told whoever started it."""
    failures: list[Failure] = field(default_factory=list)
    unstable: list[Failure] = field(default_factory=list)
    """What broke once, and in none of the tries that repeated it."""
    seconds: float = 0.0
    left: int = 0
    interrupted: bool = False

    def progress(self) -> str:
        """One line for whoever watches."""
        return (
            f"{self.tries} tries, {len(self.struck)} of {len(self.points)} points and "
            f"{len(self.families_struck)} of {self.families} faults struck, {len(self.failures)} failures"
            + (f", {len(self.unstable)} unstable" if self.unstable else "")
        )


Say = Callable[[str], None]


class Search:
    """One search on a bench; `run` does all of it, and what it found so far is in `explored` at any time."""

    def __init__(
        self,
        bench: Bench,
        limits: Limits,
        corpus: Corpus,
        say: Say,
        tell: Callable[[str], None],
        found: Callable[[], None] = lambda: None,
    ) -> None:
        """`found` is called after each failure that is told, so that it can be kept."""
        self.bench = bench
        self.limits = limits
        self.corpus = corpus
        self.explored = Explored(Learned(0.0), bench.messages)
        self._by_messages: dict[int | None, Learned | None] = {}
        self._say = say
        self._tell = tell
        self._found = found
        self.earlier: list[Recipe] = []
        """What failed in an earlier search and was not tried yet in this one."""
        self._began = time.monotonic()
        self._deadline = time.monotonic() + limits.minutes * 60
        self._groups: dict[tuple[str, ...], Failure] = {}
        """What was shrunk."""
        self._firsts: dict[tuple[str, ...], Failure] = {}
        """What showed it before it was shrunk."""
        self._unstable: dict[tuple[str, ...], Failure] = {}

    # ---- learn ----------------------------------------------------------------------------------

    def learn(self) -> Tried:
        """The first of two runs without faults. Raises LabError when the command does not end well by itself."""
        self.explored.learned, first = self._without_faults(None, self.limits.limit_s or _LEARNING_LIMIT_S)
        return first

    def _without_faults(self, messages: int | None, limit_s: float) -> tuple[Learned, Tried]:
        """What runs with so many messages show, and the first of them. Raises UnwellError."""
        self._say(f"{_LEARNING_RUNS} runs without faults" + ("" if messages is None else f", {messages} messages"))
        runs = self._together(lambda limit_s: self.bench.run([], limit_s, messages), [limit_s] * _LEARNING_RUNS)
        for tried in runs:
            ended = tried.ended
            if ended.code != 0 or ended.check:
                raise UnwellError(f"{_unwell(ended, self.limits.limit_s)} (its output: {tried.folder})")
            if not tried.rows:
                raise UnwellError(
                    "the command made no request to {bootstrap}: it has to take it as its bootstrap server "
                    f"(its output: {tried.folder})"
                )
        for tried in runs:
            self.bench.tidy(tried)
        return Learned.of([tried.ended for tried in runs]), runs[0]

    def _together(self, run: Callable[[T], R], given: Sequence[T]) -> list[R]:
        """What each comes to, on all lanes at once."""
        with ThreadPoolExecutor(self.limits.lanes, thread_name_prefix="repeat") as pool:
            try:
                return list(pool.map(run, given))
            except BaseException:
                self.bench.stop.set()  # else an interruption waits for the others
                raise

    def _learned(self, messages: int | None) -> Learned | None:
        """What so many messages show without faults, learned once; None where the command doesn't end well."""
        if messages in (None, self.bench.messages):
            return self.explored.learned
        if messages not in self._by_messages:
            self._by_messages[messages] = None
            with contextlib.suppress(UnwellError):
                few, _ = self._without_faults(messages, self.limit_s)
                self._by_messages[messages] = few.within(self.explored.learned)
        return self._by_messages[messages]

    @property
    def limit_s(self) -> float:
        """How long a try may take before it counts as late."""
        return self.limits.limit_of(self.explored.learned)

    @property
    def patience_s(self) -> float:
        """How long a late try is waited for when it is made once more, in seconds: no less than it may take anyway."""
        return max(self.limits.patience_s, self.limit_s)

    # ---- strike ---------------------------------------------------------------------------------

    def run(self) -> Explored:
        """The whole search, until a limit or until nothing is left."""
        began = self._began
        first = self.learn()
        explored = self.explored
        explored.points = points(first.rows, self.bench.brokers)
        everything = candidates(explored.points)
        seen = (candidate for candidate in everything if key(candidate) in self.corpus.tried)
        explored.map = Map.of(explored.points, everything, seen)
        explored.families = len({candidate.family for candidate in everything})
        random = Random(self.limits.seed)
        order = ByChance if self.limits.by_chance else Frontier
        frontier = order(everything, random=random, seen=self.corpus.tried)
        self._tell(
            f"learned: {len(first.rows)} exchanges in {explored.learned.seconds:.1f} s, {len(explored.points)} points, "
            f"{len(everything)} candidates ({len(everything) - len(frontier)} tried before); a try is late after "
            f"{self.limit_s:.0f} s"
        )
        self.earlier = list(self.corpus.failing)
        pool = ThreadPoolExecutor(self.limits.lanes, thread_name_prefix="try")
        try:
            if verdicts := self._judged(first, _NOTHING):
                self._investigate(_NOTHING, first, verdicts)
            self._strike(frontier, pool)
        finally:
            self.bench.stop.set()
            pool.shutdown(cancel_futures=True)
            explored.left = len(frontier)
            explored.seconds = time.monotonic() - began
        return explored

    def _strike(self, frontier: Frontier | ByChance, pool: ThreadPoolExecutor) -> None:
        running: dict[Future[Tried], tuple[Candidate, Recipe | None]] = {}
        explored = self.explored
        waiting = list(self.earlier)
        while True:
            while len(running) < self.limits.lanes and self._goes_on(len(running)):
                recipe = waiting.pop(0) if waiting else None
                candidate = frontier.next() if recipe is None else self._of(recipe, "an earlier search")
                if candidate is None:
                    break
                limit_s = self.limit_s + candidate.costs_s
                future = pool.submit(self.bench.run, candidate.documents, limit_s, candidate.messages)
                running[future] = candidate, recipe
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                candidate, recipe = running.pop(future)
                tried = future.result()
                explored.tries += 1
                self._take(candidate, tried, frontier)
                if recipe is not None:  # what still fails is there anew
                    self.earlier.remove(recipe)
                    self.corpus.failing.remove(recipe)
                self._say(explored.progress())

    def _goes_on(self, running: int) -> bool:
        limits, explored = self.limits, self.explored
        return (
            time.monotonic() < self._deadline
            and (limits.tries is None or explored.tries + running < limits.tries)
            and (limits.failures is None or len(explored.failures) < limits.failures)
        )

    def _take(self, candidate: Candidate, tried: Tried, frontier: Frontier | ByChance) -> None:
        explored = self.explored
        if any(tried.hits):
            explored.struck.update(str(p) for p in explored.points if str(p) in candidate.point.split(" and "))
            if len(candidate.family) == 1:
                explored.families_struck.update(candidate.family)
        else:
            explored.missed += 1
        tried, verdicts, late = self._ended(candidate, tried)
        if late and not verdicts:
            explored.slow.append(f"{' and '.join(candidate.family)} at {candidate.point}")
            came = Came.SLOW
        elif verdicts:
            came = Came.BROKE
        else:
            came = Came.SURVIVED if any(tried.hits) else Came.MISSED
        explored.map.told(candidate, came)
        showed = signature(tried.rows) | outcome(tried.ended) | log_lines(tried.folder)
        frontier.told(candidate, showed, failed=bool(verdicts))
        if not verdicts and (may := self._gave_up(tried, candidate)):
            explored.gave_up.setdefault(may, []).append(f"{' and '.join(candidate.family)} at {candidate.point}")
        known = self._known(verdicts[0], candidate) if verdicts else None
        if verdicts and known is None:
            self._investigate(candidate, tried, verdicts)
        else:
            self.bench.tidy(tried)
        if known is not None:
            known.seen_again += 1
        # Not before it was shrunk: what an interruption leaves unfinished is for the next search.
        self.corpus.tried[key(candidate)] = " ".join(verdict.kind for verdict in verdicts)

    def _known(self, verdict: Verdict, candidate: Candidate) -> Failure | None:
        """The failure that this is again: the same, or one that comes of some of these rules alone."""
        rules = candidate.documents
        parts = (failure for failure in self.explored.failures if failure.is_in(verdict, rules))
        alike = self._groups.get(group(verdict, rules))
        return self._firsts.get(exactly(verdict, rules)) or next(parts, alike)

    def _judged(self, tried: Tried, candidate: Candidate) -> list[Verdict]:
        if (learned := self._learned(candidate.messages)) is None:
            return []
        if not candidate.rules:
            learned = replace(learned, goes_back="")
        allow = self.limits.allow | (_GIVES_UP if self._gave_up(tried, candidate) else frozenset())
        return judge(tried.ended, learned, allow=allow, fatal=candidate.is_fatal)

    def _gave_up(self, tried: Tried, candidate: Candidate) -> str:
        """How the command gave up as it may, if it did."""
        if self.limits.strict or len(tried.hits) != len(candidate.rules):
            return ""
        return gave_up(tried.ended, candidate.tries(tried.hits), stands=candidate.stands)

    def _ended(self, candidate: Candidate, tried: Tried) -> tuple[Tried, list[Verdict], bool]:
        """The try that counts, its verdicts, and whether it was late.

        One that was is made once more, and waited for as long as clients' own timeouts are: it may end after all.
        """
        verdicts = self._judged(tried, candidate)
        if not verdicts or verdicts[0].kind != "hang":
            return tried, verdicts, False
        self.bench.tidy(tried)
        self._say(f"late with {' and '.join(candidate.family)}: waiting up to {self.patience_s:.0f} s")
        again = self.bench.run(candidate.documents, self.patience_s, candidate.messages)
        return again, self._judged(again, candidate), True

    # ---- repeat and shrink ----------------------------------------------------------------------

    def _investigate(self, candidate: Candidate, first: Tried, verdicts: list[Verdict]) -> None:
        kind = verdicts[0].kind
        found_s = time.monotonic() - self._began
        where = f"with {' and '.join(candidate.family)} at {candidate.point}" if candidate.rules else candidate.point
        self._tell(f"found: {verdicts[0].sentence}; {where}")
        asked = 0
        kept: dict[str, Tried] = {}
        limit_s = self.limit_s + candidate.costs_s
        if kind != "hang":
            limit_s = max(limit_s, 1.5 * first.ended.seconds)  # what ended badly after all has to be waited for

        def breaks(recipe: Recipe) -> Tried | None:
            if self._learned(recipe.messages) is None:
                return None
            tried = self.bench.run(recipe.rules, limit_s, recipe.messages)
            rules = tuple(map(frozen, recipe.rules))
            found = self._judged(tried, replace(candidate, rules=rules, messages=recipe.messages))
            if any(each.kind == kind for each in found):
                return tried
            self.bench.tidy(tried)
            return None

        def broke(recipes: Sequence[Recipe]) -> list[bool]:
            nonlocal asked
            asked += len(recipes)
            self._say(f"shrinking, {asked} tries: {self.explored.progress()}")
            for messages in dict.fromkeys(recipe.messages for recipe in recipes):
                self._learned(messages)
            seen = self._together(breaks, recipes)
            for recipe, tried in zip(recipes, seen, strict=True):
                if tried is not None:
                    if (before := kept.get(text(recipe))) is not None:
                        self.bench.tidy(before)
                    kept[text(recipe)] = tried
            return [tried is not None for tried in seen]

        def fail(recipes: Sequence[Recipe]) -> list[bool]:
            if time.monotonic() > self._deadline + _SHRINK_ON_S:
                return [False] * len(recipes)
            return broke(recipes)

        def rate_of(recipe: Recipe) -> int:
            return sum(broke([recipe] * _REPEATS))

        given = Recipe(candidate.documents, candidate.messages or self.bench.messages)
        for fewer in without_one(given.rules):
            known = self._groups.get(group(verdicts[0], fewer))
            if known is not None and all(broke([replace(given, rules=fewer)])):
                self._tell(f"known: it is `{known.by}` that does it")
                self._seen_again(known, verdicts[0], candidate)
                for tried in (*kept.values(), first):
                    self.bench.tidy(tried)
                return
        rate, smallest = rate_of(given), given
        if rate:  # what doesn't break again can't be shrunk
            _, *way = shrink(given, fail, at_once=self.limits.lanes)
            # What broke once may have been lucky: the step before it then.
            while way:
                if (again := rate_of(latest := way.pop())) >= min(rate, 2):
                    rate, smallest = again, latest
                    break
        (with_none,) = broke([Recipe([], smallest.messages)])
        told = kept.pop(text(smallest), first)
        for tried in (*kept.values(), first):
            if tried is not told:
                self.bench.tidy(tried)
        last = self._judged(told, replace(candidate, messages=smallest.messages)) or verdicts
        if kind == "hang":
            waited = f"{last[0].sentence}; once it was waited for {self.patience_s:.0f} s"
            last = [Verdict(last[0].kind, waited), *last[1:]]
        failure = Failure(
            verdicts=last,
            first_rules=candidate.documents,
            rules=smallest.rules,
            point=candidate.point,
            broke=rate,
            repeated=_REPEATS,
            survives_without=not with_none,
            tries_to_find=self.explored.tries,
            seconds_to_find=round(found_s, 1),
            tries_to_shrink=asked,
            evidence=str(told.folder),
            timeline=timeline(told.rows),
            messages=smallest.messages,
        )
        if failure.is_unstable:
            self._tell(f"unstable: {failure.title}; broke 0 of {_REPEATS} times when it was repeated")
            if (before := self._unstable.setdefault(failure.group, failure)) is failure:
                self.explored.unstable.append(failure)
            else:
                before.broke_once_more(_REPEATS)
            return
        if (known := self._groups.get(failure.group)) is not None:
            self._seen_again(known, verdicts[0], candidate)
            return
        self._groups[failure.group] = failure
        self._firsts[exactly(verdicts[0], candidate.documents)] = failure
        self.explored.failures.append(failure)
        if smallest.rules:  # what needs none shows when the next search learns
            self.corpus.failing.append(smallest)
        self._tell(f"shrunk in {asked} tries: {failure.title}; broke {rate} of {_REPEATS} times{failure.sent}")
        self._found()

    def _seen_again(self, known: Failure, verdict: Verdict, candidate: Candidate) -> None:
        known.seen_again += 1
        self._firsts.setdefault(exactly(verdict, candidate.documents), known)

    # ---- replay ---------------------------------------------------------------------------------

    def _of(self, recipe: Recipe, where: str) -> Candidate:
        own = recipe.messages if recipe.messages != self.bench.messages else None
        return of_rules(recipe.rules, where, own)

    def replay(self, rules: Sequence[Rule]) -> tuple[Tried, list[Verdict]]:
        """Run the command once with these rules, after it was learned what it does without.

        Raises NothingStruckError where none was hit and nothing is wrong, too: it ended well, and nothing was tested.
        """
        self.learn()
        candidate = of_rules(rules, "a file")
        tried, verdicts, _ = self._ended(candidate, self.bench.run(rules, self.limit_s))
        if rules and not any(tried.hits) and not verdicts:
            raise NothingStruckError(
                f"none of the rules was hit, so nothing was tested: {'; '.join(map(described, rules))}. The command's "
                f"requests: {passed(tried.rows)}. Say all options of the search, as --partitions (in the head of "
                "what explore wrote); a command that no longer sends what the rules match has to be searched again"
            )
        return tried, verdicts


def timeline(rows: Sequence[Row]) -> list[str]:
    """What the client asked and was told, from a little before the first fault on; alike ones in a row are one line."""
    ordered = sorted(rows, key=lambda row: row["request_at_us"])
    first = next((at for at, row in enumerate(ordered) if row["fault_names"]), 0)
    begin_us = ordered[0]["request_at_us"] if ordered else 0
    lines: list[str] = []
    for said, rows_alike in groupby(ordered[max(first - 3, 0) :], key=_said):
        alike = list(rows_alike)
        at_s = (alike[0]["request_at_us"] - begin_us) / 1e6
        lines.append(f"{at_s:.3f} s  {said}{f' (x{len(alike)})' if len(alike) > 1 else ''}")
        if len(lines) == _MOST_TOLD_ROWS:
            break
    return lines


def passed(rows: Sequence[Row]) -> str:
    """Which requests were made, and how often each."""
    counts = Counter(str(row["api_name"] or row["api_key"]) for row in rows)
    return ", ".join(f"{count} x {name}" for name, count in counts.most_common()) or "none"


def _said(row: Row) -> str:
    """An exchange in a few words."""
    error = row["error_code"] or next((each["error_code"] for each in row["partitions"] or () if each["error_code"]), 0)
    told = f", error {error}" if error else ""
    struck = f" [{', '.join(row['fault_kinds'])}]" if row["fault_kinds"] else ""
    return f"{row['api_name'] or row['api_key']} {row['outcome']}{told}{struck}"


def _unwell(ended: Ended, limit_s: float | None) -> str:
    if ended.code is None:
        within = f"{ended.seconds:.0f} s" if limit_s is None else f"the {limit_s:g} s of --limit"
        return f"the command did not end by itself within {within}, without any fault"
    if ended.code:
        return f"the command ended with code {ended.code} without any fault: {ended.last_words or 'it said nothing'}"
    return f"without any fault: {ended.check}"
