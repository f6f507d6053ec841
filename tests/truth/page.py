"""The part of docs/held-to-the-truth.md that `make test-truth` writes."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from tests.truth.judge import Judged
from tests.truth.playing import Played

if TYPE_CHECKING:
    from tests.truth.mutants import Outcome

Set = tuple[Sequence[Played], Judged, Judged]
"""All scenarios, each played once, the marks of them, and those of an analysis that was not given the log."""

_PAGE = Path(__file__).parents[2] / "docs" / "held-to-the-truth.md"
_MATRIX = ("<!-- truth suite -->", "<!-- end of truth suite -->")
_NOTED = 190
_MUTANTS = ("<!-- truth mutants -->", "<!-- end of truth mutants -->")


def write(sets: Sequence[Set]) -> None:
    """Put the matrix of these sets of recordings in the place of the last one."""
    _put(_MATRIX, matrix(sets))


def write_mutants(outcomes: Sequence[Outcome], edits: int) -> None:
    """Put the table of these edits, of so many that there are, in the place of the last one."""
    _put(_MUTANTS, mutants(outcomes, edits))


def _put(marks: tuple[str, str], text: str) -> None:
    begin, end = marks
    before, _, rest = _PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    _PAGE.write_text(f"{before}{begin}\n{text}{end}{after}")


def mutants(outcomes: Sequence[Outcome], among: int) -> str:
    """How many edits of each check were caught and by whom, and which were not, as Markdown."""
    columns = ("edits", "recordings", "unread", "stories", "equivalent", "open", "unasked")
    cells: Counter[tuple[str, str]] = Counter()
    for one in outcomes:
        word = one.by.split()[0] if one.by else "equivalent" if one.same else "open" if one.asked else "unasked"
        for of in (one.edit.file, "all"):
            cells.update([(of, "edits"), (of, word)])
    today, total = datetime.datetime.now(tz=datetime.UTC), cells["all", "edits"]
    caught = sum(cells["all", column] for column in columns[1:4])
    text = [
        f"On {today.day} {today:%B %Y}, of {total} edits (there are {among}): {caught} caught, "
        f"{cells['all', 'equivalent']} equivalent, {cells['all', 'open']} open; {cells['all', 'unasked']} were not "
        "asked of everybody, and not caught by those who were.",
        "",
        "| conditions of | edits | caught by recordings | without the log | stories | equivalent | open | unasked |",
        "|---|---|---|---|---|---|---|---|",
    ]
    text += [
        f"| `{of}` | " + " | ".join(str(cells[of, column]) for column in columns) + " |"
        for of in [*sorted({one.edit.file for one in outcomes}), "all"]
    ]
    survivors = sorted(
        (one.edit.name, one.edit.mutation.line) for one in outcomes if one.asked and not one.by and not one.same
    )
    if survivors:
        text += ["", "Open:", ""]
        text += [f"- line {line}: `{name}`" for name, line in survivors]
    return "\n".join(text) + "\n"


def matrix(sets: Sequence[Set]) -> str:
    """The confusion matrix per check over all sets, and every mark that is not good, as Markdown."""
    played, judged, unread = sets[0][0], Judged(), Judged()
    for _, of_set, of_set_unread in sets:
        judged.add(of_set)
        unread.add(of_set_unread)
    planted = [one for one in played if not one.run.scenario.healthy]
    healthy = [one for one in played if one.run.scenario.healthy]
    clients = sorted({client.lib for one in played for client in one.run.scenario.clients})
    kinds = {rule["kind"] for one in planted for rule in one.run.scenario.rules}
    today = datetime.datetime.now(tz=datetime.UTC)
    bad = {mark.scenario for mark in judged.wrong} | {problem.split(":")[0] for problem in judged.void}
    text = [
        f"Run on {today.day} {today:%B %Y}, {os.cpu_count()} cores at a load of {os.getloadavg()[2]:.0f}: "
        f"{len(planted)} planted scenarios with "
        f"{len(kinds)} kinds of fault, {sum(one.run.scenario.name not in bad for one in planted)} without a complaint; "
        f"{len(healthy)} healthy ones, {sum(one.run.scenario.name not in bad for one in healthy)} without. "
        f"Clients: {', '.join(clients)}. Sets played one after the other: {len(sets)}; in all {len(judged.marks)} "
        f"answers, {len(judged.wrong)} not right. Judged again without the log, by what can be known then: "
        f"{len(unread.marks)} answers, {len(unread.wrong)} not right.",
        "",
        "| check | true | false | missed | blame right | partly | wrong |",
        "|---|---|---|---|---|---|---|",
    ]
    results = Counter((mark.check, mark.result) for mark in judged.marks)
    blames = Counter((mark.check, mark.blame) for mark in judged.marks)
    for check in sorted({mark.check for mark in judged.marks}):
        cells = [results[check, word] for word in ("true", "false", "missed")]
        cells += [blames[check, word] for word in ("right", "partly", "wrong")]
        text.append(f"| `{check}` | " + " | ".join(map(str, cells)) + " |")
    if judged.wrong or unread.wrong or judged.void:
        text += ["", "What is not as it should be:", ""]
        numbered = [(f"Set {n}", mark) for n, (_, one, _) in enumerate(sets, 1) for mark in one.wrong]
        numbered += [(f"Set {n}, without the log", mark) for n, (_, _, one) in enumerate(sets, 1) for mark in one.wrong]
        for where, mark in numbered:
            whose = f" of {mark.client}" if mark.client else ""
            said = f"blame {mark.blame}" if mark.blame not in ("", "right") else mark.result
            told = f"- {where}, `{mark.scenario}`: `{mark.check}`{whose}: {said}. {mark.note}"
            text.append(shorten(told, _NOTED, placeholder=" …"))  # the judging prints all of it
        text += [f"- {problem} (the scenario proves nothing)" for problem in judged.void]
    return "\n".join(text) + "\n"
