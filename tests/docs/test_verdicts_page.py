"""The page that says what verdicts mean knows every check, and every option it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.phrases import LINKS

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_every_check_has_its_row_and_every_row_its_check() -> None:
    rows = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert rows == {check.name for check in all_checks()}


def test_every_link_by_which_a_rule_is_named_is_described() -> None:
    described = re.findall(r"^\d\. \*\*(.+?)\*\*", PAGE.split("## Causes")[1].split("Which of them")[0], re.MULTILINE)
    # What follows is an own exchange's, told as likely; every other link has a name of its own in the data.
    assert len(described) == len(LINKS) + 1
