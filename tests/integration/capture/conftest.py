"""`notleader run` as a process of its own, as users run it, and raw Kafka requests to put it under load."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from notleader.proxy.wire.endpoint import Endpoint, parse_endpoint

NOTLEADER = [sys.executable, "-m", "notleader"]


class Running(NamedTuple):
    """A proxy that listens."""

    process: subprocess.Popen[str]
    listen: Endpoint
    admin: str
    errors: Path

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)


RunProxy = Callable[..., AbstractContextManager[Running]]


def notleader(*arguments: str, code: int = 0, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; its exit code is the one expected."""
    done = subprocess.run([*NOTLEADER, *arguments], capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def run_proxy(tmp_path: Path) -> RunProxy:
    """``with run_proxy("--kafka", …) as running``; what is still alive at the end is killed."""

    @contextmanager
    def start(*arguments: str, env: dict[str, str] | None = None, **popen: Any) -> Iterator[Running]:
        errors = tmp_path / "stderr.txt"
        with errors.open("w") as sink:
            process = subprocess.Popen(
                [*NOTLEADER, "run", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--json", *arguments],
                stdout=subprocess.PIPE,
                stderr=sink,
                text=True,
                env=env,
                **popen,
            )
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            assert line, errors.read_text()
            ready = json.loads(line)
            yield Running(process, parse_endpoint(ready["listen"]), ready["admin"], errors)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    return start
