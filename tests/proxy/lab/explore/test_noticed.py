"""What a try showed is told apart by its kind, not by its numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from notleader.proxy.lab.explore.judging import Reported
from notleader.proxy.lab.explore.noticed import log_lines, outcome
from tests.proxy.lab.explore.script import ended


@pytest.mark.parametrize(
    ("said", "way"),
    [
        (Reported(failed=frozenset("a")), "a send failed"),
        (Reported(unanswered=frozenset("a")), "a send was never answered"),
        (Reported(got=Counter("aab")), "something was got twice"),
        (Reported(went_back=("1 after 2",)), "a commit went back"),
    ],
)
def test_what_became_of_messages_is_an_outcome(said: Reported, way: str) -> None:
    assert outcome(replace(ended(), said=said)) - outcome(ended()) == {way}


def test_so_is_the_exit_code() -> None:
    assert outcome(ended(code=1)) != outcome(ended(code=2))


def test_lines_that_differ_in_numbers_are_one(tmp_path: Path) -> None:
    (tmp_path / "stderr.txt").write_text("12:00:01 retry 1 at 127.0.0.1:9\n12:00:02 retry 2 at 127.0.0.1:8\nfenced\n")
    (tmp_path / "stdout.txt").write_text('{"operation": "send"}\nfenced\nhello\n')
    assert log_lines(tmp_path) == {"logged # retry # at #", "logged fenced", "logged hello"}


def test_a_try_without_files_logged_nothing(tmp_path: Path) -> None:
    assert log_lines(tmp_path) == frozenset()
