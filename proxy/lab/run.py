"""Run an incident: Kafka, the proxy in front of it, the client programs, and the faults in their time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml

from notleader.proxy.lab.clients import command, dump_stacks
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Cluster, Ends, Incident, Program, Run, Topic
from notleader.proxy.lab.kafka import KafkaCluster
from notleader.proxy.lab.node import HOST
from notleader.proxy.lab.outcome import documents, last_words
from notleader.proxy.lab.paths import made
from notleader.proxy.lab.process import Child, filled, temporary_folder
from notleader.proxy.lab.stages import Stages
from notleader.proxy.record import helpers

_FIRST_SUCCESS_S = 90.0
_READY_S = 30.0
_LEAVE_S = 15.0
_TICK_S = 0.1


class RunError(LabError):
    """A part of the run failed; the text has its last words and the log's path."""


class ClientEndedError(RunError):
    """A client program broke off; the other runs can go on."""


@dataclass(slots=True)
class Client:
    """A client program at work: its process and what it has said so far, counted by outcome.

    `hung` is set when it had to be ended at the limit; its log then has the stacks of its threads; `code` is its exit
    code when it ended before, `told` says that one other than 0 with its last words. `cpu_ms` is the processor time
    that it took until it was last listened to, None where that can't be measured.
    """

    program: Program
    child: Child
    outcomes: Path
    stdout: Path
    hung: bool = False
    code: int | None = None
    told: str = ""
    ended_at_us: int = 0
    cpu_ms: int | None = None
    said: Counter[str] = field(default_factory=Counter)
    _read_bytes: int = 0

    def listen(self) -> None:
        """Count the outcome lines that came since the last time, and see how much it worked."""
        cpu_ms = self.child.cpu_ms() if self.child.running() else None
        self.cpu_ms = self.cpu_ms if cpu_ms is None else cpu_ms
        with self.outcomes.open("rb") as lines:
            lines.seek(self._read_bytes)
            whole, newline, _ = lines.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        texts = (line.decode(errors="replace") for line in whole.splitlines())
        self.said.update(said.get("outcome", "") for said in documents(texts))

    @property
    def ended(self) -> Ends:
        """How it ended."""
        return "never" if self.hung else "badly" if self.code else "well"


@dataclass(frozen=True, slots=True)
class Ran:
    """One run that is over: its clients and the rules with their hits.

    `failed` says why it could not be done, when a client can't be built here or broke off.
    """

    run: Run
    clients: list[Client]
    rules: list[dict[str, Any]]
    failed: str = ""

    @property
    def hits(self) -> dict[str, int]:
        """How often each rule struck."""
        return {rule["name"]: rule["hits"] for rule in self.rules}


Commands = dict[str, list[str] | str]
"""How to start each client program by its name, or why it can't be had."""


def build(incident: Incident, stages: Stages) -> Commands:
    """Build all client programs of an incident; raises LabError when no run has all of its own."""
    found: Commands = {}
    built: dict[tuple[object, ...], list[str] | str] = {}
    for program in (program for run in incident.runs for program in incident.programs(run)):
        source = (program.program, program.version, program.heap_mb, program.folder, *program.command)
        if source not in built:
            try:
                built[source] = command(program, stages)
            except LabError as error:
                built[source] = str(error)
        found[program.name] = built[source]
    reasons = [_missing(incident, run, found) for run in incident.runs]
    if all(reasons):
        raise LabError("; ".join(dict.fromkeys(reasons)))
    return found


def _missing(incident: Incident, run: Run, commands: Commands) -> str:
    """Why a run can't be done, or nothing."""
    reasons = (commands[program.name] for program in incident.programs(run))
    return "; ".join(dict.fromkeys(reason for reason in reasons if isinstance(reason, str)))


@contextlib.contextmanager
def started(needs: Cluster, stages: Stages) -> Iterator[KafkaCluster]:
    """A Kafka as an incident needs it, told as a stage."""
    kafka = KafkaCluster(needs.version, needs.nodes, properties=needs.properties, auto_create_topics=False)
    with contextlib.ExitStack() as stack:
        with stages.stage(f"Kafka {kafka.version}") as say:
            kafka.say = say
            stack.enter_context(kafka)
            say(f"{needs.nodes} broker{'s' if needs.nodes > 1 else ''} on {kafka.bootstrap}")
        yield kafka


def record_on(
    kafka: KafkaCluster, incident: Incident, folder: Path, stages: Stages, commands: Commands | None = None
) -> Ran:
    """Run an incident that has one run on a Kafka that runs, behind a proxy of its own; all is left below `folder`."""
    (run,) = incident.runs
    made(folder)
    for name in ("capture", "outcomes", "logs"):
        (folder / name).mkdir()
    for topic in incident.topics:
        kafka.create_topic(
            topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            config=topic.config,
        )
    commands = build(incident, stages) if commands is None else commands
    return _behind_a_proxy(kafka, incident, run, commands, folder, stages)


def _behind_a_proxy(
    kafka: KafkaCluster, incident: Incident, run: Run, commands: Commands, folder: Path, stages: Stages
) -> Ran:
    with contextlib.ExitStack() as stack:
        with stages.stage("proxy") as say:
            proxy = _Proxy(incident, kafka.bootstrap, folder)
            stack.callback(proxy.child.kill)
            proxy.wait_until_ready()
            say(f"in front of Kafka on {proxy.listen}, HTTP API on {proxy.admin}")
        ran = _run_once(incident, run, proxy, commands, folder, stages)
        proxy.stop()
    return ran


def _run_once(incident: Incident, run: Run, proxy: _Proxy, commands: Commands, folder: Path, stages: Stages) -> Ran:
    """One run: the rules anew, the clients, the steps; ends when the clients have or at the limit."""
    if reason := _missing(incident, run, commands):
        return Ran(run, [], [], reason)
    faults, steps = incident.rules(run)
    if faults:
        proxy.post("/v1/faults", faults)
    clients: list[Client] = []
    failed = ""
    scratch = temporary_folder("notleader-clients-")
    try:
        with stages.stage("clients" if run.name == "demo" else f"clients, {run.label}") as say:
            for program in incident.programs(run):
                argv = commands[program.name]
                assert isinstance(argv, list)
                clients.append(_start(program, argv, proxy.listen, incident.topics, folder, scratch))
            if steps:
                _wait_for_first_success(clients, say)
                proxy.post("/v1/timelines", {"steps": steps})
            _let_work(clients, incident.limit_s, say)
            _check_codes(clients)
    except ClientEndedError as error:
        failed = str(error)
    finally:
        _end(clients)
        shutil.rmtree(scratch, ignore_errors=True)
    return Ran(run, clients, proxy.rules(), failed)


class _Proxy:
    """`notleader run` as a process of its own, as a user would start it."""

    def __init__(self, incident: Incident, kafka: str, folder: Path) -> None:
        config = folder / "proxy.yaml"
        settings = {
            "kafka": kafka,
            "listen": f"{HOST}:0",
            "admin": f"{HOST}:0",
            "capture": str((folder / "capture").resolve()),
            **incident.proxy,
        }
        config.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), "utf-8")
        self.listen = self.admin = ""
        self.child = Child(
            helpers.command("notleader", "run", "--json", "--config", str(config)),
            log=folder / "logs" / "proxy.log",
            stdout="pipe",
            env=helpers.environment(),
        )

    def wait_until_ready(self) -> None:
        pipe = self.child.popen.stdout
        assert pipe is not None
        readable, _, _ = select.select([pipe], [], [], _READY_S)
        line = pipe.readline() if readable else b""
        if not line:
            raise RunError(f"the proxy did not start: {_last_words(self.child)}")
        ready = json.loads(line)
        self.listen, self.admin = ready["listen"], ready["admin"]

    def post(self, path: str, body: Any) -> None:
        try:
            httpx.post(f"http://{self.admin}{path}", json=body, timeout=10, trust_env=False).raise_for_status()
        except httpx.HTTPStatusError as error:
            raise RunError(f"the proxy refused {path}: {error.response.text}") from error
        except httpx.HTTPError as error:
            raise RunError(f"the proxy does not answer: {error}: {_last_words(self.child)}") from error

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with its hits, as the HTTP API tells it."""
        try:
            answer = httpx.get(f"http://{self.admin}/v1/faults", timeout=10, trust_env=False)
            listed: list[dict[str, Any]] = answer.raise_for_status().json()
        except httpx.HTTPError as error:
            raise RunError(f"the proxy does not answer: {error}: {_last_words(self.child)}") from error
        return listed

    def stop(self) -> None:
        code = self.child.stop(grace_s=20)
        if code != 0:
            raise RunError(f"the proxy ended with code {code}: {_last_words(self.child)}")


def _start(
    program: Program, argv: list[str], bootstrap: str, topics: list[Topic], folder: Path, scratch: Path
) -> Client:
    """Start a client; `scratch` is the temporary folder of the lab's own programs, and goes with the run."""
    env: dict[str, str] | None = None
    outcomes = stdout = folder / "outcomes" / f"{program.name}.jsonl"
    if program.command:
        name = topics[0].name if topics else program.name
        words = {
            "bootstrap": bootstrap,
            "topic": name,
            "group": name,
            "client_id": program.name,
            "outcomes": str(outcomes.resolve()),
            "try": "1",
        }
        if any("{outcomes}" in word for word in argv):
            outcomes.touch()
            stdout = folder / "logs" / f"{program.name}.stdout"
        argv = [filled(word, words) for word in argv]
    else:
        if Path(argv[0]).name == "java":  # which doesn't go by TMPDIR
            argv = [argv[0], f"-Djava.io.tmpdir={scratch}", *argv[1:]]
        argv = [*argv, *program.command_line(bootstrap)]
        env = {**os.environ, "TMPDIR": str(scratch)}
    child = Child(argv, log=folder / "logs" / f"{program.name}.log", stdout=stdout, env=env, cwd=Path(program.folder))
    return Client(program, child, outcomes, stdout)


def _wait_for_first_success(clients: list[Client], say: Any) -> None:
    deadline = time.monotonic() + _FIRST_SUCCESS_S
    while waiting := [client for client in clients if not client.said["ok"]]:
        say(f"no success yet of {', '.join(client.program.name for client in waiting)}")
        for client in waiting:
            client.listen()
            if not client.child.running() and not client.said["ok"]:
                raise ClientEndedError(f"client {client.program.name} ended at once: {_last_words(client.child)}")
        if time.monotonic() > deadline:
            names = ", ".join(client.program.name for client in waiting)
            raise ClientEndedError(
                f"no success in {_FIRST_SUCCESS_S:.0f} s from {names}: {_last_words(waiting[0].child)}"
            )
        time.sleep(_TICK_S)


def _let_work(clients: list[Client], limit_s: float, say: Any) -> None:
    """Until those that end by themselves have, or the limit; then tell the others to, and wait for them."""
    deadline = time.monotonic() + limit_s
    workers = [client for client in clients if client.program.until == "done"]
    while any(client.child.running() for client in workers) and time.monotonic() < deadline:
        time.sleep(_TICK_S)
        _count(clients, say)
    for client in workers:
        if client.child.running():
            client.hung = True
            client.ended_at_us = time.time_ns() // 1000
            dump_stacks(client.program, client.child)
    _end(workers)
    others = [client for client in clients if client not in workers]
    for client in others:
        client.child.ask_to_stop()
    for client in others:
        with contextlib.suppress(subprocess.TimeoutExpired):
            client.child.wait(_LEAVE_S)
    _end(others)
    _count(clients, say)
    for client in workers:
        client.code = None if client.hung else client.child.popen.returncode
        if client.code:
            words = last_words(client.child.log, client.stdout) or "it said nothing"
            client.told = f"ended with code {client.code}: {words}"


def _check_codes(clients: list[Client]) -> None:
    """A program of the lab's ends with code 0 whatever was done to it; how a user's command ends is a result."""
    for client in clients:
        if client.told and not client.program.command:
            raise ClientEndedError(f"client {client.program.name} {client.told} (log: {client.child.log})")


def _count(clients: list[Client], say: Any) -> None:
    parts = []
    for client in clients:
        client.listen()
        parts.append(f"{client.program.name} {said_of([client])}")
    say("; ".join(parts))


def said_of(clients: list[Client]) -> str:
    """How many outcomes of each kind they told (Jepsen's ok, fail, info), and whether one had to be ended."""
    counts = sum((client.said for client in clients), Counter[str]())
    kinds = {"ok": "ok", "fail": "failed", "info": "uncertain"}
    told = [f"{counts[kind]} {word}" for kind, word in kinds.items() if counts[kind] or kind == "ok"]
    if any(client.hung for client in clients):
        told.append("ended at the limit")
    return ", ".join(told)


def _end(clients: list[Client]) -> None:
    for client in clients:
        if client.child.running():
            client.child.kill()


def _last_words(child: Child) -> str:
    lines = [line for line in child.log.read_text(errors="replace", encoding="utf-8").splitlines() if line.strip()]
    return f"{lines[-1].strip() if lines else 'it said nothing'} (log: {child.log})"
