"""Has one Spark session judge many recordings, and holds what it says against what is true of them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from notleader import spark_analysis
from tests.truth import judge
from tests.truth.kept import Run
from tests.truth.oracle import truth
from tests.truth.playing import Played

TOGETHER = 40
"""Runs in one `analyze --by-run`: each job has its overhead, and the runs of one become constants of its plan."""
FILE = "findings.json"
UNREAD = "findings-unread.json"
"""What was said by an analysis that was not given the brokers' log."""

Say = Callable[[int, int], None]
"""Told how many runs were judged, and how many there are."""


def analysed(
    session: Callable[[], Any],
    played: Sequence[Played],
    folder: Path,
    say: Say = lambda *_: None,
    together: int = TOGETHER,
    with_log: bool = True,
) -> judge.Judged:
    """The marks of all these runs. What this very analysis has said of a run already is not asked again."""
    version, file = fingerprint(), FILE if with_log else UNREAD
    open_runs = [one.run for one in played if _known(one.run, version, file) is None]
    done = len(played) - len(open_runs)
    for number, batch in enumerate(_batches(open_runs, together)):
        say(done, len(played))
        for run, findings in zip(batch, _analyse(session(), batch, folder / f"{number}", with_log), strict=True):
            (run.folder / file).write_text(json.dumps({"analysis": version, "findings": findings}, default=str))
        done += len(batch)
    say(done, len(played))
    judged = judge.Judged()
    for one in played:
        true = one.true if with_log else truth(one.run, with_log=False)
        judged.add(judge.judge(one.run, true, _known(one.run, version, file) or []))
        judged.void += one.problems if with_log else []
    return judged


def fingerprint() -> str:
    """Differs when the analysis does."""
    root = Path(spark_analysis.__file__).parent
    whole = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return whole.hexdigest()[:16]


def _known(run: Run, version: str, name: str) -> list[dict[str, Any]] | None:
    file = run.folder / name
    document = json.loads(file.read_text()) if file.exists() else {}
    return document["findings"] if document.get("analysis") == version else None


def _batches(runs: Sequence[Run], together: int) -> Iterator[list[Run]]:
    shared = [run for run in runs if not run.scenario.alone]
    yield from (shared[start : start + together] for start in range(0, len(shared), together))
    yield from ([run] for run in runs if run.scenario.alone)


def options(runs: Sequence[Run]) -> Any:
    """The bounds of an analysis of these runs."""
    from notleader.spark_analysis.options import Options

    bounds = runs[0].scenario.options if len(runs) == 1 else {}
    return Options(by_run=True, runs_are_told=True, **{"groups_per_check": 100_000, **bounds})


def _analyse(spark: Any, runs: Sequence[Run], out: Path, with_log: bool) -> list[list[dict[str, Any]]]:
    from notleader.spark_analysis.jobs.analyze import analyze

    captures = [str(run.capture) for run in runs]
    said = [str(file) for run in runs for file in sorted(run.outcomes.glob("*.jsonl"))]
    logs = [str(run.log_files) for run in runs if with_log and any(run.log_files.glob("*.parquet"))]
    analysis = analyze(spark, captures, said, str(out), options(runs), logs=logs)
    return of_each([finding.as_dict() for finding in analysis.findings], runs)


def of_each(findings: Sequence[dict[str, Any]], runs: Sequence[Run]) -> list[list[dict[str, Any]]]:
    """The findings about each of the runs, with the scenario's own names for clients."""
    if len(runs) == 1:
        return [[_own(runs[0], finding) for finding in findings]]
    by_run: dict[str, list[dict[str, Any]]] = {run.name: [] for run in runs}
    for finding in findings:
        if not finding["count"]:
            continue
        named = [name.split(".")[0] for name in (finding["client"], finding["topic"]) if name and "." in name]
        of = next((name for name in named if name in by_run), None)
        if of is None:
            raise ValueError(f"nobody's finding: {finding}")
        by_run[of].append(finding)
    return [[_own(run, finding) for finding in by_run[run.name]] for run in runs]


def _own(run: Run, finding: dict[str, Any]) -> dict[str, Any]:
    """The finding by the scenario's names."""
    sentence = finding["sentence"].replace(f"{run.name}.", "")
    return finding | {"client": run.own(finding["client"]), "sentence": sentence}
