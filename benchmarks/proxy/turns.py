"""CPU per request of several targets that take many turns, closely: what a capture costs is seen after minutes."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.rounds import SLOT_S, Say, by_turns
from benchmarks.proxy.targets import Running
from benchmarks.proxy.workloads import Workload


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
    slot_s: float = SLOT_S,
) -> list[Share]:
    """All shares; in each round, each of the targets gets so many slots. Raises UnavailableError."""
    shares = []
    for number, workload, running, saw, cpu_s in by_turns(
        program, targets, workloads, rounds=rounds, turns=turns, slot_s=slot_s, warm_up_s=1.0, say=say
    ):
        if isinstance(saw, UnavailableError):
            raise saw
        shares.append(Share(number, workload.name, running.target.name, int(saw["total_requests"]), cpu_s))
    return shares


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
