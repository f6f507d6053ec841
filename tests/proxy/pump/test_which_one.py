"""Which form of the pump is in use, how one sees that, and that the other keeps the session's promises too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from notleader.proxy import __version__

PROJECT = Path(__file__).parents[3]
PURE = {**os.environ, "NOTLEADER_PURE": "1"}
COMPILED = {name: value for name, value in os.environ.items() if name != "NOTLEADER_PURE"}


def test_it_is_compiled_here() -> None:
    """Else every other test would be one of the slow form, and none of what is shipped."""
    if find_spec("notleader.proxy.pump.pump") is None:
        pytest.fail(
            "notleader.proxy.pump.pump is not compiled for this Python: .venv/bin/pip install --no-deps -e . "
            "does it, given a compiler (apt-get install gcc python3-dev)",
            pytrace=False,
        )


@pytest.mark.parametrize(("env", "native"), [(PURE, False), (COMPILED, True)], ids=["pure", "compiled"])
def test_the_environment_chooses(env: dict[str, str], native: bool) -> None:
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "from notleader.proxy.pump import *; "
            "print(IS_NATIVE, Exchange.__module__, Pump.__module__, Probe.__module__)",
        ],
        cwd=PROJECT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    modules = ["pump", "pump", "probe"] if native else ["exchange", "pure", "interpreter"]
    assert told.stdout.split() == [str(native), *(f"notleader.proxy.pump.{module}" for module in modules)]


@pytest.mark.parametrize(("env", "word"), [(PURE, "pure Python"), (COMPILED, "compiled")], ids=["pure", "compiled"])
def test_a_proxy_says_so(env: dict[str, str], word: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "notleader", "run", "--kafka", "127.0.0.1:1", "--listen", "127.0.0.1:0"],
        cwd=PROJECT,
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while lines[-1] and "listening on" not in lines[-1]:
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(120) == 0, "".join(lines) + rest
    assert any(line.endswith(f"notleader {__version__} ({word})\n") for line in lines), lines


def test_the_sessions_promises_hold_without_it() -> None:
    """The tests of sessions, relays and what is read in passing once more, in pure Python."""
    files = [f"session/test_{name}.py" for name in ("session", "relays", "counted_errors", "metrics")]
    files += ["record/test_sink.py", "record/test_frames.py", "recorder/test_following.py"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/proxy/{name}" for name in files)],
        cwd=PROJECT,
        env=PURE,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
