"""``python -m benchmarks.explore``: what `notleader explore` finds in clients whose bugs are known.

Each case is searched three times with the same budget: with its bug, with its bug by chance (`--random`), and without
the bug. Nothing of the recipe is told. What each search said is kept in `--out` and not searched again.
"""

from __future__ import annotations

import json
import time
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.explore.cases import CASES, OfIncident, Service
from benchmarks.explore.page import table
from benchmarks.explore.started import explore, slug
from notleader.proxy.lab.incident import Cluster
from notleader.proxy.lab.run import started
from notleader.proxy.lab.stages import Stages

MODES = ("bug", "chance", "sound")


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Cases whose names contain one of these.")] = None,
    minutes: Annotated[float, typer.Option(help="The budget of each search.")] = 20.0,
    lanes: Annotated[int, typer.Option(help="Tries at once.")] = 2,
    failures: Annotated[int, typer.Option(help="Stop at so many distinct failures.")] = 8,
    modes: Annotated[str, typer.Option(help="Which searches.")] = ",".join(MODES),
    out: Annotated[Path, typer.Option(help="What each search said.")] = Path("out/benchmarks/explore"),
) -> None:
    """Search, and print the table of everything in `--out`."""
    chosen = [case for case in CASES if not names or any(name in case.name for name in names)]
    out.mkdir(parents=True, exist_ok=True)
    stages = Stages()
    left = [
        (case, mode)
        for case in chosen
        for mode in modes.split(",")
        if not (out / f"{slug(case.name)}.{mode}.json").exists()
    ]
    for brokers, those in groupby(sorted(left, key=lambda each: each[0].brokers), key=lambda each: each[0].brokers):
        with started(Cluster(nodes=brokers), stages) as kafka:
            for case, mode in those:
                said = search(case, mode, kafka.bootstrap, minutes, lanes, failures, out, stages)
                (out / f"{slug(case.name)}.{mode}.json").write_text(json.dumps(said, indent=1))
    typer.echo(table(CASES, read(out)))


def search(
    case: Service | OfIncident,
    mode: str,
    kafka: str,
    minutes: float,
    lanes: int,
    failures: int,
    out: Path,
    stages: Stages,
) -> dict[str, Any]:
    """One search; what its report says, and how long all of it took."""
    words = [f"--minutes={minutes}", f"--lanes={lanes}", f"--failures={failures}", *case.options]
    words += ["--random"] if mode == "chance" else []
    name = f"{slug(case.name)}.{mode}"
    began = time.monotonic()
    start = case.start(mode == "sound", kafka, stages)
    code, found = explore(start, out / name, kafka, words, out / f"{name}.log")
    known = [case.is_known(each) for each in found.get("failures", [])]
    stages.console.print(f"{case.name} ({mode}): exit {code}, {known}", markup=False)
    return {"exit": code, "minutes": minutes, "took_s": round(time.monotonic() - began), **found}


def read(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What was searched so far, by case and mode."""
    return {
        (case.name, mode): json.loads(file.read_text())
        for case in CASES
        for mode in MODES
        if (file := out / f"{slug(case.name)}.{mode}.json").exists()
    }


if __name__ == "__main__":
    typer.run(main)
