"""`python -m notleader.spark_analysis.docs` writes the questions of docs/verdicts.md from the checks themselves."""

from __future__ import annotations

import inspect
from pathlib import Path

from notleader.spark_analysis.checks import Check, all_checks

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verdicts.md"
_MARK = (
    "<!-- Generated from here on by `python -m notleader.spark_analysis.docs` from spark_analysis/. Edit those. -->\n"
)


def page(now: str) -> str:
    """The page `now` with its generated part as the checks say it today; what stands above the mark is prose."""
    prose, mark, _ = now.partition(_MARK)
    if not mark:
        raise ValueError(f"docs/verdicts.md has lost its line {_MARK.strip()!r}")
    return prose + mark + "".join(map(_section, all_checks()))


def meaning(check: Check) -> list[tuple[str, str]]:
    """What each answer of `check` means as (word, sentence), in the order in which page and reports tell it."""
    invalid, valid, unknown, evidence, cause = (f"{text[:1].upper()}{text[1:]}." for text in check.means)
    return [("invalid", invalid), ("valid", valid), ("unknown", unknown), ("evidence", evidence), ("cause", cause)]


def _question(check: Check) -> str:
    """The first line of the file that the check stands in: the question that it asks."""
    module = inspect.getmodule(type(check))
    return (inspect.getdoc(module) or "").partition("\n")[0]


def _section(check: Check) -> str:
    jepsen = f" (Jepsen's {check.jepsen})" if check.jepsen else ""
    lines = [f"- *{word}*: {text}" for word, text in meaning(check)]
    return f"\n### {check.name}\n\n**{check.title}.** {_question(check)}{jepsen}\n\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
