"""A small matrix, really run: one client that hangs and one that doesn't, in one world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from notleader.proxy.cli.app import app
from tests.tools.programs import need

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_two_clients_in_one_world_and_only_what_is_new_is_run_again(tmp_path: Path) -> None:
    need("go")
    asked = ["matrix", "--incidents", "sarama-hang", "--out", str(tmp_path), "--rounds", "1", "--json"]
    two = ["--clients", "sarama@1.37.2,kafka_python@3.0.12"]
    first = CliRunner().invoke(app, [*asked, *two])
    assert first.exit_code == 0, first.output
    cells = {cell["client"]: cell for cell in json.loads(first.stdout)["cells"]}
    hung = cells["sarama@1.37.2"]
    assert hung["word"] == "hangs", hung
    assert hung["hits"] == {"not-leader": 4}
    assert any("never completed" in sentence for sentence in hung["evidence"])
    assert cells["kafka_python@3.0.12"]["word"] != "hangs", cells
    assert cells["kafka_python@3.0.12"]["hits"]["not-leader"] > 0
    page = (tmp_path / "matrix.html").read_text()
    assert 'id="sarama-hang--sarama-1.37.2"' in page

    again = CliRunner().invoke(app, [*asked, *two])
    assert json.loads(again.stdout)["cells"] == json.loads(first.stdout)["cells"]
