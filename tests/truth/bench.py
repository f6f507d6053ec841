"""Recordings that are read and matched once, so that a check can be asked of them over and over."""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader import spark_analysis
from notleader.spark_analysis import findings
from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.base import Check
from tests.truth import judge
from tests.truth.judging import of_each, options
from tests.truth.kept import Run
from tests.truth.oracle import truth
from tests.truth.playing import Played

FRAMES = ("exchanges", "operations", "names", "delivered", "attempts", "history")
Answer = tuple[str, str | None, str]
_FACTS = ("capture", "outcomes", "unjudged", "struck")
_FEW = 8
_REPLACED = threading.Lock()
BY_LOG = frozenset(("duplicate", "inconsistent_offsets", "lost", "phantom", "reordered", "skipped"))
"""Checks of which the log is the judge, and which do what they can without it."""


class Recordings:
    """All recordings: those that are judged alone where they show something of the check, then all others at once."""

    def __init__(
        self, session: Callable[[], Any], played: Sequence[Played], folder: Path, *, with_log: bool = True
    ) -> None:
        names = repr(sorted(one.run.name for one in played))
        of = "recordings" if with_log else "unread recordings"
        self.name = f"{of} {hashlib.sha256(names.encode()).hexdigest()[:16]}"
        alone = [one for one in played if one.run.scenario.alone and with_log]
        together = [one for one in played if not one.run.scenario.alone]
        if not with_log:
            together = [replace(one, true=truth(one.run, with_log=False)) for one in together]
        self.runs = {one.run.scenario.name: one.run.name for one in played}
        self._of = None if with_log else BY_LOG
        self._alone = [(one, Bench(session, [one], folder)) for one in alone]
        self.together = Bench(session, together, folder, with_log=with_log)

    def knows(self, check: Check) -> bool:
        """Whether the check's answers are others here than they are elsewhere."""
        return self._of is None or check.name in self._of

    def object(self, check: Check, mutant: Check) -> str:
        """The scenario of which the edited check says something wrong, and the check as it is doesn't; else nothing."""
        if not self.knows(check):
            return ""
        for one, bench in self._alone:
            if any(effect.check == check.name for effect in one.run.scenario.effects) and (
                by := bench.object(check, mutant)
            ):
                return by
        return self.together.object(check, mutant)


class Few:
    """Of all those recordings the few that show most of what a check is about: of most edits they know enough."""

    def __init__(self, of: Recordings) -> None:
        first, _, rest = of.name.partition(" ")
        self.name, self.runs = f"{first} (few) {rest}", of.runs
        self._of = of
        self._lock = threading.Lock()
        self._benches: dict[str, Bench] = {}

    def object(self, check: Check, mutant: Check) -> str:
        """As all of them do."""
        if not self._of.knows(check):
            return ""
        with self._lock:
            if check.name not in self._benches:
                self._benches[check.name] = self._of.together.of_some(check.name)
        return self._benches[check.name].object(check, mutant)


class Bench:
    """Some recordings as the tables of one analysis, and what each check as it is says wrongly of them."""

    def __init__(
        self, session: Callable[[], Any], played: Sequence[Played], folder: Path, *, with_log: bool = True,
        part_of: Bench | None = None,
    ) -> None:  # fmt: skip
        self._session = session
        self._played = list(played)
        self._runs = [one.run for one in played]
        self._options = options(self._runs)
        self._folder = folder
        self._with_log = with_log
        self._part_of = part_of
        self._lock = threading.Lock()
        self._tables: Any = None
        self._touched = {run.name: judge.touched_by_rules(run) for run in self._runs}
        self._as_it_is: dict[str, frozenset[Answer]] = {}
        self._longest_s: dict[str, float] = {}

    def of_some(self, check: str) -> Bench:
        """The few recordings that show most of what a check is about, and a few that show nothing of it."""
        sizes = {
            one.run.name: sum(file.stat().st_size for file in one.run.capture.rglob("*.*")) for one in self._played
        }
        by_size = sorted(self._played, key=lambda one: sizes[one.run.name])
        planted = [one for one in by_size if any(effect.check == check for effect in one.run.scenario.effects)]
        # Of so many that are planted not only the smallest.
        chosen = planted[:: max(len(planted) // _FEW, 1)]
        true = [
            one for one in by_size if one not in planted and any(one.true[key] for key in one.true if key[0] == check)
        ]
        chosen += true[:: max(len(true) // _FEW, 1)]
        for well in (True, False):
            others = [one for one in by_size if one not in planted + true and one.run.scenario.healthy == well]
            chosen += others[:: max(len(others) // _FEW, 1)][:_FEW]
        return Bench(self._session, chosen, self._folder, with_log=self._with_log, part_of=self)

    def tables(self) -> Any:
        """The tables of these recordings."""
        with self._lock:
            if self._tables is None and self._part_of is not None:
                self._tables = _part(self._part_of.tables(), self._runs)
            elif self._tables is None:
                self._tables = _tables(self._session(), self._runs, self._options, self._folder, self._with_log)
        return self._tables

    def object(self, check: Check, mutant: Check) -> str:
        """The first scenario of which the edited check says something wrong, and the check as it is doesn't."""
        self.tables()
        with self._lock:
            if check.name not in self._as_it_is:
                started = time.monotonic()
                self._as_it_is[check.name] = frozenset(map(_answer, self._wrong(check)))
                self._longest_s[check.name] = 30 + 30 * (time.monotonic() - started)
        try:
            with limited(self._session().sparkContext, self._longest_s[check.name]):
                wrong = self._wrong(mutant)
        except TooLongError:
            return "(takes too long)"
        except Exception as error:  # Spark refuses the plan, or the code can't run
            return f"({type(error).__name__})"
        return min((mark.scenario for mark in wrong if _answer(mark) not in self._as_it_is[check.name]), default="")

    def _wrong(self, check: Check) -> frozenset[judge.Mark]:
        """What isn't right in the answers of this check."""
        name = F.split_part(F.coalesce("client", "topic"), F.lit("."), F.lit(1))
        named = suspected(check, self._tables, self._options, name)
        told = found_by(check, self._tables, self._options) if named != frozenset() else []
        each = of_each([finding.as_dict() for finding in told], self._runs)
        signs = with_signs(check, self._tables, self._options) if any(each) else None
        wrong: set[judge.Mark] = set()
        for one, found in zip(self._played, each, strict=True):
            asked = (named is None or one.run.name in named) and (signs is None or signs & _scopes(one.run))
            judged = judge.judge(one.run, one.true, found if asked else [], self._touched[one.run.name])
            wrong |= {mark for mark in judged.wrong if mark.check == check.name}
        return frozenset(wrong)


def _scopes(run: Run) -> set[str]:
    return {folder.name.removeprefix("run=") for folder in run.capture.glob("date=*/run=*")}


def suspected(check: Check, tables: Any, bounds: Any, key: Column) -> frozenset[str] | None:
    """The runs, by `key`, of whose history the check, looking for suspects, finds one; None when it looks for none."""
    suspect = check.suspects(tables, bounds)
    if suspect is None:
        return None
    rows = tables.history.groupBy(key.alias("run")).agg(F.bool_or(suspect).alias("any")).collect()
    return frozenset(row["run"] for row in rows if row["any"])


class TooLongError(Exception):
    """An edit made a join of everything with everything, or the like."""


@contextmanager
def limited(context: Any, longest_s: float) -> Iterator[None]:
    """Ends this thread's Spark jobs after that time, as TooLongError."""
    group, done, late = uuid.uuid4().hex, threading.Event(), threading.Event()
    context.setJobGroup(group, "an edited check", interruptOnCancel=True)

    def ends() -> None:
        wait_s = longest_s
        while not done.wait(wait_s):
            late.set()
            context.cancelJobGroup(group)
            wait_s = 1.0

    watching = threading.Thread(target=ends, daemon=True)
    watching.start()
    try:
        yield
    except Exception as error:
        raise (TooLongError() if late.is_set() else error) from None
    finally:
        done.set()
        watching.join()


def found_by(check: Check, tables: Any, bounds: Any) -> list[findings.Finding]:
    """What the check finds, whoever is suspected: many runs are one history here, so that is asked of each run."""
    vars(findings).update(
        suspected=lambda tables, options, checks, signs: checks,
        # In the thread that asks, whose jobs can be ended.
        _noticed=_noticed,
    )
    return findings.find(tables, bounds, [check])


def _noticed(tables: Any, bounds: Any, checks: list[Check]) -> list[Any]:
    return findings.grouped(findings.cases(tables, bounds, checks)).collect() if checks else []


def with_signs(check: Check, tables: Any, bounds: Any) -> set[str] | None:
    """The scopes in which the check, by what it looks at first, would be asked; None when that is in all."""
    signs = check.signs(tables, bounds)
    return None if signs is None else {row["scope"] for row in signs.select("scope").distinct().collect()}


def _answer(mark: judge.Mark) -> Answer:
    """Of what is true, only the blame may be wrong."""
    return mark.scenario, mark.client, mark.result


def _tables(spark: Any, runs: Sequence[Run], bounds: Any, folder: Path, with_log: bool) -> Any:
    """The tables that checks are given, read and matched as in any analysis; kept, and read again the next time."""
    from notleader.spark_analysis.checks import Tables
    from notleader.spark_analysis.plans import settled
    from notleader.spark_analysis.transforms.log import Log, covered

    names = " ".join([*(run.name for run in runs), *([] if with_log else ["unread"])])
    place = folder / hashlib.sha256(f"{before_the_checks()} {names}".encode()).hexdigest()[:16]
    if not (place / "facts.pickle").exists():
        _write(_matched(spark, runs, bounds, place, with_log), place)
    facts = pickle.loads((place / "facts.pickle").read_bytes())
    frames = {name: settled(spark.read.parquet(str(place / name))) for name in FRAMES}
    log = None
    if "log" in facts:
        rows = settled(spark.read.parquet(str(place / "log")))
        log = Log(rows, covered(rows), facts.pop("log"))
    return Tables(**frames, **facts, log=log)


def _part(tables: Any, runs: Sequence[Run]) -> Any:
    """The rows of `tables` that are of these runs."""
    from notleader.spark_analysis.plans import settled
    from notleader.spark_analysis.transforms.log import Log, covered

    scopes = sorted(scope for run in runs for scope in _scopes(run))

    def own(frame: Any) -> Any:
        return settled(frame.filter(frame["scope"].isin(scopes)))

    log = None
    if tables.log is not None:
        rows = own(tables.log.rows)
        log = Log(rows, covered(rows), tables.log.profile)
    struck = tuple(hit for hit in tables.struck if hit.scope in scopes)
    return replace(tables, **{name: own(getattr(tables, name)) for name in FRAMES}, struck=struck, log=log)


class _MatchedError(Exception):
    """Ends an analysis before its checks."""

    def __init__(self, tables: Any) -> None:
        super().__init__("matched")
        self.tables = tables


def _matched(spark: Any, runs: Sequence[Run], bounds: Any, place: Path, with_log: bool) -> Any:
    from notleader.spark_analysis.jobs import analyze

    def ends(tables: Any, *_: Any, **__: Any) -> Any:
        raise _MatchedError(tables)

    # Several benches ask at once, and what is put in place of the checks is the module's.
    with _REPLACED, patch.object(analyze, "find", ends), patch.object(analyze, "draw", lambda _: None):
        try:
            analyze.analyze(
                spark,
                [str(run.capture) for run in runs],
                [str(file) for run in runs for file in sorted(run.outcomes.glob("*.jsonl"))],
                str(place / "analysis"),
                bounds,
                logs=[str(run.log_files) for run in runs if with_log and any(run.log_files.glob("*.parquet"))],
            )
        except _MatchedError as matched:
            return matched.tables
    raise AssertionError("an analysis asks its checks")


def _write(tables: Any, place: Path) -> None:
    for name in FRAMES:
        getattr(tables, name).coalesce(1).write.mode("overwrite").parquet(str(place / name))
    facts = {name: getattr(tables, name) for name in _FACTS}
    if tables.log is not None:
        tables.log.rows.coalesce(1).write.mode("overwrite").parquet(str(place / "log"))
        facts["log"] = tables.log.profile
    (place / "facts.pickle").write_bytes(pickle.dumps(facts))


@cache
def beside_the_checks() -> str:
    """Differs when code does that a check's answers depend on, other than its own."""
    own = {Path(sys.modules[type(check).__module__].__file__ or "").resolve() for check in all_checks()}
    return _fingerprint("", "checks", "signatures", "transforms", but=own)


@cache
def before_the_checks() -> str:
    """Differs when code does by which tables are made."""
    return _fingerprint("", "transforms")


def _fingerprint(*folders: str, but: Set[Path] = frozenset()) -> str:
    root = Path(spark_analysis.__file__).parent.resolve()
    whole = hashlib.sha256()
    for file in sorted(file for folder in folders for file in (root / folder).glob("*.py")):
        if file not in but:
            whole.update(file.read_bytes())
    return whole.hexdigest()[:16]
