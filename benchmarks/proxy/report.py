"""What was measured, as a table in the terminal, as JSON and as two plots."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.proxy.real_kafka import RealFigures, RealSample
from benchmarks.proxy.rounds import Figures, Holding, Sample
from benchmarks.proxy.workloads import EVERY_WORKLOAD, Workload

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Results:
    """One whole bench."""

    versions: dict[str, str]  # target → version
    skipped: list[str]
    rounds: int
    duration_s: float
    samples: list[Sample]
    figures: list[Figures]
    holdings: list[Holding] = field(default_factory=list)
    real_samples: list[RealSample] = field(default_factory=list)
    real: list[RealFigures] = field(default_factory=list)
    machine: dict[str, str] = field(default_factory=lambda: machine())
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))
    note: str = ""  # what a reader of older figures has to know


def machine() -> dict[str, str]:
    """What the figures depend on."""
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GiB",
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def cpu_cell(workload: Workload, figures: Figures) -> str:
    """CPU as the workload counts it."""
    if workload.per == "byte":
        return f"{figures.cpu_s_per_gb:.3f} s/GB"
    return f"{figures.cpu_us_per_request:.1f} µs"


def show(results: Results, console: Console) -> None:
    """Print the tables."""
    for workload in EVERY_WORKLOAD:
        rows = [one for one in results.figures if one.workload == workload.name]
        if not rows:
            continue
        table = Table(title=workload.title, title_justify="left")
        for heading in ("target", "ratio to direct", "added p50 µs", "added p99 µs", "CPU", "RSS MiB"):
            table.add_column(heading, justify="left" if heading == "target" else "right")
        for one in sorted(rows, key=lambda row: -row.ratio):
            table.add_row(
                escape(one.target),  # a tree's label is in brackets
                f"{one.ratio:.2f}",
                f"{one.added_p50_us:.0f}",
                f"{one.added_p99_us:.0f}",
                cpu_cell(workload, one),
                f"{one.rss_bytes / _MIB:.0f}",
            )
        console.print(table)
    if results.holdings:
        table = Table(title="memory", title_justify="left")
        for heading in ("target", "start MiB", "100 busy MiB", "idle held", "KiB per idle", "all alive"):
            table.add_column(heading, justify="left" if heading == "target" else "right")
        for held in results.holdings:
            table.add_row(
                escape(held.target),
                f"{held.rss_at_start / _MIB:.0f}",
                f"{held.rss_at_100 / _MIB:.0f}",
                str(held.idle_connections),
                f"{held.bytes_per_idle_connection / 1024:.1f}",
                "yes" if held.all_alive else "no",
            )
        console.print(table)
    if results.real:
        table = Table(title="real Kafka", title_justify="left")
        for heading in ("workload", "target", "ratio to direct", "added average µs", "CPU"):
            table.add_column(heading, justify="left" if heading in ("workload", "target") else "right")
        for real in results.real:
            table.add_row(real.workload, escape(real.target), f"{real.ratio:.2f}", real.added_cell, real.cpu_cell)
        console.print(table)
    for reason in results.skipped:
        console.print(f"skipped: {reason}", markup=False, highlight=False)


def as_json(results: Results) -> dict[str, Any]:
    """All of it, samples included, as JSON values."""
    return {**dataclasses.asdict(results), "command": sys.argv[1:]}


def write(results: Results, folder: Path) -> None:
    """results.json, ratio.svg and cpu.svg in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(as_json(results), indent=1) + "\n")
    (folder / "ratio.svg").write_text(
        bars(results.figures, "Throughput over direct in the same round", lambda _, one: one.ratio)
    )
    (folder / "cpu.svg").write_text(
        bars(
            results.figures,
            "CPU of the proxy: µs per request, or s per GB for produce and fetch",
            lambda workload, one: one.cpu_s_per_gb if workload.per == "byte" else one.cpu_us_per_request,
            scaled_per_workload=True,
        )
    )


_BAR = 13
_LABEL_WIDTH = 190
_PLOT_WIDTH = 460


def bars(figures: Sequence[Figures], title: str, value: Any, *, scaled_per_workload: bool = False) -> str:
    """One group of horizontal bars per workload, as SVG that needs nothing else."""
    lines: list[str] = []
    y = 34
    longest = max((value(_by_name(one.workload), one) for one in figures), default=1.0) or 1.0
    for workload in EVERY_WORKLOAD:
        rows = [one for one in figures if one.workload == workload.name]
        if not rows:
            continue
        if scaled_per_workload:
            longest = max(value(workload, one) for one in rows) or 1.0
        lines.append(f'<text x="8" y="{y + 10}" class="group">{html.escape(workload.title)}</text>')
        y += _BAR + 4
        for one in rows:
            amount = value(workload, one)
            width = max(amount / longest * _PLOT_WIDTH, 1)
            own = " own" if one.target.startswith("notleader") else ""
            lines += [
                f'<text x="{_LABEL_WIDTH - 6}" y="{y + 10}" text-anchor="end">{html.escape(one.target)}</text>',
                f'<rect x="{_LABEL_WIDTH}" y="{y + 1}" width="{width:.1f}" height="{_BAR - 2}" class="bar{own}"/>',
                f'<text x="{_LABEL_WIDTH + width + 5:.1f}" y="{y + 10}">{amount:.3g}</text>',
            ]
            y += _BAR
        y += 10
    width = _LABEL_WIDTH + _PLOT_WIDTH + 60
    style = (
        "text{font:11px sans-serif;fill:#222}.title{font-size:14px;font-weight:bold}.group{font-weight:bold}"
        ".bar{fill:#9db4c0}.own{fill:#c1440e}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f'<text x="8" y="20" class="title">{html.escape(title)}</text>' + "".join(lines) + "</svg>\n"
    )


def _by_name(name: str) -> Workload:
    return next(workload for workload in EVERY_WORKLOAD if workload.name == name)
