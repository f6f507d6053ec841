"""Many incidents one after the other: brokers and Spark are started once, and every incident has topics of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset

from notleader.proxy.lab.demo import AnalysisError
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import CLIENTS, Incident
from notleader.proxy.lab.java import find_java
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.process import Child
from notleader.proxy.lab.run import Recording, record_on, started
from notleader.proxy.lab.stages import Stages
from notleader.proxy.lab.verdict import Judged, judge

_READ_S = 60.0
# Each job has its overhead, and the runs of one become constants of its plan.
_PER_JOB = 40


def apart(incident: Incident, word: str) -> Incident:
    """The incident with `word` in the names of its topics, groups and clients: it may share brokers and an analysis."""
    groups = {str(p.arguments["group_id"]) for p in incident.clients if "group_id" in p.arguments}
    names = {program.name for program in incident.clients}
    renamed = {name: f"{name}.{word}" for name in {topic.name for topic in incident.topics} | groups | names}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rename(each) for key, each in value.items()}
        if isinstance(value, list):
            return [rename(each) for each in value]
        return renamed.get(value, value) if isinstance(value, str) else value

    document = incident.model_dump(mode="json", exclude_unset=True)
    return Incident.model_validate({**rename(document), "name": incident.name})


@dataclass(frozen=True, slots=True)
class Held:
    """One run of one incident, held to its file: how its rules struck, and where everything is."""

    incident: str
    judged: Judged
    hits: dict[str, int]
    failed: str
    folder: Path

    @property
    def as_expected(self) -> bool:
        return self.judged.as_expected and not self.failed


def hold(incidents: Iterable[Incident], folder: Path, stages: Stages) -> list[Held]:
    """Run every run of every incident, each with a proxy and topics of its own, and judge all of them.

    Incidents with the same needs share brokers; their topics are read back past the proxy before those end.
    """
    recorded: list[tuple[Incident, Recording | None, str, Path]] = []
    alike: dict[str, list[Incident]] = {}
    for incident in incidents:
        alike.setdefault(incident.kafka.model_dump_json(), []).append(incident)
    for group in alike.values():
        with started(group[0].kafka, stages) as kafka:
            for incident in group:
                recorded += _runs_apart(kafka, incident, folder / incident.name, stages)
    found = analyse_each(
        [
            (recording.capture, sorted((where / "outcomes").glob("*.jsonl")))
            for _, recording, _, where in recorded
            if recording and any(recording.capture.rglob("*.parquet"))
        ],
        folder,
        stages,
    )
    held = []
    for one, recording, failed, where in recorded:
        hits = recording.runs[0].hits if recording else {}
        held.append(Held(one.name, judge(one, one.runs[0], found), hits, failed, where))
    return held


def _runs_apart(
    kafka: KafkaCluster, incident: Incident, folder: Path, stages: Stages
) -> list[tuple[Incident, Recording | None, str, Path]]:
    recorded: list[tuple[Incident, Recording | None, str, Path]] = []
    for run in incident.runs:
        alone = apart(incident.model_copy(update={"runs": [run]}), f"{incident.name}.{run.name}")
        where = folder / run.name
        failed = ""
        recording = None
        with stages.stage(f"{incident.name}, {run.name} {run.version}") as say:
            try:
                recording = record_on(kafka, alone, where, Stages(quiet=True))
            except LabError as error:
                say(failed := str(error))
            else:
                failed = recording.runs[0].failed
                log = read_back(kafka, [topic.name for topic in alone.topics], where / "logs")
                log.rename(where / "outcomes" / "log.jsonl")
                ids = run_ids(recording.capture)
                for outcomes in (where / "outcomes").glob("*.jsonl"):
                    stamp(outcomes, ids[-1] if ids else "")
                say(", ".join(f"{name} x{hits}" for name, hits in recording.runs[0].hits.items()))
        recorded.append((alone, recording, failed, where))
    return recorded


def run_ids(capture: Path) -> list[str]:
    """The proxy's runs in a capture folder, each once."""
    table = pyarrow.dataset.dataset(capture, format="parquet").to_table(columns=["run_id"])
    return sorted(set(table["run_id"].to_pylist()) - {None})


def read_back(kafka: KafkaCluster, topics: Iterable[str], folder: Path) -> Path:
    """What is in the topics now, read past every proxy, as outcome lines of a consumer named `log`."""
    outcomes, log = folder / "log.jsonl", folder / "log.log"
    outcomes.unlink(missing_ok=True)
    program = str(CLIENTS / "aiokafka" / "reader.py")
    arguments = [f"bootstrap={kafka.bootstrap}", "client_id=log", f"topics={','.join(topics)}"]
    child = Child([sys.executable, program, *arguments], log=log, stdout=outcomes)
    try:
        code = child.wait(_READ_S)
    except subprocess.TimeoutExpired:
        code = child.kill()
    if code != 0:
        raise LabError(f"the log can't be read back (log: {log})")
    return outcomes


def stamp(outcomes: Path, run_id: str) -> None:
    """Write the proxy's run into every outcome line: runs that overlap in time can't be told apart by it."""
    lines = [json.loads(line) for line in outcomes.read_text().splitlines() if line.endswith("}")]
    outcomes.write_text("".join(json.dumps({**line, "run_id": run_id}) + "\n" for line in lines))


Recorded = tuple[Path, list[Path]]
"""A capture folder and its outcome files."""


def analyse_each(recorded: list[Recorded], folder: Path, stages: Stages) -> list[dict[str, Any]]:
    """What the analysis finds in all of these, in one Spark session; AnalysisError when it can't be done."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted, words, log = folder / "jobs.jsonl", folder / "analyses.jsonl", folder / "spark.log"
    chunks = [recorded[start : start + _PER_JOB] for start in range(0, len(recorded), _PER_JOB)]
    with wanted.open("w") as lines:
        for number, chunk in enumerate(chunks):
            captures = [str(capture) for capture, _ in chunk]
            outcomes = [str(path) for _, paths in chunk for path in paths]
            job = {"capture": captures, "outcomes": outcomes, "out": str(folder / "analysis" / str(number))}
            lines.write(json.dumps(job) + "\n")
    words.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "notleader.spark_analysis.each", str(wanted)]
    with stages.stage(f"Spark, {len(recorded)} recordings"):
        child = Child(argv, log=log, stdout=words, env=find_java().environment())
        try:
            code = child.wait()
        finally:
            if child.running():
                child.kill()
    documents = [json.loads(line) for line in words.read_text().splitlines()] if words.exists() else []
    if code != 0 or len(documents) != len(chunks):
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise AnalysisError(f"Spark ended with code {code}: {said[-1] if said else ''} (log: {log})")
    if reasons := [document["failed"] for document in documents if "failed" in document]:
        raise AnalysisError(f"{reasons[0]} (log: {log})")
    return [finding for document in documents for finding in document["findings"]]
