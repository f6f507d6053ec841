"""How far notleader with everything on is from where it wants to be, beside its peers in the same rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from benchmarks.proxy.notleader import ALL_ON, PLAIN
from benchmarks.proxy.real_kafka import RealSample
from benchmarks.proxy.report import Results
from benchmarks.proxy.rounds import Sample
from benchmarks.proxy.targets import DIRECT
from benchmarks.proxy.workloads import GENERATIONS, PARTITIONS, WORKLOADS, Workload

_MIB = 1 << 20
_MOST_RSS_MIB = 45
_MOST_RECORDER_RSS_MIB = 90
_MOST_IDLE_KIB = 10
_BULK = ("produce", "fetch")
_ONE = ("one", "one-cpu")
_SMALL = (*_ONE, "hundred", "thousand")

_OVER_WITHOUT = (
    ("1000 rules that don't match", f"{PLAIN.name}+rules", 1.05),
    ("a capture at level header", f"{PLAIN.name}+header-capture", 1.08),
    ("a capture at level partition", f"{PLAIN.name}+capture", 1.15),
)
_OVER_WITHOUT_BY_PARTITIONS = (
    ("a capture at level header", f"{PLAIN.name}+header-capture", dict.fromkeys(PARTITIONS, 1.08)),
    ("a capture at level partition", f"{PLAIN.name}+capture", {1: 1.15, 2: 1.2, 10: 1.3}),
)

AnySample = TypeVar("AnySample", Sample, RealSample)


@dataclass(frozen=True, slots=True)
class Bar:
    """``found`` has to be at least (or at most) ``limit``; the second is for the bars beyond the first."""

    title: str
    at_least: bool
    limit: float
    found: float
    unit: str = "times"
    summit: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.found >= self.limit if self.at_least else self.found <= self.limit

    @property
    def wanted(self) -> str:
        """The limit, in words."""
        return f"{'≥' if self.at_least else '≤'} {self.limit:g} {self.unit}"


def bars(results: Results) -> list[Bar]:
    """Those that can be told from what was measured, in the order in which they matter."""
    return [*_beside_peers(results), *_alone(results), *_summit(results)]


def _beside_peers(results: Results) -> Iterator[Bar]:
    for peer in ("Toxiproxy", "kafka-proxy"):
        for workload in WORKLOADS:
            if (found := _paired(results.samples, workload.name, peer, _rate)) is not None:
                yield Bar(f"throughput over {peer}'s, {workload.title}", True, 1.0, found)
    for name in _BULK:
        for peer, limit in (("Toxiproxy", 0.4), ("nginx stream", 1.3)):
            if (found := _paired(results.samples, name, peer, _cpu_per_byte)) is not None:
                yield Bar(f"CPU per GB over {peer}'s, {_title(name)}", False, limit, found)
    for name in _SMALL:
        if (found := _paired(results.samples, name, "Toxiproxy", _cpu_per_request)) is not None:
            yield Bar(f"CPU per small request over Toxiproxy's, {_title(name)}", False, 1.0, found)
        if (found := _paired(results.samples, name, "kafka-proxy", _cpu_per_request)) is not None:
            yield Bar(f"CPU per small request over kafka-proxy's, {_title(name)}", False, 1.0, found)
    for name in _ONE:
        if (found := _paired(results.samples, name, "HAProxy", _p50, minus=True)) is not None:
            yield Bar(f"p50 beyond HAProxy's, {_title(name)}", False, 15, found, "µs")
    if (found := _paired(results.samples, "metadata", "kafka-proxy", _cpu_per_request)) is not None:
        yield Bar("CPU of Metadata of 1000 topics over kafka-proxy's", False, 0.1, found)
    for workload_name in dict.fromkeys(one.workload for one in results.real_samples if one.bytes):
        if (found := _paired(results.real_samples, workload_name, "HAProxy", _value)) is not None:
            yield Bar(f"throughput over HAProxy's on real Kafka, {workload_name}", True, 0.9, found)


def _alone(results: Results) -> Iterator[Bar]:
    for what, state, limit in _OVER_WITHOUT:
        for name in (*_SMALL, "pipelined"):
            if (found := _paired(results.samples, name, PLAIN.name, _cpu_per_request, mine=state)) is not None:
                yield Bar(f"CPU with {what} over without, {_title(name)}", False, limit, found)
    for load in GENERATIONS:
        for what, state, limits in _OVER_WITHOUT_BY_PARTITIONS:
            if (found := _paired(results.samples, load.name, PLAIN.name, _cpu_per_request, mine=state)) is not None:
                limit = limits[next(one for one in PARTITIONS if f"-partitions={one}" in load.arguments)]
                yield Bar(f"CPU with {what} over without, {load.title}", False, limit, found)
    state = f"{PLAIN.name}+capture"
    if (found := _paired(_over_direct(results.samples), "pipelined", PLAIN.name, _p99, mine=state)) is not None:
        yield Bar(
            f"p99 added with a capture at level partition over without, {_title('pipelined')}", False, 1.15, found
        )
    for held in results.holdings:
        if held.target == ALL_ON.name:
            recorder = (held.rss_at_100 - held.own_rss_at_100) / _MIB
            yield Bar("RSS of the proxy at 100 connections", False, _MOST_RSS_MIB, held.own_rss_at_100 / _MIB, "MiB")
            yield Bar("RSS of its recorder then", False, _MOST_RECORDER_RSS_MIB, recorder, "MiB")
            yield Bar("for each idle connection", False, _MOST_IDLE_KIB, held.bytes_per_idle_connection / 1024, "KiB")
            alive = float(held.idle_connections if held.all_alive else 0)
            yield Bar("idle connections held, and all answer", True, held.idle_connections, alive, "")


def _summit(results: Results) -> Iterator[Bar]:
    for name in _SMALL:
        if (found := _paired(results.samples, name, "Kroxylicious", _rate)) is not None:
            yield Bar(f"throughput over Kroxylicious', {_title(name)}", True, 1.15, found, summit=True)
        for peer, limit in (("Toxiproxy", 0.8), ("nginx stream", 1.3)):
            if (found := _paired(results.samples, name, peer, _cpu_per_request)) is not None:
                title = f"CPU per small request over {peer}'s, {_title(name)}"
                yield Bar(title, False, limit, found, summit=True)
    for name in _BULK:
        if (found := _paired(results.samples, name, "nginx stream", _cpu_per_byte)) is not None:
            yield Bar(f"CPU per GB over nginx stream's, {_title(name)}", False, 1.15, found, summit=True)


def _paired(
    samples: Sequence[AnySample],
    workload: str,
    peer: str,
    of: Callable[[AnySample], float],
    *,
    mine: str = ALL_ON.name,
    minus: bool = False,
) -> float | None:
    """The median over the rounds of notleader's value over (or minus) the peer's in the same round."""
    theirs = {one.round: one for one in samples if one.workload == workload and one.target == peer}
    pairs = [
        (of(one), of(theirs[one.round]))
        for one in samples
        if one.workload == workload and one.target == mine and one.round in theirs
    ]
    if not pairs:
        return None
    return statistics.median(own - other if minus else own / other for own, other in pairs)


def _over_direct(samples: Sequence[Sample]) -> list[Sample]:
    """These with the p99 that they have beyond no proxy in the same round, where it is more."""
    direct = {(one.round, one.workload): one.p99_us for one in samples if one.target == DIRECT.name}
    added = [(one, one.p99_us - direct.get((one.round, one.workload), one.p99_us)) for one in samples]
    return [replace(one, p99_us=more) for one, more in added if more > 0]


def _title(name: str) -> str:
    found: Workload = next(one for one in WORKLOADS if one.name == name)
    return found.title


def _rate(sample: Sample) -> float:
    return sample.rate


def _cpu_per_request(sample: Sample) -> float:
    return sample.cpu_s / sample.requests_in_all


def _cpu_per_byte(sample: Sample) -> float:
    return sample.cpu_s / sample.bytes_in_all


def _p50(sample: Sample) -> float:
    return sample.p50_us


def _p99(sample: Sample) -> float:
    return sample.p99_us


def _value(sample: RealSample) -> float:
    return sample.value
