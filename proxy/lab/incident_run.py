"""An incident from its file to its verdict: affected and control, told and held to what the file expects."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.lab.demo import analyse
from proxy.lab.incident import Incident
from proxy.lab.java import find_java
from proxy.lab.run import Ran, record
from proxy.lab.stages import Stages
from proxy.lab.story import Line, story
from proxy.lab.verdict import Judged, judge

_MOST_LINES = 24


@dataclass(frozen=True, slots=True)
class Told:
    """One run's verdict, its hits, and the lines of its story by client id."""

    judged: Judged
    hits: dict[str, int]
    stories: dict[str, list[Line]]


@dataclass(frozen=True, slots=True)
class Done:
    """All runs of an incident; everything they left is below `folder`."""

    incident: Incident
    folder: Path
    runs: list[Told]

    @property
    def as_expected(self) -> bool:
        return all(told.judged.as_expected for told in self.runs)

    def as_dict(self) -> dict[str, Any]:
        """What `incident run --json` prints."""
        return {
            "incident": self.incident.name,
            "as_expected": self.as_expected,
            "folder": str(self.folder),
            "report": str(self.folder / "analysis" / "report.html"),
            "runs": [
                {
                    "name": told.judged.run.name,
                    "version": told.judged.run.version,
                    "as_expected": told.judged.as_expected,
                    "problems": told.judged.problems,
                    "found": told.judged.found,
                    "evidence": told.judged.evidence,
                    "hits": told.hits,
                    "story": {
                        client: [{"at_us": line.at_us, "text": line.text, "count": line.count} for line in lines]
                        for client, lines in told.stories.items()
                    },
                }
                for told in self.runs
            ],
        }

    def told(self) -> str:
        """The story as a timeline and the verdict with its evidence, for a terminal."""
        parts = []
        for told in self.runs:
            run = told.judged.run
            for client, lines in told.stories.items():
                parts += ["", f"{run.name}: {client}", *_timeline(lines)]
            mark = "✓ as expected" if told.judged.as_expected else f"✗ {'; '.join(told.judged.problems)}"
            parts.append(f"  {mark}")
            parts += [f"    {sentence}" for sentence in told.judged.evidence]
        return "\n".join([*parts, "", f"report: {self.folder / 'analysis' / 'report.html'}"])


def run_incident(incident: Incident, folder: Path, stages: Stages) -> Done:
    """Run every run of the incident, analyse them together, and judge each by the findings of its clients."""
    java = find_java()
    recording = record(incident, folder, stages)
    with stages.stage("Spark"):
        words, _ = analyse(recording, folder, java.environment(), as_json=True)
    judged = judge(incident, json.loads(words)["findings"])
    return Done(
        incident, folder, [_tell(recording.capture, ran, one) for ran, one in zip(recording.runs, judged, strict=True)]
    )


def _tell(capture: Path, ran: Ran, judged: Judged) -> Told:
    stories = {client.program.name: story(capture, client.outcomes, client.program.name) for client in ran.clients}
    return Told(judged, ran.hits, stories)


def _timeline(lines: list[Line]) -> list[str]:
    if not lines:
        return ["  nothing happened"]
    start = lines[0].at_us
    shown = lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 4], *lines[-3:]]
    told = [
        f"  {(line.at_us - start) / 1e6:8.3f} s  {line.text}{f' (x{line.count})' if line.count > 1 else ''}"
        for line in shown
    ]
    if len(shown) < len(lines):
        told.insert(_MOST_LINES - 4, f"              … {len(lines) - len(shown)} more …")
    return told
