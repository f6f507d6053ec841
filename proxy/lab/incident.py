"""What an incident file holds: the story, the cluster, the faults in time, the programs that suffer."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from notleader.proxy.config.yaml_text import parse_yaml
from notleader.proxy.lab.errors import LabError
from notleader.proxy.wire.names import did_you_mean

INCIDENTS = Path(str(importlib.resources.files("notleader.faults"))) / "incidents"
CLIENTS = INCIDENTS / "clients"


Symptom = Literal[
    "a call never returns",
    "sends fail",
    "nothing works after one error",
    "it takes far longer than any timeout",
    "records are there twice",
    "records are missing",
    "records are read again",
    "the consumer lives and reads nothing",
]


Ends = Literal["well", "badly", "never"]
"""How a client program ends: with exit code 0, with another one, not before the limit."""


CheckName = Literal[
    "lost",
    "duplicate",
    "reordered",
    "phantom",
    "skipped",
    "read_again",
    "read_by_another",
    "commit_lost",
    "inconsistent_offsets",
    "offset_reset",
    "hang",
    "blocked_call",
    "stuck",
    "failed",
    "late",
    "starved",
    "retried",
    "recovery",
    "throttled",
    "unfair_acks",
    "wrong_broker",
    "retry_storm",
    "metadata_storm",
    "reconnect_storm",
    "looks_like_java_callback_deadlock",
    "looks_like_java_send_blocks",
    "looks_like_sarama_hang",
    "looks_like_sarama_two_minutes",
    "looks_like_scala_refresh_stall",
]
"""The checks of the analysis; `notleader.spark_analysis` has them."""


class IncidentError(LabError):
    """There is no such incident, or its file is not valid; every problem is named with its path."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Cluster(_Model):
    """The Kafka an incident needs."""

    version: str = Field("4", description="Kafka's version, whole or its beginning.")
    nodes: int = Field(1, ge=1, le=9, description="How many brokers.")
    properties: dict[str, str] = Field(default_factory=dict, description="Broker settings on top of the lab's.")


class Topic(_Model):
    """A topic that exists before the first client starts."""

    name: str
    partitions: int = Field(1, ge=1)
    replication_factor: int | None = Field(None, ge=1, description="Default: one copy a node, three at most.")
    config: dict[str, str] = Field(default_factory=dict)


class Program(_Model):
    """One client program: what it is started with, and when it ends."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$", description="Also its client id.")
    program: str = Field("", description="File below `clients/`; the first folder is the family.")
    command: list[str] = Field(
        default_factory=list,
        description="In its place a command of your own, in which `{bootstrap}`, `{topic}` (the first one), `{group}`, "
        "`{client_id}` (the program's name, with the run's where there are several: the one that rules mean) "
        "and `{outcomes}` (a file for outcome lines, which may go to stdout as well) are replaced.",
    )
    folder: str = Field(
        "", description="Where the command runs, from this file's folder on. Default: where notleader was started."
    )
    version: str = Field("", description="One of the family's pinned versions; `installed`: as it is here.")
    role: str = Field(description="What it does in this story, in a few words.")
    arguments: dict[str, str | int | bool] = Field(default_factory=dict)
    heap_mb: int | None = Field(None, ge=16, description="Of a Java program; by default 256, or as its family has it.")
    until: Literal["done", "others"] = Field(
        "done", description="Ends by itself, or is told to (SIGTERM) when all the others have."
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Program:
        if bool(self.program) == bool(self.command):
            raise ValueError("either program or command is needed")
        if self.folder and not self.command:
            raise ValueError("a folder is of a command")
        return self

    @property
    def family(self) -> str:
        """The folder of its program, or the program that its command starts."""
        return Path(self.program).parts[0] if self.program else Path(self.command[0]).name

    def beside(self, folder: Path) -> Program:
        """The program as a file in that folder has it."""
        return self.model_copy(update={"folder": str((folder / self.folder).resolve())}) if self.folder else self

    def at(self, run: Run) -> Program:
        """The program as a run has it; one that has a version of its own only serves the others and stays as it is."""
        if self.version:
            return self
        heap_mb = self.heap_mb if run.heap_mb is None else run.heap_mb
        own = {"version": run.version, "arguments": self.arguments | run.arguments, "heap_mb": heap_mb}
        return self.model_copy(update=own)

    def command_line(self, bootstrap: str) -> list[str]:
        """`name=value` arguments, with the address and the client id that every program takes."""
        values = {"bootstrap": bootstrap, "client_id": self.name, **self.arguments}
        texts = {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in values.items()}
        return [f"{name}={text}" for name, text in texts.items()]


class Times(_Model):
    """How often something may have happened."""

    at_least: int = Field(0, ge=0)
    at_most: int | None = Field(None, ge=0)

    def problem(self, what: str, count: int, seen: str = "was seen {} times") -> str | None:
        """What is wrong with that count, or None; `seen` tells the count."""
        if count < self.at_least:
            return f"{what} {seen.format(count)}, and {self.at_least} or more were expected"
        if self.at_most is not None and count > self.at_most:
            return f"{what} {seen.format(count)}, and {self.at_most} or fewer were expected"
        return None


class Run(_Model):
    """The story once, with the clients at one version, and what the analysis has to say of them then."""

    name: str = Field(pattern=r"^[a-z0-9-]+$", description="affected, control, newest, …")
    version: str = Field("", description="Of every client program that has pinned versions.")
    faults: list[dict[str, Any]] | None = Field(None, description="In place of the incident's, in this run.")
    steps: list[dict[str, Any]] | None = Field(None, description="In place of the incident's, in this run.")
    arguments: dict[str, str | int | bool] = Field(default_factory=dict, description="On top of the programs' own.")
    heap_mb: int | None = Field(None, ge=16, description="Of its Java programs, in place of their own.")
    must: list[CheckName] = Field(default_factory=list, description="Checks that have to find something.")
    never: list[CheckName] = Field(default_factory=list, description="Checks that must not.")
    requests: dict[str, Times] = Field(
        default_factory=dict, description="How often the first client sends a request of an API."
    )
    misplaced: Times | None = Field(None, description="How many records lie where nobody sent them.")
    records: dict[str, Times] = Field(
        default_factory=dict, description="How many committed records the log of a topic holds."
    )
    ends: Ends | None = Field(
        None, description="How the first client ends: with exit code 0, with another one, or not before the limit."
    )
    cpu_ms: Times | None = Field(None, description="How much processor time the first client takes, in ms.")
    round: int = Field(0, ge=0, exclude=True, description="Which repetition this is, from 1; 0 when there are none.")

    @property
    def word(self) -> str:
        """Its name and round, as a file and a topic may be called."""
        return f"{self.name}-r{self.round}" if self.round else self.name

    @property
    def label(self) -> str:
        """Its name, and the round when there are several."""
        return f"{self.name}, round {self.round}" if self.round else self.name


class Cure(_Model):
    """What keeps the incident from happening, shown by a run in which the same faults do no such harm."""

    told: str = Field(description="The setting or the version, in a few words.")
    run: str = Field("cure", description="The run that shows it.")


class Form(_Model):
    """The same story at another length, say with the timeouts of the report."""

    told: str = Field(description="What is different, in a few words.")
    arguments: dict[str, str | int | bool] = Field(default_factory=dict, description="On top of every program's own.")
    limit_s: float | None = Field(None, gt=0)
    must: list[CheckName] = Field(
        default_factory=list, description="Checks that have to find something too, in the runs that must show any."
    )


class World(_Model):
    """The incident's faults as every other client meets them in the matrix, at settings that can be compared."""

    role: Literal["producer", "consumer"] = "producer"
    settings: dict[str, str | int | bool] = Field(default_factory=dict, description="Over the matrix' own defaults.")
    cold: bool = Field(
        False, description="The story is about a client's first requests: the rules are there before it starts."
    )
    limit_s: float = Field(25, gt=0, description="A client that is not done then hangs.")


class Incident(_Model):
    """One incident; the clock of `steps` starts when every client has had its first success."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    story: str = Field(description="What happened in the world, in a few sentences.")
    links: list[str] = Field(default_factory=list, description="Where it was told.")
    kafka: Cluster = Cluster()
    topics: list[Topic]
    proxy: dict[str, Any] = Field(default_factory=dict, description="Settings of `notleader run`.")
    faults: list[dict[str, Any]] = Field(default_factory=list, description="Rules from the start on.")
    steps: list[dict[str, Any]] = Field(default_factory=list, description="Rules added and removed in time.")
    clients: list[Program] = Field(min_length=1)
    runs: list[Run] = Field(default_factory=lambda: [Run(name="demo")], min_length=1)
    forms: dict[str, Form] = Field(default_factory=dict, description="Other lengths, by name.")
    limit_s: float = Field(60, gt=0, description="When a client still runs then, it is ended.")
    matrix: World | None = Field(None, description="Without, the matrix leaves this incident out.")
    symptom: Symptom | None = Field(None, description="What whoever has it would say.")
    cure: Cure | None = Field(None, description="Without, none is known here.")
    seen: str = Field("", description="What was seen where it was run; says so when it does not reproduce.")
    reproduces: bool = Field(True, description="Whether the affected client did here what was told of it.")

    def only(self, client: str | None) -> Incident:
        """The incident with the runs of `FAMILY[@VERSION]`; a version that no run names is run with no verdict."""
        if client is None:
            return self
        family, _, version = client.partition("@")
        families = {program.family for program in self.clients}
        if family not in families:
            raise IncidentError(f"{self.name} has no client {family!r} (it has: {', '.join(sorted(families))})")
        if not version:
            return self
        runs = [run for run in self.runs if run.version == version]
        return self.model_copy(update={"runs": runs or [Run(name="asked", version=version)]})

    def in_form(self, name: str | None) -> Incident:
        """The incident at another of its lengths; None: as it is."""
        if name is None:
            return self
        if name not in self.forms:
            raise IncidentError(f"{self.name} has no form {name!r} (it has: {', '.join(self.forms) or 'none'})")
        form = self.forms[name]
        clients = [c.model_copy(update={"arguments": c.arguments | form.arguments}) for c in self.clients]
        runs = [run.model_copy(update={"must": [*run.must, *form.must]}) if run.must else run for run in self.runs]
        return self.model_copy(update={"clients": clients, "runs": runs, "limit_s": form.limit_s or self.limit_s})

    def repeated(self, rounds: int) -> Incident:
        """The incident with all its runs that often, one round after the other."""
        if rounds == 1:
            return self
        runs = [run.model_copy(update={"round": n}) for n in range(1, rounds + 1) for run in self.runs]
        return self.model_copy(update={"runs": runs})

    def programs(self, run: Run) -> list[Program]:
        """The client programs of one run; their client ids have what tells the run from the others."""
        if len(self.runs) == 1 and not run.version:
            return self.clients
        alike = {other.name for other in self.runs if other.version == run.version}
        marks = [run.version, run.name if len(alike) > 1 or not run.version else "", f"r{run.round}" * bool(run.round)]
        suffix = "-".join(filter(None, marks))
        return [each.at(run).model_copy(update={"name": f"{each.name}-{suffix}"}) for each in self.clients]

    def rules(self, run: Run) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The faults and the steps of one run."""
        return self.faults if run.faults is None else run.faults, self.steps if run.steps is None else run.steps


def incident_names() -> list[str]:
    """All incidents that come with notleader."""
    return sorted(path.stem for path in INCIDENTS.glob("*.yaml"))


def load_incident(name_or_file: str) -> Incident:
    """An incident by its name, or from a file of one's own; raises `IncidentError`."""
    path = Path(name_or_file)
    if path.suffix not in (".yaml", ".yml"):
        path = INCIDENTS / f"{name_or_file}.yaml"
        if not path.exists():
            near = did_you_mean(name_or_file, incident_names())
            raise IncidentError(f"there is no incident {name_or_file!r}{near or ': see notleader incident ls'}")
    try:
        incident = Incident.model_validate(parse_yaml(path.read_text("utf-8")))
    except OSError as error:
        raise IncidentError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise IncidentError(f"{path}: not YAML: {error}") from error
    except ValidationError as error:
        problems = (f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())
        raise IncidentError(f"{path}: {'; '.join(problems)}") from error
    if incident.cure is not None and incident.cure.run not in {run.name for run in incident.runs}:
        raise IncidentError(f"{path}: cure.run: there is no run {incident.cure.run!r}")
    return incident.model_copy(update={"clients": [each.beside(path.parent) for each in incident.clients]})
