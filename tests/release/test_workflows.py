"""The workflows, the action and the forms for GitHub: well-formed, pinned, and the action plays a whole run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker.image import PROJECT
from tests.tools.programs import need

GITHUB = PROJECT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.7"


def passes(*words: str | Path) -> None:
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=PROJECT, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def has_schema(schema: str, *files: Path) -> None:
    passes(BIN / "check-jsonschema", "--builtin-schema", schema, *files)


def test_workflows_are_linted() -> None:
    need("go")
    passes("go", "run", ACTIONLINT, "-shellcheck=", "-pyflakes=", *WORKFLOWS)


def test_schemas() -> None:
    has_schema("vendor.github-workflows", *WORKFLOWS)
    has_schema("vendor.github-actions", PROJECT / "action.yml")
    has_schema("vendor.dependabot", GITHUB / "dependabot.yml")
    forms = sorted(set((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) - {GITHUB / "ISSUE_TEMPLATE/config.yml"})
    has_schema("vendor.github-issue-forms", *forms)
    has_schema("vendor.github-issue-config", GITHUB / "ISSUE_TEMPLATE/config.yml")


@pytest.mark.parametrize("file", [*WORKFLOWS, PROJECT / "action.yml"], ids=lambda file: file.name)
def test_what_others_wrote_is_pinned_by_commit(file: Path) -> None:
    for used in re.findall(r"uses: (\S+.*)", file.read_text()):
        assert used == "./" or re.fullmatch(r"\S+@[0-9a-f]{40}\s+# v\d+(\.\d+)*", used), used


def test_a_release_is_refused_while_the_changelog_calls_it_unreleased() -> None:
    """And its version is the tag's."""
    release = [sys.executable, str(PROJECT / "scripts/release.py")]
    plain = subprocess.run([*release, "version"], capture_output=True, text=True, env={**os.environ, "TAG": ""})
    assert re.fullmatch(r"version=\d+\.\d+\.\d+\n", plain.stdout)
    stated = plain.stdout.strip().removeprefix("version=")
    for tag in (f"v{stated}", "v9.9.9"):
        ran = subprocess.run([*release, "version"], capture_output=True, text=True, env={**os.environ, "TAG": tag})
        if tag == "v9.9.9":
            assert "is not v" in ran.stderr
            assert ran.returncode == 1
        else:
            unreleased = f"## {stated} (unreleased)" in (PROJECT / "CHANGELOG.md").read_text()
            assert ran.returncode == int(unreleased), ran.stderr


RULES = """
seed: 7
faults:
  - {name: once, kind: error, error_code: NOT_LEADER_OR_FOLLOWER, match: {api_key: Produce}}
"""


@pytest.mark.kafka
@pytest.mark.parametrize("command", ["seq 1 3 | kcat -P -b $BOOTSTRAP_SERVERS -t orders -p 0", "exit 3", "true"])
def test_the_action_plays_a_command_and_says_what_came_of_it(command: str, tmp_path: Path) -> None:
    """With a Kafka of its own, without Spark: what the reports say has its own tests."""
    need("kcat")
    (tmp_path / "rules.yaml").write_text(RULES)
    summary = tmp_path / "summary.md"
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("NOTLEADER_")},
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ACTION_RUN": command,
        "ACTION_CONFIG": str(tmp_path / "rules.yaml"),
        "ACTION_OUT": str(tmp_path / "out"),
        "ACTION_ANALYZE": "false",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    ran = subprocess.run(
        ["bash", str(PROJECT / "scripts/action.sh")], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=170
    )
    if command.startswith("seq"):
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert list((tmp_path / "out/traffic").rglob("*.parquet"))
        assert not summary.exists() or "Never hit" not in summary.read_text()
    else:
        assert ran.returncode == (3 if command == "exit 3" else 1), ran.stdout + ran.stderr
        assert "never hit: once" in ran.stderr
        assert "Never hit, so nothing was tested by: once" in summary.read_text()


def played(given: dict[str, str], folder: Path) -> tuple[int, dict[str, str], str]:
    """Exit code, outputs and summary of action.yml, its steps run as a runner does.

    Only what is installed is what is here, and what would be stored as an artefact is looked at.
    """
    action: dict[str, Any] = yaml.safe_load((PROJECT / "action.yml").read_text())
    inputs = {name: str(about.get("default", "")) for name, about in action["inputs"].items()} | given
    install, play, upload = action["runs"]["steps"]
    assert "$GITHUB_ACTION_PATH[all]" in install["run"]
    files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)

    env = {name: value for name, value in os.environ.items() if not name.startswith(("NOTLEADER_", "ACTION_"))}
    env |= {"PATH": f"{BIN}:{os.environ['PATH']}", "GITHUB_ACTION_PATH": str(PROJECT)}
    env |= {name: str(file) for name, file in files.items()}
    env |= {name: filled(value) for name, value in play["env"].items()}
    # Files and not pipes: what a failing step leaves running would keep a pipe open.
    with open(folder / "log", "w") as log:
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", play["run"]]
        code = subprocess.run(command, env=env, cwd=folder, stdout=log, stderr=log, timeout=500).returncode
    told = files["GITHUB_OUTPUT"].read_text() if files["GITHUB_OUTPUT"].exists() else ""
    outputs = dict(line.split("=", 1) for line in told.splitlines())
    assert upload["if"].startswith("always()")
    assert list((folder / filled(upload["with"]["path"])).iterdir()), (folder / "log").read_text()
    return code, outputs, files["GITHUB_STEP_SUMMARY"].read_text()


def test_the_action_brings_a_command_and_no_other_python(tmp_path: Path) -> None:
    """A job's later `python3` is its own: with what it has installed."""
    install = yaml.safe_load((PROJECT / "action.yml").read_text())["runs"]["steps"][0]["run"]
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    made = 'mkdir -p "$3/bin" && for name in pip python3 notleader; do cp "$0" "$3/bin/$name"; done'
    (stubs / "python3").write_text(f'#!/bin/sh\n[ "$2" != venv ] || {{ {made}; }}\n')
    (stubs / "python3").chmod(0o755)
    env = {
        "PATH": f"{stubs}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_PATH": str(tmp_path / "path"),
        "GITHUB_ACTION_PATH": str(PROJECT),
    }
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", install], env=env, check=True, timeout=60)
    brought = [file.name for folder in (tmp_path / "path").read_text().split() for file in Path(folder).iterdir()]
    assert brought == ["notleader"]


APPENDED = """
faults:
  - name: told-otherwise
    kind: error
    error_code: NOT_LEADER_OR_FOLLOWER
    phase: after_broker
    match: {api_key: Produce}
"""


@pytest.mark.kafka
@pytest.mark.spark
def test_the_action_judges_by_spark_and_fails_the_job(tmp_path: Path) -> None:
    """A batch is written, the client is told that it was not, and sends it again."""
    (tmp_path / "rules.yaml").write_text(APPENDED)
    app = PROJECT / "tests/docs/your_app.py"
    run = f"mkdir said && cd said && {sys.executable} {app} --bootstrap-server $BOOTSTRAP_SERVERS"
    code, outputs, summary = played({"run": run, "config": "rules.yaml", "outcomes": "said"}, tmp_path)
    log = (tmp_path / "log").read_text()
    assert (code, outputs["verdict"]) == (1, "negative"), log
    assert "never hit" not in log
    assert re.search(r"Duplicated.*told-otherwise", summary, flags=re.DOTALL), summary
    assert Path(outputs["report"]).is_file()
