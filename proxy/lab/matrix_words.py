"""What a cell of the matrix says, in a word and in a phrase, by the findings of the analysis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.matrix_run import Filled

# From bad to good; the first that a cell shows is its word.
WORDS = {
    "hangs": "a call or a read never ends while the client lives",
    "loses": "an acknowledged record isn't in the log",
    "duplicates": "a record is in the log more than once",
    "stays dead": "of the sends that came later none succeeds, though the fault is over",
    "lies": "a record that was reported as failed is in the log",
    "no start": "the client gave up, or still waited, before its first send",
    "errors": "the client reports failures, honestly",
    "reads again": "a consumer got records again",
    "blocks": "a call that should return at once holds its caller",
    "recovers": "the fault struck, and nothing was lost, doubled or failed",
    "unharmed": "the fault struck nothing of this client's",
}
NOT_RUN = "not run"
"""The word of a cell that says nothing of its client."""
NOT_RUN_MEANS = "the client's program can't be had on this machine; run the same command again where it can"
_ORDER = (*WORDS, NOT_RUN)
_CHECKS = {
    "hang": "hangs",
    "lost": "loses",
    "duplicate": "duplicates",
    "stuck": "stays dead",
    "phantom": "lies",
    "failed": "errors",
    "read_again": "reads again",
    "skipped": "loses",
    "blocked_call": "blocks",
}


@dataclass(frozen=True, slots=True)
class CellWords:
    """A cell's word, the phrase with its figures, and the analysis' own sentences behind it."""

    word: str
    phrase: str
    evidence: list[str]


def lasting(incident: Incident) -> bool:
    """Whether a rule of the incident strikes to the end: then nobody can say who stays dead after it."""
    rules = [*incident.faults, *(step["add"] for step in incident.steps if "add" in step)]
    triggers = [rule.get("trigger", {}) for rule in rules]
    return any(trigger.get("times") == "forever" and "for_ms" not in trigger for trigger in triggers)


def said(cell: Filled, *, to_the_end: bool = False) -> CellWords:
    """The cell in words; every figure comes from the analysis' findings, but for the sends that were counted."""
    if cell.unbuilt:
        return CellWords(NOT_RUN, f"{NOT_RUN}: {_short(cell.failed)}", [cell.failed])
    told: dict[str, str] = {}
    evidence = []
    for check, word in _CHECKS.items():
        if check == "stuck" and to_the_end:
            continue
        own = [finding for finding in cell.findings if finding["check"] == check and finding["verdict"] != "unknown"]
        if own:
            told.setdefault(word, _phrase(check, own, cell))
            evidence += [finding["sentence"] for finding in own]
    if not cell.sends:
        why = f"gave up before its first send: {_short(cell.failed)}" if cell.failed else "never came to its first send"
        told = {"no start": why, **told}
        evidence.insert(0, cell.failed or f"It was ended after {cell.seconds:.0f} s.")
    if not told:
        back = [f for f in cell.findings if f["check"] == "recovery" and f["slowest_us"] is not None]
        slow = [f for f in cell.findings if f["check"] == "late" and f["slowest_us"]]
        evidence = [finding["sentence"] for finding in [*back, *slow]]
        struck = any(cell.hits.values())
        word = "recovers" if struck else "unharmed"
        slowest = max((f["slowest_us"] for f in [*slow, *back]), default=0)
        told = {word: f"recovers, slowest after {slowest / 1e6:.1f} s" if slowest and struck else word}
    word = min(told, key=_ORDER.index)
    others = [phrase for each, phrase in told.items() if each != word]
    return CellWords(word, "; ".join([told[word], *others]), evidence)


@dataclass(frozen=True, slots=True)
class Rated:
    """The rounds of a cell: what most of them say, the worse of two, and how many say what."""

    first: CellWords
    counts: Counter[str]

    @property
    def word(self) -> str:
        """One word where all rounds agree, else each with its rate: `hangs 3 of 5, errors 2 of 5`."""
        of = self.counts.total()
        words = sorted(self.counts, key=lambda word: (-self.counts[word], _ORDER.index(word)))
        return words[0] if len(words) == 1 else ", ".join(f"{word} {self.counts[word]} of {of}" for word in words)

    @property
    def stable(self) -> bool:
        return len(self.counts) == 1


def rated(rounds: Sequence[Filled], *, to_the_end: bool = False) -> Rated:
    """The rounds of one cell together; `first` is one that says what most do."""
    words = [said(each, to_the_end=to_the_end) for each in rounds]
    counts = Counter(each.word for each in words)
    most = min(counts, key=lambda word: (-counts[word], _ORDER.index(word)))
    return Rated(next(each for each in words if each.word == most), counts)


def _phrase(check: str, findings: list[dict[str, Any]], cell: Filled) -> str:
    count = sum(finding["count"] for finding in findings)
    slowest = max((finding["slowest_us"] or 0 for finding in findings), default=0) / 1e6
    reads = cell.tested in {f["client"] for f in findings} and any("receive" in f["sentence"] for f in findings)
    of = f"{count} of {cell.sends}" if cell.sends >= count else str(count)
    return {
        "hang": "stops reading" if reads or cell.reader else f"hangs: {of} sends never answered",
        "lost": f"loses {count}",
        "duplicate": f"duplicates {count}",
        "stuck": "stays dead: none of the later sends succeeds",
        "phantom": f"{count} reported as failed are in the log",
        "failed": f"{count} errors" if cell.reader else f"errors: {of}, the slowest after {slowest:.1f} s",
        "read_again": f"reads {count} again",
        "skipped": f"skips {count}",
        "blocked_call": f"blocks its caller up to {slowest:.1f} s",
    }[check]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 120 else f"{line[:117]}…"
