"""The demo: one incident from the broker to the verdict, with everything real in it."""

from __future__ import annotations

import importlib.util
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.run import Ran, record
from notleader.proxy.lab.stages import Stages


class AnalysisError(LabError):
    """Spark could not say anything about the run."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a demo ends with: what Spark printed, whether its verdict is negative, and the runs."""

    folder: Path
    words: str
    negative: bool
    runs: list[Ran]


def new_folder(base: Path) -> Path:
    """A folder named by the time, and `latest` pointing to it."""
    folder = base / time.strftime("%Y%m%d-%H%M%S")
    folder.mkdir(parents=True)
    latest = base / "latest"
    latest.unlink(missing_ok=True)
    latest.symlink_to(folder.name)
    return folder


def run_demo(incident: Incident, folder: Path, stages: Stages, *, as_json: bool = False) -> Shown:
    """Run the incident and let Spark say what it did, in lines or as JSON; everything stays below `folder`."""
    java = find_java()
    if importlib.util.find_spec("pyspark") is None:
        raise AnalysisError("the verdict needs Spark: pip install 'notleader[spark]'")
    recording = record(incident, folder, stages)
    if reasons := [ran.failed for ran in recording.runs if ran.failed]:
        raise LabError("; ".join(reasons))
    with stages.stage("Spark") as say:
        say(f"reading capture and outcomes, on Java {java.version}")
        words, negative = analyse(recording.capture, recording.outcomes, folder, java.environment(), as_json=as_json)
        say(f"on Java {java.version}")
    return Shown(folder, words, negative, recording.runs)


def analyse(
    capture: Path, outcomes: list[Path], folder: Path, environment: dict[str, str], *, as_json: bool
) -> tuple[str, bool]:
    """Run `spark_analysis` over a recording; what it printed, and whether the verdict is negative."""
    words, log = folder / "verdict.txt", folder / "logs" / "spark.log"
    if importlib.util.find_spec("pyspark") is None:
        raise AnalysisError("the verdict needs Spark: pip install 'notleader[spark]'")
    argv = [sys.executable, "-m", "notleader.spark_analysis", "analyze", "--by-run", "--capture", str(capture)]
    argv += [*(["--outcomes", *map(str, outcomes)] if outcomes else []), "--out", str(folder / "analysis")]
    child = Child([*argv, *(["--json"] if as_json else [])], log=log, stdout=words, env=environment)
    try:
        code = child.wait()
    finally:
        if child.running():
            child.kill()
    if code not in (0, 1):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise AnalysisError(f"Spark ended with code {code}: {lines[-1] if lines else ''} (log: {log})")
    return words.read_text(), code == 1
