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

_TREE = Path(__file__).resolve().parents[2]
_PAGE = _TREE / "docs" / "analysis-at-scale.md"
_IMAGES = _TREE / "docs" / "images"
_MASTER_PORT = 17077
WHAT = ("analysis", "cluster", "spark", "duckdb", "small heap")


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
        wanted = [each for each in what.split(",") if not any(r.what == each and r.size == size for r in results)]
        if not wanted:
            continue
        folder = out / str(size)
        capture, outcomes = folder / "capture", folder / "outcomes"
        about = {"capture": str(capture), "outcomes": str(outcomes), "memory": memory, "input_bytes": 1 << 30}
        if not (folder / "planted.json").exists():
            console.print(f"{size:,} exchanges: generating")
            made = _job({**about, "what": "generate", "exchanges": size, "out": str(folder / "logs")}, console)
            (folder / "planted.json").write_text(json.dumps(made["planted"]))
        planted = json.loads((folder / "planted.json").read_text())
        input_bytes = sum(
            file.stat().st_size for part in (capture, outcomes) for file in part.rglob("*") if file.is_file()
        )
        about |= {"input_bytes": input_bytes}
        for each in wanted:
            console.print(f"{size:,} exchanges: {each}")
            job = {**about, "what": each, "out": str(folder / each.replace(" ", "-"))}
            if each == "small heap":
                job |= {"what": "analysis", "memory": small}
            if each == "cluster":
                try:
                    with standalone(folder / "cluster-logs", _MASTER_PORT, memory=memory) as url:
                        told = _job({**job, "what": "analysis", "master": url}, console)
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
                    rss_bytes=told["rss_bytes"],
                    shuffled_bytes=told.get("shuffled_bytes", 0),
                    spilled_bytes=told.get("spilled_bytes", 0),
                    report_bytes=told.get("report_bytes", 0),
                    memory=job["memory"],
                )
            )
            kept.write_text(json.dumps([row._asdict() for row in results], indent=1) + "\n")
        if not keep:
            shutil.rmtree(folder)
    Console().print(table(results), markup=False, highlight=False)
    if write_page:
        text, plots = page(results, machine(), time.strftime("%Y-%m-%d"))
        for name, plot in plots.items():
            (_IMAGES / name).write_text(plot)
        _PAGE.write_text(text)


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
