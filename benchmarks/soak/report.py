"""What a soak showed: a sentence, a page, a plot."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import combinations

from benchmarks.soak.cycle import Sample

_MIB = 1 << 20
# The first third fills caches, pools and the allocator's arenas.
_WARM = 3
_WIDTH, _HEIGHT, _LEFT = 640, 150, 60


def steady(samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples after the warm-up."""
    return samples[len(samples) // _WARM :]


def trend(samples: Sequence[Sample]) -> str:
    """One line: what was carried, and what each figure did after the warm-up."""
    later = steady(samples)
    usual = statistics.median(one.rss_bytes for one in later) / _MIB
    requests, reconnects = sum(one.requests for one in samples), sum(one.reconnects for one in samples)
    rss = _span(later, lambda one: one.rss_bytes / _MIB, ".1f")
    descriptors, threads = (
        _span(later, lambda one: one.descriptors, ".0f"),
        _span(later, lambda one: one.threads, ".0f"),
    )
    return (
        f"{requests:,} requests and {reconnects:,} reconnects in {samples[-1].at_s / 60:.0f} min; after the first"
        f" third: RSS {usual:.1f} MiB ({rss}; {_growth(later) * 3600 / _MIB:+.1f} MiB an hour), descriptors"
        f" {descriptors}, threads {threads}"
    )


def _growth(samples: Sequence[Sample]) -> float:
    """Bytes a second: the median of the slopes between all pairs, which a few odd samples don't bend (Sen 1968)."""
    return statistics.median(
        (later.rss_bytes - one.rss_bytes) / (later.at_s - one.at_s) for one, later in combinations(samples, 2)
    )


def page(samples: Sequence[Sample], machine: dict[str, str]) -> tuple[str, str]:
    """The page in the documentation as Markdown, and its plot as SVG."""
    text = f"""# Half an hour of churn

`python -m benchmarks.soak --page` wrote this page. notleader runs with a thousand rules, a capture at partition level
and the HTTP API; clients connect and leave a thousand at a time, every workload of the benchmarks runs through it,
faults are added and removed over HTTP all the while, and the broker is killed and comes back once in each cycle. After
each cycle all clients are gone, and the proxy is looked at when it has come to rest.

{time.strftime("%Y-%m-%d")}; {machine["processor"]}, {machine["cores"]} cores, Linux {machine["kernel"]},
Python {machine["python"]}.

{trend(samples)}.

![Memory and descriptors at rest](../benchmarks/soak/results/soak.svg)
"""
    lines = [
        *_line(samples, "RSS, MiB", lambda one: one.rss_bytes / _MIB, top=10),
        *_line(samples, "descriptors", lambda one: one.descriptors, top=20 + _HEIGHT),
    ]
    height = 2 * _HEIGHT + 40
    style = "text{font:11px sans-serif;fill:#222}polyline{fill:none;stroke:#c1440e;stroke-width:1.5}line{stroke:#999}"
    plot = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 80} {height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>' + "".join(lines) + "</svg>\n"
    )
    return text, plot


def _span(samples: Sequence[Sample], value: Callable[[Sample], float], form: str) -> str:
    values = [value(one) for one in samples]
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def _line(samples: Sequence[Sample], title: str, value: Callable[[Sample], float], *, top: int) -> list[str]:
    """One plot over time, its vertical axis from zero."""
    longest, highest = samples[-1].at_s, max(max(value(one) for one in samples) * 1.1, 1)
    bottom = top + _HEIGHT - 20
    points = " ".join(
        f"{_LEFT + one.at_s / longest * _WIDTH:.1f},{bottom - value(one) / highest * (_HEIGHT - 30):.1f}"
        for one in samples
    )
    return [
        f'<text x="{_LEFT}" y="{top + 8}">{title}</text>',
        f'<text x="{_LEFT - 6}" y="{top + 24}" text-anchor="end">{highest:.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_LEFT + _WIDTH}" y="{bottom + 14}" text-anchor="end">{longest / 60:.0f} min</text>',
        f'<line x1="{_LEFT}" y1="{bottom}" x2="{_LEFT + _WIDTH}" y2="{bottom}"/>',
        f'<polyline points="{points}"/>',
    ]
