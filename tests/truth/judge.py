"""Holds what the analysis said of a run against what is true of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.truth.kept import Run
from tests.truth.oracle import MAYBE, SETTLED, Truth, rows
from tests.truth.scenario import Effect, Scenario

Finding = Mapping[str, Any]

TOLD = frozenset(
    (
        "failed", "late", "retried", "recovery", "read_again", "read_by_another", "offset_reset", "starved",
        "throttled", "unfair_acks", "wrong_broker",
    )
)  # fmt: skip
"""Checks whose findings count although their verdict is `valid`: they tell without judging."""


OF_OTHER_UNITS = frozenset(("inconsistent_offsets", "reconnect_storm", "recovery", "stuck", "wrong_broker"))
"""Checks whose cases are told by a unit of their own: of all the others the number is to be right, too."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One answer to one question of one run: `true`, `false` or `missed`; and its blame, where a scenario knows it."""

    scenario: str
    check: str
    client: str | None
    result: str
    blame: str = ""
    note: str = ""

    @property
    def good(self) -> bool:
        return self.result == "true" and self.blame in ("", "right")


@dataclass
class Judged:
    """All marks, and what makes scenarios no evidence: effects that did not show, causes that were not shown."""

    marks: list[Mark] = field(default_factory=list)
    void: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Mark]:
        return [mark for mark in self.marks if not mark.good]

    def add(self, other: Judged) -> None:
        self.marks += other.marks
        self.void += other.void


Touched = Mapping[str | None, set[str]]
"""By client: the rules that touched something of its own on the wire, or anybody's before he said who he is."""


def judge(run: Run, true: Truth, findings: Sequence[Finding], touched: Touched | None = None) -> Judged:
    """The marks of one run of a scenario with all its rules; `touched` is what `touched_by_rules` says of it."""
    scenario = run.scenario
    judged = Judged()
    told = _told(findings)
    expected: set[tuple[str, str | None]] = set()
    for effect in scenario.effects:
        expected.add((effect.check, effect.client))
        if effect.check in SETTLED and true[effect.check, effect.client] < effect.at_least:
            continue  # it did not show, which makes the run no evidence, and is told where that is found out
        judged.marks.append(_mark(scenario, effect, told))
    touched = touched_by_rules(run) if touched is None else touched
    for (check, client), found in told.items():
        if note := _miscounted(true, check, client, found):
            judged.marks.append(Mark(scenario.name, check, client, "false", note=note))
        named = {rule for finding in found for rule in _rules(finding)}
        if (check, client) not in expected:
            if check in SETTLED and not _holds(true, check, client):
                note = "; ".join(finding["sentence"] for finding in found)[:300]
                judged.marks.append(Mark(scenario.name, check, client, "false", note=note))
            elif check not in SETTLED and any(finding["verdict"] == "invalid" for finding in found):
                judged.marks.append(Mark(scenario.name, check, client, "false", note=found[0]["sentence"]))
            else:
                judged.marks.append(Mark(scenario.name, check, client, "true"))
        # A member of a group may be held up by what befell another: the scenario says so.
        known = (*scenario.effects, *scenario.besides)
        planted = {rule for e in known if (e.check, e.client) == (check, client) for rule in e.by}
        strangers = named - touched.get(client, named) - planted
        if strangers:
            note = f"{', '.join(sorted(strangers))} touched nothing of {client}'s: {found[0]['sentence']}"
            judged.marks.append(Mark(scenario.name, check, client, "true", "wrong", note))
    for (check, client), cases in true.items():
        if (
            (check, client) not in expected
            and check in SETTLED
            and cases
            and not any((check, name) in told for name in (client, *((None,) if client is None else ())))
            and not (client is None and any(check == known for known, _ in told))
        ):
            judged.marks.append(Mark(scenario.name, check, client, "missed", note=f"{cases} cases"))
    return judged


def _miscounted(true: Truth, check: str, client: str | None, found: Sequence[Finding]) -> str:
    """What is wrong with the number of cases that were told; of those that there are none of, that is no question."""
    count, least = sum(finding["count"] for finding in found), true[check, client]
    if check not in SETTLED or check in OF_OTHER_UNITS or not least:
        return ""
    if least <= count <= least + true[check + MAYBE, client]:
        return ""
    return f"told of {count}, there are {least}: {found[0]['sentence']}"


def counterfactual(effect: Effect, without_guilty: Truth | None, without_innocent: Truth | None) -> str:
    """What is wrong with the claim that these rules and no others did it; empty when it is shown."""
    key = (effect.check, effect.client)
    if effect.check not in SETTLED:
        return ""
    if effect.by and without_guilty is not None and without_guilty[key] >= effect.at_least:
        return f"{effect.check} of {effect.client} is there without {', '.join(effect.by)}"
    if effect.stays and without_innocent is not None and without_innocent[key] < effect.at_least:
        return f"{effect.check} of {effect.client} is gone without the innocent rules"
    return ""


def _told(findings: Iterable[Finding]) -> dict[tuple[str, str | None], list[Finding]]:
    """The findings that say something happened, by check and client."""
    told: dict[tuple[str, str | None], list[Finding]] = defaultdict(list)
    for finding in findings:
        spoken = ("invalid", "valid") if finding["check"] in TOLD else ("invalid",)
        if finding["count"] and finding["verdict"] in spoken:
            told[finding["check"], finding["client"]].append(finding)
    return told


def _mark(scenario: Scenario, effect: Effect, told: Mapping[tuple[str, str | None], list[Finding]]) -> Mark:
    found = told.get((effect.check, effect.client))
    if not found and effect.client is None:
        found = [finding for (check, _), some in told.items() if check == effect.check for finding in some]
    if not found:
        return Mark(scenario.name, effect.check, effect.client, "missed", note="planted")
    named = {rule for finding in found for rule in _rules(finding) or {"none"}} - (set() if effect.by else {"none"})
    wanted = set(effect.by)
    sentences = " | ".join(finding["sentence"] for finding in found)[:400]
    if named == wanted or (effect.any_of and named and named <= wanted):
        return Mark(scenario.name, effect.check, effect.client, "true", "right", sentences)
    blame = "partly" if named & wanted else "wrong"
    note = f"named {', '.join(sorted(named)) or 'none'}, true is {', '.join(effect.by) or 'none'}: {sentences}"
    return Mark(scenario.name, effect.check, effect.client, "true", blame, note)


def _rules(finding: Finding) -> set[str]:
    return {rule.strip() for rule in (finding["rule"] or "").split(",")} - {""}


def _holds(true: Truth, check: str, client: str | None) -> bool:
    if client is None or check in ("inconsistent_offsets", "reconnect_storm"):
        return any(known == check for (known, _), cases in true.items() if cases)
    return true[check, client] > 0 or true[check + MAYBE, client] > 0


def touched_by_rules(run: Run) -> Touched:
    """Whom the rules touched, of the clients that have a client id of their own."""
    seen = rows(run)
    nobody: set[str] = set()
    by_wire_id: dict[str, set[str]] = defaultdict(set)
    for row in seen:
        if row["client_id"] is None:
            nobody |= set(row["fault_names"] or ())
        else:
            by_wire_id[row["client_id"]] |= set(row["fault_names"] or ())
    shared = Counter(client.client_id or client.name for client in run.scenario.clients)
    return {
        client.name: by_wire_id[client.client_id or client.name] | nobody
        for client in run.scenario.clients
        if shared[client.client_id or client.name] == 1
    }
