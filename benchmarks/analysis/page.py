"""What was measured: a table, plots, and the page that says what to make of them."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

_GIB = 1 << 30
_TEXT = Path(__file__).with_name("page.md")
_WIDTH, _HEIGHT, _LEFT, _TOP = 520, 260, 64, 34
_COLOURS = {
    "analysis": "#2a6fbb",
    "even": "#7f8c8d",
    "cluster": "#7a4fb5",
    "small heap": "#c1440e",
    "spark": "#2c8a57",
    "duckdb": "#b8860b",
}
_WORDS = {
    "analysis": "the analysis, local[2]",
    "even": "the analysis, local[2], nothing skewed",
    "cluster": "the analysis, standalone master with two workers",
    "small heap": "the analysis, local[2], small heap",
    "spark": "one question, Spark",
    "duckdb": "the same question, DuckDB",
}


class Measured(NamedTuple):
    """One measurement. Sizes in exchanges and bytes.

    `seconds` is without the start of Spark, `start_s`; `cpu_s` is all that was computed, the start included, on a
    cluster without what its executors' Java spent beside the tasks.
    """

    what: str
    size: int
    exchanges: int
    input_bytes: int
    seconds: float
    start_s: float
    cpu_s: float
    rss_bytes: int
    shuffled_bytes: int
    spilled_bytes: int
    report_bytes: int
    memory: str


def table(results: Sequence[Measured]) -> str:
    """All measurements as a Markdown table; cost per exchange is relative to the smallest capture of its row's kind."""
    lines = [
        "| what | exchanges | CPU | CPU per exchange | heap | highest RSS | spilled |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for what in _WORDS:
        rows = sorted((row for row in results if row.what == what), key=lambda row: row.size)
        for row in rows:
            relative = (row.cpu_s / row.exchanges) / (rows[0].cpu_s / rows[0].exchanges)
            lines.append(
                f"| {_WORDS[what]} | {row.size:,} | {row.cpu_s:,.1f} s | x {relative:.2f} |"
                f" {row.memory} | {row.rss_bytes / _GIB:.1f} GiB | {_size(row.spilled_bytes)} |"
            )
    return "\n".join(lines)


def page(results: Sequence[Measured], machine: dict[str, str], day: str) -> tuple[str, dict[str, str]]:
    """The documentation's page as Markdown, and its plots by file name."""
    spark = {row.size: row for row in results if row.what == "spark"}
    duck = {row.size: row for row in results if row.what == "duckdb"}
    ratios = [f"{spark[size].cpu_s / duck[size].cpu_s:.1f} times at {size:,}" for size in sorted(spark) if size in duck]
    text = _TEXT.read_text().format(
        day=day,
        machine=f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, Linux {machine['kernel']}",
        table=table(results),
        ratios=", ".join(ratios),
        sizes=", ".join(f"{size:,}" for size in sorted({row.size for row in results})),
    )
    plots = {
        "analysis-cost.svg": plot(results, "seconds of CPU", lambda row: row.cpu_s),
        "analysis-memory.svg": plot(results, "highest RSS, GiB", lambda row: row.rss_bytes / _GIB, linear=True),
    }
    return text, plots


def _size(amount: int) -> str:
    return f"{amount / _GIB:.1f} GiB" if amount >= _GIB // 10 else f"{amount / (1 << 20):.0f} MiB"


def plot(results: Sequence[Measured], title: str, value: Callable[[Measured], float], *, linear: bool = False) -> str:
    """One figure over the number of exchanges, both axes logarithmic (`linear`: the upright one from zero)."""
    sizes = sorted({row.size for row in results})
    values = [value(row) for row in results]
    low = 0.0 if linear else math.floor(math.log10(max(min(values), 1e-3)))
    high = max(values) * 1.1 if linear else math.ceil(math.log10(max(values)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])

    def x(size: int) -> float:
        return _LEFT + (math.log10(size) - first) / max(last - first, 1e-9) * _WIDTH

    def y(amount: float) -> float:
        at = amount if linear else math.log10(max(amount, 1e-3))
        return _TOP + _HEIGHT - (at - low) / max(high - low, 1e-9) * _HEIGHT

    lines = [f'<text x="{_LEFT}" y="16" class="title">{html.escape(title)}</text>']
    ticks = (
        [high * step / 4 for step in range(5)] if linear else [10.0**power for power in range(int(low), int(high) + 1)]
    )
    for tick in ticks:
        lines.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        lines.append(f'<text x="{_LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,.4g}</text>')
    lines += [
        f'<text x="{x(size):.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">{size:,}</text>' for size in sizes
    ]
    shown = [what for what in _WORDS if any(row.what == what for row in results)]
    for number, what in enumerate(shown):
        rows = sorted((row for row in results if row.what == what), key=lambda row: row.size)
        points = " ".join(f"{x(row.size):.1f},{y(value(row)):.1f}" for row in rows)
        lines.append(f'<polyline points="{points}" stroke="{_COLOURS[what]}"/>')
        lines += [f'<circle cx="{x(r.size):.1f}" cy="{y(value(r)):.1f}" r="3" fill="{_COLOURS[what]}"/>' for r in rows]
        at = _TOP + _HEIGHT + 40 + 18 * number
        lines.append(f'<rect x="{_LEFT}" y="{at - 9}" width="12" height="10" fill="{_COLOURS[what]}"/>')
        lines.append(f'<text x="{_LEFT + 18}" y="{at}">{html.escape(_WORDS[what])}</text>')
    width, height = _LEFT + _WIDTH + 40, _TOP + _HEIGHT + 40 + 18 * len(shown)
    style = (
        "text{font:12px sans-serif;fill:#222}.title{font-weight:bold}line{stroke:#ddd}"
        "polyline{fill:none;stroke-width:2}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>' + "".join(lines) + "</svg>\n"
    )
