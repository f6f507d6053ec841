"""The page and the plots, from results that need no measuring."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.proxy import page, report
from benchmarks.proxy.bars import bars
from benchmarks.proxy.cache import command
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.notleader import OTHER_APIS, RULES, SAME_APIS, rules
from benchmarks.proxy.real_kafka import RealSample
from benchmarks.proxy.report import Results
from benchmarks.proxy.rounds import Figures, Holding, Sample
from benchmarks.proxy.workloads import WORKLOADS, chosen
from notleader.faults.plan import Plan
from notleader.faults.schema import parse_faults


def results() -> Results:
    figures = [
        Figures(workload.name, target, 0.5, 11.0, 30.0, 9.5, 0.3, 40 << 20)
        for workload in WORKLOADS
        for target in ("a <peer>", "notleader+all")
    ]
    return Results(
        versions={"a <peer>": "1.2", "notleader": "0.1"},
        skipped=["b: not offered"],
        rounds=3,
        duration_s=1.5,
        samples=[],
        figures=figures,
        holdings=[Holding("notleader", 1 << 20, 2 << 20, 10_000, 40 << 20, True, 2 << 20)],
    )


def test_the_page_names_machine_versions_date_and_what_was_left_out() -> None:
    text = page.page(results(), "plots")
    for said in (report.machine()["kernel"], "a <peer> 1.2", "Not measured: b: not offered.", results().date):
        assert said in text
    assert "| 100 connections of small requests | 0.50 |" in text
    assert "| Produce, 256 KiB batches, s/GB | 0.300 |" in text
    all_of_it = page.tables(results())
    assert all_of_it.count("| notleader+all | 0.50 | 11 | 30 | ") == len(WORKLOADS)
    assert "0.300 s/GB" in all_of_it
    assert "9.5 µs" in all_of_it


def sample(number: int, target: str, *, cpu_s: float, seconds: float = 1.0, p50_us: float = 50.0) -> Sample:
    return Sample(number, "one", target, 1000, 1 << 20, seconds, p50_us, 90.0, 1000, 1 << 20, cpu_s, 40 << 20)


def test_a_bar_compares_within_a_round() -> None:
    told = results()
    # The second round ran on a machine of half the speed: the ratio is the same there.
    for number, slow in enumerate((1, 2)):
        told.samples.append(sample(number, "notleader+all", cpu_s=0.03 * slow, seconds=0.5 * slow, p50_us=60.0 * slow))
        told.samples.append(sample(number, "Toxiproxy", cpu_s=0.04 * slow, seconds=1.0 * slow))
        told.samples.append(sample(number, "HAProxy", cpu_s=0.01, p50_us=35.0 * slow))
    found = {bar.title: bar for bar in bars(told)}
    faster = found["throughput over Toxiproxy's, 1 connection, one small request at a time"]
    assert (faster.found, faster.is_met) == (2.0, True)
    cheaper = [bar for title, bar in found.items() if title.startswith("CPU per small request over Toxiproxy's")]
    assert {(round(bar.found, 9), bar.is_met, bar.summit) for bar in cheaper} == {(0.75, True, True)}
    later = found["p50 beyond HAProxy's, 1 connection, one small request at a time"]
    assert (later.found, later.is_met) == (37.5, False)
    text = page.page(told, "plots")
    assert "| p50 beyond HAProxy's, 1 connection, one small request at a time | ≤ 15 µs | 37.5 |" in text
    assert "| ≤ 15 µs | 37.5 | missed |" in page.tables(told)
    assert "throughput over Toxiproxy's" not in text, "a bar that is met is only counted here"


def test_a_bar_on_real_kafka_compares_within_a_round_and_leaves_latencies_alone() -> None:
    told = results()
    for number, rate in enumerate((100.0, 50.0, 200.0)):
        told.real_samples.append(RealSample(number, "consume", "HAProxy", rate, 1 << 30, 50, 0.0))
        told.real_samples.append(RealSample(number, "consume", "notleader+all", rate * 0.75, 1 << 30, 50, 0.0))
        told.real_samples.append(RealSample(number, "end-to-end latency", "HAProxy", rate, 0, 50, 0.0))
        told.real_samples.append(RealSample(number, "end-to-end latency", "notleader+all", rate, 0, 50, 0.0))
    real = [bar for bar in bars(told) if "real Kafka" in bar.title]
    assert [(bar.title, bar.found, bar.is_met) for bar in real] == [
        ("throughput over HAProxy's on real Kafka, consume", 0.75, False)
    ]


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    report.write(results(), tmp_path)
    told = json.loads((tmp_path / "results.json").read_text())
    assert told["figures"][0]["ratio"] == 0.5
    for name in ("ratio.svg", "cpu.svg"):
        drawing = ElementTree.fromstring((tmp_path / name).read_text())
        bars = [element for element in drawing.iter() if element.get("class", "").startswith("bar")]
        assert len(bars) == 2 * len(WORKLOADS)


def test_the_table_shows_every_target() -> None:
    console = Console(record=True, width=140)
    report.show(results(), console)
    assert console.export_text().count("notleader+all") == len(WORKLOADS)


def test_an_unknown_workload_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no workload onee"):
        chosen("one,onee")


def test_a_registry_is_not_named_when_it_says_no(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="building it: error: the registry: 403") as caught:
        command(["sh", "-c", "echo 'error: https://host.example/x/y: 403'; exit 1"], "building it", cwd=tmp_path)
    assert "example" not in str(caught.value)


@pytest.mark.parametrize("apis", [OTHER_APIS, SAME_APIS])
def test_the_rules_that_never_match_are_valid(apis: tuple[str, ...]) -> None:
    plan = Plan(faults=parse_faults(rules(apis)))
    assert len(plan.rules()) == RULES


def test_loads_beside_those_of_the_page_are_reported_too(tmp_path: Path) -> None:
    (load,) = chosen("produce-v7-10-100")
    some = results()
    some.figures[:] = [Figures(load.name, "notleader", 0.5, 11.0, 30.0, 9.5, 0.3, 40 << 20)]
    report.write(some, tmp_path)
    assert load.title in (tmp_path / "cpu.svg").read_text()
    assert load.heading in page.page(some, "results")
