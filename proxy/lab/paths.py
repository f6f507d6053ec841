"""Where the lab keeps what it downloads and what it must find again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from notleader.proxy.lab.errors import LabError


class CacheFolderError(OSError):
    """There is no cache folder and none can be made."""


def cache_folder() -> Path:
    """`cache_place()`, made when absent. Raises CacheFolderError."""
    folder = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheFolderError(error.errno, error.strerror, str(folder)) from error
    return folder


def made(out: Path) -> None:
    """Make the folder that a command was given as --out, where it isn't there.

    A LabError where there can be none; another OSError says itself what is in the way.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        raise LabError(f"can't make {out}: {error.strerror}; name a folder that can be written, with --out") from error


def cache_place() -> Path:
    """`$XDG_CACHE_HOME/notleader`, by default `~/.cache/notleader`. Raises CacheFolderError where there is no home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise CacheFolderError(errno.ENOENT, "this user has no home", "~/.cache/notleader") from error
    return Path(base) / "notleader"
