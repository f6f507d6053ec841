"""A rule or a step that waits for a rule which isn't there is refused, wherever it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from notleader.faults.schema import Problem
from notleader.faults.waiting import waits_in_vain
from notleader.proxy.cli.app import app
from notleader.proxy.config.settings import ConfigError, load

CUT = {"kind": "close", "name": "cut", "match": {"api_key": "Produce"}}


def waiting(awaited: str, **more: Any) -> dict[str, Any]:
    return {"kind": "refuse", "trigger": {"after_fault": awaited}, **more}


def test_it_names_the_place_of_each() -> None:
    faults = [CUT, waiting("cut"), waiting("cot")]
    steps = [{"at": 1, "add": waiting("cut")}, {"at": 2, "add": [waiting("cut"), waiting("sawn")]}]
    assert waits_in_vain(faults, steps) == [
        Problem("faults[2].trigger.after_fault", "there is no rule named 'cot': this one would never strike"),
        Problem("steps[1].add[1].trigger.after_fault", "there is no rule named 'sawn': this one would never strike"),
    ]


def test_a_step_waits_for_a_rule_that_there_is() -> None:
    steps = [
        {"at": 1, "add": {**CUT, "name": "later"}},
        *({"after": {"fault": name, "hits": 2}, "clear": True} for name in ("later", "cut", "known", "close-1", "cot")),
    ]
    assert waits_in_vain([CUT, {"kind": "close"}], steps, known=["known"]) == [
        Problem("steps[5].after.fault", "there is no rule named 'cot': this step would never be taken")
    ]


@pytest.mark.parametrize(
    ("faults", "steps", "known"),
    [
        ([waiting("cut"), CUT], [], []),
        ([waiting("cut")], [{"at": 1, "add": CUT}], []),
        ([waiting("cut")], [], ["cut"]),
        ([{"kind": "close"}, {"kind": "close"}, waiting("close-2")], [], []),
    ],
    ids=["written before", "of a step", "in force already", "of the name that it is given"],
)
def test_one_that_is_there_or_comes_may_be_waited_for(faults: list[Any], steps: list[Any], known: list[str]) -> None:
    assert waits_in_vain(faults, steps, known=known) == []


def test_a_step_removes_a_rule_that_there_is() -> None:
    steps = [
        {"at": 1, "add": {**CUT, "name": "later"}},
        {"at": 2, "remove": ["later", "cut", "known", "close-1", "elsewhere", "cot"]},
        {"at": 3, "remove": "cat"},
    ]
    assert waits_in_vain([CUT, {"kind": "close"}], steps, known=["known"], removable=["elsewhere"]) == [
        Problem("steps[1].remove", "there is no rule named 'cot': nothing adds it"),
        Problem("steps[2].remove", "there is no rule named 'cat': nothing adds it"),
    ]


def test_a_config_that_removes_what_nothing_adds_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"steps\[0\].remove: there is no rule named 'b'"):
        load({"faults": [CUT], "steps": [{"at": 1, "remove": "b"}]}, need_kafka=False)


def test_the_steps_of_an_incident_may_name_what_a_run_of_it_has(tmp_path: Any) -> None:
    file = tmp_path / "incident.yaml"
    file.write_text(
        "clients: []\nsteps: [{at: 1, remove: cut}, {after: {fault: cut}, clear: true}, {at: 3, remove: cot}]\nruns:\n"
        "- {name: one, faults: [{kind: close, name: cut}]}\n"
        "- {name: two, steps: [{at: 1, remove: cut}, {at: 1, remove: cat}]}\n"
    )
    result = CliRunner().invoke(app, ["check", "--json", str(file)])
    found = [one["path"] for one in json.loads(result.output)["problems"]]
    assert [path for path in found if "steps" in path] == ["steps[2].remove", "runs[1].steps[1].remove"]


def test_no_rule_waits_for_itself() -> None:
    (problem,) = waits_in_vain([waiting("gone", name="gone")])
    assert problem == Problem("faults[0].trigger.after_fault", "names the rule itself, which would never strike")


def test_no_rules_wait_for_each_other() -> None:
    rules = [waiting("b", name="a"), waiting("c", name="b"), waiting("a", name="c"), waiting("a", name="d"), CUT]
    assert waits_in_vain(rules) == [
        Problem(
            f"faults[{position}].trigger.after_fault", f"these rules wait for each other, and none would strike: {way}"
        )
        for position, way in enumerate(["a → b → c → a", "b → c → a → b", "c → a → b → c"])
    ]
    assert waits_in_vain(rules[:3], known=["b"]) == [], "the b in force needn't wait for them"
    assert waits_in_vain([waiting("cut", name="a"), waiting("a", name="b"), CUT]) == []
    in_turn = [{"at": 1, "add": waiting("b", name="cut")}]
    assert waits_in_vain([CUT, waiting("cut", name="b")], in_turn) == [], "the first one named cut sets off b"


@pytest.mark.parametrize(
    "document",
    [
        None,
        3,
        [None, 3, {}],
        [{"trigger": 3}],
        [{"trigger": {"after_fault": 3}}],
        [{"after": 3}, {"after": {"fault": 3}}],
    ],
)
def test_what_is_no_rule_is_for_others_to_tell(document: Any) -> None:
    assert waits_in_vain(document, document) == []


def test_a_config_is_refused_whole() -> None:
    with pytest.raises(ConfigError) as refused:
        steps = [{"at": 1, "add": waiting("cot")}, {"after": {"fault": "sawn"}, "clear": True}]
        load({"faults": [waiting("cut")], "steps": steps}, need_kafka=False)
    assert [problem.path for problem in refused.value.problems] == [
        "faults[0].trigger.after_fault",
        "steps[0].add.trigger.after_fault",
        "steps[1].after.fault",
    ]


def test_a_file_is_told_by_its_line(tmp_path: Any) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("faults:\n- kind: close\n- kind: refuse\n  trigger:\n    after_fault: cut\n")
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 1
    assert f"{file}:5: faults[1].trigger.after_fault: there is no rule named 'cut'" in result.output


def test_a_run_of_an_incident_may_wait_for_the_incidents_rules(tmp_path: Any) -> None:
    file = tmp_path / "incident.yaml"
    file.write_text(
        "clients: []\nfaults: [{kind: close, name: cut}]\nruns:\n"
        "- {name: one, steps: [{at: 1, add: {kind: refuse, trigger: {after_fault: cut}}}]}\n"
        "- {name: two, faults: [{kind: refuse, trigger: {after_fault: cut}}]}\n"
    )
    result = CliRunner().invoke(app, ["check", "--json", str(file)])
    assert '"runs[1].faults[0].trigger.after_fault"' in result.output
    assert "runs[0].steps" not in result.output
