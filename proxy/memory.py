"""Do without memory that is needed for nothing, and give back what a start, or a large piece of work, needed."""

from __future__ import annotations

import ctypes
import importlib
import mmap
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast


def leave_out() -> None:
    """Have parts of libraries not loaded that a program of ours needs for nothing: the libraries go on without.

    FastAPI looks at ``pydantic.v1`` to refuse its models; Arrow takes the stores in that are installed, which a
    capture in a local folder does not go to (`take_in_stores` where one does). Two MiB together. For whole processes
    alone: who embeds the proxy may need them.
    """
    for module in ("pydantic.v1", *_STORES):
        _modules().setdefault(module, None)  # what an import of it then says is documented


def take_in_stores() -> None:
    """Have Arrow know all its stores after all: a capture is in one."""
    left_out = [module for module in _STORES if _modules().get(module, ...) is None]
    for module in left_out:
        del sys.modules[module]
    if left_out and "pyarrow.fs" in sys.modules:
        importlib.reload(sys.modules["pyarrow.fs"])  # which also sees to it that they are closed when Python ends


def _modules() -> dict[str, object]:
    return cast("dict[str, object]", sys.modules)


def give_back() -> None:
    """Let go the pages of libraries that loading touched: those in use come back from the page cache.

    Loading a large library relocates and initializes most of it; a tenth is ever used. Linux with the GNU C library;
    elsewhere nothing happens.
    """
    try:
        libc = ctypes.CDLL(None)
        # Looking at every mapping in full takes ten milliseconds: done for those that were not there before.
        mapped = {line for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
        if not mapped <= _looked_at:
            _looked_at.update(mapped)
            _clean.clear()
            _clean.update(_clean_ranges(Path("/proc/self/smaps").read_text()))
        if threading.current_thread() is not threading.main_thread():
            _trim_end(libc)
        libc.malloc_trim(0)
        for mapping in mapped & _clean.keys():
            start, stop = _clean[mapping]
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)
    except (OSError, AttributeError):
        return


def _trim_end(libc: ctypes.CDLL) -> None:
    """Free what lies behind all that is in use in this thread's heap, which `malloc_trim` leaves as it is.

    That goes when the thread frees something larger than 64 KiB while the end is longer than a threshold, which
    otherwise grows with what is freed (mallopt(3)). From then on the thread gives nothing back by itself.
    """
    libc.malloc.restype = ctypes.c_void_p
    libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
    libc.mallopt(_M_TRIM_THRESHOLD, 0)
    libc.free(ctypes.c_void_p(libc.malloc(128 << 10)))
    libc.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGEST_MMAP_THRESHOLD)


_STORES: Final = ("pyarrow._s3fs", "pyarrow._gcsfs", "pyarrow._azurefs", "pyarrow._hdfs")
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20
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
