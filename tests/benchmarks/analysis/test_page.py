"""The page of the analysis' benchmark says what was measured, as ratios, and is whole."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.analysis.page import Measured, page, table

MACHINE = {"processor": "p", "cores": "2", "memory": "4 GiB", "kernel": "6"}
GIB = 1 << 30


def measured(what: str, size: int, seconds: float) -> Measured:
    return Measured(
        what, size, size + size // 100, size * 50, seconds, 3.0, 2 * seconds, GIB, GIB, 2 * GIB, 1_000_000, "2g"
    )


RESULTS = [
    measured("analysis", 1_000_000, 10.0),
    measured("analysis", 10_000_000, 120.0),
    measured("spark", 1_000_000, 6.0),
    measured("duckdb", 1_000_000, 2.0),
]


def test_cost_per_exchange_is_relative_to_the_smallest_of_its_kind() -> None:
    rows = table(RESULTS).splitlines()[2:]
    assert [row.split("|")[4].strip() for row in rows] == ["x 1.00", "x 1.20", "x 1.00", "x 1.00"]
    assert "2.0 GiB" in rows[0]


def test_the_page_has_every_measurement_and_plots_that_are_xml() -> None:
    text, plots = page(RESULTS, MACHINE, "2026-01-01")
    assert table(RESULTS) in text
    assert "3.0 times at 1,000,000" in text
    assert set(plots) == {"analysis-cost.svg", "analysis-memory.svg"}
    for name, plot in plots.items():
        assert f"images/{name}" in text
        assert len(ElementTree.fromstring(plot).findall("{*}circle")) == len(RESULTS)
