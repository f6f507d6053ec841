"""The clients that the proxy has to be invisible to: one entry per family and pinned version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.clients import builds, scenario
from tests.clients.builds import Command
from tests.clients.scenario import EVERYTHING

ALL_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEFORE_ZSTD = ALL_CODECS[:-1]


@dataclass(frozen=True, slots=True)
class Client:
    """One client at one version: how it is started, and which parts of the scenario it can play.

    `says` are the members of its result; a part that is not among them the client has no means for. Clients
    that can't make topics find them made. `own` gives the members that this client alone has, from its codecs
    and the number of brokers.
    """

    name: str
    command: Callable[[], Command]
    codecs: tuple[str, ...] = ALL_CODECS
    says: frozenset[str] = EVERYTHING
    kafka: tuple[str, ...] = ("3.9", "4")
    makes_topics: bool = True
    own: Callable[[Sequence[str], int], scenario.Result] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    def expected(self, brokers: Sequence[str], nodes: int) -> scenario.Result:
        """The result that this client has to print when it was told of these brokers."""
        common = scenario.expected(self.codecs, self.says, brokers)
        return common if self.own is None else common | self.own(self.codecs, nodes)


def _plain(build: Callable[[], list[str]]) -> Callable[[], Command]:
    return lambda: (build(), {})


CLIENTS = (
    Client("aiokafka-0.14.0", lambda: builds.python("with_aiokafka.py")),
    Client("confluent-kafka-2.16.1", lambda: builds.python("with_confluent_kafka.py")),
    Client("kafka-python-3.0.12", lambda: builds.python("with_kafka_python.py")),
    Client(
        "java-0.11.0.3", _plain(lambda: builds.java("java", "0.11.0.3", "Scenario")), codecs=BEFORE_ZSTD, kafka=("3.9",)
    ),
    Client("java-2.8.2", _plain(lambda: builds.java("java", "2.8.2", "Scenario"))),
    Client("java-4.4.0", _plain(lambda: builds.java("java", "4.4.0", "Scenario"))),
    Client(
        "java-4.4.0-new-groups",
        _plain(lambda: builds.java("java", "4.4.0", "Scenario")),
        says=EVERYTHING - {"committed"} | {"shared"},
        kafka=("4",),
        environment={"GROUP_PROTOCOL": "consumer"},
    ),
    Client("franz-go-1.22.2", _plain(lambda: builds.go("franz_go", "1.22.2"))),
    Client(
        "sarama-1.27.2",
        _plain(lambda: builds.go("sarama", "1.27.2")),
        says=EVERYTHING - {"transactions"},
        kafka=("3.9",),
        environment={"KAFKA": "2.6.0"},
    ),
    Client(
        "sarama-1.37.2",
        _plain(lambda: builds.go("sarama", "1.37.2")),
        kafka=("3.9",),
        environment={"KAFKA": "3.0.0"},
    ),
    # Kafka 4 knows neither's OffsetCommit: they fail the same way with the proxy and without.
    Client(
        "sarama-1.27.2-uncommitted",
        _plain(lambda: builds.go("sarama", "1.27.2")),
        says=EVERYTHING - {"transactions"},
        own=scenario.expected_without_commits,
        kafka=("4",),
        environment={"KAFKA": "2.6.0"},
    ),
    Client(
        "sarama-1.37.2-uncommitted",
        _plain(lambda: builds.go("sarama", "1.37.2")),
        own=scenario.expected_with_transactional_commits,
        kafka=("4",),
        environment={"KAFKA": "3.0.0"},
    ),
    Client("sarama-1.61.1", _plain(lambda: builds.go("sarama", "1.61.1")), environment={"KAFKA": "newest"}),
    Client("kafka-go-0.4.51", _plain(lambda: builds.go("kafka_go", "0.4.51")), says=EVERYTHING - {"transactions"}),
    Client("kafkajs-2.2.4", lambda: builds.node("kafkajs"), codecs=("none", "gzip", "snappy", "zstd")),
    Client(
        "rskafka-0.6.0",
        _plain(lambda: builds.rust("rskafka")),
        says=frozenset({"produced", "consumed", "offsets"}),
    ),
    Client(
        "kcat-1.7.1",
        _plain(lambda: builds.script("kcat/scenario.py", "kcat")),
        says=frozenset({"brokers", "produced", "consumed", "offsets", "transactions"}),
        makes_topics=False,
        own=scenario.expected_of_kcat,
    ),
    Client(
        "kafka-tools-3.9",
        lambda: builds.kafka_tools("3.9"),
        says=frozenset({"brokers"}),
        own=scenario.expected_of_tools,
        kafka=("3.9",),
    ),
    Client(
        "kafka-tools-4",
        lambda: builds.kafka_tools("4"),
        says=frozenset({"brokers"}),
        own=scenario.expected_of_tools,
        kafka=("4",),
    ),
    Client(
        "scala-0.8.2.2",
        _plain(lambda: builds.java("scala", "0.8.2.2", "Scenario")),
        codecs=("none", "gzip", "snappy"),
        says=frozenset({"brokers", "consumed", "offsets", "committed"}),
        kafka=("3.9",),
        makes_topics=False,
    ),
)
BY_NAME = {client.name: client for client in CLIENTS}
