"""Every code block of the documentation: which test runs it, or why none does; and that all of it is well-formed.

A page that gets a block of a new sort fails here until somebody says which of the two it is.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
import yaml

from notleader.proxy.cli.app import app
from notleader.proxy.config.settings import ConfigError, load
from tests.docker.image import PROJECT

HOW_TO = "tests/docs/test_how_to.py"
LIBRARIES = "tests/integration/testcontainers/test_libraries.py"
README = "tests/docs/test_readme.py"
RUN = {
    ("README.md", "console"): README,
    ("docs/live-analysis.md", "sh"): README,
    ("CONTRIBUTING.md", "python"): "tests/faults/test_contributing.py",
    ("CONTRIBUTING.md", "sh"): "tests/faults/test_contributing.py",
    ("docs/tutorial.md", "sh"): HOW_TO,
    ("docs/http-api.md", "sh"): HOW_TO,
    ("docs/how-to/ci-leader-election.md", "sh"): HOW_TO,
    ("docs/how-to/move-from-toxiproxy.md", "sh"): HOW_TO,
    ("docs/how-to/replay.md", "sh"): HOW_TO,
    ("docs/uses/sidecar.md", "sh"): HOW_TO,
    ("docs/uses/fault-server.md", "sh"): HOW_TO,
    ("docs/uses/capture-tool.md", "sh"): HOW_TO,
    ("docs/how-to/testcontainers.md", "go"): LIBRARIES,
    ("docs/how-to/testcontainers.md", "java"): LIBRARIES,
    ("docs/how-to/testcontainers.md", "python"): "tests/docs/test_testcontainers.py",
    ("docs/see-what-your-client-does.md", "console"): "tests/integration/capture/test_docs.py",
    ("docs/see-what-your-client-does.md", "python"): "tests/docs/test_notebook.py",
}
_ENGINE = "wants a container engine: the Dockerfiles, the entry points and docker/sbom.sh are run by tests/docker"
_CLUSTER = "wants a Kubernetes cluster: the manifests are checked against its schemas by tests/docker"
_EXCERPT = "an excerpt: programs of this form are run whole by tests/docs/test_examples.py"
_OF_RECORDERS = "an excerpt of an application that already has its Kafka client"
NOT_RUN = {
    ("README.md", "yaml"): "checked here as a config file",
    ("docs/cheat-sheet.md", "yaml"): "checked here as a config file",
    ("docs/uses/sidecar.md", "yaml"): "a step of another CI: tests/release plays what it does",
    ("docs/uses/capture-tool.md", "sql"): "for DuckDB: asked of the recording by tests/docs/test_how_to.py",
    ("docs/analysis.md", "sh"): "parsed here; tests/spark_analysis/test_resident.py does so",
    ("docs/analysis.md", "json"): "an example of a line: parsed here",
    ("docs/explore.md", "console"): "its commands are checked here; tests/integration/lab/test_explore.py runs such",
    ("docs/explore.md", "yaml"): "checked here as a config file",
    ("docs/faults.md", "yaml"): "checked here as a config file",
    ("docs/http-api.md", "json"): "examples of an answer and of a body: parsed here",
    ("docs/how-to/ci-leader-election.md", "yaml"): "a workflow of another CI; its commands are the page's sh block",
    ("docs/how-to/containers.md", "sh"): _ENGINE,
    ("docs/how-to/monitoring.md", "json"): "an example of a log line: parsed here",
    ("docs/how-to/monitoring.md", "yaml"): "Prometheus' own configuration: parsed here",
    ("docs/how-to/pytest.md", "python"): _EXCERPT,
    ("docs/how-to/sidecar.md", "sh"): _CLUSTER,
    ("docs/how-to/sidecar.md", "yaml"): "values of the chart: its schema is tried by tests/docker/test_helm.py",
    ("docs/how-to/workers.md", "sh"): "parsed here; make test-workers runs it so",
    ("docs/lab.md", "python"): _EXCERPT,
    ("docs/recorders.md", "go"): _OF_RECORDERS,
    ("docs/recorders.md", "properties"): _OF_RECORDERS,
    ("docs/recorders.md", "python"): _OF_RECORDERS,
}
# What takes hours, or a cluster: their commands are how to do it by hand. They are parsed here like all others.
MEASURED = {
    "docs/analysis-at-scale.md",
    "docs/benchmarks.md",
    "docs/matrix.md",
    "docs/soak.md",
    "docs/what-is-in-the-way.md",
    "docs/what-polling-costs.md",
}


class Block(NamedTuple):
    page: str
    language: str
    text: str


PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").rglob("*.md"))]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        found = re.findall(r"^ *```(\w+)[^\n]*\n(.*?)^ *```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for language, text in found:
            yield Block(page.relative_to(PROJECT).as_posix(), language, text)


ALL = list(blocks())


def of(*languages: str) -> list[object]:
    found = [block for block in ALL if block.language in languages]
    return [pytest.param(block, id=f"{block.page}-{number}") for number, block in enumerate(found)]


def test_of_every_block_it_is_said_who_runs_it_or_why_nobody_does() -> None:
    there = {(block.page, block.language) for block in ALL if block.page not in MEASURED}
    assert not RUN.keys() & NOT_RUN.keys()
    assert there == RUN.keys() | NOT_RUN.keys()
    for (page, _), test in RUN.items():
        assert Path(page).name in (PROJECT / test).read_text(), f"{test} does not mention {page}"


@pytest.mark.parametrize("block", of("json"))
def test_json_is_json(block: Block) -> None:
    for line in [block.text] if block.text.startswith("{\n") or "\n " in block.text else block.text.splitlines():
        json.loads(line)


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_yaml_and_faults_are_faults(block: Block) -> None:
    document = yaml.safe_load(block.text)
    if isinstance(document, dict) and document.keys() & {"faults", "steps"}:
        try:
            load(document, need_kafka=False)
        except ConfigError as error:
            pytest.fail(str(error))


@pytest.mark.parametrize("block", of("python"))
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def commands(text: str) -> Iterator[list[str]]:
    """The words of every `notleader` command in shell text, up to what redirects, pipes or ends it."""
    text = re.sub(r"^\$ ", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    text = re.sub(r"^\s*#.*$|\s# .*$", "", text, flags=re.MULTILINE)
    lexer = shlex.shlex(text.replace("\n", "\n;"), posix=True, punctuation_chars=";&|<>()")
    lexer.commenters, lexer.whitespace_split = "", True
    words: list[str] = []
    for token in [*lexer, ";"]:
        if not set(token) <= set(";&|<>()"):
            words.append(token)
            continue
        if "notleader" in words and words[0] not in ("docker", "helm", "pip", "kubectl", "python3"):
            yield words[words.index("notleader") + 1 :]
        words = []


def check(words: list[str]) -> None:
    """Fail unless there is this command with these options."""
    command: Any = typer.main.get_command(app)
    left = list(words)
    while hasattr(command, "commands") and left and not left[0].startswith("-"):
        assert left[0] in command.commands, words
        command = command.commands[left.pop(0)]
    if not left:
        return  # a command's name and no more
    try:
        command.make_context("notleader", left)
    except Exception as error:  # Typer has a Click of its own
        pytest.fail(f"{words}: {error}")


@pytest.mark.parametrize("block", of("sh", "console"))
def test_commands_are_those_that_there_are(block: Block) -> None:
    for words in commands(block.text):
        check(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_told_in_passing_are_those_that_there_are(page: Path) -> None:
    """In blocks without a language, and in the text."""
    text = page.read_text()
    fences = re.findall(r"^ *```([^\n]*)\n(.*?)^ *```$", text, flags=re.MULTILINE | re.DOTALL)
    told = [block for language, block in fences if not language]
    text = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
    told += [one.replace("\n", " ") for one in re.findall(r"`(notleader [^`|]+)`", text)]
    for block in told:
        try:
            found = list(commands(re.sub(r" #.*", "", block)))
        except ValueError:
            continue  # what a command printed: its apostrophes quote nothing
        for words in found:
            if words[-1] != "--help":
                check(words)


def test_a_command_that_is_not_there_is_found() -> None:
    text = "X=1 notleader fault ad '{\"a\": 1}' | cat\n# notleader nothing\npip install notleader\n"
    one, other = commands(f"{text}notleader run --kafak x\n")
    assert one == ["fault", "ad", '{"a": 1}']
    for words in (one, other):
        with pytest.raises((AssertionError, pytest.fail.Exception)):
            check(words)
