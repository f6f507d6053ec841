"""The findings told by cause: what each rule did to whom, in the order in which they struck; then what none did."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import groupby

from notleader.spark_analysis.checks.base import REGISTRY, Group
from notleader.spark_analysis.checks.phrases import count, duration
from notleader.spark_analysis.findings import Finding, told
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.transforms.unseen import PERHAPS, UNRECORDED, UNSEEN

_FEW = 3
_LENGTH = re.compile(r" (for up to|up to|after) \{slowest\}")
_STORMS = ("retry_storm", "metadata_storm", "reconnect_storm")
_WORST = {"invalid": 0, "unknown": 2, "valid": 1}


@dataclass(frozen=True, slots=True)
class Chapter:
    """What one rule did (`rule` None: what no rule had a hand in); times in µs, UTC, None where it never struck."""

    rule: str | None
    kind: str
    hits: int
    first_us: int | None
    last_us: int | None
    findings: tuple[Finding, ...]
    nothing: str = ""
    """What is said where nothing was found."""
    title: str = ""
    """The head of one that is no rule's."""

    @property
    def head(self) -> str:
        """`leader-lost (leader_election), 2.0 s, 345 hits`."""
        if self.rule is None:
            return self.title
        lasted = (self.last_us or 0) - (self.first_us or 0)
        parts = [f"{self.rule} ({self.kind})" if self.kind else self.rule]
        parts += [duration(lasted)] if lasted else []
        return ", ".join([*parts, count(self.hits, "hit")])

    @property
    def told(self) -> str:
        """`2 sends retried, 58 sends waited up to 4.1 s`; what it did to whom, the worst first."""
        parts = []
        for _, alike in groupby(self.findings, key=lambda finding: (finding.check, finding.verdict == "unknown")):
            parts.append(_part(list(alike)))
        return ", ".join(parts) or self.nothing

    @property
    def verdict(self) -> str:
        """The worst of its findings' verdicts; `valid` without any."""
        return min((f.verdict for f in self.findings), key=_WORST.__getitem__, default="valid")


def chapters(analysis: Analysis) -> list[Chapter]:
    """A chapter for each rule that struck, in time order, then what none had a hand in, may have had, nobody decides.

    A finding that several rules had a hand in stands in the chapter of each.
    """
    struck: dict[tuple[str, str], list[dict[str, object]]] = {}
    for row in sorted(analysis.drawn.faults, key=lambda row: row["first_us"]):
        struck.setdefault((row["rule"], row["kind"]), []).append(row)
    # Each proxy has rules of its own: one name may be two rules.
    names = Counter(rule for rule, _ in struck)
    noticed = [f for f in analysis.findings if f.count]
    ordered = sorted(noticed, key=lambda f: (_WORST[f.verdict], _order(f), -f.count))
    unseen = tuple(f for f in ordered if f.group and f.group.trouble in (UNSEEN, PERHAPS, UNRECORDED))
    noticed_from = duration(analysis.told_ms * 1000)
    nothing = f"nothing that the clients tell of went wrong or took {noticed_from}"
    nothing = nothing if analysis.outcomes.lines else "nothing that is looked for in traffic alone"
    # Below level record nobody can tell the requests that a message was refused in from others, nor anywhere how long
    # records in transactions were kept from their readers, or from members of a share group.
    capture = analysis.capture
    told_apart = not unseen and capture.names_messages and not capture.transactions and not capture.shared
    nothing = nothing if told_apart else "nothing that is known to be its doing"
    found = []
    for (rule, kind), rows in struck.items():
        own = tuple(f for f in ordered if f.group and _names(f.group, rule, kind if names[rule] > 1 else None))
        found.append(
            Chapter(
                rule,
                kind,
                sum(int(str(row["hits"])) for row in rows),
                min(int(str(row["first_us"])) for row in rows),
                max(int(str(row["until_us"])) for row in rows),
                own,
                nothing,
            )
        )
    nobody_s = [f for f in ordered if not any(f in chapter.findings for chapter in found)]
    undecided = tuple(f for f in nobody_s if f.verdict == "unknown")
    unseen = tuple(f for f in unseen if f in nobody_s and f not in undecided)
    rest = tuple(f for f in nobody_s if f not in unseen and f not in undecided)
    last = (
        (rest, "No rule had a hand in it"),
        (unseen, "Whether a rule had a hand in it is not known"),
        (undecided, "Not decided"),
    )
    return [*found, *[Chapter(None, "", 0, None, None, those, title=title) for those, title in last if those]]


def _names(group: Group, rule: str, kind: str | None) -> bool:
    return rule in (group.rule or "").split(", ") and (kind is None or kind in (group.kind or "").split(", "))


def one_line_per_storm(findings: list[Finding]) -> list[Finding]:
    """`findings` with those of one kind of storm as one: a fleet that storms is one thing that happened."""
    kept: list[Finding] = []
    storms: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.check in _STORMS and finding.group:
            alike = storms.setdefault((finding.check, finding.verdict), [])
            if not alike:
                kept.append(finding)
            alike.append(finding)
        else:
            kept.append(finding)
    return [_together(storms.get((f.check, f.verdict), [f])) if f.check in _STORMS and f.group else f for f in kept]


def _together(alike: list[Finding]) -> Finding:
    first = alike[0]
    if len(alike) == 1 or first.group is None:
        return first
    groups = [f.group for f in alike if f.group]
    merged = first.group._replace(
        client=_clients(groups),
        rule=", ".join(sorted({name for g in groups if g.rule for name in g.rule.split(", ")})) or None,
        kind=", ".join(sorted({name for g in groups if g.kind for name in g.kind.split(", ")})) or None,
        cases=sum(g.cases for g in groups),
        slowest_us=max((g.slowest_us or 0 for g in groups), default=None),
    )
    evidence = tuple(entry for f in alike for entry in f.evidence)[: len(first.evidence) or 1]
    return replace(
        first, sentence=told(REGISTRY[first.check].sentence(merged), merged), group=merged, evidence=evidence
    )


def _clients(groups: list[Group]) -> str:
    names = sorted({g.client for g in groups if g.client})
    return " and ".join(names) if 0 < len(names) < _FEW else count(len(names), "client") if names else "a client"


def _order(finding: Finding) -> int:
    check = REGISTRY.get(finding.check)
    return check.order if check else 0


def _part(alike: list[Finding]) -> str:
    check = REGISTRY.get(alike[0].check)
    groups = [f.group for f in alike if f.group]
    cases = sum(g.cases for g in groups)
    if check is None:
        return f"{cases:,} x {alike[0].title.lower()}"
    rates = [int(word) for f in alike for e in f.evidence if (word := str(e["note"] or "").partition(" ")[0]).isdigit()]
    slowest = max((g.slowest_us or 0 for g in groups), default=0)
    brief = check.brief
    if alike[0].verdict == "unknown":
        brief = check.brief_unknown or f"perhaps {brief}"
    # What had no length, as a single refusal, lasted "up to" nothing.
    brief = brief if slowest else _LENGTH.sub("", brief)
    return brief.format(
        n=count(cases, *check.counts),
        slowest=duration(slowest),
        clients=_clients(groups),
        rate=f"{max(rates, default=0):,}",
    )
