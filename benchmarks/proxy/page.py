"""The page in the documentation, written from the results of one bench."""

from __future__ import annotations

from benchmarks.proxy.bars import Bar, bars
from benchmarks.proxy.notleader import RULES
from benchmarks.proxy.report import Results, cpu_cell
from benchmarks.proxy.workloads import EVERY_WORKLOAD

_MIB = 1 << 20

_INTRODUCTION = """# How fast it is, beside its peers

`python -m benchmarks.proxy` wrote this page. It sends the same load through each proxy to a broker that answers at
once; in each round they take turns of half a second, for a machine changes from one second to the next by more than
proxies differ, and in another order each time. Then it sends Kafka's own tools through each to a real Kafka broker, one
run after the other, in another order each time too: each is a Java process that starts anew, so the first half of what
a producer sends is for its compiler, and not counted. All of it shares one machine: load, proxy and broker
compete for its cores, so read **ratios and CPU**, not absolute throughput. With one small request at a time even those
say more about the scheduler than about a proxy: a message that wakes another CPU takes tens of microseconds longer than
one that doesn't, and who sits where changes every few seconds, or stays for a whole round. So that load is there twice:
as the scheduler has it, and with load, proxy and broker on one CPU, where the same figures come out each time.
Every figure is the median over the rounds; a ratio compares with what went without a proxy in the same round. CPU is
the user and system time of all of a proxy's processes, work put off until after the round included: a capture finishes
its segment when a round ends, which takes ten milliseconds, however little is in it. By itself it would do so every ten
seconds, and record more in them than in a round; so, if anything, it is made dearer than it is.
"""

_TARGETS = f"""
`notleader` is the bare proxy; `+rules` has {RULES} fault rules on APIs the load does not use; `+capture` records
every exchange at partition level; `+all` is both, and the HTTP API; `+own-api-rules` has {RULES} rules on the very
APIs the load uses, for topics and groups that do not exist. nginx and HAProxy run one worker. None of the peers but
Kroxylicious and kafka-proxy reads Kafka's protocol; none records anything. Of kafka-proxy a version of 2021 is what
the Go module proxy gave where this was measured; it is told that no producer sends acks=0, so that it need not look.
Each "wanted" below compares figures of `+all` with a peer's in the same round, and takes the median of that.
"""

_PROFILE = """\
A request's CPU, what its own code takes and what the kernel does: [What is in the way](what-is-in-the-way.md).
"""


def page(results: Results, plots: str) -> str:
    """Markdown; ``plots`` is the path of the folder with the plots, from the page's own."""
    machine = results.machine
    versions = ", ".join(f"{name} {version}" for name, version in results.versions.items() if version)
    parts = [
        _INTRODUCTION,
        f"{results.date}; {machine['processor']}, {machine['cores']} cores, {machine['memory']}, Linux"
        f" {machine['kernel']}, Python {machine['python']}; {results.rounds} rounds of"
        f" {results.duration_s:g} s for each."
        f" Versions: {versions}.\n",
        *(f"Not measured: {reason}.\n" for reason in results.skipped),
        _TARGETS,
        f"![Throughput over direct]({plots}/ratio.svg)\n\n![CPU]({plots}/cpu.svg)\n",
        *_bars(results),
        _PROFILE,
        *_workloads(results),
        *_memory(results),
        *_real(results),
    ]
    return "\n".join(parts)


def _bars(results: Results) -> list[str]:
    found = bars(results)
    parts = []
    for title, some in (
        ("Where it wants to be, with everything on", [bar for bar in found if not bar.summit]),
        ("And beyond that", [bar for bar in found if bar.summit]),
    ):
        if some:
            rows = table(["", "wanted", "found", ""], [_bar(bar) for bar in some])
            parts.append(f"## {title}\n\n{rows}")
    return parts


def _bar(bar: Bar) -> list[str]:
    found = f"{bar.found:.3g}" if bar.found < 1000 else f"{bar.found:.0f}"
    return [bar.title, bar.wanted, found, "" if bar.is_met else "missed"]


def _workloads(results: Results) -> list[str]:
    parts = []
    for workload in EVERY_WORKLOAD:
        rows = [one for one in results.figures if one.workload == workload.name]
        if not rows:
            continue
        cells = [
            [
                one.target,
                f"{one.ratio:.2f}",
                f"{one.added_p50_us:.0f}",
                f"{one.added_p99_us:.0f}",
                cpu_cell(workload, one),
                f"{one.rss_bytes / _MIB:.0f}",
            ]
            for one in sorted(rows, key=lambda row: -row.ratio)
        ]
        headings = ["", "ratio to direct", "added p50 µs", "added p99 µs", "CPU", "RSS MiB"]
        parts.append(f"## {workload.heading}\n\n{table(headings, cells)}")
    return parts


def _memory(results: Results) -> list[str]:
    if not results.holdings:
        return []
    cells = [
        [
            held.target,
            f"{held.rss_at_start / _MIB:.0f}",
            f"{held.rss_at_100 / _MIB:.0f}",
            str(held.idle_connections),
            f"{held.bytes_per_idle_connection / 1024:.1f}",
            "yes" if held.all_alive else "no",
        ]
        for held in results.holdings
    ]
    headings = ["", "RSS at start MiB", "100 busy connections MiB", "idle held", "KiB per idle", "all still answer"]
    return [f"## Memory\n\n{table(headings, cells)}"]


def _real(results: Results) -> list[str]:
    parts = []
    for name in dict.fromkeys(one.workload for one in results.real):
        rows = sorted((one for one in results.real if one.workload == name), key=lambda row: -row.ratio)
        cells = [[one.target, f"{one.ratio:.2f}", one.added_cell, one.cpu_cell] for one in rows]
        headings = ["", "ratio to direct", "added average µs", "CPU"]
        parts.append(f"## Real Kafka: {name}\n\n{table(headings, cells)}")
    return parts


def table(headings: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, of texts and then figures."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
