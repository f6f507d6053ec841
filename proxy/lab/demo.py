"""The demo: one incident from the broker to the verdict, with everything real in it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from notleader.proxy.lab.analysis import Inputs, analyse, need_spark
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Incident
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.recorded import Recorded, record_alone
from notleader.proxy.lab.stages import Stages


@dataclass(frozen=True, slots=True)
class Shown:
    """What a demo ends with: what Spark printed, whether its verdict is negative, and the runs."""

    folder: Path
    words: str
    negative: bool
    runs: list[Recorded]


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
    need_spark()
    java = find_java()
    recorded = record_alone(incident, folder, stages)
    if reasons := [one.failed for one in recorded if one.failed]:
        raise LabError("; ".join(reasons))
    with stages.stage("Spark") as say:
        say(f"reading capture, outcomes and log, on Java {java.version}")
        words, negative = analyse(Inputs.of(recorded), folder, as_json=as_json)
        say(f"on Java {java.version}")
    return Shown(folder, words, negative, recorded)
