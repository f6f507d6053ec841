"""The page that says what verdicts mean knows every check, and every option it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

from notleader.spark_analysis.checks import all_checks
from notleader.spark_analysis.checks.phrases import LINKS
from notleader.spark_analysis.docs import page

PAGE = (Path(__file__).parents[2] / "docs" / "verdicts.md").read_text()


def test_the_questions_are_as_the_checks_say() -> None:
    assert page(PAGE) == PAGE, "run `python -m notleader.spark_analysis.docs`"


def test_every_check_says_what_each_of_its_answers_means() -> None:
    for check in all_checks():
        section = PAGE.partition(f"\n### {check.name}\n")[2].partition("\n### ")[0]
        for word, said in zip(check.means._fields, check.means, strict=True):
            assert said, (check.name, word)
            assert said[1:] in section, (check.name, word)
            assert not said.endswith("."), (check.name, word)


def test_every_link_by_which_a_rule_is_named_is_described() -> None:
    described = re.findall(r"^\d+\. \*\*(.+?)\*\*", PAGE.split("## Causes")[1].split("Which of them")[0], re.MULTILINE)
    assert len(described) == len(LINKS)
