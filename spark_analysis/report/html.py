"""One self-contained HTML file: nothing is fetched, everything is escaped."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Any

from notleader.spark_analysis.checks.base import REGISTRY
from notleader.spark_analysis.checks.phrases import count, duration
from notleader.spark_analysis.docs import meaning
from notleader.spark_analysis.findings import Finding
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.kafka_names import error_name
from notleader.spark_analysis.report import figures
from notleader.spark_analysis.report.causes import Chapter, chapters, one_line_per_storm
from notleader.spark_analysis.report.printable import printable
from notleader.spark_analysis.report.summary import CLOCK_WORTH_TELLING_US, basis, headline, mark, noteworthy

_MOST_CLIENTS = 300
_NOTHING = "\u2013"
_MOST_IN_SIGHT = 5
# A table that is wider than its place can be scrolled with the keyboard too.
_SCROLL = '<div class="scroll" tabindex="0" role="region" aria-label="table">'
_ASSETS = files("notleader.spark_analysis.report") / "assets"
_WORDS = {"✗": "negative", "?": "not decided", "•": "noted", "✓": "clear"}
_CLASSES = {"✗": "bad", "?": "unknown", "•": "noted", "✓": "good"}


def render(analysis: Analysis) -> str:
    """The report as one HTML document."""
    drawn = {"timeline": figures.timeline(analysis.drawn)}
    if analysis.drawn.spread:
        drawn["spread"] = figures.spread(analysis.drawn)
    recovery = figures.recovery(analysis.findings)
    if recovery:
        drawn["recovery"] = recovery
    page = _asset("page.html")
    parts = {
        "title": _text(headline(analysis)),
        "verdict": analysis.verdict,
        "headline": _text(headline(analysis)),
        "basis": _text(basis(analysis)),
        "when": _text(_when(analysis)),
        "causes": _beside(_chapters(chapters(analysis)), "timeline"),
        "findings": _findings(one_line_per_storm(analysis.findings)),
        "figures": "\n".join(_proof(name, analysis.findings) for name in drawn if name != "timeline"),
        "clients": _clients(analysis),
        "notes": _notes(analysis),
        "style": _asset("style.css"),
        "plotly": _asset("plotly-basic.min.js"),
        "script": _asset("report.js"),
        # In a script element `</` and `<!--` mean something to HTML, whatever the JSON means by them.
        "data": json.dumps(drawn, separators=(",", ":")).replace("<", "\\u003c"),
    }
    # One pass: what a marker brings in is never searched for markers again.
    return re.sub(r"\{\{(\w+)\}\}", lambda marker: parts[marker[1]], page)


def _text(text: str) -> str:
    """Text that is no markup, and shows what would be invisible."""
    return escape(printable(text))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


def _when(analysis: Analysis) -> str:
    drawn = analysis.drawn
    runs = ", ".join(run for run, _, _ in analysis.capture.runs[:3])
    span = f"{_clock(drawn.first_us)} to {_clock(drawn.last_us)} UTC, {duration(drawn.last_us - drawn.first_us)}"
    return f"{span}; run {runs}" if runs else span


def _clock(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%d %H:%M:%S}"


def _time(microseconds: int | None) -> str:
    if microseconds is None:
        return _NOTHING
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%H:%M:%S.%f}"[:-3]


def _findings(findings: list[Finding]) -> str:
    """What happened, unfolded from the worst on; what was asked without finding anything, folded away."""
    told = groupby(noteworthy(findings), key=lambda f: (f.verdict, f.check))
    shown = "\n".join(_alike(list(alike)) for _, alike in told) or '<p class="none">Nothing happened.</p>'
    quiet = sorted((f for f in findings if not f.count), key=lambda f: f.verdict == "valid")
    if not quiet:
        return shown
    clear = sum(f.verdict == "valid" for f in quiet)
    head = f"{count(clear, 'question')} answered with nothing found"
    if clear < len(quiet):
        head += f", {len(quiet) - clear} not judged"
    rows = "\n".join(_finding(f) for f in quiet)
    return f'{shown}\n<details class="quiet"><summary>{head}</summary>{rows}</details>'


def _alike(findings: list[Finding]) -> str:
    """What one check found: the first few in sight, the rest folded away, or many partitions hide all other checks."""
    first, rest = findings[:_MOST_IN_SIGHT], findings[_MOST_IN_SIGHT:]
    shown = "\n".join(map(_finding, first))
    if not rest:
        return shown
    more = "\n".join(map(_finding, rest))
    head = f"{_text(findings[0].title)}: {len(rest):,} more"
    return f'{shown}\n<details class="quiet"><summary>{head}</summary>{more}</details>'


def _finding(finding: Finding) -> str:
    sign = mark(finding)
    called = f' title="Jepsen: {_text(finding.jepsen)}"' if finding.jepsen else ""
    head = (
        f'<span class="mark {_CLASSES[sign]}" title="{_WORDS[sign]}">{sign}</span>'
        f'<span class="check"{called}>{_text(finding.title)}</span>'
        f'<span class="sentence">{_text(finding.sentence)}</span>'
    )
    means = _meaning(finding.check)
    if not finding.evidence:
        return f'<div class="finding plain {_CLASSES[sign]}">{head}{means}</div>'
    opened = " open" if finding.verdict == "invalid" else ""
    shown = "".join(_evidence(entry) for entry in finding.evidence)
    more = ""
    if finding.count > len(finding.evidence):
        kept = f"The slowest {len(finding.evidence)} of {finding.count:,}; all of them are in history/."
        more = f'<p class="more">{kept}</p>'
    return f'<details class="finding {_CLASSES[sign]}"{opened}><summary>{head}</summary>{means}{shown}{more}</details>'


def _meaning(name: str) -> str:
    """The definition of a check's answers, folded away, in the words of docs/verdicts.md."""
    check = REGISTRY.get(name)
    if check is None:
        return ""
    told = [(word, re.sub("`(.+?)`", r"<code>\1</code>", _text(text))) for word, text in meaning(check)]
    said = "".join(f"<li><i>{word}</i>: {text}</li>" for word, text in told)
    return f'<details class="meaning"><summary>what this verdict means</summary><ol>{said}</ol></details>'


_WIRE_HEADS = (
    "request at", "took", "API", "broker", "connection / exchange", "outcome", "error", "base offset", "fault", "match",
)  # fmt: skip


def _evidence(entry: dict[str, Any]) -> str:
    facts = [f"at {_time(entry['at_us'])}"]
    if entry["message_id"] is not None:
        facts.insert(0, f"message <code>{_text(str(entry['message_id']))}</code>")
    if entry["duration_us"] is not None:
        facts.append(duration(entry["duration_us"]))
    if entry["note"]:
        facts.append(_text(entry["note"]))
    rows = "".join(_exchange(row) for row in entry["exchanges"] or ())
    heads = "".join(f"<th>{name}</th>" for name in _WIRE_HEADS)
    table = (
        f'{_SCROLL}<table class="wire"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
        if rows
        else '<p class="none">nothing of it on the wire</p>'
    )
    return f'<div class="evidence"><p>{" · ".join(facts)}</p>{table}</div>'


def _exchange(row: dict[str, Any]) -> str:
    code = row["error_code"]
    took = (
        duration(row["response_at_us"] - row["request_at_us"])
        if row["response_at_us"] is not None and row["request_at_us"] is not None
        else _NOTHING
    )
    names = zip(row["fault_names"] or (), row["fault_kinds"] or (), strict=False)
    fault = ", ".join(f"{name} ({kind})" for name, kind in names)
    if fault and row["fault_phase"]:
        fault += f", {row['fault_phase']}"
    offset = row["base_offset"]
    cells = [
        _time(row["request_at_us"]),
        took,
        row["api_name"] or _NOTHING,
        _NOTHING if row["node_id"] is None else str(row["node_id"]),
        f"{row['connection_id']} / {row['exchange_seq']}",
        row["outcome"] or _NOTHING,
        error_name(code) if code else "",
        "" if offset is None or offset < 0 else str(offset),
        fault,
        row["match_kind"] or "",
    ]
    marked = ' class="hit"' if fault else ""
    return f"<tr{marked}>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>"


def _chapters(told: list[Chapter]) -> str:
    """What each rule did, in the order in which they struck, each with its sentences; what no rule did comes last."""
    if not told:
        return '<p class="none">No rule struck, and nothing happened.</p>'
    return "\n".join(map(_chapter, told))


def _chapter(chapter: Chapter) -> str:
    signs = {"invalid": "✗", "unknown": "?", "valid": "•"}
    sign = signs[chapter.verdict]
    sentences = [f"<li>{_text(f.title)}: {_text(f.sentence)}</li>" for f in one_line_per_storm(list(chapter.findings))]
    shown, folded = "".join(sentences[:_MOST_IN_SIGHT]), "".join(sentences[_MOST_IN_SIGHT:])
    rest = len(sentences) - _MOST_IN_SIGHT
    more = f'<details class="quiet"><summary>{rest:,} more</summary><ul>{folded}</ul></details>' if folded else ""
    return (
        f'<article class="chapter"><h3><span class="mark {_CLASSES[sign]}" title="{_WORDS[sign]}">{sign}</span>'
        f" {_text(chapter.head)}</h3>"
        f'<p class="did">{_text(chapter.told)}</p><ul>{shown}</ul>{more}</article>'
    )


def _beside(sentences: str, figure: str) -> str:
    """Sentences, and beside them the chart that proves them."""
    return f'<div class="beside"><div class="said">{sentences}</div>{_figure(figure)}</div>'


_PROVES = {"spread": ("late", "blocked_call", "hang"), "recovery": ("recovery",)}


def _proof(name: str, findings: list[Finding]) -> str:
    """A section of one chart, with the sentences that it proves before it."""
    proven = [f for f in findings if f.count and f.check in _PROVES[name]]
    said = "".join(f"<li>{_text(f.sentence)}</li>" for f in proven[:_MOST_IN_SIGHT])
    sentences = f"<ul>{said}</ul>" if said else '<p class="none">Nothing took long.</p>'
    return f'<section class="figure"><h2>{_FIGURES[name][0]}</h2>{_beside(sentences, name)}</section>'


_FIGURES = {
    "timeline": ("Faults over traffic", "Diamonds: a fault struck. Crosses: answered with an error. Drag to zoom."),
    "spread": ("How long operations took", "Hatched: a fault touched one of their attempts."),
    "recovery": ("Recovery", "From a rule's last hit on a partition to the next acknowledged send there."),
}


def _figure(name: str) -> str:
    title, caption = _FIGURES[name]
    return (
        f'<figure><figcaption class="caption">{caption}</figcaption>'
        f'<div id="figure-{name}" class="plot" role="group" aria-label="{title}: {caption}"></div></figure>'
    )


def _clients(analysis: Analysis) -> str:
    rows = []
    worst = sorted(analysis.drawn.clients, key=lambda r: (-r["pending"], -r["fail"], -(r["max_us"] or 0)))
    for row in sorted(worst[:_MOST_CLIENTS], key=lambda r: (r["client"] or "", r["operation"] or "")):
        median, p99 = (row["quantiles"] or [None, None])[:2]
        cells = [
            f"{row['client'] or _NOTHING} {row['client_version'] or ''}".strip(),
            row["operation"] or _NOTHING,
            *(
                f"{row[name]:,}"
                for name in ("count", "ok", "fail", "info", "pending", "retried", "faulted", "unmatched")
            ),
            *(
                _NOTHING if value is None else duration(value)
                for value in (median, p99, row["max_us"], row["max_blocked_us"])
            ),
        ]
        rows.append("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in cells) + "</tr>")
    if not rows:
        return '<p class="none">No client said anything: give --outcomes.</p>'
    heads = (
        "client", "operation", "count", "ok", "failed", "uncertain", "never answered", "retried", "faulted",
        "not on the wire", "median", "p99", "slowest", "longest call",
    )  # fmt: skip
    head = "".join(f"<th>{name}</th>" for name in heads)
    left = len(analysis.drawn.clients) - _MOST_CLIENTS
    more = f'<p class="more">The worst {_MOST_CLIENTS:,} rows; {left:,} more are in history/.</p>' if left > 0 else ""
    return (
        f'{_SCROLL}<table class="clients"><thead><tr>{head}</tr></thead><tbody>'
        f"{''.join(rows)}</tbody></table></div>{more}"
    )


def _off(ahead_us: int) -> str:
    return f"{duration(abs(ahead_us))} {'ahead of' if ahead_us > 0 else 'behind'}"


def _notes(analysis: Analysis) -> str:
    document = analysis.as_dict()
    matched = ", ".join(
        f"{rows:,} by {kind}" for kind, rows in document["outcomes"]["matched"].items() if kind != "none"
    )
    none = document["outcomes"]["matched"].get("none", 0)
    notes = [
        f"Operations matched with the wire: {matched or 'none'}; {none:,} not matched.",
        f"Produce batches captured: {document['capture']['produce_batches']:,};"
        f" {document['capture']['unmatched_batches']:,} belong to no operation that was told of.",
        "An operation matched by time is a guess, by key hash likely; the other kinds are sure.",
    ]
    notes += [
        f"The clock of {clock.client} ({clock.source}) was {_off(clock.ahead_us)} the proxy's, by"
        f" {count(clock.messages, 'message')} that both saw; its times are shown by the proxy's clock."
        for clock in analysis.clocks
        if abs(clock.ahead_us) >= CLOCK_WORTH_TELLING_US
    ]
    notes += [
        f"The clock of {clock.client} ({clock.source}) was set by {duration(clock.set_by_us)} or more while it ran."
        for clock in analysis.clocks
        if clock.set_by_us >= CLOCK_WORTH_TELLING_US
    ]
    if document["capture"]["gaps"]:
        notes.append(f"The capture says that it lost rows at {document['capture']['gaps']:,} places.")
    notes += [f"Set aside {line.file}:{line.line}: {line.reason}: {line.text}" for line in analysis.bad_lines]
    return "".join(f"<li>{_text(note)}</li>" for note in notes)
