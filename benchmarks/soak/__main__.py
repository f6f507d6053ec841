"""``python -m benchmarks.soak``: churn, measure at rest, say whether anything grows."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.proxy.cache import load_program
from benchmarks.proxy.errors import UnavailableError
from benchmarks.proxy.notleader import OTHER_APIS, rules
from benchmarks.proxy.report import machine
from benchmarks.proxy.targets import HOST
from benchmarks.soak.cycle import Broker, Sample, Soak
from benchmarks.soak.report import page, trend
from notleader.proxy.lab.ports import free_ports
from notleader.proxy.lab.process import Child

_TREE = Path(__file__).resolve().parents[2]
_PAGE = _TREE / "docs" / "soak.md"
_RESULTS = Path(__file__).parent / "results"


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 30.0,
    cycle_s: Annotated[float, typer.Option(min=1, help="Seconds of load between two looks at the proxy.")] = 14.0,
    seed: Annotated[int, typer.Option(help="Which faults come when, and which workload loses its broker.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for soak.json and soak.svg.")] = _TREE / "out" / "soak",
    write_page: Annotated[bool, typer.Option("--page", help="Also write docs/soak.md and its plot.")] = False,
) -> None:
    """Run notleader with everything on under churn; print its memory, descriptors and threads at rest."""
    progress = Console(stderr=True)
    try:
        samples = _soak(minutes * 60, cycle_s, seed, progress)
    except UnavailableError as error:
        progress.print(f"soak: {error}", markup=False)
        raise typer.Exit(2) from error
    text, plot = page(samples, machine())
    out.mkdir(parents=True, exist_ok=True)
    (out / "soak.json").write_text(json.dumps([dataclasses.asdict(one) for one in samples], indent=1) + "\n")
    (out / "soak.svg").write_text(plot)
    if write_page:
        _RESULTS.mkdir(exist_ok=True)
        (_RESULTS / "soak.svg").write_text(plot)
        _PAGE.write_text(text)
    Console().print(trend(samples), markup=False, highlight=False)


def _soak(seconds: float, cycle_s: float, seed: int, progress: Console) -> list[Sample]:
    program = load_program()
    broker_port, listen_port = free_ports(1)[0], free_ports(4)[0]
    samples: list[Sample] = []
    with tempfile.TemporaryDirectory(prefix="notleader-soak-") as scratch:
        folder = Path(scratch)
        (folder / "config.yaml").write_text(json.dumps({"faults": rules(OTHER_APIS)}))
        broker = Broker(program, broker_port, folder)
        argv = [sys.executable, "-m", "notleader", "run", "--json", f"--seed={seed}", "--config=config.yaml"]
        argv += [f"--kafka={HOST}:{broker_port}", f"--listen={HOST}:{listen_port}", f"--admin={HOST}:0"]
        argv += ["--capture=capture", "--capture-rotate-s=1", "--capture-keep-bytes=200000000"]
        env = {**os.environ, "PYTHONPATH": str(_TREE / "src")}
        child = Child(argv, log=folder / "log", env=env, cwd=folder, stdout="pipe")
        try:
            assert child.popen.stdout is not None
            ready = child.popen.stdout.readline()
            if not ready:
                raise UnavailableError(f"notleader did not start: {child.log.read_text(errors='replace')}")
            soak = Soak(program, broker, child.pid, f"{HOST}:{listen_port}", json.loads(ready)["admin"], seed=seed)
            end = time.monotonic() + seconds
            while time.monotonic() < end or len(samples) < 3:
                samples.append(soak.cycle(cycle_s))
                last = samples[-1]
                progress.print(
                    f"{last.at_s:7.0f} s  {last.rss_bytes / (1 << 20):6.1f} MiB  {last.descriptors} descriptors "
                    f" {last.threads} threads  {last.requests} requests  {last.reconnects} reconnects",
                    highlight=False,
                )
        finally:
            child.stop()
            broker.stop()
    return samples


if __name__ == "__main__":
    typer.run(main)
