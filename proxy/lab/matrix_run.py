"""Fill the cells of the matrix: each with a proxy of its own on brokers that all share, then Spark once for all."""

from __future__ import annotations

import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from notleader.proxy.lab.analysis import analyse_each
from notleader.proxy.lab.clients import command
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, Cluster
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.matrix import Cell
from notleader.proxy.lab.outcome import outcome_lines
from notleader.proxy.lab.recorded import Recorded, record_run
from notleader.proxy.lab.run import started
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.story import Line, story

LANES = 3
_STORY_LINES = 14


@dataclass(slots=True)
class Filled:
    """What one cell left: who was where when, how often the rules struck, why it broke off, and what it said.

    `unbuilt`: its program can't be had here, for the reason that `failed` gives; the client was asked nothing.
    """

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
    own: bool = False
    round: int = 1
    unbuilt: bool = False

    def save(self, folder: Path) -> None:
        (folder / "cell.json").write_text(json.dumps(asdict(self), indent=1), "utf-8")

    @classmethod
    def load(cls, folder: Path) -> Filled | None:
        """The cell in `folder`; None when it was never finished."""
        try:
            return cls(**json.loads((folder / "cell.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def fill(cells: list[Cell], out: Path, stages: Stages, *, again: bool = False) -> list[Filled]:
    """Run every cell that `out` has not yet as it is now, with its log, and analyse; in the cells' order.

    `again` runs them all. An interruption keeps the cells that are done; the next call goes on from there.
    """
    todo = [cell for cell in cells if again or not _up_to_date(cell, out)]
    stages.console.print(f"{len(cells)} runs of cells, {len(cells) - len(todo)} of them done before")
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
        again = [Recorded(cell.incident, cell.incident.runs[0], _folder(cell, out), [], {}) for cell in fresh]
        found = analyse_each(again, out / "spark", stages, report=False)
        for cell in fresh:
            own = [finding for finding in found if finding["client"] == cell.tested and finding["count"]]
            _found(cell, out).write_text(json.dumps(own), "utf-8")
    for cell, done in filled.items():
        if done is not None and _found(cell, out).exists():
            done.findings = json.loads(_found(cell, out).read_text("utf-8"))
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
            replace(_filled(cell, str(error)), unbuilt=True).save(folder)
        else:
            runnable.append(cell)
    return runnable


def _record_row(kafka: KafkaCluster, incident: str, row: list[Cell], out: Path, stages: Stages) -> None:
    """Run a row's cells side by side."""
    done: list[Cell] = []
    lock = threading.Lock()
    with stages.stage(incident) as say:

        def one(cell: Cell) -> None:
            folder = _emptied(cell, out)
            filled = _filled(cell, "")
            began = time.monotonic()
            recorded = record_run(kafka, cell.incident, cell.incident.runs[0], folder, Stages(quiet=True))
            if recorded.failed and not recorded.clients:  # ours, not the client's: the cell stays to be done
                stages.console.print(f"{incident}, {cell.client.name}: {recorded.failed}", markup=False)
                return
            filled.hits = recorded.hits
            filled.failed = recorded.failed.partition(" (log: ")[0]
            filled.seconds = round(time.monotonic() - began, 1)
            if not cell.own and cell.incident.steps and not cell.incident.faults:
                forget_warm_up(folder / "outcomes" / f"{cell.tested}.jsonl")
            _finish(cell, folder, filled)
            with lock:
                done.append(cell)
                say(f"{len(done)}/{len(row)} cells, last {cell.client.name}")

        with ThreadPoolExecutor(LANES) as lanes:
            try:
                list(lanes.map(one, row))
            except KeyboardInterrupt:
                say("interrupted: what is under way is finished and kept")
                raise
        say(f"{len(done)} of {len(row)} cells")


def forget_warm_up(said: Path) -> None:
    """Leave out what a client was told until its first success, from when on the rules are there: no cold start counts.

    A message that was not told ok by then stays.
    """
    if not said.exists():
        return
    lines = list(outcome_lines(said))
    ended = [line["completed_at_us"] for line in lines if line["outcome"] == "ok" and line.get("completed_at_us")]
    if not ended:
        return
    warm = {
        line["message_id"]
        for line in lines
        if line["outcome"] == "ok" and line.get("message_id") and line.get("completed_at_us", 0) <= min(ended)
    }
    kept = (line for line in lines if line["operation"] != "send" or line.get("message_id") not in warm)
    said.write_text("".join(f"{json.dumps(line)}\n" for line in kept), "utf-8")


def _finish(cell: Cell, folder: Path, filled: Filled) -> None:
    """Count what the client said, and tell its story; only now the cell is done."""
    said = folder / "outcomes" / f"{cell.tested}.jsonl"
    if said.exists():
        last = {}
        for line in outcome_lines(said):
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
    return Filled(
        cell.incident.name, name, cell.tested, digest(cell), at, 0.0,
        failed=failed, reader=reader, own=cell.own, round=cell.round,
    )  # fmt: skip


def digest(cell: Cell) -> str:
    """Changes with the incident, the settings and the client's program: then the cell is run anew."""
    said = cell.incident.model_dump_json(exclude={"story", "links", "title", "seen", "runs", "symptom", "cure"})
    programs = [(CLIENTS / program.program).read_bytes() for program in cell.programs]
    return sha256(b"".join([said.encode(), *programs])).hexdigest()[:16]


def _up_to_date(cell: Cell, out: Path) -> bool:
    done = Filled.load(_folder(cell, out))
    return done is not None and not done.unbuilt and done.digest == digest(cell)


def _needs(cell: Cell) -> tuple[str, int, tuple[tuple[str, str], ...]]:
    kafka = cell.incident.kafka
    return kafka.version, kafka.nodes, tuple(sorted(kafka.properties.items()))


def _folder(cell: Cell, out: Path) -> Path:
    word = cell.client.word if cell.round == 1 else f"{cell.client.word}-r{cell.round}"
    return out / "cells" / cell.incident.name / word


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
