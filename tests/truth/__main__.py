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
from collections.abc import Callable, Sequence
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
    parser.add_argument(
        "--folder",
        type=Path,
        action="append",
        help="where a set of recordings is kept (default: build/truth); several, each given so, are several sets",
    )
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

    folders = given.folder or [_FOLDER]
    sets = [(folder, *_played(chosen, folder, given, line)) for folder in folders]
    if given.pack:
        third.pack(one.run for one in sets[0][1] if third.is_of_the_third(one.run.scenario))
    if given.no_judge:
        return 1 if any(failed for _, _, failed in sets) else 0
    marked: list[page.Set] = []
    sessions: list[Any] = []

    def session() -> Any:
        if not sessions:
            sessions.append(build_session(log_file=folders[0] / "spark.log"))
        return sessions[0]

    try:
        for folder, played, failed in sets:
            out = folder / ".analyses"
            judged = analysed(session, played, out, lambda done, all_: line(f"judged {done} of {all_}"))
            unread = analysed(
                session,
                played,
                out,
                lambda done, all_: line(f"judged {done} of {all_} without the log"),
                with_log=False,
            )
            shutil.rmtree(out, ignore_errors=True)
            judged.void += failed
            marked.append((played, judged, unread))
    finally:
        for one in sessions:
            one.stop()
    if given.page:
        page.write(marked)
    (folders[0] / "matrix.md").write_text(page.matrix(marked))
    good = True
    for folder, (_, judged, unread) in zip(folders, marked, strict=True):
        for problem in judged.void:
            print("proves nothing:", problem)
        for mark in judged.wrong:
            print(mark)
        for mark in unread.wrong:
            print("without the log:", mark)
        print(
            f"{folder}: {len(judged.marks)} answers, {len(judged.wrong)} not right; without the log "
            f"{len(unread.marks)} answers, {len(unread.wrong)} not right; {len(judged.void)} scenarios prove nothing"
        )
        good = good and not judged.wrong and not unread.wrong and not judged.void
    return 0 if good else 1


def _played(
    chosen: Sequence[Scenario], folder: Path, given: argparse.Namespace, line: Callable[[str], None]
) -> tuple[list[Played], list[str]]:
    """The scenarios as they are kept in the folder, those that aren't played now; and which could not be played."""
    if given.again:
        for scenario in chosen:
            forget(scenario, folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def heard(name: str, played: Played | None, why: str) -> None:
        nonlocal count
        count += 1
        line(f"played {count}: {name}{why and f': {why}'}")
        for problem in played.problems if played else ():
            line(f"  proves nothing: {problem}")

    played, failed = play(chosen, folder, heard, given.at_once)
    line(f"{len(played)} of {len(chosen)} scenarios are played, {count} of them now; in {folder}")
    return played, failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
