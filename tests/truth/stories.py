"""The made-up stories of the analysis's own tests, for edits that no recording objects to.

A story is what no client here does on demand: a clock that repeats itself, a transaction that never ended. What is
expected of each check and of each cause stands beside the stories, and is what their tests ask.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from notleader.spark_analysis.checks.base import Check, Tables
from notleader.spark_analysis.options import Options
from notleader.spark_analysis.plans import settled
from tests.spark_analysis import test_checks
from tests.spark_analysis.conftest import tables_of
from tests.spark_analysis.synthetic import Story
from tests.spark_analysis.transforms import test_causes, test_log
from tests.truth.bench import FRAMES, found_by, with_signs

_MODULES = (test_checks, test_causes, test_log)
_SUFFIXES = ("-late", "-reader", "-second")

Finding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """The stories of one module, as one analysis."""

    tables: Tables
    options: Options
    wrong: Callable[[str, Iterable[Finding]], set[str]]
    """Of which stories a check's findings are not what is expected."""


class Stories:
    """All stories, each module's made when they are asked for the first time."""

    runs: Mapping[str, str] = {}

    def __init__(self, session: Callable[[], Any]) -> None:
        told = b"".join(Path(module.__file__ or "").read_bytes() for module in _MODULES)
        self.name = f"stories {hashlib.sha256(told).hexdigest()[:16]}"
        self._session = session
        self._lock = threading.Lock()
        self._made: list[Told] = []
        self._as_it_is: dict[str, set[str]] = {}

    def object(self, check: Check, mutant: Check) -> str:
        """A story of which the edited check says something else than is expected, where the check as it is doesn't."""
        with self._lock:
            if not self._made:
                self._made = list(map(self._told, _MODULES))
            if check.name not in self._as_it_is:
                self._as_it_is[check.name] = self._wrong(check)
        try:
            new = self._wrong(mutant) - self._as_it_is[check.name]
        except Exception as error:  # Spark refuses the plan, or the code can't run
            return f"({type(error).__name__})"
        return min(new, default="")

    def _told(self, module: ModuleType) -> Told:
        together = Story()
        for name, tell in module.STORIES.items():
            story = Story(run_id=name, client=name)
            tell(story)
            together.add(story)
        options = module.OPTIONS
        with tempfile.TemporaryDirectory() as folder:
            made = tables_of(self._session(), Path(folder), together, options)
            tables = replace(made, **{name: settled(getattr(made, name)) for name in FRAMES})
            if tables.log is not None:
                log = replace(tables.log, rows=settled(tables.log.rows), cover=settled(tables.log.cover))
                tables = replace(tables, log=log)
        if module is test_causes:
            return Told(tables, options, _misblamed)
        return Told(tables, options, lambda check, found: _mistaken(module, check, list(found)))

    def _wrong(self, check: Check) -> set[str]:
        from pyspark.sql import functions as F

        found: set[str] = set()
        for told in self._made:
            suspect = check.suspects(told.tables, told.options)
            asked = None
            if suspect is not None:
                rows = told.tables.history.groupBy("scope").agg(F.bool_or(suspect).alias("any")).collect()
                asked = {row["scope"] for row in rows if row["any"]}
            else:
                asked = with_signs(check, told.tables, told.options)
            said = [one.as_dict() for one in found_by(check, told.tables, told.options)]
            some = [one for one in said if asked is None or one["count"] == 0 or _story(one["client"]) in asked]
            found |= told.wrong(check.name, some)
        return found


def _story(client: str | None) -> str:
    for suffix in _SUFFIXES:
        client = (client or "").removesuffix(suffix)
    return client or ""


def _mistaken(module: ModuleType, check: str, found: Sequence[Finding]) -> set[str]:
    expected: Mapping[str, Mapping[str, set[str]]] = module.EXPECTED
    wanted = {(verdict, name) for verdict, names in expected.get(check, {}).items() for name in names}
    told = {(one["verdict"], _story(one["client"])) for one in found if one["count"] and one["client"]}
    wrong = {name for _, name in wanted ^ told} if check in expected else set()
    if measured := getattr(module, "MEASURED", {}).get(check):
        measures = module.measured(check, found)
        wrong |= {name for name, wanted in measured.items() if measures.get(name) != wanted}
    return wrong


def _misblamed(check: str, found: Iterable[Finding]) -> set[str]:
    wrong = set()
    for name, blamed in test_causes.BLAMED.items():
        clients = (name, test_causes.ELSEWHERE.get(name))
        if check in blamed:
            told = {test_causes.blame(one) for one in found if one["count"] and one["client"] in clients}
            if told != blamed[check]:
                wrong.add(name)
    return wrong
