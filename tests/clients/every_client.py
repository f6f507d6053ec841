"""The proxy is invisible to every client, on the last Kafka 3.x and the newest 4.x, with one broker and three.

Once without a rule, and once with one of every kind that can't hit, at each level of the capture in turn.

Not among the tests that `make test` collects: `make test-clients` names this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.catalog import BY_NAME, CLIENTS
from tests.clients.comparison import LEVELS, armed, check
from tests.clients.tap import TappedCluster

pytestmark = pytest.mark.kafka
_CASES = [
    pytest.param(version, nodes, client.name, number, id=f"kafka-{version}x{nodes}-{client.name}")
    for version in ("3.9", "4")
    for nodes in (1, 3)
    for number, client in enumerate(CLIENTS)
    if version in client.kafka
]


class Clusters:
    """The brokers that the tests want, those of one cluster at a time."""

    def __init__(self) -> None:
        self._wanted: tuple[str, int] | None = None
        self._running: TappedCluster | None = None

    def of(self, version: str, nodes: int) -> TappedCluster:
        """A cluster of that version and size; it stays until one of another kind is asked for."""
        if self._running is None or self._wanted != (version, nodes):
            self.stop()
            self._running = TappedCluster(version, nodes)
            self._running.start()
            self._wanted = (version, nodes)
        return self._running

    def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()


@pytest.fixture(scope="module")
def clusters() -> Iterator[Clusters]:
    clusters = Clusters()
    yield clusters
    clusters.stop()


@pytest.mark.parametrize("rules", ["", "armed"])
@pytest.mark.parametrize(("version", "nodes", "name", "number"), _CASES)
def test_the_same_directly_and_through_the_proxy(
    version: str, nodes: int, name: str, number: int, rules: str, clusters: Clusters, tmp_path: Path
) -> None:
    level = LEVELS[(number + nodes + bool(rules)) % len(LEVELS)]
    flags = armed(tmp_path) if rules else ()
    check(BY_NAME[name], clusters.of(version, nodes), tmp_path, level, *flags)
