"""``python -m benchmarks.admin``: the latency of proxied requests while /metrics and /v1 are polled hard.

Two proxies stand before the same broker. The load goes through the first; the pollers, at full speed, ask either
the second (so that they cost the machine the same, and the first nothing) or the first. Both states take turns in
every round, and only their ratio is told.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks.admin.page import RULES, page, spread
from benchmarks.proxy.cache import load_program
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.report import machine
from benchmarks.proxy.rounds import broker, load
from benchmarks.proxy.targets import HOST, Running, Start, Target
from benchmarks.proxy.workloads import chosen

_PATHS = ("/metrics", "/v1/faults", "/v1/connections", "/v1/brokers")
_TREE = Path(__file__).resolve().parents[2]
_PAGE = _TREE / "docs" / "what-polling-costs.md"
_ADMIN_OFFSET = 3  # of the ports that a target has for itself, the last


def _target(name: str) -> Target:
    def start(broker_port: int, listen_port: int, folder: Path) -> Start:
        rules = [
            {"kind": "close", "match": {"api_key": "CreateTopics", "topic": f"t{number}"}} for number in range(RULES)
        ]
        config = folder / f"{name}.yaml"
        config.write_text(json.dumps({"faults": rules}))
        argv = [
            sys.executable,
            "-m",
            "notleader.proxy",
            "run",
            f"--kafka={HOST}:{broker_port}",
            f"--listen={HOST}:{listen_port}",
        ]
        argv += [f"--admin={HOST}:{listen_port + _ADMIN_OFFSET}", f"--config={config}"]
        return Start(argv, env={**os.environ, "PYTHONPATH": str(_TREE / "src")})

    return Target(name, "", start, rewrites=True)


def _poll(port: int, answers: object, number: int) -> None:
    """Ask one path after the other without a pause, over one connection, for ever."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    while True:
        connection.request("GET", _PATHS[number % len(_PATHS)])
        connection.getresponse().read()
        number += 1
        with answers.get_lock():  # type: ignore[attr-defined]
            answers.value += 1  # type: ignore[attr-defined]


@contextlib.contextmanager
def _polled(running: Running, pollers: int, rates: list[float]) -> Generator[None]:
    """Pollers at a proxy's HTTP API while the context is open; their answers a second are added to ``rates``."""
    port = int(running.address.rpartition(":")[2]) + _ADMIN_OFFSET
    answers = multiprocessing.Value("q", 0)
    children = [multiprocessing.Process(target=_poll, args=(port, answers, n), daemon=True) for n in range(pollers)]
    for child in children:
        child.start()
    started = time.monotonic()
    try:
        yield
    finally:
        rates.append(answers.value / (time.monotonic() - started))
        for child in children:
            child.kill()
            child.join()


def main(
    workloads: Annotated[str, typer.Option(help="Loads of benchmarks.proxy: one,hundred,…")] = "one,hundred",
    number: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of both states.")] = 15,
    duration: Annotated[float, typer.Option(min=0.05, help="Seconds per run.")] = 2.0,
    pollers: Annotated[int, typer.Option(min=1, help="Processes that ask without a pause.")] = 4,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
    write_page: Annotated[bool, typer.Option("--page", help="Also write docs/what-polling-costs.md.")] = False,
) -> None:
    """Compare latency with the HTTP API polled hard and left alone; no figure is a pass mark."""
    progress = Console(stderr=True)
    try:
        program, wanted = load_program(), chosen(workloads)
    except (UnavailableError, ValueError) as error:
        progress.print(f"bench: {error}", markup=False)
        raise typer.Exit(2) from error
    told: dict[str, dict[str, list[float]]] = {}
    rates: dict[str, list[float]] = {"quiet": [], "polled": []}
    with tempfile.TemporaryDirectory(prefix="notleader-bench-") as scratch, broker(program, Path(scratch)) as port:
        asked = Running(_target("asked"), port, Path(scratch))
        other = Running(_target("other"), port, Path(scratch))
        try:
            for round_ in range(-1, number):  # the first is to warm up
                for workload in wanted:
                    found = {}
                    for state in ("quiet", "polled") if round_ % 2 else ("polled", "quiet"):
                        progress.print(f"round {round_ + 1}/{number}: {workload.name}, {state}", highlight=False)
                        with workload.placed(), _polled(asked if state == "polled" else other, pollers, rates[state]):
                            found[state] = load(
                                program, workload.command(asked.address, duration, duration / 5), "notleader"
                            )
                    if round_ >= 0:
                        ratios = told.setdefault(workload.name, {})
                        for name, key in (("p50", "p50_us"), ("p99", "p99_us")):
                            ratios.setdefault(name, []).append(found["polled"][key] / found["quiet"][key])
                        rate = {state: one["requests"] / one["seconds"] for state, one in found.items()}
                        ratios.setdefault("requests/s", []).append(rate["polled"] / rate["quiet"])
        finally:
            asked.stop()
            other.stop()
    medians = {load: {name: statistics.median(all_) for name, all_ in kinds.items()} for load, kinds in told.items()}
    answers = statistics.median(rates["polled"])
    if write_page:
        titles = {workload.name: workload.title for workload in wanted}
        run = f"{number} rounds of {duration:g} s for each state"
        _PAGE.write_text(page({titles[name]: one for name, one in told.items()}, answers, pollers, run, machine()))
    if as_json:
        print(json.dumps({"ratios": told, "medians": medians, "answers_per_s": answers}))  # noqa: T201
        return
    table = Table("load", *next(iter(medians.values())), title="polled ÷ quiet: median (lowest to highest)", box=None)
    for name, figures in told.items():
        table.add_row(name, *map(spread, figures.values()))
    console = Console()
    console.print(table)
    console.print(f"The pollers had {answers:.0f} answers a second of the proxy under load.", highlight=False)


if __name__ == "__main__":
    typer.run(main)
