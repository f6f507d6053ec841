"""Whether a file is still the one that was read."""

from __future__ import annotations

from pathlib import Path


def stamp(file: Path | None) -> tuple[int, ...]:
    """What differs once the file was written again, or another was put in its place; empty where there is none."""
    try:
        found = file.stat() if file is not None else None
    except OSError:
        found = None
    return () if found is None else (found.st_mtime_ns, found.st_size, found.st_dev, found.st_ino)
