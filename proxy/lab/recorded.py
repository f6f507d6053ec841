"""One run of an incident from its clients to all that is known of it: capture, outcome lines, and the brokers' log.

Whoever runs an incident (the command, a test, the matrix, the demo) does it by `record_run`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from notleader.proxy.brokerlog.reading import LogError, read_log
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Ends, Incident, Run
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.outcome import read_outcomes
from notleader.proxy.lab.run import Client, Commands, build, record_on, said_of, started
from notleader.proxy.lab.stages import Stages, Together

LANES = max(4, os.cpu_count() or 1)
"""How many runs of an incident go on side by side: their clients wait more than they work."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run that is over. `incident` has this one run, with the names that were really used.

    `failed` says why it could not be done; what there is of it is below `folder` all the same.
    """

    incident: Incident
    run: Run
    folder: Path
    clients: list[Client]
    hits: dict[str, int]
    failed: str = ""

    @property
    def capture(self) -> Path:
        return self.folder / "capture"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def outcomes(self) -> list[Path]:
        """The clients' outcome files, each line with the proxy's run."""
        return sorted((self.folder / "outcomes").glob("*.jsonl"))

    @property
    def was_seen(self) -> bool:
        """Whether anything was captured at all: without, there is nothing to analyse."""
        return any(self.capture.rglob("*.parquet"))

    def requests(self) -> Counter[str]:
        """How many requests of each API the first client sent, by the capture."""
        if not self.was_seen or not self.clients:
            return Counter()
        own = self.clients[0].program.name
        rows = rows_of(self.capture, ["event", "client_id", "api_name"])
        return Counter(row["api_name"] for row in rows if row["event"] == "exchange" and row["client_id"] == own)

    @property
    def cpu_ms(self) -> int | None:
        """The processor time of the first client, None where it can't be measured."""
        return self.clients[0].cpu_ms if self.clients else None

    @property
    def told(self) -> str:
        """With what code and words the first client ended, empty where it is none or 0."""
        return self.clients[0].told if self.clients else ""

    @property
    def ended(self) -> Ends | None:
        """How the first client ended, None without one."""
        return self.clients[0].ended if self.clients else None

    def records(self) -> Counter[str]:
        """How many records the log holds by topic, those of transactions that did not commit aside."""
        if not any(self.log.glob("*.parquet")):
            return Counter()
        rows = rows_of(self.log, ["event", "topic", "transaction"])
        return Counter(
            row["topic"] for row in rows if row["event"] == "record" and row["transaction"] in (None, "committed")
        )

    def misplaced(self) -> int:
        """How many records the log has in a topic or partition other than the one that their send named."""
        if not any(self.log.glob("*.parquet")):
            return 0
        sent = {
            (said.message_id, said.topic, said.partition)
            for said in read_outcomes(self.outcomes)
            if said.operation == "send" and said.message_id
        }
        known = {message_id for message_id, *_ in sent}
        rows = rows_of(self.log, ["event", "message_id", "topic", "partition"])
        return sum(
            row["event"] == "record"
            and row["message_id"] in known
            and (row["message_id"], row["topic"], row["partition"]) not in sent
            for row in rows
        )


def apart(incident: Incident, word: str) -> Incident:
    """The incident with `word` in the names of its topics, groups, transactions and clients.

    It may share brokers and an analysis then.
    """
    named = ("group_id", "transactional_id", "transactional.id")
    groups = {str(p.arguments[name]) for p in incident.clients for name in named if name in p.arguments}
    names = {program.name for program in incident.clients}
    renamed = {name: f"{name}.{word}" for name in {topic.name for topic in incident.topics} | groups | names}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: own(key, each) for key, each in value.items()}
        if isinstance(value, list):
            return [rename(each) for each in value]
        return renamed.get(value, value) if isinstance(value, str) else value

    def own(key: str, value: Any) -> Any:
        if key == "records":
            return {renamed.get(topic, topic): times for topic, times in value.items()}
        if key == "command":
            return [*value[:1], *map(rename, value[1:])]  # a program may be called as its client is
        return rename(value)

    document = incident.model_dump(mode="json", exclude_unset=True)
    return Incident.model_validate({**rename(document), "name": incident.name})


def record_incident(
    kafka: KafkaCluster, incident: Incident, folder: Path, stages: Stages, *, alone: bool
) -> list[Recorded]:
    """Run every run of an incident, each with topics, groups and clients of its own, side by side; see `record_run`.

    `alone`: nobody else uses these brokers and the analysis, so an only run keeps the names that its file has. Raises
    LabError when no run can be had here; one that can't, or breaks off, stops no other.
    """
    commands = build(incident, stages)
    if alone and len(incident.runs) == 1:
        return [record_run(kafka, incident, incident.runs[0], folder, stages, commands)]
    own = [run_of_its_own(incident, run, run.word if alone else f"{incident.name}.{run.word}") for run in incident.runs]
    with stages.stage(f"{incident.name}, {len(own)} runs") as say, ThreadPoolExecutor(LANES) as lanes:
        together = Together(say, [run.label for run in incident.runs])

        def one(each: Incident) -> Recorded:
            (run,) = each.runs
            recorded = record_run(kafka, each, run, folder / run.word, together.part(run.label))
            together.told(run.label, f"not done: {recorded.failed}" if recorded.failed else said_of(recorded.clients))
            return recorded

        try:
            return list(lanes.map(one, own))
        except BaseException:
            together.give_up()
            raise


def run_of_its_own(incident: Incident, run: Run, word: str) -> Incident:
    """The incident with this run alone, and `word` in the names of its topics, groups and clients."""
    own = apart(incident.model_copy(update={"runs": [run]}), word)
    (renamed,) = own.runs
    return own.model_copy(update={"runs": [renamed.model_copy(update={"round": run.round})]})  # no file has a round


def record_alone(incident: Incident, folder: Path, stages: Stages) -> list[Recorded]:
    """`record_incident` on a Kafka of its own; a missing toolchain is told before one is started."""
    build(incident, stages)
    with started(incident.kafka, stages) as kafka:
        return record_incident(kafka, incident, folder, stages, alone=True)


def record_run(
    kafka: KafkaCluster, incident: Incident, run: Run, folder: Path, stages: Stages, commands: Commands | None = None
) -> Recorded:
    """Run an incident that has one run, then read its topics' log past the proxy; everything is below `folder`.

    What breaks off is in the result and raises nothing.
    """
    try:
        ran = record_on(kafka, incident, folder, stages, commands)
    except LabError as error:
        return Recorded(incident, run, folder, [], {}, str(error))
    failed = ran.failed or _never_came(ran.clients, folder / "capture")
    run_id = next(iter(run_ids(folder / "capture")[-1:]), "")
    for outcomes in (folder / "outcomes").glob("*.jsonl"):
        stamp(outcomes, run_id)
    with stages.stage("log") as say:
        try:
            topics = [topic.name for topic in incident.topics]
            # The programs of old clients know no headers: their records are their own ids.
            found = read_log(kafka.bootstrap, topics, folder / "log", run_id=run_id or None, value_is_id=True)
        except LogError as error:
            failed = failed or f"the log can't be read: {error}"
            say(failed)
        else:
            say(f"{sum(one.records for one in found):,} records")
    return Recorded(incident, run, folder, ran.clients, ran.hits, failed)


def _never_came(clients: list[Client], capture: Path) -> str:
    """Why nothing can be said of a run in which nobody ever connected, as its command ended with an error; or nothing.

    How a command ends is else a result: faults may have made it.
    """
    gone = next((client for client in clients if client.told), None)
    if gone is None:
        return ""
    came = any(capture.rglob("*.parquet")) and any(row["event"] == "connect" for row in rows_of(capture, ["event"]))
    return "" if came else f"client {gone.program.name} {gone.told}; it never connected (log: {gone.child.log})"


def run_ids(capture: Path) -> list[str]:
    """The proxy's runs in a capture folder, each once."""
    if not any(capture.rglob("*.parquet")):
        return []
    return sorted({row["run_id"] for row in rows_of(capture, ["run_id"])} - {None})


def rows_of(recording: Path, columns: list[str]) -> list[dict[str, Any]]:
    """These columns of every row of a capture, or of a log that was read."""
    import pyarrow.dataset

    return pyarrow.dataset.dataset(recording, format="parquet").to_table(columns=columns).to_pylist()  # type: ignore[no-any-return]


def stamp(outcomes: Path, run_id: str) -> None:
    """Write the proxy's run into every outcome line: runs that overlap in time can't be told apart by it."""
    lines = [line for line in outcomes.read_text(errors="replace", encoding="utf-8").splitlines() if line.endswith("}")]
    outcomes.write_text("".join(f"{_stamped(line, run_id)}\n" for line in lines), "utf-8")


def _stamped(line: str, run_id: str) -> str:
    try:
        said = json.loads(line)
    except ValueError:  # a command of the user's may print anything: the analysis sets it aside
        return line
    return json.dumps({**said, "run_id": run_id})
