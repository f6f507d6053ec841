"""`notleader init`, `schema`, `help`, what Tab offers, and the schemas that lie in docs/."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from notleader.faults.base import Fault
from notleader.proxy.cli import completion
from notleader.proxy.cli.app import app
from notleader.proxy.cli.file_schemas import SCHEMAS, text_of
from notleader.proxy.lab.incident import INCIDENTS

PROJECT = Path(__file__).parents[3]


def ran(*words: str) -> Any:
    return CliRunner().invoke(app, words)


def valid(name: str, document: Any) -> bool:
    return jsonschema.Draft202012Validator(SCHEMAS[name]()).is_valid(document)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_in_docs_are_those_of_the_code(name: str) -> None:
    """Otherwise: python -m notleader.proxy.cli.file_schemas"""
    assert (PROJECT / f"docs/schemas/{name}.schema.json").read_text() == text_of(name)
    assert ran("schema", name).stdout == text_of(name)


def test_every_incident_has_its_schema_and_points_to_it() -> None:
    for file in INCIDENTS.glob("*.yaml"):
        text = file.read_text()
        assert valid("incident", yaml.safe_load(text)), file.name
        pointed = text.splitlines()[0].partition("$schema=")[2]
        assert (PROJECT / "faults/incidents" / pointed).resolve() == PROJECT / "docs/schemas/incident.schema.json"


def test_the_rules_of_compose_and_of_the_cheat_sheet_point_to_their_schema() -> None:
    file = PROJECT / "docker/app/faults.yaml"
    (shown,) = re.findall(
        r"^```yaml\n(.*?)^```$", (PROJECT / "docs/cheat-sheet.md").read_text(), re.DOTALL | re.MULTILINE
    )
    for text, folder in ((file.read_text(), file.parent), (shown, PROJECT / "docs")):
        first = text.splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema=")
        assert (folder / first.partition("$schema=")[2]).resolve() == PROJECT / "docs/schemas/config.schema.json"
        assert valid("config", yaml.safe_load(text))


@pytest.mark.parametrize(
    ("document", "is_valid"),
    [
        ({"faults": [{"kind": "delay", "delay_ms": 5}]}, True),
        ({"faults": [{"kind": "delya", "delay_ms": 5}]}, False),
        ({"faults": [{"kind": "delay", "delay_ms": 5, "mach": {}}]}, False),
        ({"kafka": "a:9092,b:9093", "listen": ":19092", "broker_ports": "9101"}, True),
        ({"kafka": ["a:9092", "[::1]:9093"], "admin": "none"}, True),
        ({"kafka": "a"}, False),
        ({"kafak": "a:9092"}, False),
        ({"steps": [{"at": "2s", "clear": True}]}, True),
        ({"steps": [{"clear": True}]}, False),
    ],
)
def test_a_config_is_valid_where_the_proxy_takes_it(document: Any, is_valid: bool, tmp_path: Path) -> None:
    assert valid("config", document) is is_valid
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(document))
    assert (ran("check", str(file)).exit_code == 0) is is_valid


def test_a_timeline_is_steps_alone() -> None:
    assert valid("timeline", {"steps": [{"at": 1, "remove": "x"}]})
    assert not valid("timeline", {"steps": []})
    assert not valid("timeline", {"faults": []})


def test_init_writes_a_file_that_check_and_schema_accept(tmp_path: Path) -> None:
    file = tmp_path / "new/rules.yaml"
    assert ran("init", str(file)).exit_code == 0
    assert ran("check", str(file)).exit_code == 0
    schema = json.loads((file.parent / "notleader.schema.json").read_text())
    assert jsonschema.Draft202012Validator(schema).is_valid(yaml.safe_load(file.read_text()))
    # What stands there as a comment is right too.
    commented = file.read_text().replace("# steps:", "steps:").replace("\n#   ", "\n  ")
    commented = commented.replace("  # - name", "  - name").replace("  #   ", "    ")
    file.write_text(commented)
    assert len(yaml.safe_load(commented)["faults"]) == 2
    assert len(yaml.safe_load(commented)["steps"]) == 3
    assert ran("check", str(file)).exit_code == 0, ran("check", str(file)).output


def test_init_writes_over_nothing_unasked(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("faults: []\n")
    refused = ran("init", str(file))
    assert refused.exit_code == 2
    assert "--force" in refused.output
    assert file.read_text() == "faults: []\n"
    assert ran("init", str(file), "--force").exit_code == 0


def test_check_tells_programs_the_line_that_it_shows(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("kafka: localhost:9092\nfaults:\n- kind: close\n  trigger: {times: many}\n")
    checked = json.loads(ran("check", "--json", str(file)).stdout)
    assert [(found["path"], found["line"]) for found in checked["problems"]] == [("faults[0].trigger.times", 4)]
    file.unlink()
    (gone,) = json.loads(ran("check", "--json", str(file)).stdout)["problems"]
    assert gone["line"] is None


def test_help_is_that_of_the_command() -> None:
    assert "all of them or none" in ran("help", "fault", "add").output
    assert "Commands" in ran("help").output
    wrong = ran("help", "fautl")
    assert wrong.exit_code == 2
    assert "did you mean 'fault'" in wrong.output


def test_tab_offers_kinds_and_no_error_where_no_proxy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTLEADER_ADMIN", "127.0.0.1:1")
    assert completion.kinds("leader_") == ["leader_election", "leader_move"]
    assert set(completion.kinds("")) == set(Fault.kinds)
    assert completion.rules("") == []


def test_several_files_are_checked_at_once(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.yaml", tmp_path / "wrong.yaml"
    right.write_text("faults:\n- kind: close\n")
    wrong.write_text("faults:\n- kind: close\n- kind: clsoe\n")
    told = ran("check", str(right), str(wrong))
    assert told.exit_code == 1
    assert f"{right}: valid\n" in told.stdout
    assert f"{wrong}:3: faults[1].kind" in told.output
    both = json.loads(ran("check", "--json", str(right), str(wrong)).stdout)
    assert [(each["file"], each["valid"]) for each in both] == [(str(right), True), (str(wrong), False)]
    alone = json.loads(ran("check", "--json", str(right)).stdout)
    assert alone == {"file": str(right), "valid": True, "problems": []}
