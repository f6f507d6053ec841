"""Runs scenarios, several at a time, has one Spark session judge them all, and holds the two against each other."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.truth import judge
from tests.truth.oracle import Truth, truth
from tests.truth.scenario import Scenario
from tests.truth.world import Run, World, world

AT_ONCE = 4
BROKER = {"group.initial.rebalance.delay.ms": "0", "log.cleaner.backoff.ms": "500", "num.partitions": "1"}
"""What a broker of these scenarios does sooner than by default."""
TOGETHER = 70


@dataclass
class Told:
    """One scenario: its run, what is true of it, and what its controls showed."""

    run: Run
    true: Truth
    problems: list[str] = field(default_factory=list)


async def play(
    bootstrap: str,
    scenarios: Sequence[Scenario],
    folder: Path,
    at_once: int = AT_ONCE,
    say: Callable[[Told], None] = lambda _: None,
) -> tuple[list[Told], list[str]]:
    """Every scenario with its controls, `at_once` at a time; and what kept others from being played."""
    turn = asyncio.Semaphore(at_once)
    failed: list[str] = []
    async with world(bootstrap, folder) as made:

        async def one(scenario: Scenario) -> Told | None:
            async with turn:
                try:
                    told = await _with_controls(made, scenario)
                except Exception as error:
                    failed.append(f"{scenario.name}: could not be played: {error!r}")
                    return None
            say(told)
            return told

        played = await asyncio.gather(*map(one, scenarios))
    return [told for told in played if told is not None], failed


async def _with_controls(made: World, scenario: Scenario) -> Told:
    run = await made.run(scenario)
    told = Told(run, truth(run))
    told.problems += [f"{scenario.name}: {problem}" for problem in run.problems]
    names = {rule["name"] for rule in scenario.rules}
    controls: dict[frozenset[str], Truth] = {}

    async def without(rules: Iterable[str], tag: str) -> Truth:
        gone = frozenset(rules)
        if gone not in controls:
            control = await made.run(scenario, gone, f"-{tag}{len(controls)}")
            controls[gone] = truth(control)
            shutil.rmtree(control.folder)
        return controls[gone]

    for effect in scenario.effects:
        innocent = names - set(effect.by)
        absent = await without(effect.by, "without") if effect.by else None
        present = await without(innocent, "only") if innocent and effect.by and effect.stays else None
        wrong = judge.counterfactual(effect, absent, present)
        if wrong:
            told.problems.append(f"{scenario.name}: {wrong}")
    return told


def analysed(spark: Any, told: Sequence[Told], together: int = TOGETHER) -> judge.Judged:
    """What the analysis says of the runs, held against the truth; `together` runs in one `analyze --by-run`."""
    judged = judge.Judged()
    shared = [one for one in told if not one.run.scenario.alone]
    batches = [shared[place : place + together] for place in range(0, len(shared), together)]
    for batch in [*batches, *([one] for one in told if one.run.scenario.alone)]:
        for one, findings in zip(batch, _analyse(spark, [one.run for one in batch]), strict=True):
            (one.run.folder / "findings.json").write_text(json.dumps(findings, indent=1, default=str))
            judged.add(judge.judge(one.run, one.true, findings))
            judged.void += one.problems
    return judged


def _analyse(spark: Any, runs: Sequence[Run]) -> list[list[dict[str, Any]]]:
    """The findings about each of the runs, with the scenario's own names for clients."""
    from notleader.spark_analysis.jobs.analyze import analyze
    from notleader.spark_analysis.options import Options

    bounds = runs[0].scenario.options if len(runs) == 1 else {"groups_per_check": 100_000}
    options = Options(by_run=True, runs_are_told=True, **bounds)
    together = Path(tempfile.mkdtemp(prefix=f"together-{len(runs)}-", dir=runs[0].folder.parent))
    for run in runs:
        shutil.copytree(run.capture, together / "capture", dirs_exist_ok=True)
        shutil.copytree(run.outcomes, together / "outcomes" / run.name)
    said = sorted(str(file) for file in (together / "outcomes").glob("*/*.jsonl"))
    analysis = analyze(spark, [str(together / "capture")], said, str(together / "analysis"), options)
    findings = [finding.as_dict() for finding in analysis.findings]
    if len(runs) == 1:
        return [[finding | {"client": runs[0].own(finding["client"])} for finding in findings]]
    by_run: dict[str, list[dict[str, Any]]] = {run.name: [] for run in runs}
    for finding in findings:
        if not finding["count"]:
            continue
        named = [name.split(".")[0] for name in (finding["client"], finding["topic"]) if name and "." in name]
        of = next((name for name in named if name in by_run), None)
        if of is None:
            raise ValueError(f"nobody's finding: {finding}")
        by_run[of].append(finding)
    return [[finding | {"client": run.own(finding["client"])} for finding in by_run[run.name]] for run in runs]
