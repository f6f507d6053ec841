"""The matrix: which clients there are, and an incident's world with any one of them in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from notleader.proxy.lab.clients import versions
from notleader.proxy.lab.errors import LabError
from notleader.proxy.lab.incident import Incident, Program, Run, incident_names, load_incident
from notleader.proxy.lab.recorded import apart

Settings = Mapping[str, str | int | bool]
Arguments = dict[str, str | int | bool]

# What an application would set, under one name for all: times in ms. A client that has no such setting goes without.
DEFAULTS: Arguments = {
    "messages": 30,
    "interval_ms": 100,
    "idempotent": False,
    "retries": 3,
    "request_timeout_ms": 2000,
    "delivery_timeout_ms": 8000,
    "connect_timeout_ms": 2000,
    "metadata_max_age_ms": 300_000,
    "wait_ms": 12000,
}
_CONSUMER = ("messages", "request_timeout_ms", "connect_timeout_ms", "wait_ms", "commit_every", "instance_id")


class MatrixError(LabError):
    """The matrix has no such client or incident."""


@dataclass(frozen=True, slots=True)
class Family:
    """One client library: its program, and how the settings of the matrix are called there."""

    title: str
    producer: str
    arguments: Callable[[Settings], Arguments]
    consumer: str = ""
    idempotent: Callable[[str], bool] = lambda version: True
    installed: str = ""
    """The version to name where the program runs as it is installed."""
    reads: Callable[[Settings], Arguments] = lambda settings: {"mode": "consume", **settings}
    """How a group consumer's settings are called; those of the matrix' `_CONSUMER` are given."""


def _same(settings: Settings) -> Arguments:
    return dict(settings)


def _sarama(settings: Settings) -> Arguments:
    return {
        # Without a pause between them, all go into one SendMessages call.
        "messages": 1 if settings["interval_ms"] else settings["messages"],
        "batches": settings["messages"] if settings["interval_ms"] else 1,
        "interval_ms": settings["interval_ms"],
        "idempotent": settings["idempotent"],
        "retry_max": settings["retries"],
        "metadata_refresh_ms": settings["metadata_max_age_ms"],
        "dial_timeout_ms": settings["connect_timeout_ms"],
        "read_timeout_ms": settings["request_timeout_ms"],
        "write_timeout_ms": settings["request_timeout_ms"],
    }


def _java(settings: Settings) -> Arguments:
    return {
        "messages": settings["messages"],
        "interval_ms": settings["interval_ms"],
        "wait_ms": settings["wait_ms"],
        "enable.idempotence": settings["idempotent"],
        **({"max.in.flight.requests.per.connection": 1} if settings["idempotent"] else {}),
        "retries": settings["retries"],
        "request.timeout.ms": settings["request_timeout_ms"],
        "delivery.timeout.ms": settings["delivery_timeout_ms"],
        "max.block.ms": settings["request_timeout_ms"],
        "metadata.max.age.ms": settings["metadata_max_age_ms"],
        "linger.ms": 5,
    }


def _scala(settings: Settings) -> Arguments:
    return {
        "messages": settings["messages"],
        "interval_ms": settings["interval_ms"],
        "request.timeout.ms": settings["request_timeout_ms"],
        "message.send.max.retries": settings["retries"],
        "topic.metadata.refresh.interval.ms": settings["metadata_max_age_ms"],
        "budget_ms": 1000,  # the program states one in any case
    }


def _aiokafka(settings: Settings) -> Arguments:
    # One setting bounds both a request and the delivery there.
    return {
        "partitions": 1,
        "messages": settings["messages"],
        "interval_ms": settings["interval_ms"],
        "idempotent": settings["idempotent"],
        "request_timeout_ms": settings["delivery_timeout_ms"],
        "metadata_max_age_ms": settings["metadata_max_age_ms"],
    }


def _streams(settings: Settings) -> Arguments:
    # What it reads it makes itself, before the story begins.
    return {
        "output": settings["topic"],
        "group_id": f"{settings['topic']}-application",
        "fill": True,
        "messages": settings["messages"],
        "interval_ms": settings["interval_ms"],
        "wait_ms": settings["wait_ms"],
        "commit.interval.ms": 100,
        "producer.request.timeout.ms": settings["request_timeout_ms"],
        "producer.delivery.timeout.ms": settings["delivery_timeout_ms"],
        "producer.max.block.ms": settings["request_timeout_ms"],
        "metadata.max.age.ms": settings["metadata_max_age_ms"],
    }


def _streams_reader(settings: Settings) -> Arguments:
    return {"commit.interval.ms": 100, **{key: settings[key] for key in ("topic", "group_id", "messages", "wait_ms")}}


def _spark(settings: Settings) -> Arguments:
    # Its rows come by themselves: it reads nothing.
    return {
        "topic": "",
        "output": settings["topic"],
        "messages": settings["messages"],
        "interval_ms": settings["interval_ms"],
        "wait_ms": settings["wait_ms"],
        "sink.kafka.enable.idempotence": settings["idempotent"],
        "sink.kafka.retries": settings["retries"],
        "sink.kafka.request.timeout.ms": settings["request_timeout_ms"],
        "sink.kafka.delivery.timeout.ms": settings["delivery_timeout_ms"],
        "sink.kafka.max.block.ms": settings["request_timeout_ms"],
        "sink.kafka.metadata.max.age.ms": settings["metadata_max_age_ms"],
    }


def _spark_reader(settings: Settings) -> Arguments:
    # It is in no group: where it is stands in its checkpoint. What it reads is all there when it has started, so it is
    # kept from taking it in one request.
    return {
        **{key: settings[key] for key in ("topic", "messages", "wait_ms")},
        "source.maxOffsetsPerTrigger": 5,
        "source.kafka.max.partition.fetch.bytes": 512,
        "source.kafka.request.timeout.ms": settings["request_timeout_ms"],
    }


FAMILIES = {
    "sarama": Family("sarama (Go)", "sarama/main.go", _sarama, "sarama/consumer.go"),
    "franz_go": Family("franz-go (Go)", "franz_go/main.go", _same, "franz_go/main.go"),
    "kafka_go": Family("kafka-go (Go)", "kafka_go/main.go", _same, "kafka_go/main.go", lambda _: False),
    "librdkafka": Family("librdkafka (confluent-kafka-go)", "librdkafka/main.go", _same, "librdkafka/main.go"),
    "java": Family("Java kafka-clients", "java/Producer.java", _java),
    "scala": Family("Scala producer", "scala/OldProducer.java", _scala, "", lambda _: False),
    "kafkajs": Family("kafkajs (Node)", "kafkajs/main.js", _same, "kafkajs/main.js"),
    "kafka_python": Family(
        "kafka-python",
        "kafka_python/client.py",
        _same,
        "kafka_python/client.py",
        lambda version: int(version.split(".")[0]) >= 3,
    ),
    "aiokafka": Family("aiokafka (Python)", "aiokafka/producer.py", _aiokafka, installed="0.14"),
    "kafka_streams": Family(
        "Kafka Streams, exactly-once v2",
        "kafka_streams/Streams.java",
        _streams,
        "kafka_streams/Streams.java",
        reads=_streams_reader,
    ),
    "spark": Family(
        "Spark's Kafka source and sink", "spark/Stream.java", _spark, "spark/Stream.java", reads=_spark_reader
    ),
    "rskafka": Family("rskafka (Rust)", "rskafka/main.rs", _same, "", lambda _: False),
}


@dataclass(frozen=True, slots=True)
class Client:
    """One column of the matrix: a family at a pinned version."""

    family: str
    version: str

    @property
    def name(self) -> str:
        """`sarama@1.37.2`, as `--clients` takes it."""
        return f"{self.family}@{self.version}"

    @property
    def word(self) -> str:
        """The name as a file, a client id and a topic may be called."""
        return f"{self.family}-{self.version}"

    def unable(self, incident: Incident) -> str:
        """Why this client has no cell there; empty when it has one."""
        assert incident.matrix is not None
        family = FAMILIES[self.family]
        if incident.matrix.role == "consumer" and not family.consumer:
            return "no group consumer here"
        return ""

    def lacks(self, incident: Incident) -> str:
        """What the incident's settings ask for and this client doesn't have; empty when it has all."""
        assert incident.matrix is not None
        wanted = incident.matrix.settings.get("idempotent") is True
        return "not idempotent" if wanted and not FAMILIES[self.family].idempotent(self.version) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One client in one incident's world: an incident of its own, with one client under test and one run.

    `own` where it is the incident's own run with its own settings: the client is the one that the incident is about.
    `round` counts from 1.
    """

    client: Client
    incident: Incident
    own: bool = False
    round: int = 1

    @property
    def programs(self) -> list[Program]:
        return self.incident.clients

    @property
    def tested(self) -> str:
        """The client id of the client under test."""
        return self.incident.clients[0].name


def clients(wanted: list[str]) -> list[Client]:
    """Those that `wanted` names (`family` or `family@version`), or all; MatrixError for an unknown one."""
    known = [
        Client(family, version)
        for family, each in FAMILIES.items()
        for version in [*versions(family), *([each.installed] if each.installed else [])]
    ]
    if not wanted:
        return known
    for word in wanted:
        if not any(word in (client.family, client.name) for client in known):
            raise MatrixError(f"no client {word!r} (there are: {', '.join(client.name for client in known)})")
    return [client for client in known if client.family in wanted or client.name in wanted]


def incidents(wanted: list[str]) -> list[Incident]:
    """Those that `wanted` names, or all that have a world; MatrixError for one that has none."""
    loaded = [load_incident(name) for name in wanted or incident_names()]
    for incident in loaded:
        if wanted and incident.matrix is None:
            raise MatrixError(f"{incident.name} is not for the matrix: only its own clients meet what it is about")
    return [incident for incident in loaded if incident.matrix is not None]


def cell(client: Client, incident: Incident, number: int = 1) -> Cell:
    """The incident's world with this client; what it can't be given (see `lacks`) it goes without.

    The client that the incident is about meets it as the incident has it. `number` is the round.
    """
    world = incident.matrix
    assert world is not None
    family = FAMILIES[client.family]
    version = "installed" if client.version == family.installed else client.version
    word = f"{incident.name}.{client.word}" if number == 1 else f"{incident.name}.{client.word}.r{number}"
    for run in incident.runs:
        if run.must and run.version == version and incident.clients[0].family == client.family:
            return Cell(client, apart(_as_told(incident, run), word), own=True, round=number)
    settings = {**DEFAULTS, **world.settings}
    topic = incident.topics[0].name
    if world.role == "producer":
        if client.lacks(incident):
            settings["idempotent"] = False
        arguments = family.arguments({**settings, "topic": topic})
        programs = [Program(name="client", program=family.producer, version=version, role="under test",
                            arguments={"topic": topic, **arguments})]  # fmt: skip
    else:
        own = {key: value for key, value in settings.items() if key in _CONSUMER or "." in key}
        consumer = family.reads({"topic": topic, "group_id": f"{topic}-group", **own})
        feeder: Arguments = {"topic": topic, "partitions": incident.topics[0].partitions}
        feeder |= {key: settings[key] for key in ("messages", "interval_ms")}
        feeder |= {"request_timeout_ms": 20_000}
        programs = [
            Program(name="client", program=family.consumer, version=version, role="under test", arguments=consumer),
            Program(name="feeder", program="aiokafka/producer.py", version="installed", role="feeds the topic",
                    arguments=feeder),
        ]  # fmt: skip
    alone = incident.model_copy(
        update={
            "clients": programs,
            "runs": [Run(name="matrix")],
            "limit_s": world.limit_s,
            "kafka": incident.kafka.model_copy(update={"version": "3.9"}),
            **({} if world.cold else _warmed_up(incident)),
        }
    )
    return Cell(client, apart(alone, word), round=number)


def _warmed_up(incident: Incident) -> dict[str, list[dict[str, Any]]]:
    """Its rules come when every client has had its first success: no cell shows a cold start."""
    return {"faults": [], "steps": [*({"at": "0s", "add": rule} for rule in incident.faults), *incident.steps]}


def _as_told(incident: Incident, run: Run) -> Incident:
    """The incident with one of its runs alone, of which nothing is expected."""
    tested, *others = [program.at(run) for program in incident.clients]
    faults, steps = incident.rules(run)
    return incident.model_copy(
        update={
            "clients": [tested.model_copy(update={"name": "client"}), *others],
            "runs": [Run(name="matrix")],
            "faults": faults,
            "steps": steps,
        }
    )
