"""The pytest plugin: the fixture `notleader` puts a fault-injecting proxy in front of a Kafka for one test.

It costs a test suite that doesn't use it nothing: everything but pytest itself is imported by the fixtures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from notleader.proxy.lab.testing import NotLeader

_SETTINGS = {
    "kafka": "HOST:PORT[,HOST:PORT…] of brokers to stand in front of. Default: a Kafka of its own, for the session.",
    "kafka-version": "Version of the Kafka of its own, whole or its beginning. Default: 4.",
    "kafka-nodes": "How many brokers the Kafka of its own has. Default: 1.",
}
_DEFAULTS = {"kafka": "", "kafka-version": "4", "kafka-nodes": "1"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Each setting as an option and as a line in pytest's own configuration; the option wins."""
    group = parser.getgroup("notleader", "a Kafka proxy that injects faults")
    for name, told in _SETTINGS.items():
        group.addoption(f"--notleader-{name}", default=None, metavar=name.upper(), help=told)
        parser.addini(f"notleader_{name.replace('-', '_')}", told, default=_DEFAULTS[name])


def _setting(config: pytest.Config, name: str) -> str:
    chosen = config.getoption(f"--notleader-{name}")
    return str(chosen if chosen is not None else config.getini(f"notleader_{name.replace('-', '_')}"))


@pytest.fixture(scope="session")
def notleader_kafka(request: pytest.FixtureRequest) -> Iterator[str]:
    """Bootstrap address of the brokers behind the proxy; a fixture of that name of your own takes its place."""
    given = _setting(request.config, "kafka")
    if given:
        yield given
        return
    from notleader.proxy.lab.errors import LabError
    from notleader.proxy.lab.kafka import KafkaCluster

    version, nodes = _setting(request.config, "kafka-version"), _setting(request.config, "kafka-nodes")
    if not nodes.isdigit() or not 1 <= int(nodes) <= 9:
        raise pytest.UsageError(f"notleader_kafka_nodes: 1 to 9, not {nodes!r}")
    try:
        cluster = KafkaCluster(version, int(nodes)).start()
    except LabError as error:
        pytest.fail(f"notleader has no Kafka: {error}", pytrace=False)
    try:
        yield cluster.bootstrap
    finally:
        cluster.stop()


@pytest.fixture
def notleader_settings() -> dict[str, Any]:
    """Settings of `notleader run` for the proxy, say `{"seed": 7}`; a fixture of that name of your own gives them."""
    return {}


@pytest.fixture
def notleader(notleader_kafka: str, notleader_settings: dict[str, Any], tmp_path: Path) -> Iterator[NotLeader]:
    """A proxy in front of Kafka for this test; clients connect to `notleader.bootstrap`."""
    from notleader.proxy.lab.testing import NotLeader

    with NotLeader(notleader_kafka, tmp_path / "notleader", **notleader_settings) as beside:
        yield beside
