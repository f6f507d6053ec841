"""What is told of the input without Spark: whether it is there, and how large it is."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

SMALL_BYTES = 64 * 1024 * 1024
"""Input up to which an analysis is short: most of it is Spark's start and planning."""


_MAGIC = b"PAR1"


class InputError(Exception):
    """Input that cannot be analysed; the message is one line that says what to change."""


def is_local(path: str) -> bool:
    """True for a plain path or a file: URL, which can be looked at without Spark."""
    return "://" not in path or path.startswith("file://")


def local_path(path: str) -> Path:
    """The file system path behind a plain path or a file: URL."""
    return Path(path.removeprefix("file://"))


def size_bytes(paths: Iterable[str]) -> int:
    """Bytes below `paths`; what lies elsewhere may be of any size, and counts as more than a short run's."""
    total = 0
    for path in paths:
        if not is_local(path):
            total += SMALL_BYTES + 1
            continue
        root = local_path(path)
        if root.is_file():
            total += root.stat().st_size
        for folder, _, names in os.walk(root):
            total += sum((Path(folder) / name).stat().st_size for name in names if not name.startswith("."))
    return total


def check_paths(
    captures: Sequence[str], outcomes: Sequence[str], logs: Sequence[str] = (), *, growing: bool = False
) -> None:
    """InputError for the first local path that is missing or has nothing to read (`growing`: what may still come)."""
    for path in filter(is_local, logs):
        root = local_path(path)
        if not root.is_dir():
            raise InputError(f"log folder {path} does not exist: notleader log read writes one")
        if next(root.rglob("*.parquet"), None) is None:
            raise InputError(f"log folder {path} holds no .parquet file")
        _check_whole(root)
    for path in filter(is_local, captures):
        root = local_path(path)
        if not root.exists() and growing:
            continue
        if not root.exists():
            raise InputError(f"capture folder {path} does not exist")
        if not root.is_dir() and root.suffix != ".parquet":
            raise InputError(f"{path} is not a capture folder")
        if growing and not root.is_dir():
            raise InputError(f"{path} is not a folder: a live analysis follows the folder that the proxy writes to")
        if not growing and root.is_dir() and next(root.rglob("*.parquet"), None) is None:
            raise InputError(
                f"capture folder {path} holds no .parquet file: what the proxy records is there when it ends, and what "
                f"one left that was killed after `notleader capture ls --repair {path}`"
            )
        if not growing:
            _check_whole(root)
    for path in filter(is_local, () if growing else outcomes):
        if not _may_be_there(local_path(path)):
            raise InputError(f"outcomes file {path} does not exist")


def _may_be_there(path: Path) -> bool:
    """Whether there is such a file, or folder, or one that a glob stands for."""
    if path.exists():
        return True
    if not any(character in str(path) for character in "*?["):
        return False
    # Hadoop's globs have more than Python's.
    return any(more in str(path) for more in ("{", "\\", "[^")) or next(glob.iglob(str(path)), None) is not None


def _check_whole(root: Path) -> None:
    """InputError for the first Parquet file that lacks its beginning or its end, as after a copy that broke off."""
    for file in [root] if root.is_file() else sorted(root.rglob("*.parquet")):
        # What Spark doesn't read either.
        if any(part.startswith((".", "_")) for part in file.relative_to(root).parts) or not file.is_file():
            continue
        with file.open("rb") as opened:
            begins = opened.read(len(_MAGIC))
            opened.seek(-min(len(_MAGIC), file.stat().st_size), os.SEEK_END)
            if begins != _MAGIC or opened.read() != _MAGIC:
                raise InputError(f"{file} is torn: it is no whole Parquet file; copy it again, or take it away")
