"""Where the lab keeps what it downloads and what it must find again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/notleader`, by default `~/.cache/notleader`; made when absent."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "notleader"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
