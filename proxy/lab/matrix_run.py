"""Fill the cells of the matrix: each with a proxy of its own on brokers that all share, then Spark once for all."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from notleader.proxy.lab.clients import command
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, Cluster
from notleader.proxy.lab.incident_batch import analyse_each, read_back, run_ids, stamp
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.matrix import Cell
from notleader.proxy.lab.run import record_on, started
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.story import Line, story

LANES = 3
_STORY_LINES = 14


@dataclass(slots=True)
class Filled:
    """What one cell left: who was where when, how often the rules struck, why it broke off, and what it said."""

    incident: str
    client: str
    tested: str
    digest: str
    at: str
    seconds: float
    hits: dict[str, int] = field(default_factory=dict)
    failed: str = ""
    sends: int = 0
    ok: int = 0
    reader: bool = False
    told: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        (folder / "cell.json").write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def load(cls, folder: Path) -> Filled | None:
        """The cell in `folder`; None when it was never finished."""
        try:
            return cls(**json.loads((folder / "cell.json").read_text()))
        except (OSError, ValueError, TypeError):
            return None


def fill(cells: list[Cell], out: Path, stages: Stages, *, again: bool = False) -> list[Filled]:
    """Run every cell that `out` has not yet as it is now, read its log back, and analyse; in the cells' order.

    `again` runs them all. An interruption keeps the cells that were read back; the next call goes on from there.
    """
    todo = [cell for cell in cells if again or not _up_to_date(cell, out)]
    stages.console.print(f"{len(cells)} cells, {len(cells) - len(todo)} of them done before")
    runnable = _built(todo, out, stages)
    for needs in dict.fromkeys(_needs(cell) for cell in runnable):
        cluster = Cluster(version=needs[0], nodes=needs[1], properties=dict(needs[2]))
        with started(cluster, stages) as kafka:
            for incident in dict.fromkeys(cell.incident.name for cell in runnable if _needs(cell) == needs):
                row = [c for c in runnable if _needs(c) == needs and c.incident.name == incident]
                _record_row(kafka, incident, row, out, stages)
    return analyse(cells, out, stages)


def analyse(cells: list[Cell], out: Path, stages: Stages) -> list[Filled]:
    """The findings of every cell; those that have none yet are given to Spark, all in one session."""
    filled = {cell: Filled.load(_folder(cell, out)) for cell in cells}
    recorded = [cell for cell, done in filled.items() if done is not None and _captured(cell, out)]
    fresh = [cell for cell in recorded if not _found(cell, out).exists()]
    if fresh:
        outcomes = {cell: sorted((_folder(cell, out) / "outcomes").glob("*.jsonl")) for cell in fresh}
        found = analyse_each(
            [(_folder(cell, out) / "capture", outcomes[cell]) for cell in fresh], out / "spark", stages
        )
        for cell in fresh:
            own = [finding for finding in found if finding["client"] == cell.tested and finding["count"]]
            _found(cell, out).write_text(json.dumps(own))
    for cell, done in filled.items():
        if done is not None and _found(cell, out).exists():
            done.findings = json.loads(_found(cell, out).read_text())
    return [done for done in filled.values() if done is not None]


def _built(cells: list[Cell], out: Path, stages: Stages) -> list[Cell]:
    """The cells whose programs can be had here; for the others, why they can't is what their cell says."""
    runnable = []
    for cell in cells:
        try:
            for program in cell.programs:
                command(program, stages)
        except LabError as error:
            folder = _emptied(cell, out)
            _filled(cell, str(error)).save(folder)
        else:
            runnable.append(cell)
    return runnable


def _record_row(kafka: KafkaCluster, incident: str, row: list[Cell], out: Path, stages: Stages) -> None:
    """Run a row's cells side by side, then read their topics back at once."""
    folders = {cell: _emptied(cell, out) for cell in row}
    done: dict[Cell, Filled] = {}
    lock = threading.Lock()
    with stages.stage(incident) as say:

        def one(cell: Cell) -> None:
            try:
                filled = _record(kafka, cell, folders[cell])
            except LabError as error:  # ours, not the client's: the cell stays to be done
                stages.console.print(f"{incident}, {cell.client.name}: {error}", markup=False)
                return
            with lock:
                done[cell] = filled
                say(f"{len(done)}/{len(row)} cells, last {cell.client.name}")

        with ThreadPoolExecutor(LANES) as lanes:
            list(lanes.map(one, row))
        logs = out / "logs"
        logs.mkdir(exist_ok=True)
        topics = {cell: [topic.name for topic in cell.incident.topics] for cell in done}
        if not done:
            return
        lines = read_back(kafka, [name for names in topics.values() for name in names], logs).read_text().splitlines()
        for cell in done:
            own = [line for line in lines if json.loads(line)["topic"] in topics[cell]]
            _finish(cell, folders[cell], own, done[cell])
        say(f"{len(done)} of {len(row)} cells")


def _record(kafka: KafkaCluster, cell: Cell, folder: Path) -> Filled:
    """One cell: its faults, its client, until that is done, breaks off, or reaches the limit."""
    filled = _filled(cell, "")
    began = time.monotonic()
    recording = record_on(kafka, cell.incident, folder, Stages(quiet=True))
    filled.hits = recording.runs[0].hits
    filled.failed = recording.runs[0].failed.partition(" (log: ")[0]
    filled.seconds = round(time.monotonic() - began, 1)
    return filled


def _finish(cell: Cell, folder: Path, log: list[str], filled: Filled) -> None:
    """Put what was read back beside what was said, all under the proxy's run; only now the cell is done."""
    (folder / "outcomes" / "log.jsonl").write_text("".join(f"{line}\n" for line in log))
    with contextlib.suppress(OSError, ValueError):
        run = run_ids(folder / "capture")[-1:] or [""]
        for outcomes in (folder / "outcomes").glob("*.jsonl"):
            stamp(outcomes, run[0])
    said = folder / "outcomes" / f"{cell.tested}.jsonl"
    if said.exists():
        last = {}
        for text in said.read_text().splitlines():
            line = json.loads(text)
            if line["operation"] in ("send", "poll") and line.get("message_id"):
                last[line["message_id"]] = line["outcome"]
        filled.sends, filled.ok = len(last), sum(outcome == "ok" for outcome in last.values())
        if any((folder / "capture").rglob("*.parquet")):
            filled.told = _told(story(folder / "capture", said, cell.tested))
    filled.save(folder)


def _told(lines: list[Line]) -> list[str]:
    start = lines[0].at_us if lines else 0
    shown = lines if len(lines) <= _STORY_LINES else [*lines[: _STORY_LINES - 3], *lines[-3:]]
    told = [
        f"{(line.at_us - start) / 1e6:.3f} s  {line.text}{f' (x{line.count})' if line.count > 1 else ''}"
        for line in shown
    ]
    if len(shown) < len(lines):
        told.insert(_STORY_LINES - 3, f"… {len(lines) - len(shown)} more …")
    return told


def _filled(cell: Cell, failed: str) -> Filled:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    reader = cell.incident.matrix is not None and cell.incident.matrix.role == "consumer"
    name = cell.client.name
    return Filled(cell.incident.name, name, cell.tested, digest(cell), at, 0.0, failed=failed, reader=reader)


def digest(cell: Cell) -> str:
    """Changes with the incident, the settings and the client's program: then the cell is run anew."""
    said = cell.incident.model_dump_json(exclude={"story", "links", "title", "seen", "runs"})
    programs = [(CLIENTS / program.program).read_bytes() for program in cell.programs]
    return sha256(b"".join([said.encode(), *programs])).hexdigest()[:16]


def _up_to_date(cell: Cell, out: Path) -> bool:
    done = Filled.load(_folder(cell, out))
    return done is not None and done.digest == digest(cell)


def _needs(cell: Cell) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    kafka = cell.incident.kafka
    return kafka.version, kafka.nodes, tuple(sorted(kafka.properties.items()))


def _folder(cell: Cell, out: Path) -> Path:
    return out / "cells" / cell.incident.name / cell.client.word


def _captured(cell: Cell, out: Path) -> bool:
    """Whether the client was seen at all."""
    return any((_folder(cell, out) / "capture").rglob("*.parquet"))


def _found(cell: Cell, out: Path) -> Path:
    return _folder(cell, out) / "findings.json"


def _emptied(cell: Cell, out: Path) -> Path:
    folder = _folder(cell, out)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
