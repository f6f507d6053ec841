"""Give back memory that only a start needed."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from pathlib import Path


def give_back() -> None:
    """Let go the pages of libraries that loading touched: those in use come back from the page cache.

    Loading a large library relocates and initializes most of it; a tenth is ever used. Linux with the GNU C library;
    elsewhere nothing happens.
    """
    try:
        libc = ctypes.CDLL(None)
        # Looking at every mapping in full takes ten milliseconds: done for those that were not there before.
        mapped = {line for line in Path("/proc/self/maps").read_text("utf-8").splitlines() if "/" in line}
        if not mapped <= _looked_at:
            _looked_at.update(mapped)
            _clean.clear()
            _clean.update(_clean_ranges(Path("/proc/self/smaps").read_text("utf-8")))
        libc.malloc_trim(0)
        for mapping in mapped & _clean.keys():
            start, stop = _clean[mapping]
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)
    except (OSError, AttributeError):
        return


_looked_at: set[str] = set()
_clean: dict[str, tuple[int, int]] = {}


def _clean_ranges(smaps: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Mappings (their line, start and end) of files, private and never written: what is dropped is read again."""
    start = stop = 0
    mapping = ""
    candidate = False
    for line in smaps.splitlines():
        name, _, rest = line.partition(":")
        if " " in name or "-" in name:
            mapping = line
            place, rights, *others = line.split()
            start, stop = (int(end, 16) for end in place.split("-"))
            candidate = rights in ("r-xp", "r--p") and len(others) > 3 and others[3].startswith("/")
        elif candidate and name == "Anonymous" and rest.split()[0] != "0":
            candidate = False
        elif candidate and name == "VmFlags":
            yield mapping, (start, stop)
