"""An incident from its file to its verdict: affected and control, told and held to what the file expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from notleader.proxy.lab.analysis import AnalysisError, Analyst, analyse_each
from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.outcome import Outcome, read_outcomes
from notleader.proxy.lab.recorded import Recorded, record_alone, record_incident
from notleader.proxy.lab.run import started
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.story import Line, shortened, story
from notleader.proxy.lab.verdict import Counts, Judged, judge, not_done

_MOST_LINES = 30


@dataclass(frozen=True, slots=True)
class Held:
    """One run held to what its file says: its verdict, its hits, what its clients said, their stories by client id.

    Everything it left is below `folder`.
    """

    incident: str
    judged: Judged
    hits: dict[str, int]
    outcomes: list[Outcome]
    stories: dict[str, list[Line]]
    folder: Path

    @property
    def as_expected(self) -> bool:
        return self.judged.as_expected

    @property
    def found(self) -> dict[str, int]:
        """How many cases each check of the analysis found, of those that found any."""
        return self.judged.found


@dataclass(frozen=True, slots=True)
class Done:
    """All runs of an incident; everything they left is below `folder`."""

    incident: Incident
    folder: Path
    runs: list[Held]

    def __getitem__(self, name: str) -> Held:
        """The first run of that name: `affected`, `control`, …; KeyError when there is none."""
        for told in self.runs:
            if told.judged.run.name == name:
                return told
        raise KeyError(name)

    @property
    def as_expected(self) -> bool:
        return all(told.as_expected for told in self.runs)

    @property
    def report(self) -> Path:
        """The analysis of all runs together."""
        return self.folder / "analysis" / "report.html"

    @property
    def exit_code(self) -> int:
        """0: all as expected; 1: one was not; 2: what could be run was, but not everything could."""
        if any(not told.as_expected and not told.judged.not_done for told in self.runs):
            return 1
        return 0 if self.as_expected else 2

    def tally(self) -> dict[str, tuple[int, int]]:
        """By name of the run: how many rounds were as expected, and how many there were."""
        counts: dict[str, tuple[int, int]] = {}
        for told in self.runs:
            good, all_of_them = counts.get(told.judged.run.name, (0, 0))
            counts[told.judged.run.name] = good + told.as_expected, all_of_them + 1
        return counts

    def as_dict(self) -> dict[str, Any]:
        """What `incident run --json` prints."""
        return {
            "incident": self.incident.name,
            "as_expected": self.as_expected,
            "folder": str(self.folder),
            "report": str(self.report),
            "rounds": {name: {"as_expected": good, "of": of} for name, (good, of) in self.tally().items()},
            "runs": [
                {
                    "name": told.judged.run.name,
                    "round": told.judged.run.round,
                    "version": told.judged.run.version,
                    "as_expected": told.as_expected,
                    "not_done": told.judged.not_done,
                    "folder": str(told.folder),
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

    def told(self, *, stories: bool = True) -> str:
        """The story as a timeline and the verdict with its evidence, for a terminal; not where the report is.

        Of several rounds the first is told, and those that were not as expected. Without `stories` those that
        `run_incident` tells at once are left out.
        """
        parts = []
        for told in self.runs:
            run = told.judged.run
            if run.round > 1 and told.as_expected:
                continue
            if told.stories and (stories or run.round > 1):
                parts += _stories(run.label, told.stories)
            else:
                parts += ["", run.label]
            parts.append("  ✓ as expected" if told.as_expected else f"  ✗ {'; '.join(told.judged.problems)}")
            parts += [f"    {sentence}" for sentence in told.judged.evidence]
        if any(of > 1 for _, of in self.tally().values()):
            parts += [
                "",
                *(f"{name}: as expected in {good} of {of} rounds" for name, (good, of) in self.tally().items()),
            ]
        return "\n".join(parts)


def run_incident(
    incident: Incident,
    folder: Path,
    stages: Stages,
    tell: Callable[[str], None] | None = None,
    *,
    stays_s: int = 0,
) -> Done:
    """Run every run of the incident on a Kafka of its own, analyse them together, and judge each by its clients.

    `tell` gets the stories as soon as there are any, while Spark still reads; of several rounds the first. Then it gets
    the verdict, while the report is being made. For so long the Spark stays that is started here.
    """
    with Analyst(folder, stays_s=stays_s) as analyst:
        recorded = record_alone(incident, folder, stages)
        stories = {one.folder: _stories_of(one) for one in recorded}
        if tell is not None:
            first = [_stories(one.run.label, stories[one.folder]) for one in recorded if one.run.round <= 1]
            tell("\n".join(line for lines in first for line in lines))
        findings = analyst.analyse(recorded, stages, report=True)
        done = Done(incident, folder, [_hold(one, findings, stories[one.folder]) for one in recorded])
        if tell is not None:
            tell(done.told(stories=False))
        try:
            analyst.finish(stages)
        except AnalysisError as error:
            stages.console.print(f"[yellow]no report[/]: {error}")  # the verdict is told, and stays what it is
    return done


def hold(incidents: Iterable[Incident], folder: Path, stages: Stages) -> list[Held]:
    """Run every run of every incident as `run_incident` does; brokers are shared by those that need alike ones."""
    recorded: list[Recorded] = []
    alike: dict[str, list[Incident]] = {}
    for incident in incidents:
        alike.setdefault(incident.kafka.model_dump_json(), []).append(incident)
    for group in alike.values():
        with started(group[0].kafka, stages) as kafka:
            for incident in group:
                recorded += record_incident(kafka, incident, folder / incident.name, stages, alone=False)
    return held(recorded, analyse_each(recorded, folder, stages, report=False))


def held(recorded: list[Recorded], findings: list[dict[str, Any]]) -> list[Held]:
    """Each run held to what its file says, by the findings of all."""
    return [_hold(one, findings, _stories_of(one)) for one in recorded]


def _hold(one: Recorded, findings: list[dict[str, Any]], stories: dict[str, list[Line]]) -> Held:
    said = read_outcomes(client.outcomes for client in one.clients)
    judged = not_done(one.run, one.failed) if one.failed else judge(one.incident, one.run, findings, _counts(one))
    return Held(one.incident.name, judged, one.hits, said, stories, one.folder)


def _counts(one: Recorded) -> Counts:
    """What the run's file wants counted: the capture and the log are read for no more."""
    run = one.run
    return Counts(
        requests=one.requests() if run.requests else {},
        records=one.records() if run.records else {},
        misplaced=one.misplaced() if run.misplaced else 0,
        ended=one.ended,
        told=one.told,
        cpu_ms=one.cpu_ms,
        hits=one.hits,
    )


def _stories_of(one: Recorded) -> dict[str, list[Line]]:
    return {
        # A command may call itself anything on the wire.
        client.program.name: story(
            one.capture,
            client.outcomes,
            None if client.program.command else client.program.name,
            client.ended_at_us,
        )
        for client in one.clients
        if one.was_seen
    }


def _stories(label: str, stories: dict[str, list[Line]]) -> list[str]:
    return [text for client, lines in stories.items() for text in ("", f"{label}: {client}", *_timeline(lines))]


def _timeline(lines: list[Line]) -> list[str]:
    if not lines:
        return ["  nothing happened"]
    start = lines[0].at_us
    lines = shortened(lines)
    shown = lines if len(lines) <= _MOST_LINES else [*lines[: _MOST_LINES - 4], *lines[-3:]]
    told = [
        f"  {(line.at_us - start) / 1e6:8.3f} s  {line.text}{f' (x{line.count})' if line.count > 1 else ''}"
        for line in shown
    ]
    if len(shown) < len(lines):
        told.insert(_MOST_LINES - 4, f"              … {len(lines) - len(shown)} more …")
    return told
