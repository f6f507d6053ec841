"""The findings as Markdown, for CI logs and job summaries."""

from __future__ import annotations

from notleader.spark_analysis.checks.phrases import count
from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.report.causes import chapters, one_line_per_storm
from notleader.spark_analysis.report.printable import printable
from notleader.spark_analysis.report.summary import basis, headline, mark, noteworthy

_SIGNS = {"✗": "❌", "?": "❔", "•": "\u2139\ufe0f", "✓": "✅"}


def render(analysis: Analysis) -> str:
    """A heading, what was looked at, one table row per finding; what found nothing is folded away."""
    lines = [f"## notleader: {headline(analysis)}", "", basis(analysis), ""]
    lines += [f"- **{_cell(c.head)}**: {_cell(c.told)}" for c in chapters(analysis)]
    lines += ["", "| | check | finding |", "|---|---|---|"]
    told = noteworthy(one_line_per_storm(analysis.findings))
    lines += [f"| {_SIGNS[mark(f)]} | {_cell(f.title)} | {_cell(f.sentence)} |" for f in told]
    lines += _folded(analysis)
    if analysis.bad_lines:
        lines += [
            "",
            *(f"- set aside `{_code(bad.file)}:{bad.line}`: {_cell(bad.reason)}" for bad in analysis.bad_lines),
        ]
    return "\n".join(lines) + "\n"


def _folded(analysis: Analysis) -> list[str]:
    """The questions that found nothing by their names, and what was not judged with its reason."""
    quiet = [f for f in analysis.findings if not f.count]
    clear = [f.title for f in quiet if f.verdict == "valid"]
    silent = [f for f in quiet if f.verdict != "valid"]
    if not quiet:
        return []
    head = f"{count(len(clear), 'question')} answered with nothing found, {len(silent)} not judged"
    lines = ["", f"<details><summary>{head}</summary>", ""]
    if clear:
        lines += [f"- {_SIGNS['✓']} {_cell(', '.join(clear))}"]
    lines += [f"- {_SIGNS[mark(f)]} {_cell(f.title)}: {_cell(f.sentence)}" for f in silent]
    return [*lines, "", "</details>"]


def _code(text: str) -> str:
    """Text between backticks, which it can't end; nothing is escaped there."""
    return printable(text).replace("`", "'").replace("<", "?")


def _cell(text: str) -> str:
    """Text that stays in its table cell and is not taken for markup."""
    escaped = printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped.replace("[", "\\[").replace("*", "\\*").replace("_", "\\_").replace("`", "\\`")
