"""A third of the recordings, which lie with the sources: `make test` judges them without a broker or a client.

They are what real clients did to a real broker; the page docs/held-to-the-truth.md is of all of them.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from tests.truth.kept import Run, load
from tests.truth.oracle import truth
from tests.truth.planted_incidents import INCIDENTS
from tests.truth.planted_strangers import STRANGERS
from tests.truth.playing import Played
from tests.truth.scenario import Scenario

FILE = Path(__file__).with_name("recordings.tar.xz")
_OF_SIGNATURES = (*INCIDENTS, *STRANGERS)
_KEPT = ("run.json", "capture/**/*.parquet", "outcomes/*.jsonl", "log/*.parquet")


def is_of_the_third(scenario: Scenario) -> bool:
    """By its name alone, so that a scenario more moves no other; and all that signatures are held on.

    Those that take an analysis of their own are not among them.
    """
    chosen = scenario in _OF_SIGNATURES or hashlib.sha256(scenario.name.encode()).digest()[0] % 3 == 0
    return chosen and not scenario.alone


def pack(runs: Iterable[Run]) -> None:
    """Put what the judging needs of these recordings beside the sources, in the place of what was there."""
    with tarfile.open(FILE, "w:xz") as archive:
        for run in sorted(runs, key=lambda run: run.scenario.name):
            for pattern in _KEPT:
                for file in sorted(run.folder.glob(pattern)):
                    entry = tarfile.TarInfo(f"{run.scenario.name}/{file.relative_to(run.folder)}")
                    content = file.read_bytes()
                    entry.size = len(content)
                    archive.addfile(entry, io.BytesIO(content))


def unpacked(scenarios: Iterable[Scenario], folder: Path) -> tuple[list[Played], list[str]]:
    """The recordings of these scenarios, and the names of those of which there is none, or one of another shape."""
    with tarfile.open(FILE) as archive:
        archive.extractall(folder, filter="data")
    found = {scenario.name: load(scenario, folder / scenario.name) for scenario in scenarios}
    return [Played(run, truth(run)) for run in found.values() if run], [name for name, run in found.items() if not run]
