"""The clients whose bugs are known: what is started, which rules break it, and what has no such bug."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from notleader.proxy.lab.clients import command
from notleader.proxy.lab.explore.candidates import RETRIABLE, frozen
from notleader.proxy.lab.incident import Incident, Program, Run, load_incident
from notleader.proxy.lab.stages import Stages

_TREE: Final = Path(__file__).resolve().parents[2]
_SERVICES: Final = _TREE / "tests" / "integration" / "lab"
_ALIKE: Final = {"phase": "before_broker"}
_NAMES: Final = ("group_id", "transactional_id")

_ORDERS: Final = 4

PLANTED: Final = "planted"
Rule = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Started:
    """A command of `notleader explore`, how many partitions its topic has, and how many messages it is told to send."""

    argv: list[str]
    partitions: int = 1
    messages: int | None = None


@dataclass(frozen=True, slots=True)
class Service:
    """One of the services of the tests, with a planted bug and without."""

    name: str
    file: str
    bug: str
    verdict: str
    api: str
    words: tuple[str, ...] = ("{bootstrap}", "{topic}")
    options: tuple[str, ...] = ()
    buggy: str = PLANTED
    sound: str = "without it"
    brokers: int = 1

    def start(self, sound: bool, kafka: str, stages: Stages) -> Started:
        """With the bug, or without."""
        words = [*self.words, "correct" if sound else self.bug, "{messages}"]
        return Started([sys.executable, str(_SERVICES / self.file), *words], messages=_ORDERS)

    def is_known(self, failure: Mapping[str, Any]) -> str:
        """`yes` when this is the bug that was planted."""
        apis = {str(rule.get("match", {}).get("api_key")) for rule in failure["rules"]}
        return "yes" if failure["kind"] == self.verdict and apis == {self.api} else "no"


@dataclass(frozen=True, slots=True)
class OfIncident:
    """The first client of an incident, as its file starts it, and what is beside it there; its faults are not told."""

    name: str
    buggy: str
    sound: str
    verdicts: tuple[str, ...]
    affected: str = "affected"
    mended: str = "newest"
    arguments: Mapping[str, str | int | bool] | None = None
    """Of all its programs, where the incident's file gives them such."""
    first: Mapping[str, str | int | bool] | None = None
    """Of the first program, whether or not the file gives it such."""
    options: tuple[str, ...] = ()
    version: str = ""
    """Another release than that of the run `affected`."""
    brokers: int = 1
    """How many the Kafka has that it is searched with."""
    gone: frozenset[str] = frozenset()
    """The APIs with which a broker goes that shows the bug as well, where others take over."""
    late: frozenset[str] = frozenset()
    """The APIs whose loss makes a reader come late, where all that shows the bug is that it does."""

    def start(self, sound: bool, kafka: str, stages: Stages) -> Started:
        """The run `mended` of the incident, or the one `affected`."""
        incident = load_incident(self.name)
        run = _run(incident, self.mended if sound else self.affected)
        if self.version and not sound:
            run = run.model_copy(update={"version": self.version})
        programs, messages = _counting([self._with_own(each.at(run), each) for each in incident.clients])
        programs[0] = _given(programs[0], self.first or {})
        commands = [
            _argv(each, incident, "{bootstrap}" if not at else kafka, stages) for at, each in enumerate(programs)
        ]
        partitions = incident.topics[0].partitions
        if len(commands) == 1:
            return Started(commands[0], partitions, messages)
        others = [f"{{topic}}-{topic.name}={topic.partitions}" for topic in incident.topics[1:]]
        together = [sys.executable, str(Path(__file__).with_name("together.py")), kafka, json.dumps(others)]
        return Started([*together, *(word for argv in commands for word in ("--", *argv))], partitions, messages)

    def _with_own(self, program: Program, told: Program) -> Program:
        """With the case's own arguments, where the incident's file gives the program such."""
        return _given(
            program, {name: value for name, value in (self.arguments or {}).items() if name in told.arguments}
        )

    def is_known(self, failure: Mapping[str, Any]) -> str:
        """How a shrunk failure stands to the incident's rules: `yes`, `same` where another fault shows the bug, `part`
        where some of them do, or `no`."""
        if failure["kind"] not in self.verdicts:
            return "no"
        kinds = {rule["kind"] for rule in failure["rules"]}
        apis = {rule.get("match", {}).get("api_key") for rule in failure["rules"]}
        if "broker_down" in kinds and apis & self.gone:
            return "yes"
        if apis & self.late and failure["verdicts"][0]["told"]:
            return "same"
        if not failure["rules"]:
            return "yes"
        incident = load_incident(self.name)
        recipe = [said for rule in (_run(incident, self.affected).faults or incident.faults) for said in _each(rule)]
        found = [said for rule in failure["rules"] for said in _each(rule)]
        if sorted(map(frozen, found)) == sorted(map(frozen, recipe)):
            return "yes"
        return "part" if all(any(_alike(one, other) for other in recipe) for one in found) else "no"


def _given(program: Program, arguments: Mapping[str, str | int | bool]) -> Program:
    return program.model_copy(update={"arguments": program.arguments | arguments})


def _counting(programs: list[Program]) -> tuple[list[Program], int | None]:
    """All with {messages} in place of the number that the first is given, where it is given one."""
    count = programs[0].arguments.get("messages")
    if not isinstance(count, int):
        return programs, None
    told = {"messages": "{messages}"}
    return [
        each.model_copy(update={"arguments": each.arguments | told})
        if each.arguments.get("messages") == count
        else each
        for each in programs
    ], count


def _run(incident: Incident, name: str) -> Run:
    return next(run for run in incident.runs if run.name == name)


def _each(rule: Rule) -> list[dict[str, Any]]:
    """A rule for each API that it is for, without what says nothing: names, topics, places, defaults.

    As shrinking has it: a connection that is reset is one that ends, an error that clients get over is the usual one.
    """
    match = {key: value for key, value in rule.get("match", {}).items() if key not in ("topic", "client_id")}
    trigger = {
        key: value for key, value in rule.get("trigger", {}).items() if key != "skip" and (key, value) != ("times", 1)
    }
    kept = {key: value for key, value in rule.items() if key not in ("name", "match", "trigger")}
    kept = {key: value for key, value in kept.items() if _ALIKE.get(key) != value}
    kept["kind"] = {"reset": "close"}.get(kept["kind"], kept["kind"])
    apis = match.pop("api_key", "any")
    more = ({"match": match} if match else {}) | ({"trigger": trigger} if trigger else {})
    return [kept | _usual(kept, api) | more | {"api": api} for api in (apis if isinstance(apis, list) else [apis])]


def _usual(rule: Rule, api: str) -> Rule:
    usual = RETRIABLE.get(api, ())
    return {"error_code": usual[0]} if rule.get("error_code") in usual else {}


def _alike(one: Rule, other: Rule) -> bool:
    """Whether both do the same to the same API, however often; one without an API does it to all."""
    apis = {one["api"], other["api"]}
    return (len(apis) == 1 or "any" in apis) and all(one.get(key) == other.get(key) for key in ("kind", "error_code"))


def _argv(program: Program, incident: Incident, bootstrap: str, stages: Stages) -> list[str]:
    topics = {
        topic.name: "{topic}" if not at else f"{{topic}}-{topic.name}" for at, topic in enumerate(incident.topics)
    }
    given = dict(program.arguments)
    for name, value in given.items():
        if name in _NAMES:
            given[name] = f"{{group}}-{value}"
        elif name in ("topic", "output"):
            given[name] = topics[str(value)]
    return [*command(program, stages), *program.model_copy(update={"arguments": given}).command_line(bootstrap)]


CASES: Final[Sequence[Service | OfIncident]] = (
    # Half a minute for an answer is the default, and four of them are longer than anybody waits for a try.
    OfIncident(
        "sarama-hang",
        "sarama 1.37.2",
        "1.61.1",
        ("hang", "unanswered"),
        first={"read_timeout_ms": 3000},
        options=("--limit=6", "--patience=45"),
    ),
    Service("order service, sends again without idempotence", "order_service.py", "resends", "duplicate", "Produce"),
    Service("order service, calls a failed send a success", "order_service.py", "swallows", "lost", "Produce"),
    Service("order service, forgets a sequence error", "order_service.py", "forgets", "lost", "Produce"),
    Service(
        "packing service, commits before it packs",
        "packing_service.py",
        "hasty",
        "skipped",
        "OffsetCommit",
        words=("{bootstrap}", "{topic}", "{group}"),
        options=("--allow=exit,read-twice",),
    ),
    # No release mends it: without idempotence the answer ends one batch, and a lost one doubles a message.
    OfIncident(
        "librdkafka-fatal-sequence",
        "librdkafka 1.8.2",
        "2.15.0 without idempotence",
        ("stuck",),
        mended="cure",
        options=("--allow=duplicate",),
    ),
    OfIncident("librdkafka-fatal-disconnect", "librdkafka 1.8.2", "2.15.0", ("stuck",), version="1.8.2"),
    OfIncident(
        "java-callback-deadlock",
        "Java 0.11.0.3, get() in its callback",
        "4.4.0 without the get()",
        ("hang", "unanswered", "stuck"),
        mended="cure",
        # Longer than the ten seconds after which the producer gives a record up. Neither is idempotent, so that a lost
        # answer doubles a message.
        first={"wait_ms": 15_000},
        options=("--allow=duplicate", "--limit=60", "--lanes=4"),
    ),
    # Longer than the longest outage, and than four refused tries with five seconds between them, so that who waits for
    # an invoice doesn't give up before it may come.
    OfIncident(
        "committed-and-never-was",
        "franz-go 1.21.3",
        "1.22.2",
        ("lost", "missing", "skipped"),
        arguments={"wait_ms": 45_000},
        options=("--limit=70", "--lanes=6"),
    ),
    OfIncident(
        "first-records-passed-over",
        "kafka-go 0.4.47",
        "0.4.51 from the first record",
        ("skipped",),
        mended="cure",
        late=frozenset(("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat")),
        # After a join that is lost this client's next one comes in half a minute; who waits needs no processor.
        arguments={"wait_ms": 80_000},
        options=("--limit=120", "--allow=read-twice", "--lanes=6"),
    ),
    # The incident's single broker swallows five requests; of several, the one that coordinates can be gone.
    OfIncident(
        "coordinator-never-asked-for",
        "aiokafka 0.12.0",
        "0.14",
        ("hang", "stuck", "unanswered"),
        arguments={"wait_ms": 60_000},
        # A refused batch leaves a gap in the sequence, and 0.14 gets no further either: another defect, in both.
        options=("--allow=stuck", "--limit=100", "--lanes=4"),
        brokers=3,
        gone=frozenset(("AddPartitionsToTxn", "EndTxn")),
    ),
    # No fault is needed; of 400 messages a run takes half a minute.
    OfIncident(
        "committed-backwards", "sarama 1.43.2", "1.61.1", ("backwards", "read-twice"), arguments={"messages": 80}
    ),
)
