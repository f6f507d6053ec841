"""One release tried: an incident with that client, or a command of the user's behind the rules of a file."""

from __future__ import annotations

import shlex
import subprocess
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from notleader.proxy.lab import clients
from notleader.proxy.lab.analysis import analyse_each
from notleader.proxy.lab.bisect.halving import Result
from notleader.proxy.lab.bisect.pinning import pin
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.candidates import Rule
from notleader.proxy.lab.explore.findings import Corpus
from notleader.proxy.lab.explore.search import Limits, Search
from notleader.proxy.lab.explore.tries import Bench
from notleader.proxy.lab.incident import Incident, IncidentError, Run
from notleader.proxy.lab.incident_run import held
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.recorded import record_incident
from notleader.proxy.lab.stages import Stages

_SPARK_STAYS_S = 120


@dataclass(frozen=True, slots=True)
class Trial:
    """What a release did, how often it was bad of how many times, and the sentence that says why."""

    release: str
    result: Result
    bad: int
    of: int
    words: str


def family_of(incident: Incident, asked: str | None) -> str:
    """The client library whose releases are tried; raises IncidentError where the incident leaves that open."""
    families = {each.family for each in incident.clients if not each.version}
    families = {family for family in families if clients.versions(family)}
    if asked is not None and asked in families:
        return asked
    known = ", ".join(sorted(families)) or "none"
    if asked is not None:
        raise IncidentError(f"{incident.name} has no client {asked!r} with releases (it has: {known})")
    if len(families) != 1:
        raise IncidentError(f"{incident.name}: say by --client whose releases are tried (it has: {known})")
    return families.pop()


def affected(incident: Incident) -> Run:
    """The run that shows what was told; raises IncidentError where none has to show anything."""
    for run in incident.runs:
        if run.must and run.version:
            return run
    raise IncidentError(f"{incident.name} has no run that must show something, so no release can be told bad")


@dataclass(slots=True)
class OfIncident:
    """Tries releases in an incident: bad is one with which the analysis finds what the affected run must show."""

    incident: Incident
    family: str
    rounds: int
    folder: Path
    stages: Stages
    kafka: KafkaCluster

    def __call__(self, release: str) -> Trial:
        told = affected(self.incident)
        run = told.model_copy(update={"name": "bisect", "version": release, "never": []})
        incident = self.incident.model_copy(update={"runs": [run]}).repeated(self.rounds)
        # Brokers are shared with the releases before: the names of each are its own.
        incident = incident.model_copy(update={"name": f"{self.incident.name}-{release.replace('.', '-')}"})
        folder = self.folder / release
        try:
            for program in incident.clients:
                if not program.version and program.family == self.family:
                    pin(program.program, release, self.stages)
            recorded = record_incident(self.kafka, incident, folder, self.stages, alone=False)
            if reasons := [one.failed for one in recorded if one.failed]:
                return Trial(release, Result.SKIPPED, 0, self.rounds, reasons[0])
            findings = analyse_each(recorded, folder, self.stages, report=False, stays_s=_SPARK_STAYS_S)
        except LabError as error:
            return Trial(release, Result.SKIPPED, 0, self.rounds, str(error))
        judged = [one.judged for one in held(recorded, findings)]
        bad = [each for each in judged if each.as_expected]
        if bad:
            sentence = "; ".join(bad[0].evidence)
        elif gone := [check for check in told.must if check not in judged[0].found]:
            sentence = f"no {' and no '.join(gone)}"
        else:
            sentence = "; ".join(judged[0].problems)
        return Trial(release, Result.BAD if bad else Result.GOOD, len(bad), self.rounds, sentence)


@dataclass(slots=True)
class OfCommand:
    """Tries a command with `{version}` in it behind a file's rules: bad is one that `explore` would call broken."""

    bench: Bench
    rules: Sequence[Rule]
    build: str
    limits: Limits
    rounds: int
    stages: Stages

    def __call__(self, release: str) -> Trial:
        if self.build:
            argv = [word.replace("{version}", release) for word in shlex.split(self.build)]
            with self.stages.stage(f"{release}: {' '.join(argv)}") as say:
                try:
                    ran = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                except OSError as error:
                    raise LabError(f"--build can't be run: {error}") from error
                if ran.returncode:
                    say(f"ended with {ran.returncode}", well=False)
            if ran.returncode:
                said = (ran.stdout.strip().splitlines() or ["it said nothing"])[-1]
                return Trial(
                    release, Result.SKIPPED, 0, self.rounds, f"--build ended with {ran.returncode}: {said[:200]}"
                )
        command = [word.replace("{version}", release) for word in self.bench.command]
        bad: list[str] = []
        for number in range(self.rounds):
            name = f"bisect-{uuid.uuid4().hex[:8]}"
            bench = replace(
                self.bench, command=command, name=name, folder=self.bench.folder / release / str(number + 1)
            )
            with self.stages.stage(f"{release}, run {number + 1} of {self.rounds}") as say:
                search = Search(bench, self.limits, Corpus(command), say, say)
                try:
                    _, verdicts = search.replay(self.rules)
                except LabError as error:
                    return Trial(release, Result.SKIPPED, 0, self.rounds, str(error))
                say("; ".join(each.sentence for each in verdicts) or "ends well", well=not verdicts)
            bad += [verdicts[0].sentence] if verdicts else []
        words = bad[0] if bad else "ends well"
        return Trial(release, Result.BAD if bad else Result.GOOD, len(bad), self.rounds, words)
