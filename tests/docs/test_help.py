"""`--help` suffices: every option of every command says what it takes and what it does, in full at 80 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from notleader.proxy.cli.app import app


def tree(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from tree(child, (*path, name))


# `analyze` hands everything on to a program of its own, which has its own help.
COMMANDS = [found for found in tree(typer.main.get_command(app)) if found[0] != ("analyze",)]


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=lambda part: " ".join(part) if part == () else None)
def test_everything_says_what_it_takes_and_does(path: tuple[str, ...], command: Any) -> None:
    assert command.help
    for param in command.params:
        assert param.help, (path, param.name)
        # A type of Python's (`<str>`) tells a user nothing.
        assert getattr(param, "is_flag", False) or param.metavar, (path, param.name)


@pytest.mark.parametrize("path", [path for path, _ in COMMANDS], ids=" ".join)
def test_no_option_is_cut_on_a_common_terminal(path: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80", "NO_COLOR": "1"}, terminal_width=80)
    assert shown.exit_code == 0
    assert not re.findall(r"--[\w-]*…", shown.output)
    assert max(map(len, shown.output.splitlines())) <= 80
