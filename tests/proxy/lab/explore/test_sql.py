"""A user's query is asked of the log, the outcome lines and the exchanges of one try, and of nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from notleader.proxy.brokerlog.schema import PartitionFile
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.explore.sql import answer, valid
from tests.proxy.lab.explore.script import row

SENT = [json.dumps({"operation": "send", "message_id": each, "outcome": "ok", "offset": 0}) for each in ("a", "b")]
LOST = "select message_id from outcomes where operation = 'send' except select message_id from log order by 1"


def log(folder: Path, *ids: str) -> Path:
    folder.mkdir()
    file = PartitionFile(folder, "t", 0, None)
    for offset, name in enumerate(ids):
        file.add({"event": "record", "offset": offset, "message_id": name})
    file.finish({"log_start_offset": 0, "log_end_offset": len(ids)})
    return folder


def test_each_row_is_something_wrong(tmp_path: Path) -> None:
    assert answer(LOST, log(tmp_path / "whole", "a", "b"), SENT, []) == (0, "")
    assert answer(LOST, log(tmp_path / "torn", "a"), SENT, []) == (1, "message_id=b")
    assert answer(LOST, tmp_path / "none", SENT, []) == (2, "message_id=a; message_id=b")


def test_exchanges_have_a_row_for_each_partition(tmp_path: Path) -> None:
    rows = [row("Produce", 0, 0, 1), row("Metadata", 1)]
    count, shown = answer("select api_name, partition from exchanges order by all", tmp_path, [], rows)
    assert (count, shown) == (
        3,
        "api_name=Metadata, partition=None; api_name=Produce, partition=0; api_name=Produce, partition=1",
    )


def test_lines_of_any_kind_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    lines = [
        "{",
        "[]",
        '{"operation": "send", "message_id": 7, "offset": "x", "more": {}}',
        '{"no": "operation"}',
        "plain",
    ]
    assert answer('select message_id, "offset" from outcomes', tmp_path, lines, []) == (1, "message_id=7, offset=None")


@pytest.mark.parametrize(
    "query", ["select nothing from log", "select 1 from nowhere", "selekt", "select * from '/etc/passwd'"]
)
def test_what_can_t_be_asked_is_said_before_the_first_try(query: str) -> None:
    with pytest.raises(LabError, match="--check-sql: "):
        valid(query)


def test_many_rows_are_counted_and_three_shown(tmp_path: Path) -> None:
    assert answer("select * from range(5)", tmp_path, [], []) == (5, "range=0; range=1; range=2; 2 more")
