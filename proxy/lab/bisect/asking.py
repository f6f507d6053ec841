"""What a package registry's own client says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from notleader.proxy.lab.clients import ClientError


def asked(argv: list[str], folder: Path, failed: str, timeout_s: float | None = None) -> str:
    """What the command prints, run in a folder.

    ClientError, which begins with `failed`, when it isn't there, ends badly, or takes longer than it may.
    """
    if shutil.which(argv[0]) is None:
        raise ClientError(f"{failed}: there is no '{argv[0]}' on PATH")
    try:
        ran = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise ClientError(f"{failed}: '{' '.join(argv[:3])}' said nothing in {timeout_s:.0f} s") from error
    if ran.returncode:
        raise ClientError(f"{failed}: {' '.join((ran.stderr or ran.stdout).split())[-300:]}")
    return ran.stdout
