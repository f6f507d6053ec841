"""CPU per request of several targets that take turns of half a second, so that all see the same machine.

In interleaved rounds a shared machine changes between one target's run and the next one's by more than a capture
costs. Here all loads are there throughout, and all but one of them are stopped.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.proxy.processes import cpu_seconds, settle
from benchmarks.proxy.rounds import Say, load, loading, result_of
from benchmarks.proxy.targets import Running
from benchmarks.proxy.workloads import Workload

_SLOT_S = 0.5
_AROUND_S = 0.5  # the loads start and end together


@dataclass(frozen=True, slots=True)
class Share:
    """What one target took in one round of turns: CPU seconds of its processes, over so many requests."""

    round: int
    workload: str
    target: str
    requests: int
    cpu_s: float

    @property
    def cpu_us(self) -> float:
        """CPU per request, in µs."""
        return self.cpu_s / self.requests * 1e6


def measure(
    program: Path,
    targets: Sequence[Running],
    workloads: Sequence[Workload],
    *,
    rounds: int,
    turns: int,
    say: Say,
    slot_s: float = _SLOT_S,
) -> list[Share]:
    """All shares; in each round, each of the targets gets so many slots. Raises UnavailableError."""
    for workload in workloads:
        for running in targets:
            say(f"warming up {running.target.name}: {workload.name}")
            load(program, workload.command(running.address, 1.0, 0.2), running.target.name)
    shares = []
    before = _used(targets)
    for number in range(rounds):
        for workload in workloads:
            say(f"round {number + 1}/{rounds}: {workload.name}, {turns} turns of {len(targets)} targets")
            requests = _take_turns(program, targets, workload, turns, slot_s)
            after = _used(targets)
            for running, asked, since, until in zip(targets, requests, before, after, strict=True):
                shares.append(Share(number, workload.name, running.target.name, asked, until - since))
            before = after
    return shares


def _used(targets: Sequence[Running]) -> list[float]:
    """CPU seconds of each, once what the loads left to do is done too: a capture's last segment begins at their end."""
    ended = time.monotonic()
    used = []
    for running in targets:
        assert running.pid is not None
        settle(running.pid, at_least_s=ended + running.target.settle_s - time.monotonic())
        used.append(cpu_seconds(running.pid))
    return used


def _take_turns(program: Path, targets: Sequence[Running], workload: Workload, turns: int, slot_s: float) -> list[int]:
    """How many requests each of them carried."""
    duration_s = slot_s * turns * len(targets) + 2 * _AROUND_S
    with contextlib.ExitStack() as stack:
        loads = [
            stack.enter_context(loading(program, workload.command(running.address, duration_s, 0.0)))
            for running in targets
        ]
        time.sleep(_AROUND_S)
        for process in loads:
            process.send_signal(signal.SIGSTOP)
        for turn in range(turns):
            first = turn % len(loads)
            for process in (*loads[first:], *loads[:first]):
                process.send_signal(signal.SIGCONT)
                time.sleep(slot_s)
                process.send_signal(signal.SIGSTOP)
        for process in loads:
            process.send_signal(signal.SIGCONT)
        told = [result_of(process, running.target.name) for process, running in zip(loads, targets, strict=True)]
    return [int(one["total_requests"]) for one in told]


def ratios(shares: Sequence[Share], base: str) -> dict[tuple[str, str], list[float]]:
    """(workload, target) → its CPU per request over the base's in the same round, in order."""
    bases = {(share.round, share.workload): share.cpu_us for share in shares if share.target == base}
    found: dict[tuple[str, str], list[float]] = {}
    for share in shares:
        found.setdefault((share.workload, share.target), []).append(share.cpu_us / bases[share.round, share.workload])
    return found


def show(shares: Sequence[Share], base: str, console: Console) -> None:
    """Print a table: CPU per request, and its ratio to the base's."""
    table = Table(title="CPU per request, by turns", title_justify="left")
    for column in ("workload", "target", "CPU", f"over {base}", "lowest", "highest"):
        table.add_column(escape(column), justify="left" if column in ("workload", "target") else "right")
    for (workload, target), over in ratios(shares, base).items():
        taken = [share.cpu_us for share in shares if (share.workload, share.target) == (workload, target)]
        cells = (f"{statistics.median(over):.3f}", f"{min(over):.3f}", f"{max(over):.3f}")
        table.add_row(workload, escape(target), f"{statistics.median(taken):.1f} µs", *cells)
    console.print(table)
