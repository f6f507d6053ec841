"""What a try showed beside its exchanges: how it ended for the command and its messages, and what it logged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from notleader.proxy.lab.explore.judging import Ended

_LOGS: Final = ("stderr.txt", "stdout.txt")
_MOST_LINES: Final = 2000
# Times, addresses, ids, names of a try: whatever has a digit in it differs from try to try.
_VARIES: Final = re.compile(r"\S*\d\S*")


def outcome(ended: Ended) -> frozenset[str]:
    """The ways in which a try ended, without how often: its exit code, and what became of messages and commits."""
    ways = {
        "a send failed": ended.said.failed,
        "a send was never answered": ended.said.unanswered,
        "something was got twice": any(count > 1 for count in ended.said.got.values()),
        "something is in the log twice": any(count > 1 for count in (ended.log or {}).values()),
        "a commit went back": ended.went_back or ended.said.went_back,
        "the check failed": ended.check,
    }
    return frozenset({f"ended with {ended.code}", *(way for way, happened in ways.items() if happened)})


def log_lines(folder: Path) -> frozenset[str]:
    """The kinds of lines that a try's command logged: two that differ only in words with digits are one.

    Outcome lines, which are JSON, are not among them.
    """
    return frozenset(f"logged {line}" for name in _LOGS for line in _kinds(folder / name))


def _kinds(file: Path) -> Iterator[str]:
    if not file.exists():
        return
    for line in file.read_text(errors="replace", encoding="utf-8").splitlines()[:_MOST_LINES]:
        if not line.lstrip().startswith("{"):
            yield _VARIES.sub("#", line).strip()
