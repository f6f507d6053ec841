"""Play the scenarios of which the truth is known, have the analysis judge them, and print each answer that isn't right.

What was played is kept below --folder and not played again, and what an analysis has said of it is not asked again
until its code changes: a command that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from notleader.spark_analysis.session import build_session
from tests.truth import page, third
from tests.truth.catalogue import EVERY
from tests.truth.judging import analysed
from tests.truth.playing import AT_ONCE, Played, forget, play
from tests.truth.scenario import Scenario

_FOLDER = Path(__file__).parents[2] / "build" / "truth"


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios, or globs of their names; default: all")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="where recordings are kept (default: build/truth)")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="how many are played at once")
    parser.add_argument("--fast", action="store_true", help="only those of the fast cut, which `make test` has")
    parser.add_argument("--healthy", action="store_true", help="only those in which nothing is wrong")
    parser.add_argument("--again", action="store_true", help="play what was played before, too")
    parser.add_argument("--no-judge", action="store_true", help="play only")
    parser.add_argument("--pack", action="store_true", help="keep a third of the recordings with the sources")
    parser.add_argument("--page", action="store_true", help="write the matrix into docs/held-to-the-truth.md")
    return parser.parse_args(arguments)


def _wanted(scenario: Scenario, given: argparse.Namespace) -> bool:
    named = not given.names or any(fnmatch.fnmatch(scenario.name, name) for name in given.names)
    return named and (scenario.fast or not given.fast) and (scenario.healthy or not given.healthy)


def main(arguments: list[str]) -> int:
    given = _parsed(arguments)
    chosen = [scenario for scenario in EVERY if _wanted(scenario, given)]
    started = time.monotonic()

    def line(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    if given.again:
        for scenario in chosen:
            forget(scenario, given.folder)
    given.folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def heard(name: str, played: Played | None, why: str) -> None:
        nonlocal count
        count += 1
        line(f"played {count}: {name}{why and f': {why}'}")
        for problem in played.problems if played else ():
            line(f"  proves nothing: {problem}")

    played, failed = play(chosen, given.folder, heard, given.at_once)
    line(f"{len(played)} of {len(chosen)} scenarios are played, {count} of them now; in {given.folder}")
    if given.pack:
        third.pack(one.run for one in played if third.is_of_the_third(one.run.scenario))
    if given.no_judge:
        return 1 if failed else 0
    sessions: list[Any] = []

    def session() -> Any:
        if not sessions:
            sessions.append(build_session(log_file=given.folder / "spark.log"))
        return sessions[0]

    out = given.folder / ".analyses"
    try:
        judged = analysed(session, played, out, lambda done, all_: line(f"judged {done} of {all_}"))
    finally:
        for one in sessions:
            one.stop()
        shutil.rmtree(out, ignore_errors=True)
    judged.void += failed
    if given.page:
        page.write(played, judged)
    (given.folder / "matrix.md").write_text(page.matrix(played, judged))
    for problem in judged.void:
        print("proves nothing:", problem)
    for mark in judged.wrong:
        print(mark)
    print(f"{len(judged.marks)} answers, {len(judged.wrong)} not right; {len(judged.void)} scenarios prove nothing")
    return 1 if judged.wrong or judged.void else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
