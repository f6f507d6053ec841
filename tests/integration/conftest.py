"""Real Kafka brokers for the tests, started when the first test asks and shared by all tests here; and a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from playwright.async_api import Browser, async_playwright

from notleader.proxy.lab.kafka import KafkaCluster
from tests.integration.doors import ManyDoors
from tests.tools.programs import need

# How long a page may take to show something: a busy machine looks away for seconds.
PATIENCE_MS = 120_000

# Members are missed, and heartbeats due, sooner than a broker's defaults allow.
_QUICK_GROUPS = {
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="package")
def kafka() -> Iterator[KafkaCluster]:
    """One broker of the newest Kafka 4.x; topics are not created by themselves."""
    with KafkaCluster("4", auto_create_topics=False, properties=_QUICK_GROUPS) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def kafka3() -> Iterator[ManyDoors]:
    """Three brokers of the newest Kafka 4.x; a test that stops a node starts it again."""
    with ManyDoors("4", nodes=3, auto_create_topics=False) as cluster:
        yield cluster


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """The system's Chromium."""
    system = need("chromium")
    async with async_playwright() as playwright:
        # The sandbox wants user namespaces, which containers and root don't have; the page is our own.
        args = ["--no-sandbox", "--disable-gpu"]
        made = await playwright.chromium.launch(executable_path=system, args=args, timeout=PATIENCE_MS)
        yield made
        await made.close()
