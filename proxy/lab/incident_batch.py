"""Many incidents one after the other: brokers and Spark are started once, and every incident has topics of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.dataset

from proxy.lab.demo import AnalysisError
from proxy.lab.errors import LabError
from proxy.lab.incident import CLIENTS, Incident
from proxy.lab.java import find_java
from proxy.lab.kafka import KafkaCluster
from proxy.lab.process import Child
from proxy.lab.run import Recording

_READ_S = 60.0


def apart(incident: Incident, word: str) -> Incident:
    """The incident with `word` in the names of its topics and groups, so that it shares brokers with others."""
    groups = {str(p.arguments["group_id"]) for p in incident.clients if "group_id" in p.arguments}
    renamed = {name: f"{name}.{word}" for name in {topic.name for topic in incident.topics} | groups}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: rename(each) for key, each in value.items()}
        if isinstance(value, list):
            return [rename(each) for each in value]
        return renamed.get(value, value) if isinstance(value, str) else value

    document = incident.model_dump(mode="json", exclude_unset=True)
    return Incident.model_validate({**rename(document), "name": incident.name})


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


def job(recordings: list[tuple[Path, list[Path]]], out: Path) -> dict[str, Any]:
    """One analysis of several captures with their outcome files, for `analyse_each`."""
    return {
        "capture": [str(capture) for capture, _ in recordings],
        "outcomes": [str(path) for _, outcomes in recordings for path in outcomes],
        "out": str(out),
    }


def files(recording: Recording) -> tuple[Path, list[Path]]:
    """A recording as `job` takes it."""
    return recording.capture, recording.outcomes


def analyse_each(jobs: list[dict[str, Any]], folder: Path) -> list[dict[str, Any]]:
    """Every job's document, in one Spark session; AnalysisError when Spark ends otherwise than it should."""
    wanted, words, log = folder / "jobs.jsonl", folder / "analyses.jsonl", folder / "spark.log"
    wanted.write_text("".join(json.dumps(each) + "\n" for each in jobs))
    words.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "spark_analysis.each", str(wanted)]
    child = Child(argv, log=log, stdout=words, env=find_java().environment())
    try:
        code = child.wait()
    finally:
        if child.running():
            child.kill()
    documents = [json.loads(line) for line in words.read_text().splitlines()] if words.exists() else []
    if code != 0 or len(documents) != len(jobs):
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        raise AnalysisError(f"Spark ended with code {code}: {lines[-1] if lines else ''} (log: {log})")
    return documents
