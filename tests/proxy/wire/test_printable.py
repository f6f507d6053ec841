"""Names from the wire at each outlet: terminal, log, CSV. What a client calls itself does nothing there."""

from __future__ import annotations

import csv
import io
import logging
from typing import Any

import pytest
from rich.console import Console

from notleader.proxy.capture import lines
from notleader.proxy.capture.export import write_csv
from notleader.proxy.cli import tables as admin_tables
from notleader.proxy.control.logs import JsonLines, without_controls
from notleader.proxy.record.rows import COLUMNS
from notleader.proxy.wire.printable import printable

HOSTILE = "a\x1b]0;owned\x07\x9b2J\r\nERROR forged\u2028\u202e\udcff"
SHOWN = r"a\x1b]0;owned\x07\x9b2J\r\nERROR forged\u2028\u202e\udcff"


def row(**given: object) -> dict[str, Any]:
    whole: dict[str, Any] = dict.fromkeys(COLUMNS)
    return whole | {
        "event": "exchange", "outcome": "answered", "api_name": "Produce", "api_version": 9, "request_bytes": 1,
        "fault_names": [], "partitions": [], **given,
    }  # fmt: skip


def test_all_that_is_not_printable_is_written_as_its_escape() -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable(SHOWN) == SHOWN
    assert printable("größe-é-日本") == "größe-é-日本"


@pytest.mark.parametrize("column", ["client_id", "group_id", "transactional_id", "detail"])
def test_a_row_stays_one_line_that_drives_no_terminal(column: str) -> None:
    hostile = row(**{column: HOSTILE})
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=400)
    console.print(lines.line(hostile))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for text in (shown.rstrip("\n"), *lines.tabbed(hostile).split("\t")):
        assert text.isprintable(), text


def test_a_rule_of_a_hostile_name_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    admin_tables.print_rules([{"name": "x\x1b[2J", "kind": "close"}])
    assert "\x1b[2J" not in capsys.readouterr().out


@pytest.mark.parametrize("error", [False, True])
def test_a_log_line_is_one_line(error: bool) -> None:
    told = logging.LogRecord("notleader", logging.WARNING, "", 0, "%s: %d", (HOSTILE, 3), None)
    if error:
        told.args = (ValueError(HOSTILE), 3)
    assert without_controls(told)
    assert told.getMessage() == f"{SHOWN}: 3"
    assert "\n" not in JsonLines().format(told)


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_is_a_formula(name: str) -> None:
    target = io.BytesIO()
    write_csv([row(client_id=name)], target)
    (told,) = csv.DictReader(io.StringIO(target.getvalue().decode(), newline=""))
    assert told["client_id"] == "'" + name
