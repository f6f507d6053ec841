"""How every benchmark of the search starts one, and where its report is read from."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.explore.cases import Started

Report = dict[str, Any]


def explore(start: Started, folder: Path, kafka: str, words: Iterable[str], log: Path) -> tuple[int, Report]:
    """Search with nothing that an earlier one left in `folder`; the exit code and the report, empty without one.

    `words` are further options of `notleader explore`; what it printed is written to `log`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    argv = [sys.executable, "-m", "notleader", "explore", f"--kafka={kafka}", f"--out={folder}"]
    argv += ["--again", f"--partitions={start.partitions}", *words]
    argv += [] if start.messages is None else [f"--messages={start.messages}"]
    argv += ["--", *start.argv]
    with log.open("w") as told:
        code = subprocess.run(argv, stdout=told, stderr=subprocess.STDOUT).returncode
    report = folder / "report.json"
    return code, json.loads(report.read_text()) if report.exists() else {}


def slug(name: str) -> str:
    """A file name of a case's name."""
    return "-".join("".join(each if each.isalnum() else " " for each in name).split())
