"""Would this suite notice? Edits each condition of each check, and asks whether anything objects.

Nothing is played: the recordings below --folder are read and matched once, and each edited check is asked of them. An
edit is caught when it answers wrongly where the check as it is answers rightly, or can't answer at all. Of an edit that
no recording objects to, the made-up stories of the analysis's own tests are asked. What
nothing catches is printed: it wants a scenario, or equivalent.yaml says why it changes nothing.

What was found out of an edit is kept beside the recordings, and not asked again while the code that it depends on and
who is asked are the same: a command that was broken off goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import yaml

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.base import REGISTRY, Check
from notleader.spark_analysis.session import build_session
from tests.truth import page
from tests.truth.bench import Few, Recordings, beside_the_checks
from tests.truth.catalogue import EVERY
from tests.truth.mutations import Mutation, mutations
from tests.truth.playing import kept
from tests.truth.stories import Stories

_FOLDER = Path(__file__).parents[2] / "build" / "truth"
_EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
_SHARED = ("checks.wire_cases", "signatures.who")
"""Modules in which several checks have conditions in common."""
_loading = threading.Lock()


class Judge(Protocol):
    """Somebody to ask; the name differs when what he goes by does."""

    name: str

    @property
    def runs(self) -> Mapping[str, str]:
        """The recordings that he has, by their scenarios."""

    def object(self, check: Check, mutant: Check) -> str:
        """What the edited check is wrong about, where the check as it is isn't; nothing: an empty word."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of a module, and the checks that it may change."""

    module: ModuleType
    mutation: Mutation
    checks: tuple[Check, ...]

    @property
    def file(self) -> str:
        return self.module.__name__.rpartition(".")[2]

    @property
    def name(self) -> str:
        return f"{self.file}.{self.mutation.name}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one edit; `by` names who objected, and why it is equivalent stands in `same`; empty: neither."""

    edit: Edit
    by: str
    same: str
    asked: bool = True
    """Everybody was asked, or one who objected."""


def every_edit(names: Sequence[str] = ()) -> Iterator[Edit]:
    """All edits of the checks of these names and of what they share, or of all checks."""
    checks = {check: sys.modules[type(check).__module__] for check in all_checks()}
    for check, module in checks.items():
        if not names or check.name in names:
            yield from (Edit(module, mutation, (check,)) for mutation in mutations(_source(module)))
    for short in _SHARED:
        module = import_module(f"notleader.spark_analysis.{short}")
        users = tuple(check for check, own in checks.items() if f"{short} import" in _source(own))
        if not names or any(check.name in names for check in users):
            yield from (Edit(module, mutation, users) for mutation in mutations(_source(module)))


def _source(module: ModuleType) -> str:
    return Path(module.__file__ or "").read_text()


def equivalent() -> dict[str, str]:
    """Why edits change no answer, by their names."""
    document: Mapping[str, Mapping[str, str]] = yaml.safe_load(_EQUIVALENT.read_text())
    return {f"{file}.{edit}": why for file, edits in document.items() for edit, why in edits.items()}


def loaded(edit: Edit, check: Check) -> Check:
    """The check as the edit makes it; the registry and the modules stay as they are."""
    own = sys.modules[type(check).__module__]
    with _loading:
        real = REGISTRY.pop(check.name)
        try:
            if edit.module is own:
                source = edit.mutation.source
            else:
                source, shared = _source(own), ModuleType(edit.module.__name__)
                exec(compile(edit.mutation.source, f"<{edit.name}>", "exec"), vars(shared))
                sys.modules[shared.__name__] = shared
            exec(compile(source, f"<{edit.name}>", "exec"), {**vars(own)})
            return REGISTRY[check.name]
        finally:
            sys.modules[edit.module.__name__] = edit.module
            REGISTRY[check.name] = real


def objection(judge: Judge, edit: Edit) -> str:
    """What the judge has against the edit; nothing: an empty word."""
    for check in edit.checks:
        try:
            mutant = loaded(edit, check)
        except Exception as error:
            return f"({type(error).__name__})"
        if by := judge.object(check, mutant):
            return by
    return ""


class Memory:
    """What was found out before: what each judge had to say of an edit."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        self._known = {(one["edit"], one["judge"]): one["by"] for one in lines}
        self._caught = {(one["edit"], one["judge"].split()[0], one["run"]): one["by"] for one in lines if one["run"]}

    def recall(self, edit: Edit, judge: Judge) -> str | None:
        """What the judge objected; None when he was not asked. What one recording told tells it among others, too."""
        key, kind = _key(edit), judge.name.split()[0]
        by = next((by for run in judge.runs.values() if (by := self._caught.get((key, kind, run)))), None)
        return by or self._known.get((key, judge.name))

    def keep(self, edit: Edit, judge: Judge, by: str) -> None:
        run = judge.runs.get(by, "")
        line = json.dumps({"edit": _key(edit), "judge": judge.name, "by": by, "run": run, "name": edit.name})
        with self._lock, self._file.open("a") as file:
            file.write(line + "\n")


def _key(edit: Edit) -> str:
    own = "".join(_source(sys.modules[type(check).__module__]) for check in edit.checks)
    return hashlib.sha256(f"{beside_the_checks()} {own} {edit.mutation.source}".encode()).hexdigest()[:24]


def _parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.truth.mutants", description=__doc__)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help="checks whose conditions are edited; default: all")
    parser.add_argument("--folder", type=Path, default=_FOLDER, help="where `python -m tests.truth` keeps recordings")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth edit of each check")
    parser.add_argument("--known", action="store_true", help="ask nobody: only tell what was found out before")
    parser.add_argument("--page", action="store_true", help="write the table into docs/held-to-the-truth.md")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    given = _parsed(arguments)
    played = [one for scenario in EVERY if (one := kept(scenario, given.folder)) is not None and not one.problems]
    if len(played) < len(EVERY) // 2:
        print(f"only {len(played)} of {len(EVERY)} scenarios lie below {given.folder}: make test-truth first")
        return 2
    started = time.monotonic()

    def line(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    folder = given.folder / ".mutants"
    folder.mkdir(exist_ok=True)
    sessions: list[Any] = []
    lock = threading.Lock()

    def session() -> Any:
        with lock:
            if not sessions:
                sessions.append(build_session(log_file=given.folder / "spark.log"))
        return sessions[0]

    memory = Memory(folder / "outcomes.jsonl")
    edits = list(every_edit(given.checks))
    tried = _sampled(edits, given.every)
    read, unread = (Recordings(session, played, folder, with_log=with_log) for with_log in (True, False))
    judges: tuple[Judge, ...] = (Few(read), Few(unread), read, unread, Stories(session))
    caught: dict[Edit, str] = {}
    unasked: set[Edit] = set()
    try:
        for judge in judges:
            left = [edit for edit in tried if edit not in caught]
            line(f"{len(left)} of {len(tried)} edits are left for {judge.name}")

            def ask(numbered: tuple[int, Edit], judge: Judge = judge, among: int = len(left)) -> None:
                number, edit = numbered
                by = memory.recall(edit, judge)
                if by is None and given.known:
                    unasked.add(edit)
                elif by is None:
                    by = objection(judge, edit)
                    memory.keep(edit, judge, by)
                    line(f"{number} of {among}: {edit.name}: {f'caught by {by}' if by else 'not caught'}")
                if by:
                    caught[edit] = f"{judge.name} said: {by}"

            with ThreadPoolExecutor(2) as pool:
                list(pool.map(ask, enumerate(left, 1)))
    finally:
        for one in sessions:
            one.stop()
    known = equivalent()
    outcomes = [
        Outcome(edit, caught.get(edit, ""), known.get(edit.name, ""), edit in caught or edit not in unasked)
        for edit in tried
    ]
    if given.page:
        page.write_mutants(outcomes, len(edits))
    open_ones = [outcome for outcome in outcomes if not outcome.by and not outcome.same]
    for outcome in outcomes:
        if outcome.by and outcome.same:
            line(f"called equivalent, and caught by {outcome.by}: {outcome.edit.name}")
    for outcome in open_ones:
        print(f"survives: {outcome.edit.name} (line {outcome.edit.mutation.line})")
    same = sum(bool(outcome.same) and not outcome.by for outcome in outcomes)
    print(
        f"{len(tried)} of {len(edits)} edits: {len(caught)} caught, {same} equivalent, {len(open_ones)} open, "
        f"{sum(not outcome.asked for outcome in open_ones)} of these not asked of all"
    )
    return 1 if open_ones else 0


def _sampled(edits: Sequence[Edit], every: int) -> list[Edit]:
    """Every so many of each module's, and at least one."""
    count: Counter[str] = Counter()
    some = []
    for edit in edits:
        if count[edit.file] % every == 0:
            some.append(edit)
        count[edit.file] += 1
    return some


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
