"""What would be published, built once, and a clean environment with the wheel in it, without extras."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).resolve().parents[2]


class Release(NamedTuple):
    wheel: Path
    sdist: Path
    source: Path


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The sdist, and the wheel made from that sdist: what is missing there is missing in both."""
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source") / "notleader"
    # What is tracked or new, but nothing that lies around: a checkout as a release job has it.
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (PROJECT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / name, source / name)
    # To optimise what is compiled takes most of a build.
    env = {**os.environ, "CFLAGS": "-O0"}
    build = [sys.executable, "-m", "build", "--outdir", str(out), str(source)]
    subprocess.run(build, env=env, check=True, timeout=300)
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    return Release(wheel, sdist, source)


@pytest.fixture(scope="session")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a virtual environment that has the wheel and what it depends on, and no extra."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    # pip only: the extras are what this environment must not have.
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-q", "--no-compile"]
    subprocess.run([*pip, str(release.wheel)], check=True, timeout=500)
    return folder / "bin"
