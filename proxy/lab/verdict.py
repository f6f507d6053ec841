"""Hold an incident's runs to what its file says the analysis has to find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from notleader.proxy.lab.incident import Ends, Incident, Run

_ENDED: dict[Ends | None, str] = {
    "well": "ended well",
    "badly": "ended with another exit code than 0",
    "never": "did not end before the limit",
    None: "did not start",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One run: what it must and must not show, what was found, and the sentences that say so."""

    run: Run
    found: dict[str, int]
    evidence: list[str]
    problems: list[str]
    not_done: bool = False

    @property
    def as_expected(self) -> bool:
        return not self.problems


def not_done(run: Run, reason: str) -> Judged:
    """A run of which nothing can be said."""
    return Judged(run, {}, [], [f"could not be run: {reason}"], not_done=True)


@dataclass(frozen=True, slots=True)
class Counts:
    """What is counted beside the analysis.

    `requests` of the first client by API, `records` of the log by topic and how many of them are `misplaced`, how the
    first client `ended`, what is `told` of an end with another code than 0, and its processor time; None where that
    can't be told. `hits` of the rules by name.
    """

    requests: Mapping[str, int] = field(default_factory=Counter)
    records: Mapping[str, int] = field(default_factory=Counter)
    misplaced: int = 0
    ended: Ends | None = None
    told: str = ""
    cpu_ms: int | None = None
    hits: Mapping[str, int] = field(default_factory=dict)


def judge(incident: Incident, run: Run, findings: list[dict[str, Any]], counts: Counts | None = None) -> Judged:
    """A run against the findings of its own clients; a check found something when it counted a case."""
    programs = incident.programs(run)
    groups = {str(program.arguments["group_id"]) for program in programs if "group_id" in program.arguments}
    clients = {program.name for program in programs} | groups  # a finding on a group names the group
    # What a command calls itself is its own; the topics are this run's alone.
    topics = {topic.name for topic in incident.topics} if any(program.command for program in programs) else set()
    own = [f for f in findings if f["count"] and (f["client"] in clients or f.get("topic") in topics)]
    found: dict[str, int] = {}
    for finding in own:
        found[finding["check"]] = found.get(finding["check"], 0) + finding["count"]
    asked = {*run.must, *run.never}
    unjudged = _unjudged(findings)
    problems = [
        f"{check} was expected and {unjudged.get(check, 'not found')}" for check in run.must if check not in found
    ]
    problems += [f"{check} was found ({found[check]}) and should not be" for check in run.never if check in found]
    evidence = [f["sentence"] for f in own if f["check"] in asked]
    for problem, sentence in _counted(run, programs[0].name, counts or Counts()):
        problems += filter(None, [problem])
        evidence.append(sentence)
    if problems and counts is not None and counts.told and run.ends is None:
        problems.append(f"{programs[0].name} {counts.told}")
    if problems and counts is not None:
        problems += [f"rule {name} was never hit" for name, hits in counts.hits.items() if not hits]
    return Judged(run, found, evidence, problems)


def _unjudged(findings: list[dict[str, Any]]) -> dict[str, str]:
    """Why the analysis says nothing of a check, in its own words: of those of which it says nothing else."""
    told: dict[str, set[str]] = {}
    for finding in findings:
        told.setdefault(finding["check"], set()).add(finding["sentence"])
    return {
        check: f"n{min(sentences)[1:].removesuffix('.')}"
        for check, sentences in told.items()
        if all(sentence.startswith("Not judged: ") for sentence in sentences)
    }


def _counted(run: Run, client: str, counts: Counts) -> Iterator[tuple[str | None, str]]:
    """What the run's file wants counted: what is wrong with it, or None, and a sentence."""
    for api, times in run.requests.items():
        count = counts.requests.get(api, 0)
        yield times.problem(api, count), f"{client} sent {count} x {api}."
    for topic, times in run.records.items():
        count = counts.records.get(topic, 0)
        yield (
            times.problem(f"the log of {topic}", count, "holds {} records"),
            f"The log of {topic} holds {count} records.",
        )
    if run.misplaced is not None:
        problem = run.misplaced.problem("a record where nobody sent it", counts.misplaced)
        yield problem, f"{counts.misplaced} records lie where nobody sent them."
    if run.ends is not None:
        how = f"{client} {counts.told or _ENDED[counts.ended]}"
        yield None if run.ends == counts.ended else f"{how}, and it should be: {_ENDED[run.ends]}", f"{how}."
    if run.cpu_ms is not None:
        if counts.cpu_ms is None:
            yield None, f"How much processor time {client} took can't be measured here."
        else:
            took = f"{counts.cpu_ms / 1000:.1f} s of processor time"
            yield run.cpu_ms.problem(client, counts.cpu_ms, "took {} ms of processor time"), f"{client} took {took}."
