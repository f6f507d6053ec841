"""The coverage table says what the definitions hold, and the docs say the same."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from notleader.proxy.cli.wire import app
from notleader.proxy.wire.coverage import coverage, markdown
from notleader.proxy.wire.names import ApiKey

DOCS = Path(__file__).resolve().parents[3] / "docs" / "wire-coverage.md"


def test_the_docs_carry_the_table() -> None:
    assert DOCS.read_text() == markdown(), "run: notleader wire coverage --markdown > docs/wire-coverage.md"


def test_every_api_key_is_covered() -> None:
    assert [row.api_key for row in coverage()] == [int(key) for key in ApiKey]


def test_produce() -> None:
    row = coverage()[0]
    assert (row.name, row.first, row.last) == ("Produce", 0, 13)
    assert row.kafka == {"3.9.1": (0, 2), "4.4.0": (3, 13)}
    assert (row.flexible_from, row.addresses_from, row.unstable) == (9, 10, None)
    assert row.partitions == ("request", "response")


def test_the_command() -> None:
    plain = CliRunner().invoke(app, ["coverage"], env={"COLUMNS": "200"})
    assert plain.exit_code == 0
    assert "Produce" in plain.output
    as_json = CliRunner().invoke(app, ["coverage", "--json"])
    assert json.loads(as_json.output)[0]["name"] == "Produce"
    assert CliRunner().invoke(app, ["coverage", "--markdown"]).output == markdown()
