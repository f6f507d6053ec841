"""Recordings that are read and matched once, so that a check can be asked of them over and over."""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from notleader import spark_analysis
from notleader.spark_analysis import findings
from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.base import Check
from tests.truth import judge
from tests.truth.judging import of_each, options
from tests.truth.kept import Run
from tests.truth.playing import Played

FRAMES = ("exchanges", "operations", "delivered", "attempts", "history")
Answer = tuple[str, str | None, str]
_FACTS = ("capture", "outcomes", "unjudged", "struck")


class Recordings:
    """All recordings: those that are judged alone where they show something of the check, then all others at once."""

    def __init__(self, session: Callable[[], Any], played: Sequence[Played], folder: Path) -> None:
        names = repr(sorted(one.run.name for one in played))
        self.name = "recordings " + hashlib.sha256(names.encode()).hexdigest()[:16]
        alone = [one for one in played if one.run.scenario.alone]
        together = [one for one in played if not one.run.scenario.alone]
        self._alone = [(one, Bench(session, [one], folder)) for one in alone]
        self._together = Bench(session, together, folder)

    def object(self, check: Check, mutant: Check) -> str:
        """The scenario of which the edited check says something wrong, and the check as it is doesn't; else nothing."""
        for one, bench in self._alone:
            if any(effect.check == check.name for effect in one.run.scenario.effects) and (
                by := bench.object(check, mutant)
            ):
                return by
        return self._together.object(check, mutant)


class Bench:
    """Some recordings as the tables of one analysis, and what each check as it is says wrongly of them."""

    def __init__(self, session: Callable[[], Any], played: Sequence[Played], folder: Path) -> None:
        self._session = session
        self._played = list(played)
        self._runs = [one.run for one in played]
        self._options = options(self._runs)
        self._folder = folder
        self._lock = threading.Lock()
        self._tables: Any = None
        self._touched = {run.name: judge.touched_by_rules(run) for run in self._runs}
        self._as_it_is: dict[str, frozenset[Answer]] = {}
        self._longest_s: dict[str, float] = {}

    def object(self, check: Check, mutant: Check) -> str:
        """The first scenario of which the edited check says something wrong, and the check as it is doesn't."""
        with self._lock:
            if self._tables is None:
                self._tables = _tables(self._session(), self._runs, self._options, self._folder)
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
        wrong: set[judge.Mark] = set()
        for one, found in zip(self._played, each, strict=True):
            asked = named is None or one.run.name in named
            shown = found if asked and (not found or shows_signs(check, self._tables, self._options, one.run)) else []
            judged = judge.judge(one.run, one.true, shown, self._touched[one.run.name])
            wrong |= {mark for mark in judged.wrong if mark.check == check.name}
        return frozenset(wrong)


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
        suspected=lambda tables, options, checks: checks,
        # In the thread that asks, whose jobs can be ended.
        _noticed=lambda tables, options, checks: findings.grouped(findings.cases(tables, options, checks)).collect(),
    )
    return findings.find(tables, bounds, [check])


def shows_signs(check: Check, tables: Any, bounds: Any, run: Run) -> bool:
    """Would the check be asked of this run alone, by what it looks at first?"""
    if check.signs(tables, bounds) is None:
        return True
    scopes = [folder.name.removeprefix("run=") for folder in run.capture.glob("date=*/run=*")]
    own = {name: (frame := getattr(tables, name)).filter(frame["scope"].isin(scopes)) for name in FRAMES}
    signs = check.signs(replace(tables, **own), bounds)
    return signs is None or bool(signs.limit(1).collect())


def _answer(mark: judge.Mark) -> Answer:
    """Of what is true, only the blame may be wrong."""
    return mark.scenario, mark.client, mark.result


def _tables(spark: Any, runs: Sequence[Run], bounds: Any, folder: Path) -> Any:
    """The tables that checks are given, read and matched as in any analysis; kept, and read again the next time."""
    from notleader.spark_analysis.checks import Tables
    from notleader.spark_analysis.plans import settled
    from notleader.spark_analysis.transforms.log import Log, covered

    names = " ".join(run.name for run in runs)
    place = folder / hashlib.sha256(f"{beside_the_checks()} {names}".encode()).hexdigest()[:16]
    if not (place / "facts.pickle").exists():
        _write(_matched(spark, runs, bounds, place), place)
    facts = pickle.loads((place / "facts.pickle").read_bytes())
    frames = {name: settled(spark.read.parquet(str(place / name))) for name in FRAMES}
    log = None
    if "log" in facts:
        rows = settled(spark.read.parquet(str(place / "log")))
        log = Log(rows, covered(rows), facts.pop("log"))
    return Tables(**frames, **facts, log=log)


class _MatchedError(Exception):
    """Ends an analysis before its checks."""

    def __init__(self, tables: Any) -> None:
        super().__init__("matched")
        self.tables = tables


def _matched(spark: Any, runs: Sequence[Run], bounds: Any, place: Path) -> Any:
    from notleader.spark_analysis.jobs import analyze

    def ends(tables: Any, *_: Any) -> Any:
        raise _MatchedError(tables)

    asked = vars(analyze)
    real = {name: asked[name] for name in ("find", "draw")}
    asked.update(find=ends, draw=lambda _: None)
    try:
        analyze.analyze(
            spark,
            [str(run.capture) for run in runs],
            [str(file) for run in runs for file in sorted(run.outcomes.glob("*.jsonl"))],
            str(place / "analysis"),
            bounds,
            logs=[str(run.log_files) for run in runs if any(run.log_files.glob("*.parquet"))],
        )
    except _MatchedError as matched:
        return matched.tables
    finally:
        asked.update(real)
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
    root = Path(spark_analysis.__file__).parent
    whole = hashlib.sha256()
    own = {Path(sys.modules[type(check).__module__].__file__ or "").resolve() for check in all_checks()}
    for file in sorted(root.rglob("*.py")):
        if file.resolve() not in own and file.parent.name in ("spark_analysis", "checks", "signatures", "transforms"):
            whole.update(file.read_bytes())
    return whole.hexdigest()[:16]
