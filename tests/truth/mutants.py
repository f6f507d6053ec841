"""Would this suite notice? Edits each condition of each check, and asks whether one of the kept recordings objects.

Nothing is played: the recordings below --folder are used. An edit is caught when, of some recording, the edited check
answers less rightly than the check as it is (or can't answer at all). Those that nothing catches are printed, and
each wants a scenario, or is one that changes nothing.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.base import REGISTRY, Check
from notleader.spark_analysis.session import build_session
from tests.truth import judge, page
from tests.truth.catalogue import EVERY
from tests.truth.judging import of_each, options
from tests.truth.mutations import Mutation, mutations
from tests.truth.playing import Played, kept

_FOLDER = Path(__file__).parents[2] / "build" / "truth"
_TOGETHER = 45
_OF_EACH_CHECK = 4
_loading = threading.Lock()
Wrong = frozenset[tuple[str, str, str | None, str, str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one edit; `by` names the first scenario that objected, and is empty when none did."""

    check: str
    mutation: Mutation
    by: str


class Bench:
    """Recordings that are read and matched, so that a check can be asked of them over and over."""

    def __init__(self, spark: Any, played: Sequence[Played], out: Path) -> None:
        from notleader.spark_analysis.jobs import analyze

        self._runs = [one.run for one in played]
        self._played = list(played)
        self._options = options(self._runs)
        self.checks = {effect.check for run in self._runs for effect in run.scenario.effects}
        seen: list[Any] = []
        find = analyze.find

        def noting(tables: Any, bounds: Any) -> Any:
            seen.append(tables)
            return find(tables, bounds)

        analyze.find = noting
        try:
            analyze.analyze(
                spark,
                [str(run.capture) for run in self._runs],
                [str(file) for run in self._runs for file in sorted(run.outcomes.glob("*.jsonl"))],
                str(out),
                self._options,
                logs=[str(run.log_files) for run in self._runs],
            )
        finally:
            analyze.find = find
        (self._tables,) = seen
        self._as_it_is: dict[str, Wrong] = {}

    def wrong(self, check: Check) -> Wrong:
        """What isn't right in the answers of this check."""
        from notleader.spark_analysis.findings import find

        found = [finding.as_dict() for finding in find(self._tables, self._options, [check])]
        return frozenset(
            (mark.scenario, mark.check, mark.client, mark.result, mark.blame)
            for one, findings in zip(self._played, of_each(found, self._runs), strict=True)
            for mark in judge.judge(one.run, one.true, findings).wrong
            if mark.check == check.name
        )

    def objects(self, check: Check, mutant: Check) -> str:
        """The scenario that the edited check is wrong about, where the check as it is isn't."""
        if check.name not in self._as_it_is:
            self._as_it_is[check.name] = self.wrong(check)
        try:
            new = self.wrong(mutant) - self._as_it_is[check.name]
        except Exception as error:  # Spark refuses the plan, or the code can't run
            return f"({type(error).__name__})"
        return min(new)[0] if new else ""


def loaded(module: ModuleType, mutation: Mutation, name: str) -> Check:
    """The check of an edited module; the registry stays as it is."""
    with _loading:
        real = REGISTRY.pop(name)
        try:
            namespace = {**module.__dict__}
            exec(compile(mutation.source, f"<{module.__name__}:{mutation.line}>", "exec"), namespace)
            return REGISTRY[name]
        finally:
            REGISTRY[name] = real


def chosen(played: Sequence[Played]) -> tuple[list[Played], list[list[Played]]]:
    """Few recordings that show what each check tells, with some healthy ones; and those with bounds of their own."""
    count: dict[str, int] = defaultdict(int)
    some: list[Played] = []
    for one in played:
        scenario = one.run.scenario
        wants = {effect.check for effect in scenario.effects}
        if not scenario.alone and any(count[check] < _OF_EACH_CHECK for check in wants):
            some.append(one)
            for check in wants:
                count[check] += 1
    healthy = [one for one in played if one.run.scenario.healthy]
    some += healthy[:: max(len(healthy) // 20, 1)]
    return some, [[one] for one in played if one.run.scenario.alone]


def every_mutant(names: Sequence[str]) -> Iterator[tuple[Check, Mutation]]:
    for check in all_checks():
        if not names or check.name in names:
            source = Path(sys.modules[type(check).__module__].__file__ or "").read_text()
            for mutation in mutations(source):
                yield check, mutation


def tried(benches: Sequence[Bench], check: Check, mutation: Mutation) -> Outcome:
    module = sys.modules[type(check).__module__]
    try:
        mutant = loaded(module, mutation, check.name)
    except Exception as error:
        return Outcome(check.name, mutation, f"({type(error).__name__})")
    for bench in (*(b for b in benches[1:] if check.name in b.checks), *benches[:1]):
        if by := bench.objects(check, mutant):
            return Outcome(check.name, mutation, by)
    return Outcome(check.name, mutation, "")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.truth.mutants", description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="checks whose conditions are edited; default: all")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="where `python -m tests.truth` keeps recordings")
    parser.add_argument("--page", action="store_true", help="write the table into docs/held-to-the-truth.md")
    given = parser.parse_args(arguments)
    played = [one for scenario in EVERY if (one := kept(scenario, given.folder)) is not None and not one.problems]
    if len(played) < len(EVERY) // 2:
        parser.error(f"only {len(played)} of {len(EVERY)} scenarios lie below {given.folder}: make test-truth first")
    started = time.monotonic()

    def line(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    spark = build_session(log_file=given.folder / "spark.log")
    try:
        some, alone = chosen(played)
        benches = []
        for number, runs in enumerate((some, *alone)):
            wanted = {effect.check for one in runs for effect in one.run.scenario.effects}
            if number == 0 or not given.checks or wanted & set(given.checks):
                benches.append(Bench(spark, runs, given.folder / ".mutants" / str(number)))
                line(f"read {len(runs)} recordings")
        todo = list(every_mutant(given.checks))
        done: list[Outcome] = []

        def one(pair: tuple[Check, Mutation]) -> None:
            outcome = tried(benches, *pair)
            done.append(outcome)
            word = f"caught by {outcome.by}" if outcome.by else "SURVIVES"
            line(f"{len(done)} of {len(todo)}: {outcome.check}:{outcome.mutation.line} {outcome.mutation.told}: {word}")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(one, todo))
    finally:
        spark.stop()
    survivors = [outcome for outcome in done if not outcome.by]
    if given.page:
        page.write_mutants(done)
    for outcome in survivors:
        print(f"survives: {outcome.check}, line {outcome.mutation.line}: {outcome.mutation.told}")
    print(f"{len(done)} edits of {len({o.check for o in done})} checks, {len(done) - len(survivors)} caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
