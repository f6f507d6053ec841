"""What clients said, as objects: the last word of each operation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from notleader.proxy.lab.explore.tries import Bench
from notleader.proxy.lab.outcome import last_words, read_outcomes


def written(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    file = tmp_path / "c.jsonl"
    file.write_text("".join(json.dumps({"client": "c", "operation": "send", **line}) + "\n" for line in lines))
    return file


def test_the_last_word_of_each_send_counts(tmp_path: Path) -> None:
    a, b = {"message_id": "a", "called_at_us": 1_000}, {"message_id": "b", "called_at_us": 2_000}
    file = written(
        tmp_path,
        {**a, "outcome": "pending"},
        {**b, "outcome": "pending"},
        {**a, "outcome": "fail", "returned_at_us": 3_500, "completed_at_us": 5_000, "error": "no leader"},
    )
    first, second = read_outcomes([file])
    assert (first.message_id, first.outcome, first.error, first.took_ms, first.blocked_ms) == (
        "a",
        "fail",
        "no leader",
        4.0,
        2.5,
    )
    assert (second.message_id, second.outcome, second.took_ms, second.blocked_ms) == ("b", "pending", None, None)


def test_a_promise_after_the_word_is_none(tmp_path: Path) -> None:
    """A callback may speak before the call has returned, which then says `pending` once more."""
    line = {"message_id": "a", "called_at_us": 1}
    (only,) = read_outcomes(
        [written(tmp_path, {**line, "outcome": "ok"}, {**line, "outcome": "pending", "returned_at_us": 2})]
    )
    assert only.outcome == "ok"


def test_a_torn_last_line_is_no_line_and_polls_stay_apart(tmp_path: Path) -> None:
    polls = [{"operation": "poll", "message_id": "a", "offset": at, "outcome": "ok"} for at in (7, 8)]
    file = written(tmp_path, *polls)
    with file.open("a") as more:
        more.write('{"client": "c", "operation": "po')
    assert [said.offset for said in read_outcomes([file])] == [7, 8]


@pytest.mark.parametrize(
    ("errors", "output", "words"),
    [
        ("connected\n", "Error: on the other\n", "connected"),
        ("Error: no such shop\nat line 3\n", "", "Error: no such shop"),
        ("\n", 'starting\n{"operation": "send", "outcome": "fail", "error": "late"}\n', "starting"),
        (None, "Error: no such shop\n{not JSON}\n", "Error: no such shop"),
        ("", '{"operation": "send", "outcome": "ok"}\n{"timestamp": 1, "name": "shutdown_complete"}\n', ""),
        ('{"level": "error"}\n', "", '{"level": "error"}'),
    ],
)
def test_a_program_that_says_nothing_on_stderr_is_quoted_by_what_it_printed(
    errors: str | None, output: str, words: str, tmp_path: Path
) -> None:
    if errors is not None:
        (tmp_path / "stderr.txt").write_text(errors)
    (tmp_path / "stdout.txt").write_text(output)
    assert last_words(tmp_path / "stderr.txt", tmp_path / "stdout.txt") == words


def test_a_try_is_told_by_what_its_command_printed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('Error: no such shop'); sys.exit(3)"]
    bench = Bench("localhost:9092", command, tmp_path, "try")
    assert bench._play({}, tmp_path, 60) == (3, "Error: no such shop")
