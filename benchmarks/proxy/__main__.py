"""``python -m benchmarks.proxy``: measure, print, write."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.proxy import notleader, page, peers, real_kafka, report, rounds, turns
from benchmarks.proxy.cache import load_program
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.targets import Running, Target, connections_to_hold
from benchmarks.proxy.workloads import Workload, chosen, picked

_TREE = Path(__file__).resolve().parents[2]
_PAGE = _TREE / "docs" / "benchmarks.md"
_PLOTS = Path(__file__).parent / "results"
_IDLE = 10_000


def main(
    workloads: Annotated[
        str | None,
        typer.Option(
            help="Only these: one,hundred,thousand,produce,…; 'none' for none. Beside those of the page there are "
            "produce-v7-10-100-x3 and the like: an API's version, partitions, bytes and number of their batches; "
            "'fetch-v17-*' is all of those."
        ),
    ] = None,
    peer: Annotated[
        str, typer.Option("--peers", help="Peers to measure beside it, comma-separated; 'none' for none.")
    ] = ",".join(peers.PEERS),
    states: Annotated[str | None, typer.Option(help="Only these states of notleader, e.g. notleader+all.")] = None,
    tree: Annotated[
        list[str] | None, typer.Option(help="LABEL=FOLDER: also measure the sources in another checkout.")
    ] = None,
    number: Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds.")] = 7,
    by_turns: Annotated[
        int,
        typer.Option(
            "--turns",
            min=0,
            help="Only CPU per request, closely: in each round the targets take this many turns of 0.5 s, "
            "and are compared with the first of them.",
        ),
    ] = 0,
    duration: Annotated[float, typer.Option(min=0.05, help="Seconds per run.")] = 2.0,
    quick: Annotated[bool, typer.Option("--quick", help="One round of 0.4 s: does it all work?")] = False,
    memory: Annotated[bool, typer.Option(help="Measure memory at 100 busy and 10 000 idle connections.")] = True,
    real: Annotated[bool, typer.Option("--real/--no-real", help="Then the same in front of a real Kafka.")] = True,
    records: Annotated[
        int, typer.Option(help="Records per run before a real Kafka; the first half warms a producer up.")
    ] = 800_000,
    out: Annotated[Path, typer.Option(help="Folder for results.json and the plots.")] = _TREE / "out" / "bench",
    write_page: Annotated[bool, typer.Option("--page", help="Also write docs/benchmarks.md and its plots.")] = False,
) -> None:
    """Measure notleader beside its peers; no figure is a pass mark."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    progress = Console(stderr=True)
    if quick:
        number, duration, records = 1, 0.4, 20_000
    try:
        wanted = chosen(workloads)
        program = load_program()
    except (ValueError, UnavailableError) as error:
        progress.print(f"bench: {error}", markup=False)
        raise typer.Exit(2) from error
    skipped: list[str] = []

    def say(line: str) -> None:
        progress.print(line, markup=False, highlight=False)
        reason = line.removeprefix("skipped: ")
        if reason != line and reason not in skipped:
            skipped.append(reason)

    targets = [*_peers(peer, say), *_states(states, tree or [])]
    versions = {target.name: target.version for target in targets if not target.name.startswith("notleader+")}
    results = report.Results(versions, skipped, number, duration, samples=[], figures=[])
    with tempfile.TemporaryDirectory(prefix="notleader-bench-") as scratch:
        folder = Path(scratch)
        with rounds.broker(program, folder) as broker_port:
            with rounds.started(targets, broker_port, folder, say) as running:
                if by_turns:
                    _by_turns(program, running[1:], wanted, number, by_turns, say, console)
                    return
                results.samples.extend(
                    rounds.measure(program, running, wanted, rounds=number, duration_s=duration, say=say)
                )
            results.figures.extend(rounds.figures(results.samples))
            # After each stage: what was measured must not be lost to what comes next.
            report.write(results, out)
            if memory:
                idle = connections_to_hold(1000 if quick else _IDLE)
                for target in targets:
                    say(f"memory of {target.name}, {idle} idle connections")
                    try:
                        results.holdings.append(rounds.hold(program, target, broker_port, folder / "hold", idle))
                    except UnavailableError as error:
                        say(f"skipped: memory of {target.name}: {error}")
                report.write(results, out)
        if real:
            results.real_samples.extend(_real(targets, folder, number, records, say))
            results.real.extend(real_kafka.figures(results.real_samples))
    report.show(results, console)
    report.write(results, out)
    console.print(f"written to {out}", highlight=False)
    if write_page:
        report.write(results, _PLOTS)
        (_PLOTS / "tables.md").write_text(page.tables(results))
        _PAGE.write_text(page.page(results, "../benchmarks/proxy/results"))
        console.print(f"and {_PAGE}", highlight=False)


def _by_turns(
    program: Path,
    targets: list[Running],
    workloads: list[Workload],
    number: int,
    each: int,
    say: rounds.Say,
    console: Console,
) -> None:
    if not targets:
        say("bench: nothing to measure was started")
        raise typer.Exit(1)
    try:
        shares = turns.measure(program, targets, workloads, rounds=number, turns=each, say=say)
    except UnavailableError as error:
        say(f"bench: {error}")
        raise typer.Exit(1) from error
    turns.show(shares, targets[0].target.name, console)


def _peers(names: str, say: rounds.Say) -> list[Target]:
    try:
        wanted = picked(names, peers.PEERS, "peer")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--peers") from error
    found = []
    for made in wanted:
        try:
            found.append(made())
        except UnavailableError as error:
            say(f"skipped: {error}")
    return found


def _states(names: str | None, trees: list[str]) -> list[Target]:
    by_name = {state.name: state for state in notleader.STATES}
    wanted = list(by_name) if names is None else [name.strip() for name in names.split(",") if name.strip()]
    if unknown := [name for name in wanted if name not in by_name]:
        raise typer.BadParameter(f"no {', '.join(unknown)}; there are {', '.join(by_name)}", param_hint="--states")
    targets = [notleader.target(by_name[name]) for name in wanted]
    for entry in trees:
        label, equals, folder = entry.partition("=")
        if not equals or not Path(folder, "src", "notleader").is_dir():
            raise typer.BadParameter(f"{entry}: LABEL=FOLDER with notleader's sources", param_hint="--tree")
        targets += [notleader.target(by_name[name], Path(folder).resolve(), f" [{label}]") for name in wanted]
    return targets


def _real(
    targets: list[Target], folder: Path, number: int, records: int, say: rounds.Say
) -> list[real_kafka.RealSample]:
    try:
        with real_kafka.started(targets, folder, say) as (cluster, running):
            return real_kafka.measure(
                running,
                version=cluster.version,
                rounds=number,
                records=records,
                latency_records=max(records // 400, 200),
                say=say,
            )
    except UnavailableError as error:
        say(f"skipped: {error}")
        return []


if __name__ == "__main__":
    typer.run(main)
