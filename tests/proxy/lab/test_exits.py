"""How the lab's commands end where they can't write, and by a signal."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from notleader.proxy.cli.app import app
from notleader.proxy.lab.exits import clear_errors


@pytest.mark.parametrize(
    "command",
    [
        ["explore", "--", "true", "{bootstrap}"],
        ["incident", "run", "lost-acknowledgement"],
        ["matrix", "--incidents", "lost-acknowledgement"],
        ["demo"],
    ],
    ids=lambda command: command[0],
)
def test_a_place_that_is_no_folder_is_said_in_one_line(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = ["--out", str(tmp_path / "file" / "below")]
    at = command.index("--") if "--" in command else len(command)
    ended = CliRunner().invoke(app, [*command[:at], *out, *command[at:]])
    assert ended.exit_code == 2, ended.output
    assert "Not a directory; name a folder that can be written, with --out" in " ".join(ended.output.split())


def test_a_full_disk_is_said_and_another_mistake_is_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, clear_errors(as_json=False):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert ended.value.exit_code == 2
    assert "No space left on device; make room" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(FileNotFoundError), clear_errors(as_json=False):
        raise FileNotFoundError(errno.ENOENT, "not there", "lines.json")


@pytest.mark.parametrize(
    ("home", "command"),
    [
        ("file", ["kafka", "up"]),
        ("cache", ["kafka", "up"]),
        ("file", ["incident", "run", "lost-acknowledgement"]),
    ],
    ids=["kafka", "kafka-in-the-cache", "incident"],
)
def test_where_the_cache_can_not_be_the_cache_is_named_and_what_moves_it(
    home: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "cache" / "notleader").mkdir(parents=True)
    (tmp_path / "cache" / "notleader" / "jars").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / home))
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, command)
    assert ended.exit_code == 2, ended.output
    said = " ".join(ended.output.split())
    assert f"can't write the cache folder, {tmp_path / home / 'notleader'}" in said
    assert said.endswith("name another with the variable XDG_CACHE_HOME")


def test_where_no_cache_can_be_no_kafka_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    ended = CliRunner().invoke(app, ["kafka", "down"])
    assert (ended.exit_code, ended.output) == (0, "nothing was running\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_exit_code_says_which_signal_ended_it(number: signal.Signals, code: int) -> None:
    with pytest.raises(typer.Exit) as ended, clear_errors(as_json=False):
        signal.raise_signal(number)
    assert ended.value.exit_code == code
