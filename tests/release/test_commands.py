"""The installed command in a clean environment: no extras, no source tree, somebody else's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from notleader.proxy import __version__
from notleader.proxy.lab.ports import free_ports
from tests.release.conftest import Release


def notleader(installed: Path, *words: str, folder: Path, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout, stderr; PYTHON… variables of the tests are not passed on, `java` is not found."""
    plain = {"PATH": str(installed), "HOME": str(folder), "TERM": "dumb", **(env or {})}
    ran = subprocess.run(
        [str(installed / "notleader"), *words], cwd=folder, env=plain, capture_output=True, text=True, timeout=300
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_version_and_help(installed: Path, tmp_path: Path) -> None:
    assert notleader(installed, "--version", folder=tmp_path) == (0, f"{__version__}\n", "")
    code, out, err = notleader(installed, "--help", folder=tmp_path)
    assert (code, err) == (0, "")
    for command in ("run", "fault", "capture", "kafka", "demo", "analyze", "check"):
        assert command in out
    assert "\x1b" not in out  # colours are for terminals


def test_kinds_and_check(installed: Path, tmp_path: Path) -> None:
    code, out, _ = notleader(installed, "fault", "kinds", "--json", folder=tmp_path)
    assert code == 0
    assert len(json.loads(out)) > 20
    (tmp_path / "good.yaml").write_text("faults: [{kind: drop_response, match: {api_key: Produce}}]\n")
    (tmp_path / "bad.yaml").write_text("faults: [{kind: drop_respons}]\n")
    assert notleader(installed, "check", "good.yaml", folder=tmp_path)[0] == 0
    code, out, err = notleader(installed, "check", "bad.yaml", folder=tmp_path)
    assert code == 1
    assert "did you mean" in err


def test_run_until_sigterm(installed: Path, tmp_path: Path) -> None:
    listen, admin, nowhere = free_ports(3)
    process = subprocess.Popen(
        [str(installed / "notleader"), "run", "--json"],
        cwd=tmp_path,
        env={
            "PATH": str(installed),
            "HOME": str(tmp_path),
            "NOTLEADER_KAFKA": f"127.0.0.1:{nowhere}",
            "NOTLEADER_LISTEN": f"127.0.0.1:{listen}",
            "NOTLEADER_ADMIN": f"127.0.0.1:{admin}",
            "NOTLEADER_CAPTURE": str(tmp_path / "c"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["listen"] == f"127.0.0.1:{listen}"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out == ""
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["analyze", "--capture", "c", "--outcomes", "o", "--out", "r"], "spark"),
        (["kafka", "up"], "kafka"),
        (["run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--traces", "http://127.0.0.1:1"], "otel"),
        (["demo"], ""),
    ],
)
def test_what_an_extra_gives_says_so_without_it(installed: Path, tmp_path: Path, words: list[str], extra: str) -> None:
    code, out, err = notleader(installed, *words, folder=tmp_path)
    assert code == 2
    assert out == ""
    assert "Traceback" not in err
    assert "pip install 'notleader[" + extra in " ".join(err.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(installed: Path, tmp_path: Path, shell: str) -> None:
    """The script for a shell is made, and what it calls completes a command."""
    env = {"_NOTLEADER_COMPLETE": f"source_{shell}", "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    code, out, _ = notleader(installed, folder=tmp_path, env=env)
    assert code == 0
    assert "_NOTLEADER_COMPLETE" in out
    asked = {"_NOTLEADER_COMPLETE": f"complete_{shell}", "COMP_WORDS": "notleader fau", "COMP_CWORD": "1"}
    asked |= {"_TYPER_COMPLETE_ARGS": "notleader fau", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    code, out, _ = notleader(installed, folder=tmp_path, env=asked)
    assert "fault" in out, os.linesep.join(out)


INTERRUPTS = """
import os, signal, sys
left = None

def interrupt(event, arguments):
    global left
    if event == "import" and left is None and arguments[0] in ("notleader.proxy.cli", "notleader.proxy.flags"):
        left = int(os.environ["INTERRUPT_AT"])
    if event == "import" and left is not None:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(interrupt)
"""


@pytest.mark.parametrize("imports", [0, 1, 20, 200])
@pytest.mark.parametrize("words", ["run --kafka 127.0.0.1:1 --listen 127.0.0.1:0", "fault kinds", "check x"])
def test_an_interrupt_while_it_is_imported_is_silent(installed: Path, tmp_path: Path, words: str, imports: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPTS)
    env = {"PYTHONPATH": str(tmp_path), "INTERRUPT_AT": str(imports)}
    assert notleader(installed, *words.split(), folder=tmp_path, env=env) == (-signal.SIGINT, "", "")


@pytest.fixture(scope="module")
def runners(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with pipx and uv."""
    folder = tmp_path_factory.mktemp("runners") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q", "--no-compile"]
    subprocess.run([*pip, "pipx", "uv"], check=True, timeout=300)
    return folder / "bin"


@pytest.mark.parametrize(
    "words",
    [["pipx", "run", "--spec", "WHEEL", "notleader"], ["uvx", "--from", "WHEEL", "notleader"]],
    ids=lambda w: w[0],
)
def test_it_runs_without_being_installed(release: Release, runners: Path, tmp_path: Path, words: list[str]) -> None:
    command = [str(release.wheel) if word == "WHEEL" else word for word in words]
    env = {
        **os.environ,
        "PATH": f"{runners}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PIPX_HOME": str(tmp_path / "pipx"),
        "UV_CACHE_DIR": str(tmp_path / "uv"),
        "UV_PYTHON": sys.executable,
    }
    ran = subprocess.run(
        [str(runners / command[0]), *command[1:], "--version"], env=env, capture_output=True, text=True, timeout=400
    )
    assert (ran.returncode, ran.stdout) == (0, f"{__version__}\n"), ran.stderr
