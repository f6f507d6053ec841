"""Hold an incident's runs to what its file says the analysis has to find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from notleader.proxy.lab.incident import Incident, Run


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


def judge(
    incident: Incident,
    run: Run,
    findings: list[dict[str, Any]],
    requests: Mapping[str, int] | None = None,
    misplaced: int = 0,
) -> Judged:
    """A run against the findings of its own clients; a check found something when it counted a case.

    `requests` are those of the first client in the capture, counted by API; `misplaced` is how many records the log has
    where nobody sent them.
    """
    programs = incident.programs(run)
    groups = {str(program.arguments["group_id"]) for program in programs if "group_id" in program.arguments}
    clients = {program.name for program in programs} | groups  # a finding on a group names the group
    own = [finding for finding in findings if finding["client"] in clients and finding["count"]]
    found: dict[str, int] = {}
    for finding in own:
        found[finding["check"]] = found.get(finding["check"], 0) + finding["count"]
    asked = {*run.must, *run.never}
    problems = [f"{check} was expected and not found" for check in run.must if check not in found]
    problems += [f"{check} was found ({found[check]}) and should not be" for check in run.never if check in found]
    counts = {api: (requests or {}).get(api, 0) for api in run.requests}
    problems += filter(None, (run.requests[api].problem(api, count) for api, count in counts.items()))
    evidence = [f"{programs[0].name} sent {count} x {api}." for api, count in counts.items()]
    if run.misplaced is not None:
        problems += filter(None, [run.misplaced.problem("a record where nobody sent it", misplaced)])
        evidence.append(f"{misplaced} records lie where nobody sent them.")
    evidence = [f["sentence"] for f in own if f["check"] in asked] + evidence
    return Judged(run, found, evidence, problems)
