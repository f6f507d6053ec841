"""Documents read by libyaml say what the reader in Python says; what can't be read is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from notleader.faults.schema import Problem
from notleader.proxy.config.settings import ConfigError, load, located, read_yaml
from notleader.proxy.config.yaml_text import lines_of, parse_yaml

PROJECT = Path(__file__).parents[3]
DOCUMENTS = sorted([*PROJECT.glob("faults/incidents/*.yaml"), *PROJECT.glob("examples/**/*.yaml")])


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: file.name)
def test_it_says_what_the_reader_in_python_says(file: Path) -> None:
    text = file.read_text()
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: c: d", ":2:5: not valid YAML: mapping values are not allowed"),
        ("[" * 900, ":1:101: not valid YAML: nested more than 100 deep"),
        ("- " * 900, ":1:201: not valid YAML: nested more than 100 deep"),
        ("listen: 2026-13-45", ": not valid YAML: month must be in 1..12"),
        (
            "seed: 1\nfaults: []\nfaults:\n- kind: close",
            ":3:1: not valid YAML: faults is said twice, in line 2 and in line 3",
        ),
        (
            "faults:\n- kind: close\n  match: {topic: a,\n    topic: b}",
            ":4:5: not valid YAML: faults[0].match.topic is said twice, in line 3 and in line 4",
        ),
        ('{"seed": 1, "seed": 1}', ":1:13: not valid YAML: seed is said twice, in line 1 and in line 1"),
        ("a: !!python/object:os.system x", ":1:4: not valid YAML: could not determine a constructor"),
    ],
)
def test_what_cant_be_read_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "notleader.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_yaml(file)
    assert f"{file}{problem}" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "one: &one {a: 1, b: 2}\ntwo: {<<: *one, a: 3}\nthree: {<<: *one, <<: *one}",
        "1: a\n'1': b",
        "- {a: 1}\n- {a: 1}",
        "{a: &a [1], b: *a, c: *a}",
        "",
    ],
)
def test_what_is_said_once_in_each_place_is_taken(text: str) -> None:
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("opening", ["[", "- "])
def test_what_is_nested_without_end_is_refused_and_the_process_goes_on(tmp_path: Path, opening: str) -> None:
    """libyaml reads ahead: from PyYAML 6.0.4 on it has a bound of its own (1000), which it may say first."""
    file = tmp_path / "notleader.yaml"
    file.write_text(opening * 200_000)
    with pytest.raises(ConfigError, match=r":1:\d+: not valid YAML: .*nest(ed|ing)"):
        read_yaml(file)


@pytest.mark.parametrize(("written", "found"), [("", "nothing"), ("{}", "dict"), ("0", "int"), ("''", "str")])
def test_faults_that_are_no_list_are_refused_though_there_is_nothing_in_them(
    tmp_path: Path, written: str, found: str
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(f"kafka: kafka:9092\nfaults: {written}\n")
    with pytest.raises(ConfigError, match=f"^faults: a list of faults expected, got {found}$"):
        load({}, file)


_WRONG = """\
listen: 127.0.0.1:0
faults:
  - kind: error
    error_code: NOT_LEADER_OR_FOLLOWER

  - name: two
    kind: eror
    match: {api_key: Produce,
            topic: a}
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("listen", 1),
        ("faults[0]", 3),
        ("faults[1].kind", 7),
        ("faults[1].match.topic", 9),
        ("faults[1].trigger.times", 6),  # not there: the rule it is missing in
        ("faults[7].kind", 2),
        ("seed", None),
    ],
)
def test_a_path_is_found_in_the_text(path: str, line: int | None) -> None:
    assert lines_of(_WRONG)(path) == line


def test_a_problem_is_told_with_file_and_line_where_the_file_decides(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(_WRONG)
    problem = Problem("faults[1].kind", "no such kind")
    assert located([problem], file) == [f"{file}:7: faults[1].kind: no such kind"]
    assert located([problem], None) == ["faults[1].kind: no such kind"]
    assert located([Problem("listen", "no address")], file, {"listen"}) == ["listen: no address"]
    assert located([problem], tmp_path / "gone.yaml") == ["faults[1].kind: no such kind"]
