"""`python -m benchmarks.analysis`: generate captures, analyse them here and on a standalone cluster, ask DuckDB too.

Each measurement is a process of its own and is kept in results.json; what is there is not measured again, so a run may
be cut into pieces and gone on with.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.analysis.cluster import ClusterError, standalone
from benchmarks.analysis.page import Measured, page, table
from benchmarks.proxy.report import machine
from notleader.spark_analysis.paths import size_bytes

_TREE = Path(__file__).resolve().parents[2]
_PAGE = _TREE / "docs" / "analysis-at-scale.md"
_IMAGES = _TREE / "docs" / "images"
_MASTER_PORT = 17077
WHAT = ("analysis", "even", "cluster", "small heap", "spark", "duckdb")


def main(
    sizes: Annotated[str, typer.Option(help="Exchanges, with commas between.")] = "1000000,3000000,10000000",
    what: Annotated[str, typer.Option(help=f"Of {', '.join(WHAT)}.")] = ",".join(WHAT),
    memory: Annotated[str, typer.Option(help="Heap of Spark's driver and of each executor; DuckDB's limit.")] = "2g",
    small: Annotated[str, typer.Option(help="The heap of 'small heap': what doesn't fit has to be spilled.")] = "1g",
    out: Annotated[Path, typer.Option(help="Folder for captures, results and logs.")] = _TREE / "out" / "analysis",
    keep: Annotated[bool, typer.Option(help="Keep the captures.")] = False,
    write_page: Annotated[
        bool, typer.Option("--page", help="Also write docs/analysis-at-scale.md and its plots.")
    ] = False,
) -> None:
    """Measure how the analysis' cost grows with the capture."""
    console = Console(stderr=True)
    out.mkdir(parents=True, exist_ok=True)
    kept = out / "results.json"
    results: list[Measured] = [Measured(**row) for row in json.loads(kept.read_text())] if kept.exists() else []
    for size in (int(text) for text in sizes.split(",")):
        for each in what.split(","):
            if any(row.what == each and row.size == size for row in results):
                continue
            folder = out / (f"{size}-even" if each == "even" else f"{size}")
            planted = _generated(folder, size, skewed=each != "even", console=console)
            console.print(f"{size:,} exchanges: {each}")
            capture, outcomes = folder / "capture", folder / "outcomes"
            input_bytes = size_bytes([str(capture), str(outcomes)])
            job = {
                "what": each if each in ("spark", "duckdb") else "analysis",
                "capture": str(capture),
                "outcomes": str(outcomes),
                "memory": small if each == "small heap" else memory,
                "input_bytes": input_bytes,
                "out": str(folder / each.replace(" ", "-")),
            }
            if each == "cluster":
                try:
                    with standalone(folder / "cluster-logs", _MASTER_PORT, memory=memory) as url:
                        told = _job({**job, "master": url}, console)
                except ClusterError as error:
                    console.print(f"benchmarks.analysis: {error}", markup=False)
                    raise typer.Exit(2) from error
            else:
                told = _job(job, console)
            _agree(told, planted)
            results.append(
                Measured(
                    what=each,
                    size=size,
                    exchanges=planted["exchanges"],
                    input_bytes=input_bytes,
                    seconds=told["seconds"],
                    start_s=told.get("start_s", 0.0),
                    cpu_s=told["cpu_s"],
                    rss_bytes=told["rss_bytes"],
                    shuffled_bytes=told.get("shuffled_bytes", 0),
                    spilled_bytes=told.get("spilled_bytes", 0),
                    report_bytes=told.get("report_bytes", 0),
                    memory=job["memory"],
                )
            )
            kept.write_text(json.dumps([row._asdict() for row in results], indent=1) + "\n")
        if not keep:
            for folder in (out / f"{size}", out / f"{size}-even"):
                shutil.rmtree(folder, ignore_errors=True)
    Console().print(table(results), markup=False, highlight=False, soft_wrap=True)
    if write_page:
        text, plots = page(results, machine(), time.strftime("%Y-%m-%d"))
        for name, plot in plots.items():
            (_IMAGES / name).write_text(plot)
        _PAGE.write_text(text)


def _generated(folder: Path, size: int, *, skewed: bool, console: Console) -> dict[str, int]:
    """What was planted in the capture below `folder`, which is made unless it is there."""
    known = folder / "planted.json"
    if not known.exists():
        console.print(f"{size:,} exchanges: generating")
        wanted = {"what": "generate", "exchanges": size, "skewed": skewed, "out": str(folder / "logs")}
        made = _job({**wanted, "capture": str(folder / "capture"), "outcomes": str(folder / "outcomes")}, console)
        known.write_text(json.dumps(made["planted"]))
    planted: dict[str, int] = json.loads(known.read_text())
    return planted


def _job(wanted: dict[str, Any], console: Console) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.analysis.job", json.dumps(wanted)]
    ran = subprocess.run(command, cwd=_TREE, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        console.print(f"benchmarks.analysis: '{wanted['what']}' ended with code {ran.returncode}", markup=False)
        raise typer.Exit(1)
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


def _agree(told: dict[str, Any], planted: dict[str, Any]) -> None:
    """A figure of a wrong answer is worth nothing."""
    if "found" in told:
        found, wanted = told["found"], {name: planted[name] for name in ("retried", "lost")}
        wanted["duplicate"] = planted["doubled"]
    elif "answer" in told:
        answer = told["answer"]
        found = [answer[name] for name in ("sends", "retried", "lost", "twice")]
        wanted = [planted[name] for name in ("sends", "retried", "lost", "doubled")]
    else:
        return
    if found != wanted:
        raise AssertionError(f"planted {wanted}, found {found}")


if __name__ == "__main__":
    typer.run(main)
