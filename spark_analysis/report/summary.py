"""The verdict in about a dozen lines of a terminal."""

from __future__ import annotations

from notleader.spark_analysis.checks.phrases import count, duration
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.jobs.analyze import Analysis, Judged
from notleader.spark_analysis.report.causes import chapters, one_line_per_storm
from notleader.spark_analysis.report.printable import printable

MOST_LINES = 11
_MOST_GROWN = 3
CLOCK_WORTH_TELLING_US = 10_000
MARKS = {"invalid": "✗", "unknown": "?", "valid": "✓"}


def noteworthy(findings: list[Finding]) -> list[Finding]:
    """What happened, worst first; answers without a case behind them are left out."""
    rank = {"invalid": 0, "valid": 1, "unknown": 2}
    return sorted((f for f in findings if f.count), key=lambda f: rank[f.verdict])


def mark(finding: Finding) -> str:
    """✗ for a negative verdict, ? for undecided, • for something that happened and is no verdict, ✓ for all clear."""
    return "•" if finding.verdict == "valid" and finding.count else MARKS[finding.verdict]


def headline(analysis: Analysis | Judged) -> str:
    """The verdict and what it rests on, in one line."""
    wrong = sorted({f.title.lower() for f in analysis.findings if f.verdict == "invalid"})
    word = {"invalid": "NEGATIVE", "valid": "OK", "unknown": "UNKNOWN"}[analysis.verdict]
    tail = f": {', '.join(wrong)}" if wrong else ""
    return f"verdict {word}{tail}"


def basis(analysis: Analysis | Judged) -> str:
    """What was looked at, in one line."""
    capture, said = analysis.capture, analysis.outcomes
    seen = f"{count(capture.exchanges, 'exchange')} captured, {capture.faulted:,} touched by faults;"
    if not said.lines:
        return f"{seen} no client said what became of its calls (--outcomes)"
    return (
        f"{seen} {count(said.sends, 'send')}: {said.ok:,} ok, {said.failed:,} failed, {said.info:,} uncertain,"
        f" {said.pending:,} never answered; {count(said.polled, 'record')} read"
    )


def changes(before: Analysis | None, now: Analysis) -> list[str]:
    """What a live analysis has to say since the last time: one line, and one per finding that is new or has gone.

    Of those that only have more cases the worst few are told: under load all of them have.
    """
    had = {_identity(f): f for f in before.findings if f.count} if before else {}
    has = {_identity(f): f for f in now.findings if f.count}
    lines = [f"{headline(now)} ({basis(now)})"]
    told = noteworthy(now.findings)
    new = [f for f in told if _identity(f) not in had]
    more = [f for f in told if f not in new and f.count > had[_identity(f)].count]
    lines += [f"  {mark(f)} {f.title}: {f.sentence}" for f in [*new, *more[:_MOST_GROWN]]]
    if len(more) > _MOST_GROWN:
        lines.append(f"  … and {count(len(more) - _MOST_GROWN, 'finding')} with more cases than before")
    known = before.bad_lines if before else []
    lines += [f"  ! {line.file}:{line.line} set aside: {line.reason}" for line in now.bad_lines if line not in known]
    lines += [f"  ○ no longer: {f.title}: {f.sentence}" for key, f in had.items() if key not in has]
    return list(map(printable, lines))


def _identity(finding: Finding) -> tuple[object, ...]:
    """What stays the same while the numbers of a finding grow."""
    group = finding.group
    # What it met may be told otherwise when its exchanges are there.
    place = (group.client, group.topic, group.partition, group.operation, group.rule, group.trouble) if group else ()
    return (finding.check, finding.verdict, *place)


def first_lines(analysis: Analysis | Judged) -> str:
    """The verdict, and what it rests on: what a terminal shows first."""
    return "\n".join(map(printable, (headline(analysis), basis(analysis))))


def summary(analysis: Analysis) -> str:
    """The lines for the terminal; the report's path is the caller's to add."""
    return f"{first_lines(analysis)}\n{further_lines(analysis)}"


def further_lines(analysis: Analysis) -> str:
    """What stands below the first lines."""
    told = noteworthy(one_line_per_storm(analysis.findings))
    lines = [""]
    negative = [f for f in told if f.verdict == "invalid"]
    shown = negative[:MOST_LINES]
    lines += [f"{mark(f)} {f.title}: {f.sentence}" for f in shown]
    if len(negative) > len(shown):
        lines.append(f"  … and {count(len(negative) - len(shown), 'more finding')} in the report")
    causes = chapters(analysis)
    room = max(MOST_LINES - len(shown), 3)
    lines += [f"• {chapter.head}: {chapter.told}." for chapter in causes[:room]]
    if len(causes) > room:
        lines.append(f"  … and what {count(len(causes) - room, 'more rule')} did, in the report")
    clear = [f.title.lower() for f in analysis.findings if f.verdict == "valid" and not f.count]
    if clear:
        lines.append(f"✓ {count(len(clear), 'question')} answered with nothing found")
    silent = [f.title.lower() for f in analysis.findings if f.verdict == "unknown" and not f.count]
    if silent:
        lines.append(f"? Not judged: {', '.join(silent)}")
    lines += [f"! {line.file}:{line.line} set aside: {line.reason}" for line in analysis.bad_lines[:3]]
    if analysis.outcomes.bad_lines > 3:
        lines.append(f"! {analysis.outcomes.bad_lines:,} lines set aside in all")
    lines += [
        f"! the clock of {clock.client} was {duration(abs(clock.ahead_us))}"
        f" {'ahead of' if clock.ahead_us > 0 else 'behind'} the proxy's; corrected"
        for clock in analysis.clocks[:3]
        if abs(clock.ahead_us) >= CLOCK_WORTH_TELLING_US
    ]
    lines += [
        f"! the clock of {clock.client} was set by {duration(clock.set_by_us)} or more while it ran: causes that depend"
        " on its times may be missed"
        for clock in analysis.clocks[:3]
        if clock.set_by_us >= CLOCK_WORTH_TELLING_US
    ]
    if analysis.capture.gaps:
        lines.append(f"! the capture has {count(analysis.capture.gaps, 'gap')}: rows are missing from it")
    return "\n".join(map(printable, lines))
