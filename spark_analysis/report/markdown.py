"""The findings as Markdown, for CI logs and job summaries."""

from __future__ import annotations

from notleader.spark_analysis.jobs.analyze import Analysis
from notleader.spark_analysis.report.causes import chapters, one_line_per_storm
from notleader.spark_analysis.report.printable import printable
from notleader.spark_analysis.report.summary import basis, headline, mark, noteworthy

_SIGNS = {"✗": "❌", "?": "❔", "•": "\u2139\ufe0f", "✓": "✅"}


def render(analysis: Analysis) -> str:
    """A heading, what was looked at, one table row per finding."""
    lines = [f"## notleader: {headline(analysis)}", "", basis(analysis), ""]
    lines += [f"- **{_cell(c.head)}**: {_cell(c.told)}" for c in chapters(analysis)]
    lines += ["", "| | check | finding |", "|---|---|---|"]
    told = noteworthy(one_line_per_storm(analysis.findings))
    quiet = [f for f in analysis.findings if not f.count]
    lines += [f"| {_SIGNS[mark(f)]} | {_cell(f.title)} | {_cell(f.sentence)} |" for f in [*told, *quiet]]
    if analysis.bad_lines:
        lines += [
            "",
            *(f"- set aside `{_code(bad.file)}:{bad.line}`: {_cell(bad.reason)}" for bad in analysis.bad_lines),
        ]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Text between backticks, which it can't end; nothing is escaped there."""
    return printable(text).replace("`", "'").replace("<", "?")


def _cell(text: str) -> str:
    """Text that stays in its table cell and is not taken for markup."""
    escaped = printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped.replace("[", "\\[").replace("*", "\\*").replace("_", "\\_").replace("`", "\\`")
