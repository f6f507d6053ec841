"""``python -m benchmarks.explore.chance``: the search beside plain chance, on the planted bugs, with several seeds.

Each search ends at its first failure of the planted kind; all other kinds are allowed. `--out` keeps what each said.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from benchmarks.explore.cases import CASES, PLANTED, Service
from benchmarks.explore.started import explore, slug
from notleader.proxy.lab.explore.judging import KINDS
from notleader.proxy.lab.incident import Cluster
from notleader.proxy.lab.run import started
from notleader.proxy.lab.stages import Stages

MODES = {"the search": (), "by chance": ("--random",)}


def main(
    seeds: Annotated[int, typer.Option(help="How many, from 0 on.")] = 5,
    minutes: Annotated[float, typer.Option(help="The budget of each search.")] = 3.0,
    lanes: Annotated[int, typer.Option(help="Tries at once.")] = 2,
    out: Annotated[Path, typer.Option(help="What each search said.")] = Path("out/benchmarks/explore-chance"),
) -> None:
    """Search with every seed, the modes in turn, and print the table of everything in `--out`."""
    out.mkdir(parents=True, exist_ok=True)
    planted = [case for case in CASES if isinstance(case, Service) and case.bug and case.buggy == PLANTED]
    stages = Stages()
    with started(Cluster(), stages) as kafka:
        for seed in range(seeds):
            for case in planted:
                for mode in MODES:
                    file = out / f"{slug(case.name)}.{slug(mode)}.{seed}.json"
                    if not file.exists():
                        file.write_text(
                            json.dumps(search(case, mode, kafka.bootstrap, seed, minutes, lanes, out, stages))
                        )
    typer.echo(table(planted, out))


def search(
    case: Service, mode: str, kafka: str, seed: int, minutes: float, lanes: int, out: Path, stages: Stages
) -> dict[str, Any]:
    """What the report of one search says."""
    allow = [kind for kind in KINDS if kind != case.verdict]
    words = [f"--seed={seed}", f"--minutes={minutes}", f"--lanes={lanes}", "--failures=1", f"--allow={','.join(allow)}"]
    folder = out / f"{slug(case.name)}.{slug(mode)}.{seed}"
    log = folder.with_name(f"{folder.name}.log")
    _, found = explore(case.start(False, kafka, stages), folder, kafka, [*words, *MODES[mode]], log)
    if not found:
        sys.exit(f"{case.name}, {mode}, seed {seed}: {log.read_text()}")
    stages.console.print(f"{case.name}, {mode}, seed {seed}: {_told([found])}", markup=False)
    shutil.rmtree(folder)
    return found


def table(cases: Sequence[Service], out: Path) -> str:
    """Markdown: a row for each planted bug."""
    lines = [f"| planted bug | {' | '.join(MODES)} |", f"|---|{'---|' * len(MODES)}"]
    for case in cases:
        cells = []
        for mode in MODES:
            files = sorted(out.glob(f"{slug(case.name)}.{slug(mode)}.*.json"))
            cells.append(_told([json.loads(file.read_text()) for file in files]))
        lines.append(f"| {case.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _told(reports: list[dict[str, Any]]) -> str:
    """Median and range of tries and seconds to the first failure, and its size, of the searches that found it."""
    first = [report["failures"][0] for report in reports if report.get("failures")]
    if not first:
        return f"not found in {len(reports)}"
    tries = [failure["tries_to_find"] for failure in first]
    seconds = [failure["seconds_to_find"] for failure in first]
    rules = [len(failure["rules"]) for failure in first]
    shrunk = [failure["tries_to_shrink"] for failure in first]
    return (
        f"{len(first)} of {len(reports)}: try {median(tries):g} ({min(tries)} to {max(tries)}), "
        f"{median(seconds):.0f} s ({min(seconds):.0f} to {max(seconds):.0f}); shrunk in {median(shrunk):g} tries to "
        f"{max(rules)} rule{'' if max(rules) == 1 else 's'} at most"
    )


if __name__ == "__main__":
    typer.run(main)
