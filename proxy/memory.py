"""Give back the memory that only starting up needed."""

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
        ranges = list(_clean_ranges(Path("/proc/self/smaps").read_text()))
        libc.malloc_trim(0)
        for start, stop in ranges:
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)
    except (OSError, AttributeError):
        return


def _clean_ranges(smaps: str) -> Iterator[tuple[int, int]]:
    """Where files are mapped privately and nothing was ever written: what is dropped there is read again."""
    start = stop = 0
    candidate = False
    for line in smaps.splitlines():
        name, _, rest = line.partition(":")
        if " " in name or "-" in name:
            place, rights, *others = line.split()
            start, stop = (int(end, 16) for end in place.split("-"))
            candidate = rights in ("r-xp", "r--p") and len(others) > 3 and others[3].startswith("/")
        elif candidate and name == "Anonymous" and rest.split()[0] != "0":
            candidate = False
        elif candidate and name == "VmFlags":
            yield start, stop
