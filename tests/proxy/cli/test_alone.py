"""A command that is imported alone is the one of the whole."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from notleader.proxy.cli.alone import alone
from notleader.proxy.cli.app import app

GROUP = typer.main.get_command(app)
WHOLE = sorted(GROUP.commands)  # type: ignore[attr-defined]
ITS_OWN = {"analyze", "check", "help", "init", "schema", "spark"}


def said(of: typer.Typer, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(of, list(words), prog_name="notleader", env={"COLUMNS": "120"})
    return result.exit_code, result.output


@pytest.mark.parametrize("word", sorted(set(WHOLE) - ITS_OWN))
def test_it_says_the_same(word: str) -> None:
    one = alone(word)
    assert one is not None
    for words in ((word, "--help"), (word, "--nosuch"), (word, "nosuch", "--help")):
        assert said(one, *words) == said(app, *words), words


@pytest.mark.parametrize("word", [None, "--help", "nosuch", *sorted(ITS_OWN)])
def test_what_is_not_one_of_them_is_for_the_whole(word: str | None) -> None:
    assert alone(word) is None


def test_nothing_of_another_command_is_imported() -> None:
    program = (
        "import sys; sys.argv = ['notleader', 'kafka', '--help']; import notleader.proxy.__main__ as m, atexit\n"
        "atexit.register(lambda: print([n for n in sys.modules if n.startswith('notleader.faults')]))\n"
        "m.main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n"), done.stdout[-300:]
