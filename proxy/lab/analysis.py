"""Have Spark read recordings, in a process of its own."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from notleader.proxy.config.extras import missing
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.recorded import Recorded
from notleader.proxy.lab.stages import Stages
from notleader.proxy.record import helpers

# Each job has its overhead, and the runs of one become constants of its plan.
_PER_JOB = 40
_TICK_S = 0.1
_STOP_S = 5.0


class AnalysisError(LabError):
    """Spark could not say anything about the run."""


@dataclass(slots=True)
class Inputs:
    """What an analysis reads: capture folders, outcome files, folders of logs that were read."""

    captures: list[Path] = field(default_factory=list)
    outcomes: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    @classmethod
    def of(cls, recorded: Iterable[Recorded]) -> Inputs:
        """Those of runs that were seen."""
        found = cls()
        for one in recorded:
            if one.was_seen:
                found.captures.append(one.capture)
                found.outcomes += one.outcomes
                found.logs += [one.log] if any(one.log.glob("*.parquet")) else []
        return found

    def texts(self) -> dict[str, list[str]]:
        return {
            "capture": list(map(str, self.captures)),
            "outcomes": list(map(str, self.outcomes)),
            "logs": list(map(str, self.logs)),
        }


def need_spark(who: str = "the verdict") -> None:
    """Raises AnalysisError, which says what to install, where there is no Spark."""
    if (line := missing(who, "analysis")) is not None:
        raise AnalysisError(line)


def analyse(inputs: Inputs, folder: Path, *, as_json: bool, stays_s: int = 0) -> tuple[str, bool]:
    """Run `notleader analyze` over recordings; what it printed, and whether the verdict is negative.

    A Spark that an earlier analysis left is used. Where there is none one is started, and ends with this analysis, or
    when nobody has asked it for `stays_s` seconds.
    """
    need_spark()
    words, log = folder / "verdict.txt", folder / "logs" / "spark.log"
    log.parent.mkdir(exist_ok=True)
    argv = helpers.command("notleader.spark_analysis", "analyze", "--by-run", "--out", str(folder / "analysis"))
    for name, paths in inputs.texts().items():
        flag = "--log" if name == "logs" else f"--{name}"
        argv += [flag, *paths] if paths else []
    env = {**_warmth(stays_s, os.environ), **helpers.environment(find_java().environment())}
    child = Child([*argv, *(["--json"] if as_json else [])], log=log, stdout=words, env=env)
    code = _ended(child)
    if code not in (0, 1):
        raise AnalysisError(f"Spark ended with code {code}: {_last_line(log)} (log: {log})")
    return words.read_text("utf-8"), code == 1


class Analyst:
    """A Spark that starts while the runs go on, and then says of all of them what it found; for the length of a `with`.

    Everything it writes is below `folder`. One that an earlier analysis left is used; one that is started here stays as
    long as `analyse` has it. Raises AnalysisError where there is no Spark.
    """

    def __init__(self, folder: Path, *, stays_s: int = 0) -> None:
        need_spark()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._wanted, self._words, self._log = folder / "jobs.jsonl", folder / "analyses.jsonl", folder / "spark.log"
        for stale in (self._wanted, self._words):
            stale.unlink(missing_ok=True)
        argv = helpers.command("notleader.spark_analysis.each", str(self._wanted), "--early")
        env = {**_warmth(stays_s, os.environ), **helpers.environment(find_java().environment())}
        self._child = Child(argv, log=self._log, stdout=self._words, env=env)
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if not self._child.running():
            return
        if kind is KeyboardInterrupt and not self._asked:
            self._child.stop(_STOP_S)  # the Spark that it may have started to stay is ended by its word alone
        else:
            self._child.kill()

    def analyse(self, recorded: Sequence[Recorded], stages: Stages, *, report: bool) -> list[dict[str, Any]]:
        """The findings of all these runs, as soon as they are there; AnalysisError when it can't be done. Works once.

        With `report` they are few enough for one analysis, whose report is below `folder`/analysis when `finish` has
        waited for it.
        """
        seen = [one for one in recorded if one.was_seen]
        if not seen:
            return []
        size = len(seen) if report else _PER_JOB
        chunks = [seen[start : start + size] for start in range(0, len(seen), size)]
        fresh = self._wanted.with_suffix(".part")
        with fresh.open("w", encoding="utf-8") as lines:
            for number, chunk in enumerate(chunks):
                out = self._folder / "analysis" if report else self._folder / "analysis" / str(number)
                lines.write(json.dumps({**Inputs.of(chunk).texts(), "out": str(out), "report": report}) + "\n")
        fresh.rename(self._wanted)
        self._asked = len(chunks)
        with stages.stage(f"Spark, {len(seen)} recording{'s' if len(seen) > 1 else ''}"):
            while self._child.running() and len(self._said("judged", "failed")) < self._asked:
                time.sleep(_TICK_S)
        found = self._said("judged")
        if len(found) < self._asked:
            self._check()
        return [finding for findings in found.values() for finding in findings]

    def finish(self, stages: Stages) -> None:
        """Wait for what comes behind the verdict, the report; AnalysisError when it could not be made."""
        if self._asked:
            with stages.stage("report"):
                _ended(self._child)
            self._check()

    def _said(self, *kinds: str) -> dict[str, Any]:
        """What each job, by where it writes, said of these kinds; a line that is being written is for the next time."""
        words = self._words.read_text("utf-8") if self._words.exists() else ""
        documents = [json.loads(line) for line in words.splitlines(keepends=True) if line.endswith("\n")]
        return {document["out"]: document[kind] for document in documents for kind in kinds if kind in document}

    def _check(self) -> None:
        """Raises AnalysisError where a job was not done to its end."""
        code = _ended(self._child)
        if reasons := [*self._said("failed").values()]:
            raise AnalysisError(f"{reasons[0]} (log: {self._log})")
        if code != 0 or len(self._said("verdict")) != self._asked:
            raise AnalysisError(f"Spark ended with code {code}: {_last_line(self._log)} (log: {self._log})")


def analyse_each(
    recorded: Sequence[Recorded], folder: Path, stages: Stages, *, report: bool, stays_s: int = 0
) -> list[dict[str, Any]]:
    """The findings of all these runs, by one Spark session that starts now; see `Analyst`."""
    with Analyst(folder, stays_s=stays_s) as analyst:
        findings = analyst.analyse(recorded, stages, report=report)
        analyst.finish(stages)
    return findings


def _warmth(stays_s: int, given: Mapping[str, str]) -> dict[str, str]:
    """How long a Spark that is started here stays, where the user's environment says nothing of it."""
    wanted = {"NOTLEADER_SPARK_WARM": "keep" if stays_s else "use", "NOTLEADER_SPARK_IDLE_S": str(stays_s or "")}
    return {name: value for name, value in wanted.items() if value and name not in given}


def _ended(child: Child) -> int:
    try:
        return child.wait()
    finally:
        if child.running():
            child.kill()


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace", encoding="utf-8").splitlines() if line.strip()]
    return lines[-1] if lines else ""
