"""The Testcontainers recipe for Python: typed with the real library, run with a real proxy in the container's place.

There is no container engine here. What drives a proxy is what a reader copies; where its container would be, it gets
the address of `notleader run`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest

from notleader.proxy.lab.paths import cache_folder
from tests.docker.image import PROJECT

HERE = Path(__file__).parent / "testcontainers"
PAGE = (PROJECT / "docs/how-to/testcontainers.md").read_text()
TOKEN = {"Authorization": "Bearer test"}  # as the recipes have it


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


class Echo(BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(1024):
            self.request.sendall(data)


class Running(NamedTuple):
    """A proxy's HTTP API, and a server that a recipe's toxic is put before."""

    admin: str
    echo: str

    @property
    def arguments(self) -> list[str]:
        return [*self.admin.split(":"), self.echo]

    def ask(self, path: str, method: str = "GET") -> Any:
        with urlopen(Request(f"http://{self.admin}{path}", headers=TOKEN, method=method), timeout=120) as answer:
            return json.loads(answer.read() or "null")


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    words = ["run", "--json", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    env = {**os.environ, "NOTLEADER_TOKEN": "test", "PYTHONPATH": str(PROJECT / "src")}
    with (
        ThreadingTCPServer(("127.0.0.1", 0), Echo) as echo,
        subprocess.Popen(
            [sys.executable, "-m", "notleader", *words],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        echo.daemon_threads = True
        threading.Thread(target=echo.serve_forever, daemon=True).start()
        assert process.stdout is not None
        try:
            admin = json.loads(process.stdout.readline())["admin"]
            yield Running(admin, f"127.0.0.1:{echo.server_address[1]}")
        finally:
            process.terminate()
            echo.shutdown()


def done(*words: str | Path, **more: object) -> str:
    """Run a program to its end and give what it printed."""
    ran = subprocess.run(words, capture_output=True, text=True, timeout=900, **more)  # type: ignore[call-overload]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return str(ran.stdout)


async def took_s(address: str) -> float:
    reader, writer = await asyncio.open_connection(*address.split(":"))
    started = time.monotonic()
    writer.write(b"ping")
    assert await reader.readexactly(4) == b"ping"
    writer.close()
    return time.monotonic() - started


def check(running: Running, told: str, name: str) -> None:
    """The fault and the toxic are there, the toxic delays, and what was wrong with the other fault was said."""
    assert told.startswith("OK, and:")
    assert "nonsense" in told
    assert [rule["name"] for rule in running.ask("/v1/faults")] == [name]
    assert asyncio.run(took_s(running.ask("/proxies/slow")["listen"])) >= 0.2
    running.ask("/proxies/slow", "DELETE")
    running.ask(f"/v1/faults/{name}", "DELETE")


def test_python(running: Running, tmp_path: Path) -> None:
    venv = cache_folder() / "testcontainers-python"
    python = venv / "bin/python"
    if not (venv / "done").exists():
        done(sys.executable, "-m", "venv", "--clear", "--without-pip", venv)
        packages = ["testcontainers==4.15.0", "toxiproxy-python==0.1.1", "future", "requests", "types-requests"]
        done(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *packages)
        (venv / "done").touch()
    (recipe,) = blocks("python")
    (tmp_path / "recipe.py").write_text(recipe)
    mypy = ["--python-executable", python, "--config-file", os.devnull, "--disable-error-code=import-untyped"]
    done(sys.executable, "-m", "mypy", *mypy, "recipe.py", cwd=tmp_path)
    shutil.copy(HERE / "main.py", tmp_path)
    check(running, done(python, "main.py", *running.arguments, cwd=tmp_path), "python")
