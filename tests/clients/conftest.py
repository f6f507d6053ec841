"""Tapped brokers for the tests of real clients: one Kafka at a time, two cores are all there may be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite("tests.clients.comparison", "tests.clients.identity")

from tests.clients.tap import TappedCluster  # noqa: E402 — what is rewritten must not be imported before


@pytest.fixture(scope="module")
def newest() -> Iterator[TappedCluster]:
    """One broker of the newest Kafka 4.x."""
    with TappedCluster("4") as cluster:
        yield cluster
