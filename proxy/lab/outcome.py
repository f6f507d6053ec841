"""What a client said of one operation, as the analysis reads it, for programs that look at it themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_ERROR: Final = re.compile("error|exception|panic|fatal", re.IGNORECASE)
_MOST_SAID: Final = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    """The last word on one operation: `ok`, `fail`, `info`, or `pending` when it never came; times in µs since 1970."""

    client: str | None
    operation: str
    outcome: str
    message_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    called_at_us: int | None = None
    returned_at_us: int | None = None
    completed_at_us: int | None = None
    error: str | None = None

    @property
    def blocked_ms(self) -> float | None:
        """How long the call held its caller; None while it never returned."""
        return _apart(self.called_at_us, self.returned_at_us)

    @property
    def took_ms(self) -> float | None:
        """From the call to the last word; None while there is none."""
        return _apart(self.called_at_us, self.completed_at_us)


def read_outcomes(files: Iterable[Path]) -> list[Outcome]:
    """The outcomes in files of outcome lines, in the order of their first lines; a torn last line is no line."""
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    for file in files:
        for said in outcome_lines(file):
            key = tuple(said.get(name) for name in ("client", "thread", "operation", "message_id", "called_at_us"))
            named = key if said.get("called_at_us") else (*key, said.get("partition"), said.get("offset"))
            # A line `pending` is a promise; one that came later keeps it.
            if named not in last or said["outcome"] != "pending" or last[named]["outcome"] == "pending":
                last[named] = said
    return [_outcome(said) for said in last.values()]


def outcome_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The outcome lines of a file as they are; a torn last line is none, nor what else a program may have printed."""
    for said in documents(file.read_text(errors="replace", encoding="utf-8").splitlines()):
        if said.keys() >= {"operation", "outcome"}:
            yield said


def documents(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects, whatever stands between them."""
    for line in lines:
        text = line.strip()
        if text.startswith("{"):
            try:
                document = json.loads(text)
            except ValueError:
                continue
            yield document


def last_words(errors: Path, output: Path) -> str:
    """What a program said last: the last line that names an error, else the last at all.

    Where there is none on stderr it is one of stdout, outcome lines aside.
    """
    for file in (errors, output):
        lines = file.read_text(errors="replace", encoding="utf-8").splitlines() if file.exists() else []
        if said := [line.strip() for line in lines if line.strip() and not _is_outcome(line)]:
            named = [line for line in said if _ERROR.search(line)]
            return (named or said)[-1][:_MOST_SAID]
    return ""


def _is_outcome(line: str) -> bool:
    """Whether it is an outcome line, ours or one of Kafka's verifiable programs."""
    ours, theirs = {"operation", "outcome"}, {"timestamp", "name"}
    return any(said.keys() >= ours or said.keys() >= theirs for said in documents([line]))


def _outcome(said: dict[str, Any]) -> Outcome:
    fields: dict[str, Any] = {name: said.get(name) for name in Outcome.__dataclass_fields__}
    return Outcome(**fields)


def _apart(begin_us: int | None, end_us: int | None) -> float | None:
    return None if begin_us is None or end_us is None else (end_us - begin_us) / 1000
