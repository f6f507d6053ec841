"""What a process and its descendants have used, from /proc, and where they run."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Generator
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))) is not None:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        member = queue.pop()
        found.append(member)
        queue += children.get(member, [])
    return found


def cpu_seconds(pid: int) -> float:
    """User and system time of the family, ended threads and awaited children included, in seconds.

    The kernel counts it in ticks, usually of 10 ms.
    """
    ticks = 0
    for member in family(pid):
        if (fields := _stat(member)) is not None:
            # utime, stime, cutime, cstime: fields 14 to 17 of proc(5)
            ticks += sum(int(value) for value in fields[11:15])
    return ticks / _TICKS_PER_S


def rss_bytes(pid: int) -> int:
    """Resident memory of the family; what its members share is counted for each."""
    return sum(map(own_rss_bytes, family(pid)))


def own_rss_bytes(pid: int) -> int:
    """Resident memory of this process alone; 0 when it is gone."""
    try:
        status = (_PROC / str(pid) / "status").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines.get("VmRSS", "0").split()[0]) << 10


@contextlib.contextmanager
def on_one_cpu() -> Generator[None]:
    """Have this process and all its descendants, those begun meanwhile included, share one CPU."""
    usual = os.sched_getaffinity(0)
    _place({max(usual)})
    try:
        yield
    finally:
        _place(usual)


def _place(cpus: set[int]) -> None:
    """Threads that begin meanwhile are where the one is that began them: found the second time."""
    for _ in range(2):
        for member in family(os.getpid()):
            with contextlib.suppress(OSError):  # gone
                for thread in (_PROC / str(member) / "task").iterdir():
                    with contextlib.suppress(OSError):
                        os.sched_setaffinity(int(thread.name), cpus)


def settle(pid: int, *, at_least_s: float = 0.0, at_most_s: float = 60.0) -> None:
    """Wait until the family is idle: work it put off (a capture's rows) belongs to the run that caused it."""
    started = time.monotonic()
    before = cpu_seconds(pid)
    while time.monotonic() - started < at_most_s:
        time.sleep(0.1)
        now = cpu_seconds(pid)
        if now - before <= 1 / _TICKS_PER_S and time.monotonic() - started >= at_least_s:
            return
        before = now


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on; None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command's name stands in parentheses and may hold anything.
    return text[text.rindex(")") + 2 :].split()
