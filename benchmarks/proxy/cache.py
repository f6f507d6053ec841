"""Where built and downloaded programs are kept, outside the tree."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.proxy.errors import UnavailableError
from notleader.proxy.lab.paths import cache_folder

_LOAD_SOURCES = Path(__file__).parent / "load"
_BUILD_TIMEOUT_S = 600
_ADDRESS = re.compile(r"https?://[^\s:]+")


def bench_folder() -> Path:
    """The bench's own part of notleader's cache."""
    folder = cache_folder() / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def load_program() -> Path:
    """The load generator and fake broker, built when its sources are newer; needs Go. Raises UnavailableError."""
    digest = hashlib.sha256()
    for source in sorted(_LOAD_SOURCES.iterdir()):
        digest.update(source.read_bytes())
    program = bench_folder() / f"load-{digest.hexdigest()[:12]}"
    if not program.exists():
        partial = program.with_name(f"{program.name}.{os.getpid()}")
        go = required("go", "the load generator is built with it")
        command([go, "build", "-o", str(partial), "."], "building the load generator", cwd=_LOAD_SOURCES)
        partial.rename(program)
    return program


def required(program: str, why: str) -> str:
    """The path of a program on PATH. Raises UnavailableError."""
    found = shutil.which(program)
    if found is None:
        raise UnavailableError(f"{program} is not installed ({why})")
    return found


def command(argv: Sequence[str], doing: str, *, cwd: Path) -> str:
    """Run a build or download and return what it printed. Raises UnavailableError with its reason."""
    try:
        ran = subprocess.run(
            list(argv),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{doing}: {error}") from error
    if ran.returncode:
        lines = [line.strip() for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
        # The first line that says so is the cause; what follows it is mostly advice.
        reason = next((line for line in lines if "error" in line.lower() or "forbidden" in line.lower()), None)
        told = reason or (lines[-1] if lines else f"exit code {ran.returncode}")
        raise UnavailableError(f"{doing}: {_ADDRESS.sub('the registry', told)}")
    return ran.stdout
